"""Sending the last sample repeatedly to a system that does not poll."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from mrtuner.history.export.latest import Figure, latest
from mrtuner.history.export.outbox import Outbox, Undelivered

Tell = Callable[[str], None]


def push(
    directory: Path, outbox: Outbox, message: Callable[[Iterable[Figure]], bytes],
    send: Callable[[bytes], None], stop: threading.Event, *, every: float, tell: Tell,
) -> None:  # fmt: skip
    """Send the last sample of a store at an interval, until `stop` is set.

    A receiver that is down gets what it missed later; `tell` gets one sentence when it goes down,
    and one when it is back.
    """
    down, rejected = False, 0
    while True:
        outbox.put(message(latest(directory, time.time())))
        try:
            outbox.deliver(send)
        except Undelivered as error:
            if not down:
                tell(f"{error.message}; undelivered messages are kept")
            down = True
        else:
            if down:
                tell("delivered again")
            down = False
        if outbox.rejected > rejected:
            tell(f"{outbox.rejected - rejected} messages were refused and lost")
            rejected = outbox.rejected
        if stop.wait(every):
            return
