"""The shortest time between two runs of a CronJob, from its schedule."""

from __future__ import annotations

from typing import Final

from mrtuner.errors import BadValue

_DAY: Final = 1440
_MACROS: Final = {
    "@hourly": 60, "@daily": _DAY, "@midnight": _DAY,
    "@weekly": 7 * _DAY, "@monthly": 28 * _DAY, "@yearly": 365 * _DAY, "@annually": 365 * _DAY,
}  # fmt: skip


def least_gap(schedule: str) -> int:
    """Return the shortest time [s]; days of months and weeks only lengthen it, and are ignored.

    >>> least_gap("*/15 * * * *"), least_gap("0 3 * * *"), least_gap("*/7 * * * *")
    (900, 86400, 240)
    """
    text = schedule.strip()
    if text in _MACROS:
        return _MACROS[text] * 60
    fields = text.split()
    if len(fields) != 5:
        raise _bad(schedule)
    minutes, hours = _values(fields[0], 60, schedule), _values(fields[1], 24, schedule)
    starts = sorted(hour * 60 + minute for hour in hours for minute in minutes)
    following = [*starts[1:], starts[0] + _DAY]
    return min(after - before for before, after in zip(starts, following, strict=True)) * 60


def _values(field: str, size: int, schedule: str) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        try:
            width = int(step) if step else 1
            low = 0 if first == "*" else int(first)
            high = size - 1 if first == "*" or (step and not last) else int(last or first)
        except ValueError:
            raise _bad(schedule) from None
        if width < 1 or not 0 <= low <= high < size:
            raise _bad(schedule)
        found |= set(range(low, high + 1, width))
    return found


def _bad(schedule: str) -> BadValue:
    return BadValue(f"{schedule!r} is not a cron schedule", "Write it like 0 3 * * *.")
