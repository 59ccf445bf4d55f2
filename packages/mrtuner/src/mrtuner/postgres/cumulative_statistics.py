"""What a server counted: since its statistics were reset, or while it is watched.

What a version does not count is None, and is also a Missing if the user can change that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, repeat
from math import ceil
from typing import TYPE_CHECKING, Final

from mrtuner.counter_resets import growth
from mrtuner.postgres.connect import translated
from mrtuner.postgres.missing_grants import SEE_STATS
from mrtuner.postgres.model import Activity, Setting
from mrtuner.postgres.named_queries import Reader, Row
from mrtuner.units import Bytes

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

_COUNTERS: Final = (
    "wal_bytes", "checkpoints_timed", "checkpoints_requested", "temp_files", "temp_bytes",
    "commits", "backend_writes", "clean_stops", "background_writes", "evictions",
    "wal_buffers_full", "active_ms", "parallel_planned", "parallel_launched",
)  # fmt: skip

#: Views reset together, or with the creation of the cluster, differ by no more than this.
_SAME_SECONDS: Final = 10
_SAME_SHARE: Final = 0.01


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counters with a common reset: how long ago [s], or None if never reset."""

    seconds: float | None
    counts: Mapping[str, int | None]


def _counts(row: Row) -> _Counts:
    counts = {name: value for name, value in row.items() if name != "seconds"}
    return _Counts(row["seconds"], counts)


def _views(reader: Reader) -> tuple[list[_Counts], list[_Counts]]:
    """The statistics views of the whole server, and those of its databases."""
    shared = [
        row
        for name in ("wal", "checkpoints", "backend_writes")
        for row in reader.rows_if_allowed(name, f"activity: {name}", SEE_STATS)
    ]
    return list(map(_counts, shared)), list(map(_counts, reader.rows("database_counters")))


def activity(reader: Reader, about: Row, settings: Mapping[str, Setting]) -> Activity:
    """Return counters since the last reset of statistics.

    Views may have been reset at different times. The window is the shortest of the whole server's,
    so that what it did in a minute is not taken for what it did in a month; others are scaled to it
    at their own average rate.
    """
    shared, databases = _views(reader)
    ages = [view.seconds for view in shared if view.seconds]
    window = min(ages) if ages else next((one.seconds for one in databases if one.seconds), 0.0)
    totals = _total(_brought_to(view, window) for view in (*shared, *databases))
    _note_gaps(reader, about)
    if about["standby"]:
        totals["wal_bytes"] = None
    if settings["track_counts"].setting == "off":
        reader.lacks("activity: rows", "track_counts is off", "Turn track_counts on.")
    if settings["track_activities"].setting == "off":
        reader.lacks("activity: sessions", "track_activities is off", "Turn track_activities on.")
        totals["active_ms"] = None
    return _as_activity(window, totals)


def _note_gaps(reader: Reader, about: Row) -> None:
    if about["standby"]:
        reader.lacks("activity: wal", "a standby writes no WAL of its own", "Use the primary.")
        reader.lacks(
            "activity: checkpoints",
            "a standby counts attempts at restartpoints",
            "Use the primary.",
        )
    elif reader.version_num < 140000:
        reader.lacks(
            "activity: wal", "PostgreSQL 13 does not count WAL", "Measure it with --watch."
        )


def _brought_to(view: _Counts, window: float) -> _Counts:
    """Scale the counts to another window, unless it is the same one."""
    if not view.seconds or abs(view.seconds - window) <= max(_SAME_SECONDS, _SAME_SHARE * window):
        return view
    scale = window / view.seconds
    scaled = {
        name: None if count is None else round(count * scale) for name, count in view.counts.items()
    }
    return _Counts(window, scaled)


def _total(views: Iterable[_Counts]) -> dict[str, int | None]:
    """Sums by name over all views; a counter that no view has is None."""
    totals: dict[str, int | None] = dict.fromkeys(_COUNTERS)
    for view in views:
        for name, count in view.counts.items():
            if count is not None:
                totals[name] = (totals[name] or 0) + count
    return totals


def _as_activity(window: float, totals: Mapping[str, int | None]) -> Activity:
    wal, temp = totals["wal_bytes"], totals["temp_bytes"]
    sizes = {
        "wal_bytes": None if wal is None else Bytes(wal),
        "temp_bytes": None if temp is None else Bytes(temp),
    }
    return Activity(window=window, **{**totals, **sizes})  # type: ignore[arg-type]


# Watching.


def watch(
    conn: Connection,
    seconds: float,
    *,
    every: float = 1.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Activity:
    """Return what the server did in the next `seconds`: the difference of two samples.

    Sessions are counted `every` that many seconds, for their peak. A counter that was reset
    meanwhile is None. WAL is measured by its position, in bytes, so this works on PostgreSQL 13
    too. Raises ConnectError when the session breaks.
    """
    with translated():
        reader = Reader(conn, conn.info.server_version)
        before = _sample(reader)
        seen = [reader.row("sessions")]
        for pause in _pauses(seconds, every):
            sleep(pause)
            seen.append(reader.row("sessions"))
        return replace(
            _difference(before, _sample(reader)),
            peak_sessions=max(row["sessions"] for row in seen),
            peak_active=max(row["active"] for row in seen),
        )


def _pauses(seconds: float, every: float) -> Iterator[float]:
    """At least one pause; equal ones that add up to `seconds`, none longer than `every`."""
    number = max(1, ceil(seconds / every))
    return repeat(seconds / number, number)


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float  # server time, in seconds
    totals: Mapping[str, int | None]


def _sample(reader: Reader) -> _Sample:
    now = reader.row("now")
    totals = {**_total(chain(*_views(reader))), "wal_bytes": now["written"]}
    return _Sample(now["at"], totals)


def _difference(before: _Sample, after: _Sample) -> Activity:
    grown = {name: growth(before.totals[name], after.totals[name]) for name in _COUNTERS}
    return _as_activity(after.at - before.at, grown)
