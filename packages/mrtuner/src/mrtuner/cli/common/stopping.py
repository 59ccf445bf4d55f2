"""Stop a running command on Ctrl-C, SIGTERM or SIGHUP, or after a given time."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_event(after: float | None = None) -> Iterator[threading.Event]:
    """Yield an event that is set by Ctrl-C, SIGTERM or SIGHUP, or `after` this many seconds."""
    stop = threading.Event()

    def asked(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before: dict[int, Any] = {number: signal.signal(number, asked) for number in _SIGNALS}
    timer = threading.Timer(after, stop.set) if after else None
    if timer:
        timer.daemon = True
        timer.start()
    try:
        yield stop
    finally:
        if timer:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
