"""Times as the views have them (naive, in UTC) and as SQLite does: microseconds since 1970."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Final

from mrtuner.history.store.layout import MICRO

#: It goes on while the machine is suspended, where there is such a clock. Source: clock_gettime(2).
_STEADY: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
#: How far the clocks of the recorder and of this machine may differ.
_ABOUT_NOW: Final = timedelta(minutes=1)


def about_now() -> datetime:
    """Return the time that is not in the future for any clock that is about right."""
    return datetime.now(UTC).replace(tzinfo=None) + _ABOUT_NOW


def timestamp() -> int:
    """Return the microseconds since 1970."""
    return time.time_ns() // 1000


def steady() -> float:
    """Return seconds on a clock that never jumps."""
    return time.clock_gettime(_STEADY)


def hour_of(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def moment(at: int) -> datetime:
    return datetime.fromtimestamp(at / MICRO, UTC).replace(tzinfo=None)


def micro(at: datetime) -> int:
    """Return the microseconds since 1970 of a naive time in UTC."""
    return round((at - datetime(1970, 1, 1)) / timedelta(microseconds=1))


def whole_second(at: datetime) -> int:
    """Return the microseconds since 1970 of a time with a zone, to the second."""
    return int(at.timestamp()) * MICRO
