"""The free space of each file system, and when it will be used up if it shrinks as it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod
from mrtuner.history.reading import History
from mrtuner.history.store.layout import last_value

#: Shortest time between the first and the last sample to forecast from [s].
_LONG_ENOUGH: Final = 600
#: SQL for the free space at each sample: a file system that did not change has no row of its own.
_HELD: Final = f"""
    WITH stored AS (
        SELECT time, mount, device, size, free FROM filesystems WHERE {IN_PERIOD}
        UNION ALL SELECT $begin - INTERVAL 1 MICROSECOND,
                         unnest($mount::VARCHAR[]), unnest($device::VARCHAR[]),
                         unnest($size::BIGINT[]), unnest($free::BIGINT[])
    ), sampled AS (
        SELECT time, mount FROM samples, (SELECT DISTINCT mount FROM stored)
        WHERE {IN_PERIOD} AND source = 'filesystems'
    )
    SELECT sampled.time, sampled.mount, device, size, free FROM sampled ASOF JOIN stored
        ON stored.mount = sampled.mount AND stored.time <= sampled.time"""


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
                   {last_value("free")} AS free, regr_slope(free, epoch(time)) AS growth,
                   date_diff('second', min(time), max(time)) AS seen
            FROM ({_HELD}) AS held GROUP BY mount""",
        about.parameters | _before(history, about), inside=True,
    )  # fmt: skip
    found = [
        FreeSpace(
            mount=row["mount"], device=row["device"], size=row["size"], free=row["free"],
            full_in=full_in(row["free"], row["growth"], row["seen"]), seen=float(row["seen"]),
        )
        for row in rows
        if row["free"] is not None  # Else it is gone.
    ]  # fmt: skip
    return sorted(found, key=lambda one: (one.full_in is None, one.full_in or 0.0, one.mount))


def _before(history: History, about: HistoryPeriod) -> dict[str, list[Any]]:
    """Return the last values before a period, by column; what is gone by then has none."""
    names = ("mount", "device", "size", "free")
    rows = history.latest(
        f"""SELECT mount, {", ".join(map(last_value, names[1:]))}
            FROM filesystems WHERE {IN_PERIOD} GROUP BY mount""",
        "filesystems", 1, instance=about.instance, end=about.parameters["begin"],
    )  # fmt: skip
    there = [row for row in rows if row[-1] is not None]
    return {name: [row[place] for row in there] for place, name in enumerate(names)}


def full_in(free: float, growth: float | None, seen: float) -> float | None:
    """Return the seconds until no space is left at a growth of free space [bytes/s]."""
    if growth is None or growth >= 0 or seen < _LONG_ENOUGH:
        return None
    return free / -growth
