"""A store's size on disk, whether it is intact, and whether it is being written."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from mrtuner.history.recording.source import CONNECTION, Source
from mrtuner.history.store import compaction, layout, opening, parquet, retention, summaries
from mrtuner.history.store.layout import MICRO
from mrtuner.history.store.own_sources import SAMPLES
from mrtuner.history.store.parquet import File

if TYPE_CHECKING:
    from mrtuner.history.document import (
        HistoryCheck,
        HistoryLag,
        HistorySize,
        HistoryStatus,
        HistoryView,
    )

_DAY: Final = 86_400 * MICRO
#: Shortest time to forecast from [µs]: less would be only the first hours of a new store.
_SHORTEST: Final = _DAY // 4
#: Shortest time to estimate from on the first day [µs].
_ENOUGH: Final = 300 * MICRO
#: Intervals without a sample until a source is late.
_LATE: Final = 3
#: Latest samples, per instance and at most, that show what recording costs: some ten minutes.
_LATEST: Final = 1_000
_MOST_SAMPLES: Final = 200_000


def size(directory: Path) -> HistorySize:
    """Return what the views of a store take on disk, and what they will take at most.

    The forecast assumes that each day adds the average of the days so far. On the first day, it
    assumes that rows that are in no file yet go on as they do, and compress as they do now.
    """
    from mrtuner.history.document import HistorySize

    with closing(opening.for_reading(directory)) as db:
        db.execute("BEGIN")
        files = opening.listed(db)
        per_day = _estimated(db) if _is_short(files) else {}
        views = [
            _view(
                db, name, source, keep, [file for file in files if file.view == name],
                per_day.get(name),
            )
            for source in opening.sources(db)
            for name, keep in (
                (source.name, source.keep), (layout.rollup_view(source), source.keep_rollup),
                *((one.view, one.keep) for one in summaries.of_source(source.name)),
            )
        ]  # fmt: skip
    recent = retention.recent_bytes(directory)
    forecasts = [view.at_most for view in views if view.files or view.view in per_day]
    return HistorySize(
        directory=str(directory),
        bytes=recent + sum(view.bytes for view in views),
        recent_bytes=recent,
        at_most=None if not forecasts or None in forecasts
        else recent + sum(one or 0 for one in forecasts),
        views=sorted(views, key=lambda view: (-view.bytes, -view.recent, view.view)),
        estimated=bool(per_day),
    )  # fmt: skip


def _is_short(files: Sequence[File]) -> bool:
    """Whether the files cover too short a time to forecast from."""
    first = min((file.first for file in files), default=0)
    return max((file.last for file in files), default=0) - first < _SHORTEST


def _estimated(db: sqlite3.Connection) -> dict[str, int]:
    """Return how many bytes a day each view would add, by writing what is in no file yet.

    Empty if it was recorded for too short a time, or without DuckDB.
    """
    table = layout.hot_table(SAMPLES)
    begin, end = db.execute(f"SELECT min(time), max(time) FROM {table}").fetchone()
    if begin is None or end - begin < _ENOUGH or find_spec("duckdb") is None:
        return {}
    found: dict[str, int] = {}
    with TemporaryDirectory(prefix="mrtuner-") as place, parquet.engine() as con:
        for source in opening.sources(db):
            table = layout.hot_table(source)
            rows = f"SELECT {layout.column_list(source)} FROM {table}"
            if not db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():
                continue
            for view, query in compaction.queries_of(con, db, source, rows).items():
                sizes = []
                for number, limit in enumerate(("", " LIMIT 0")):
                    path = f"{view}/{number}/file"
                    compaction.write(con, f"FROM ({query}){limit}", Path(place), path, source, view)
                    sizes.append((Path(place) / path).stat().st_size)
                whole, empty = sizes
                found[view] = round((whole - empty) * _DAY / (end - begin)) + empty
    return found


def _view(
    db: sqlite3.Connection, name: str, source: Source, keep: float, files: list[File],
    estimated: int | None,
) -> HistoryView:  # fmt: skip
    from mrtuner.history.document import HistoryView

    recent = 0
    if name == source.name:
        table = layout.hot_table(source)
        recent = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    total = sum(file.bytes for file in files)
    first = min((file.first for file in files), default=None)
    last = max((file.last for file in files), default=0)
    long = 0 if first is None else last - first
    per_day = round(total * _DAY / long) if long >= _SHORTEST else estimated
    return HistoryView(
        view=name,
        files=len(files),
        rows=sum(file.rows for file in files),
        bytes=total,
        recent=recent,
        first=None if first is None else datetime.fromtimestamp(first / MICRO, UTC),
        per_day=per_day,
        at_most=None if per_day is None else round(per_day * keep * MICRO / _DAY),
    )


def verify(directory: Path) -> HistoryCheck:
    """Read every file of a store and compare it with the list; check SQLite's file too."""
    from mrtuner.history.document import HistoryCheck

    with closing(opening.for_reading(directory)) as db, opening.explained(directory):
        problems = [
            f"{layout.DATABASE}: {row[0]}"
            for row in db.execute("PRAGMA integrity_check")
            if row[0] != "ok"
        ]
        db.execute("BEGIN")
        files = opening.listed(db)
    lake = directory / layout.LAKE
    for file in files:
        flaw = parquet.flaw(lake, file)
        if flaw is None and parquet.checksum(lake / file.path) != file.sha256:
            flaw = "has changed since it was written"
        if flaw:
            problems.append(f"{file.path}: {flaw}")
    return HistoryCheck(
        directory=str(directory), files=len(files), rows=sum(file.rows for file in files),
        problems=problems,
    )  # fmt: skip


