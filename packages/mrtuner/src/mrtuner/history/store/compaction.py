"""Moving rows from SQLite into Parquet, and maintaining the files.

A file is written under the name of the next number, made durable, and only then put on the list, in
the transaction that deletes its rows from SQLite. A recorder killed before that writes the same
file again; killed after it, nothing is left to do. Readers take files from the list alone, so they
see each row once.

Meanwhile, rows may be committed through another connection (`Writer.another`), even late ones:
those that arrive after a file was begun are left for the next.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from mrtuner.history.moments import timestamp
from mrtuner.history.recording.source import Kind, Source, Type
from mrtuner.history.store import layout, opening, parquet, summaries
from mrtuner.history.store.layout import HOUR, MICRO
from mrtuner.history.store.parquet import File
from mrtuner.history.store.writer import Writer

#: A table with more rows is moved each hour, others each day: small files are inefficient.
MANY_ROWS: Final = 50_000
#: Up to this many files of one partition are read as quickly as one.
_FEW_FILES: Final = 24
#: Rows kept for longer than `LONG` [s] are merged by month if the month's files together are no
#: larger than `_SMALL` [bytes]: others are read quickly as they are, and merging is costly.
LONG: Final = 92 * 86_400.0
_SMALL: Final = 32 * 1024 * 1024
#: How long a reader that took the list may still read a file [s].
_GRACE: Final = 15 * 60
_DAY: Final = 24 * HOUR


def sources_of(writer: Writer) -> tuple[Source, ...]:
    """Return all sources of the store, including those that are no longer recorded."""
    return tuple(opening.sources(writer.db))


def move_to_parquet(
    writer: Writer, now: int, *, hourly: bool = False, everything: bool = False
) -> int:
    """Move rows of the past into files, and return how many.

    Rows of past days are moved; of today, those of past hours if there are many or with `hourly`.
    `everything` moves all rows. `now` is in microseconds since 1970.
    """
    moved = 0
    for source in sources_of(writer):
        table = layout.hot_table(source)
        count = writer.db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        step = HOUR if hourly or count > MANY_ROWS else _DAY
        days = writer.db.execute(
            f"SELECT DISTINCT time / {_DAY} FROM {table} "
            f"WHERE ? OR time / {step} <> ? / {step} ORDER BY 1", (everything, now),
        ).fetchall()  # fmt: skip
        for (day,) in days:
            begin, end = day * _DAY, (day + 1) * _DAY
            if begin <= now < end and not everything:
                end = now // step * step
            moved += _move(writer, source, begin, end)
    return moved


def _move(writer: Writer, source: Source, begin: int, end: int) -> int:
    """Move the rows of this time into a file, and their summaries into others."""
    table = layout.hot_table(source)
    names = layout.column_list(source)
    lake = writer.directory / layout.LAKE
    newest = writer.db.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0]
    those, bounds = "time >= ? AND time < ? AND rowid <= ?", (begin, end, newest)
    with parquet.engine() as con:
        rows = f"SELECT {names} FROM {table} WHERE {those}"
        views = queries_of(con, writer.db, source, rows, bounds)
        number = _next_number(writer)
        files: list[File] = []
        for view, query in views.items():
            if con.execute(f"SELECT 1 FROM ({query}) LIMIT 1").fetchone() is not None:
                place = number + len(files)
                path = _in_partition(writer, layout.partition_of(view, begin), place)
                write(con, query, lake, path, source, view)
                files.append(parquet.described(con, lake, path, number=place, view=view))
    with writer.transaction():
        _enlist(writer, files)
        writer.db.execute(f"DELETE FROM {table} WHERE {those}", bounds)
    return files[0].rows if files else 0  # None: the clock was ahead, so all are of later today.


def queries_of(
    con: parquet.Engine, db: sqlite3.Connection, source: Source, rows: str,
    parameters: Sequence[int] = (),
) -> Mapping[str, str]:  # fmt: skip
    """Load rows of a source from SQLite; return DuckDB's queries for what is written, by view."""
    parquet.load(con, "moved", layout.stored_columns(source), db, rows, parameters)
    summary = parquet.rollup(
        "FROM moved", source.rollup_by, layout.step(source.rollup),
        dict(layout.rollup_columns(source)),
    )  # fmt: skip
    con.execute(f"CREATE OR REPLACE TABLE summary AS {summary}")
    views = {source.name: "FROM moved", layout.rollup_view(source): "FROM summary"}
    return views | {
        one.view: one.query(views[one.of]) for one in summaries.of_source(source.name)
    }  # fmt: skip


