"""The last sample of everything a store holds, as figures with names and labels.

Exporters read the store and never the server, so even ten of them cost the server nothing. The
names are the same for every monitoring system: source and column.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from mrtuner.history.recording.source import Kind, Source
from mrtuner.history.store import layout, opening
from mrtuner.history.store.layout import MICRO
from mrtuner.history.store.own import SAMPLES
from mrtuner.history.store.summaries import AT_WORK

#: Rows of one source and instance that are exported, unless it declares export_rows: each has its
#: own labels, and a monitoring system pays for every one of them.
MOST_ROWS: Final = 200
#: Sources that are not exported: labels such as identifiers of statements come and go.
LEFT_OUT: Final = frozenset({"statements", "settings", "progress"})
#: The exported load is the average over this time [s].
_LOAD: Final = 60
#: Figures that are not columns of a source, and their descriptions.
LOAD: Final = "load_sessions"
LAG: Final = "record_lag_seconds"
ROWS_LEFT_OUT: Final = "export_rows_left_out"
OWN: Final = {
    LOAD: "Average active sessions of the last minute",
    LAG: "Time since the last sample",
    ROWS_LEFT_OUT: "Rows beyond the limit of one source",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One value of one instance, with labels to distinguish it from others of the same name."""

    name: str  # wal_bytes
    help: str
    unit: str | None
    cumulative: bool  # counts since a reset of the statistics; else a current value
    labels: Mapping[str, str]
    value: float
    at: float  # seconds since 1970
    since: float | None = None  # when a cumulative one began to count, if known


def latest(directory: Path, now: float, *, most_rows: int = MOST_ROWS) -> Iterator[Figure]:
    """Yield the figures of all instances. `now` is in seconds since 1970.

    Raises:
        UsageError: there is no store, or it is damaged.
    """
    db = opening.for_reading(directory)
    try:
        db.execute("BEGIN")
        for source in opening.sources(db):
            if source.compared and source.name not in LEFT_OUT:
                declared = source.export_rows
                yield from _of_source(db, source, most_rows if declared is None else declared)
        yield from _lag(db, now)
        yield from _load(db, now)
    finally:
        db.close()


def _of_source(db: sqlite3.Connection, source: Source, most_rows: int) -> Iterator[Figure]:
    rows = db.execute(
        "SELECT r.instance, r.row, r.reset, i.started, s.at FROM last_row AS r "
        "JOIN last_sample AS s ON s.instance = r.instance AND s.source = r.source "
        "LEFT JOIN last_identity AS i ON i.instance = r.instance "
        "WHERE r.source = ? AND r.key <> '' ORDER BY r.instance, r.key",
        (source.name,),
    )
    taken: dict[str, int] = {}
    times: dict[str, float] = {}
    for instance, text, reset, started, at in rows:
        taken[instance] = taken.get(instance, 0) + 1
        times[instance] = at / MICRO
        if taken[instance] <= most_rows:
            since = _seconds(reset) or _seconds(started)
            yield from _of_row(source, instance, json.loads(text), at / MICRO, since)
    for instance, count in taken.items():
        if count > most_rows:
            yield Figure(
                name=ROWS_LEFT_OUT, help=OWN[ROWS_LEFT_OUT], unit=None,
                cumulative=False, labels={"instance": instance, "source": source.name},
                value=count - most_rows, at=times[instance],
            )  # fmt: skip


def _seconds(text: str | None) -> float | None:
    """Convert a time as the server wrote it to seconds since 1970; None if it is not a time."""
    try:
        return None if text is None else datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _of_row(
    source: Source, instance: str, values: list[Any], at: float, since: float | None
) -> Iterator[Figure]:
    pairs = list(zip(source.columns, values, strict=True))
    keys = {
        column.name: "" if value is None else str(value)
        for column, value in pairs
        if column.kind is Kind.KEY
    }
    for column, value in pairs:
        if value is not None and column.kind in (Kind.COUNTER, Kind.GAUGE):
            yield Figure(
                name=f"{source.name}_{column.name}",
                help=column.help,
                unit=column.unit,
                cumulative=column.kind is Kind.COUNTER,
                labels={"instance": instance, **keys},
                value=value,
                at=at,
                since=since if column.kind is Kind.COUNTER else None,
            )


def _lag(db: sqlite3.Connection, now: float) -> Iterator[Figure]:
    rows = db.execute("SELECT instance, source, at FROM last_sample ORDER BY 1, 2")
    for instance, source, at in rows:
        yield Figure(
            name=LAG, help=OWN[LAG], unit="s",
            cumulative=False, labels={"instance": instance, "source": source},
            value=max(0.0, now - at / MICRO), at=now,
        )  # fmt: skip


def _load(db: sqlite3.Connection, now: float) -> Iterator[Figure]:
    """Average active sessions of the last minute, by what they waited for."""
    since = round((now - _LOAD) * MICRO)
    table = "recent_sessions"
    known = db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    if not known:
        return
    beats = dict(
        db.execute(
            f"SELECT instance, count(*) FROM {layout.hot_table(SAMPLES)} "
            "WHERE source = 'sessions' AND time >= ? GROUP BY 1", (since,),
        )
    )  # fmt: skip
    rows = db.execute(
        f"SELECT instance, coalesce(wait_type, 'CPU'), count(*) FROM {table} "
        f"WHERE time >= ? AND {AT_WORK} GROUP BY 1, 2 ORDER BY 1, 2",
        (since,),
    )
    for instance, wait, count in rows:
        if beats.get(instance):
            yield Figure(
                name=LOAD, help=OWN[LOAD], unit=None,
                cumulative=False, labels={"instance": instance, "wait_type": wait},
                value=count / beats[instance], at=now,
            )  # fmt: skip