def status(directory: Path, now: float, instance: str | None = None) -> HistoryStatus:
    """Return how far behind each source is, of one instance or all. `now`: seconds since 1970.

    Raises:
        UsageError: there is no such instance.
    """
    from mrtuner.history.document import HistoryLag, HistoryStatus

    with closing(opening.for_reading(directory)) as db:
        intervals = {source.name: source.interval for source in opening.sources(db)}
        last = {
            (instance, source): at / MICRO
            for instance, source, at in db.execute("SELECT instance, source, at FROM last_sample")
        }
        missing = {
            (instance, source): (why, hint)
            for instance, source, why, hint in db.execute("SELECT * FROM missing")
        }
        costs = _costs(db, len({instance for instance, _ in last}))
    lags: list[HistoryLag] = []
    known = sorted(last.keys() | missing.keys())
    if instance is not None:
        opening.require_instance(instance, sorted({name for name, _ in known}))
        known = [one for one in known if one[0] == instance]
    for name, source in known:
        at = last.get((name, source))
        why, hint = missing.get((name, source), (None, None))
        lag = None if at is None else max(0.0, now - at)
        overdue = lag is None or lag > _LATE * intervals.get(source, 60.0) + 10
        late = overdue if why is None else source == CONNECTION
        lags.append(HistoryLag(
            instance=name, source=source, lag=lag, late=late, why=why, hint=hint,
            cost=costs.get((name, source)),
            last=None if at is None else datetime.fromtimestamp(at, UTC),
        ))  # fmt: skip
    return HistoryStatus(directory=str(directory), recording=is_recording(directory), sources=lags)


def _costs(db: sqlite3.Connection, instances: int) -> dict[tuple[str, str], float]:
    """Share of a session's time that the latest samples took, by instance and source."""
    table = layout.hot_table(SAMPLES)
    some = min(_LATEST * instances, _MOST_SAMPLES)
    rows = db.execute(
        f"""SELECT instance, source, sum(cost_ms) / 1000 / sum(seconds) FROM {table}
            WHERE rowid > (SELECT max(rowid) FROM {table}) - ? AND seconds > 0 GROUP BY 1, 2""",
        (some,),
    )
    return {(instance, source): share for instance, source, share in rows}


def is_recording(directory: Path) -> bool:
    """Whether a process holds the store's lock."""
    try:
        number = os.open(directory / layout.LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(number)
    return False