def write(
    con: parquet.Engine, query: str, lake: Path, path: str, source: Source, view: str
) -> None:
    """Write rows of a view of a source to a file below the lake.

    Rows of one instance and one key stand side by side, by time. Those without a key, such as
    sessions, do so within ten minutes by their first text, the process: whoever reads some minutes
    reads few rows of others.
    """
    sampled = view == source.name
    keys, names = (
        tuple(column.name for column in source.of(*kinds)) if sampled else _apart(source, view)
        for kinds in ((Kind.KEY,), (Kind.KEY, Kind.TEXT))
    )
    floats = [name for name, kind in layout.stored_columns(source) if kind is Type.FLOAT]
    order = [f'"{name}"' for name in keys]
    if sampled and not keys:
        order = ["time_bucket(INTERVAL 10 MINUTE, time)", *(f'"{name}"' for name in names[:1])]
    parquet.write(
        con, query, lake, path, order=("instance", *order, "time"), names=("instance", *names),
        # Rates and averages, which fill a summary, have all digits.
        floats=floats if sampled else (),
    )  # fmt: skip


def _apart(source: Source, view: str) -> tuple[str, ...]:
    """Return the columns by which a summary groups."""
    further = summaries.named(view)
    return source.rollup_by if further is None else further.by


def _in_partition(writer: Writer, partition: str, number: int) -> str:
    return f"{partition}/{number:08}-{writer.id}.parquet"


def _next_number(writer: Writer) -> int:
    row = writer.db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'file'").fetchone()
    return 1 + (row[0] if row else 0)


def _enlist(writer: Writer, files: Iterable[File]) -> None:
    writer.db.executemany(
        "INSERT INTO file (number, view, path, first, last, rows, bytes, sha256) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [(f.number, f.view, f.path, f.first, f.last, f.rows, f.bytes, f.sha256) for f in files],
    )


def adopt(writer: Writer, files: Iterable[File], gone: Iterable[File]) -> None:
    """Add files of other writers to the list, and remove those that are gone."""
    number = _next_number(writer)
    with writer.transaction():
        _enlist(writer, [replace(file, number=number + n) for n, file in enumerate(files)])
        retire(writer, gone)


def retire(writer: Writer, files: Iterable[File]) -> None:
    """Take files off the list; they are deleted when no reader can have them any more."""
    writer.db.executemany(
        "UPDATE file SET retired = ? WHERE number = ?",
        [(timestamp(), file.number) for file in files],
    )


# Looking after the files.


def compact(writer: Writer, now: int, *, small: int = _SMALL) -> int:
    """Merge the files of each day, and of each month where it helps; return how many were merged.

    A partition whose time is over gets one file; one that still grows is left until it has many.
    The days of a month that has more than `small` [bytes] are not merged.
    """
    merged = 0
    by_view = {view: source for source in sources_of(writer) for view in summaries.views_of(source)}
    partitions: dict[tuple[str, str], list[File]] = defaultdict(list)
    for file in writer.files():
        if file.view in by_view:
            partitions[file.view, str(Path(file.path).parent)].append(file)
    for (view, partition), files in partitions.items():
        over = partition != layout.partition_of(view, now)
        if len(files) > (1 if over else _FEW_FILES):
            merged += _merge(writer, by_view[view], files, partition)
    return merged + sum(
        _compact_months(writer, source, now, small) for source in sources_of(writer)
    )


def _compact_months(writer: Writer, source: Source, now: int, small: int) -> int:
    """Merge the days of each month that is over, if they are kept for long and small."""
    if source.keep <= LONG:
        return 0
    months: dict[str, list[File]] = defaultdict(list)
    # The last rows of a month are moved on the day after it.
    current = {layout.month_of(source.name, at) for at in (now, now - _DAY)}
    for file in writer.files():
        if file.view == source.name:
            month = layout.month_of(file.view, file.first)
            if month not in current:
                months[month].append(file)
    return sum(
        _merge(writer, source, files, month)
        for month, files in months.items()
        if len(files) > 1 and sum(file.bytes for file in files) <= small
    )


def _merge(writer: Writer, source: Source, files: Sequence[File], partition: str) -> int:
    """Replace files by one in this partition; damaged ones stay where they are."""
    lake = writer.directory / layout.LAKE
    sound = [file for file in files if parquet.flaw(lake, file) is None]
    if len(sound) < 2:
        return 0
    view = sound[0].view
    number = _next_number(writer)
    path = _in_partition(writer, partition, number)
    with parquet.engine() as con:
        write(con, parquet.union(lake, sound), lake, path, source, view)
        merged = parquet.described(con, lake, path, number=number, view=view)
    with writer.transaction():
        _enlist(writer, [merged])
        retire(writer, sound)
    return len(sound)


def sweep(writer: Writer, now: int) -> int:
    """Delete files that are no longer read, and what a killed recorder left; return how many."""
    lake = writer.directory / layout.LAKE
    due = writer.db.execute(
        "SELECT number, path FROM file WHERE retired < ?", (now - _GRACE * MICRO,)
    ).fetchall()
    for _, path in due:
        (lake / path).unlink(missing_ok=True)
    with writer.transaction():
        writer.db.executemany("DELETE FROM file WHERE number = ?", [(one[0],) for one in due])
    listed = {row[0] for row in writer.db.execute("SELECT path FROM file")}
    own = [*lake.glob(f"*/*/*-{writer.id}.parquet"), *lake.glob(f"*/*/.*-{writer.id}.parquet.*")]
    left = [path for path in own if str(path.relative_to(lake)) not in listed]
    for path in left:
        path.unlink()
    return len(due) + len(left)
