"""The busiest times of a history, as what a server did in one window: for `tune`.

Averages since a reset hide bursts, and bursts are what max_wal_size and work_mem are for.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from mrtuner.errors import UsageError
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import History
from mrtuner.postgres.model import Activity
from mrtuner.units import Bytes

#: Length of a window [s]: about the advised interval between checkpoints.
WINDOW: Final = 900
#: A window is left out if less than this share of it was sampled.
_COVERED: Final = 0.5


def peaks(history: History, about: HistoryPeriod) -> Activity:
    """Return the growth of each counter in its own busiest window of a period.

    Checkpoints are counted in the window with most WAL, timed and requested ones alike.

    Raises:
        UsageError: no window has been recorded for at least half its length.
    """
    wal = _windows(history, about, "wal", ("bytes", "buffers_full"))
    checkpoints = _windows(history, about, "checkpoints", _CHECKPOINTS)
    if not wal:
        raise UsageError(
            f"the history of {about.instance} is shorter than {WINDOW // 60} minutes",
            "Record for longer, or tune without --history.",
        )
    databases = _windows(history, about, "databases", _DATABASES)
    busiest = max(wal, key=lambda row: row["bytes"] or 0)
    near = _at(checkpoints, busiest["time"])
    highest = {name: _highest(databases, name) for name in _DATABASES}
    sessions = history.row(
        "SELECT max(clients) AS clients, max(active) AS active FROM connections "
        "WHERE instance = $instance AND time >= $begin AND time < $end",
        about.parameters,
    )
    return Activity(
        window=float(WINDOW),
        wal_bytes=_bytes(busiest["bytes"]),
        wal_buffers_full=_highest(wal, "buffers_full"),
        checkpoints_timed=near.get("timed"),
        checkpoints_requested=near.get("requested"),
        clean_stops=_highest(checkpoints, "clean_stops"),
        background_writes=_sum(near.get("buffers_written"), near.get("buffers_cleaned")),
        backend_writes=None,
        temp_files=highest["temp_files"],
        temp_bytes=_bytes(highest["temp_bytes"]),
        commits=highest["commits"],
        active_ms=highest["active_ms"],
        parallel_planned=highest["parallel_planned"],
        parallel_launched=highest["parallel_launched"],
        peak_sessions=sessions["clients"],
        peak_active=sessions["active"],
    )


_CHECKPOINTS: Final = (
    "timed", "requested", "clean_stops", "buffers_written", "buffers_cleaned"
)  # fmt: skip
_DATABASES: Final = (
    "temp_files", "temp_bytes", "commits", "active_ms", "parallel_planned", "parallel_launched",
)  # fmt: skip


def _windows(
    history: History, about: HistoryPeriod, view: str, names: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return the growth in the window before each sample, scaled up if the window has gaps."""
    sums = ", ".join(f"sum({name}) AS {name}" for name in names)
    windows = ", ".join(
        f"sum({name}) OVER w * {WINDOW} / sum(seconds) OVER w AS {name}" for name in names
    )
    # A row covers the time before it, so the frame begins half a sample after the window. It is
    # in seconds, since not every engine has frames of intervals.
    found = history.rows(
        f"""SELECT * FROM (
                SELECT time, sum(seconds) OVER w AS covered, {windows} FROM (
                    SELECT time, date_diff('second', TIMESTAMP '1970-01-01', time) AS second,
                           max(seconds) AS seconds, {sums} FROM {view}
                    WHERE instance = $instance AND time >= $begin AND time < $end
                      AND seconds > 0 GROUP BY time) AS s
                WINDOW w AS (ORDER BY second
                             RANGE BETWEEN {WINDOW - 30} PRECEDING AND CURRENT ROW)) AS t
            WHERE covered >= {WINDOW * _COVERED} ORDER BY time""",
        about.parameters,
    )
    # Rounded here, since engines differ in how a cast does it.
    return [
        {name: round(value) if name in names and value is not None else value
         for name, value in row.items()}
        for row in found
    ]  # fmt: skip


def _at(rows: list[dict[str, Any]], at: datetime) -> dict[str, Any]:
    """The window that ends at this time, or nearest to it."""
    return min(rows, key=lambda row: abs(row["time"] - at), default={})


def _highest(rows: list[dict[str, Any]], name: str) -> int | None:
    return max((row[name] for row in rows if row[name] is not None), default=None)


def _sum(*parts: int | None) -> int | None:
    return None if None in parts else sum(part or 0 for part in parts)


def _bytes(value: int | None) -> Bytes | None:
    return None if value is None else Bytes(value)
