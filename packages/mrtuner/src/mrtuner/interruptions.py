"""Keeping Ctrl-C, SIGTERM and SIGHUP out of the few steps that they would tear apart."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Handle signals that arrive within the block at its end: keep it short.

    A KeyboardInterrupt between the start of a process and keeping its Popen loses the process;
    one within Popen.poll may leave its lock taken, so that the process never seems to end.
    """
    if threading.current_thread() is not threading.main_thread():  # only that is interrupted
        yield
        return
    handlers: dict[int, Any] = {
        number: handler for number in _SIGNALS if callable(handler := signal.getsignal(number))
    }
    came: list[tuple[int, FrameType | None]] = []
    within = True

    def keep(number: int, frame: FrameType | None) -> None:
        if within:
            came.append((number, frame))
        else:  # raised while the others were being restored
            handlers[number](number, frame)

    try:
        for number in handlers:
            signal.signal(number, keep)
        yield
    finally:
        within = False
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in came:
            handlers[number](number, frame)
