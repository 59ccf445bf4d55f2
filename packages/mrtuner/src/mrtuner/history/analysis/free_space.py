"""The free space of each file system, and when it will be used up if it shrinks as it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod
from mrtuner.history.reading import History

#: Shortest time between the first and the last sample to forecast from [s].
_LONG_ENOUGH: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeSpace:
    """A file system at the end of a period."""

    mount: str
    device: str | None
    size: int  # bytes
    free: int  # bytes
    full_in: float | None  # seconds; None: it does not shrink, or was not seen for long enough
    seen: float  # seconds from the first to the last sample of the period


def free_space(history: History, about: HistoryPeriod) -> Sequence[FreeSpace]:
    """Return the file systems of an instance's host, the one that is full first before the others.

    The forecast is the line of least squares through the free space of the period.
    """
    if not history.has("filesystems"):
        return ()
    rows = history.rows(
        f"""SELECT mount, arg_max(device, time) AS device, arg_max(size, time) AS size,
                   arg_max(free, time) AS free, regr_slope(free, epoch(time)) AS growth,
                   date_diff('second', min(time), max(time)) AS seen
            FROM filesystems WHERE {IN_PERIOD} AND free IS NOT NULL GROUP BY mount""",
        about.parameters, inside=True,
    )  # fmt: skip
    found = [
        FreeSpace(
            mount=row["mount"], device=row["device"], size=row["size"], free=row["free"],
            full_in=full_in(row["free"], row["growth"], row["seen"]), seen=float(row["seen"]),
        )
        for row in rows
    ]  # fmt: skip
    return sorted(found, key=lambda one: (one.full_in is None, one.full_in or 0.0, one.mount))


def full_in(free: float, growth: float | None, seen: float) -> float | None:
    """Return the seconds until no space is left at a growth of free space [bytes/s]."""
    if growth is None or growth >= 0 or seen < _LONG_ENOUGH:
        return None
    return free / -growth
