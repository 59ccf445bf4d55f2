"""The last sample of everything a store holds, as figures with names and labels.

Exporters read the store and never the server, so even ten of them cost the server nothing. The
names are the same for every monitoring system: source and column.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from mrtuner.history.recording.budget import MOST
from mrtuner.history.recording.events import microseconds
from mrtuner.history.recording.source import CONNECTION, Kind, Source
from mrtuner.history.store import layout, opening
from mrtuner.history.store.layout import MICRO
from mrtuner.history.store.own_sources import SAMPLES
from mrtuner.history.store.summaries import AT_WORK

#: Rows of one source and instance that are exported, unless it declares export_rows: each has its
#: own labels, and a monitoring system pays for every one of them.
MOST_ROWS: Final = 200
#: Sources that are not exported: labels such as identifiers of statements come and go.
LEFT_OUT: Final = frozenset({"statements", "settings", "progress", "plans"})
#: The exported load is the average over this time [s].
_LOAD: Final = 60
#: A server that gave no sample for so long [s] is not up, and nothing else of it is exported.
_FRESH: Final = 300.0
#: Samples older than this many intervals are not exported: they no longer say how things are.
_OLD: Final = 3
#: Figures that are not columns of a source, and their descriptions.
LOAD: Final = "load_sessions"
LAG: Final = "record_lag_seconds"
ROWS_LEFT_OUT: Final = "export_rows_left_out"
UP: Final = "up"
SERVER: Final = "server_info"
OWN: Final = {
    UP: "Whether the server answered the recorder within the last minutes",
    SERVER: "Version of the server, and whether it is a primary or a standby",
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
    with closing(opening.for_reading(directory)) as db:
        db.execute("BEGIN")
        up = _up(db, now)
        for source in opening.sources(db):
            if source.compared and source.name not in LEFT_OUT:
                declared = source.export_rows
                most = most_rows if declared is None else declared
                yield from _of_source(db, source, most, now, up)
        yield from _servers(db, now, up)
        yield from _lag(db, now)
        yield from _load(db, now)


def _of_source(
    db: sqlite3.Connection, source: Source, most_rows: int, now: float, up: Mapping[str, bool]
) -> Iterator[Figure]:
    """Yield the figures of a source's last samples, of the largest rows if there are many.

    A source that could not be read at the last attempt has none; nor has an old sample, or one of a
    server that is not up.
    """
    # To keep within its budget, the recorder may have slowed a query down.
    slowest = MOST if source.queries else 1
    oldest = now - max(_FRESH, _OLD * slowest * source.interval)
    rows = db.execute(
        "SELECT r.instance, r.row, r.reset, i.started, s.at FROM last_row AS r "
        "JOIN last_sample AS s ON s.instance = r.instance AND s.source = r.source "
        "LEFT JOIN last_identity AS i ON i.instance = r.instance "
        "LEFT JOIN missing AS m ON m.instance = r.instance AND m.source = r.source "
        "WHERE r.source = ? AND r.key <> '' AND s.at >= ? AND m.source IS NULL "
        "ORDER BY r.instance, r.key",
        (source.name, oldest * MICRO),
    )
    for instance, found in groupby(rows, key=itemgetter(0)):
        if source.queries and not up.get(instance):
            continue
        given = [(json.loads(text), *more) for _, text, *more in found]
        if len(given) > most_rows:
            beyond, at = len(given) - most_rows, given[0][-1] / MICRO
            yield _own(ROWS_LEFT_OUT, beyond, at, instance=instance, source=source.name)
            given.sort(key=lambda row: _size(source, row[0]), reverse=True)
        for values, reset, started, at in given[:most_rows]:
            since = _seconds(reset) or _seconds(started)
            yield from _of_row(source, instance, values, at / MICRO, since)


def _size(source: Source, values: list[Any]) -> float:
    """Return by what a row counts as large; 0 where the source does not say."""
    return sum(
        value or 0
        for column, value in zip(source.columns, values, strict=True)
        if column.name in source.export_largest
    )


def _seconds(text: str | None) -> float | None:
    """Convert a time as the server wrote it to seconds since 1970; None if it is not a time."""
    at = microseconds(text)
    return None if at is None else at / MICRO


def _of_row(
    source: Source, instance: str, values: list[Any], at: float, since: float | None
) -> Iterator[Figure]:
    pairs = list(zip(source.columns, values, strict=True))
    keys = {
        column.name: "" if value is None else str(value)
        for column, value in pairs
        if column.kind is Kind.KEY and column.label
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


def _up(db: sqlite3.Connection, now: float) -> dict[str, bool]:
    """Return by instance whether its server answered lately; what AWS says needs no answer."""
    asked = [source.name for source in opening.sources(db) if source.queries]
    rows = db.execute(
        "SELECT instance, max(at) >= ? FROM last_sample "
        "WHERE source IN (SELECT value FROM json_each(?)) GROUP BY 1",
        ((now - _FRESH) * MICRO, json.dumps(asked)),
    )
    lost = {row[0] for row in db.execute(
        "SELECT instance FROM missing WHERE source = ?", (CONNECTION,)
    )}  # fmt: skip
    fresh = {instance: bool(found) for instance, found in rows}
    return {name: fresh.get(name, False) and name not in lost for name in fresh.keys() | lost}


def _servers(db: sqlite3.Connection, now: float, up: Mapping[str, bool]) -> Iterator[Figure]:
    """Yield whether each server answers, and what it is, with the value 1."""
    for instance, answers in sorted(up.items()):
        yield _own(UP, int(answers), now, instance=instance)
    rows = db.execute("SELECT instance, version_num, standby FROM last_identity ORDER BY 1")
    for instance, version, standby in rows:
        if instance not in up:  # nobody records it any more
            continue
        role = "standby" if standby else "primary"
        yield _own(SERVER, 1, now, instance=instance, version=_version(version), role=role)


def _version(number: int) -> str:
    """Return a version as PostgreSQL writes it.

    >>> _version(180001)
    '18.1'
    """
    return f"{number // 10000}.{number % 10000}"


def _lag(db: sqlite3.Connection, now: float) -> Iterator[Figure]:
    rows = db.execute("SELECT instance, source, at FROM last_sample ORDER BY 1, 2")
    for instance, source, at in rows:
        yield _own(LAG, max(0.0, now - at / MICRO), now, instance=instance, source=source)


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
            yield _own(LOAD, count / beats[instance], now, instance=instance, wait_type=wait)


def _own(name: str, value: float, at: float, **labels: str) -> Figure:
    """Return a figure that is no column of a source."""
    return Figure(
        name=name, help=OWN[name], unit="s" if name == LAG else None, cumulative=False,
        labels=labels, value=value, at=at,
    )  # fmt: skip
