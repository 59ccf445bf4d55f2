"""The files of a store, and the tables of its SQLite database.

    DIR/recent.sqlite             rows not yet in a Parquet file, and the list of those files
    DIR/recorder.lock             held by the one process that writes
    DIR/lake/VIEW/date=YYYY-MM-DD/NUMBER-WRITER.parquet
    DIR/lake/VIEW/month=YYYY-MM/NUMBER-WRITER.parquet      of months that are over, kept for long
    DIR/lake/VIEW_by_hour/month=YYYY-MM/NUMBER-WRITER.parquet

`docs/reference/history-format.md` describes them for readers without MrTuner.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from mrtuner.history.recording.source import Column, Kind, Rollup, Source, Type

#: The value of SQLite's user_version. A store with a higher one is refused.
FORMAT: Final = 1
#: The value of SQLite's application_id: "MrTu".
APPLICATION: Final = 0x4D725475
DATABASE: Final = "recent.sqlite"
LOCK: Final = "recorder.lock"
LAKE: Final = "lake"
MICRO: Final = 1_000_000
HOUR: Final = 3600 * MICRO
#: Resolution of times [µs]. A sample takes longer, and the random digits of its time would need
#: more room than most values do.
RESOLUTION: Final = 10_000

#: The tables besides those of the sources.
TABLES: Final = (
    "CREATE TABLE source (name TEXT PRIMARY KEY, declaration TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE writer (id TEXT NOT NULL, started INTEGER NOT NULL)",
    "CREATE TABLE copy (of TEXT NOT NULL)",
    """CREATE TABLE last_sample (instance TEXT NOT NULL, source TEXT NOT NULL, at INTEGER NOT NULL,
       PRIMARY KEY (instance, source)) WITHOUT ROWID""",
    """CREATE TABLE last_row (instance TEXT NOT NULL, source TEXT NOT NULL, key TEXT NOT NULL,
       reset TEXT, row TEXT NOT NULL, PRIMARY KEY (instance, source, key)) WITHOUT ROWID""",
    """CREATE TABLE last_identity (instance TEXT PRIMARY KEY, version_num INTEGER NOT NULL,
       started TEXT NOT NULL, system TEXT, standby INTEGER NOT NULL, checkpointer TEXT)
       WITHOUT ROWID""",
    """CREATE TABLE missing (instance TEXT NOT NULL, source TEXT NOT NULL, why TEXT NOT NULL,
       hint TEXT, PRIMARY KEY (instance, source)) WITHOUT ROWID""",
    """CREATE TABLE statement_text (query_id INTEGER PRIMARY KEY, text TEXT NOT NULL)""",
    """CREATE TABLE file (number INTEGER PRIMARY KEY AUTOINCREMENT, view TEXT NOT NULL,
       path TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, rows INTEGER NOT NULL,
       bytes INTEGER NOT NULL, sha256 TEXT NOT NULL, retired INTEGER, broken TEXT)""",
)


def hot_table(source: Source) -> str:
    return f"recent_{source.name}"


def rollup_view(source: Source) -> str:
    """The name of the view of a source's summary: ``wal_by_hour``."""
    return f"{source.name}_by_{source.rollup}"


def stored_columns(source: Source) -> tuple[tuple[str, Type], ...]:
    """Return name and type of a table's columns, which come after `time` and `instance`."""
    return (("seconds", Type.FLOAT), *((column.name, column.type) for column in source.columns))


def column_names(source: Source) -> tuple[str, ...]:
    return ("time", "instance", *(name for name, _ in stored_columns(source)))


def column_list(source: Source) -> str:
    """Return the names of a table's columns as SQL: quoted, with commas."""
    return ", ".join(f'"{name}"' for name in column_names(source))


def create_table(source: Source) -> str:
    """Return SQL to create the table of a source's recent rows: `time` in µs since 1970, UTC."""
    columns = ", ".join(f'"{name}" {_SQLITE[kind]}' for name, kind in stored_columns(source))
    return (
        f"CREATE TABLE IF NOT EXISTS {hot_table(source)} "
        f"(time INTEGER NOT NULL, instance TEXT NOT NULL, {columns})"
    )


_SQLITE: Final = {
    Type.INTEGER: "INTEGER",
    Type.FLOAT: "REAL",
    Type.TEXT: "TEXT",
    Type.STATEMENT: "TEXT",
    Type.BOOLEAN: "INTEGER",
}
PARQUET: Final = {
    Type.INTEGER: "BIGINT",
    Type.FLOAT: "DOUBLE",
    Type.TEXT: "VARCHAR",
    Type.STATEMENT: "VARCHAR",
    Type.BOOLEAN: "BOOLEAN",
}


def rollup_columns(source: Source) -> Iterator[tuple[str, str]]:
    """Yield name and SQL of a summary's columns, over the rows of one step and one key.

    A counter gives its sum and its highest rate per second; a gauge its lowest, highest, average
    and last value.
    """
    by = set(source.rollup_by)
    for column in source.columns:
        if column.name in by:
            continue
        if column.kind is Kind.COUNTER:
            yield column.name, f'sum("{column.name}")::{PARQUET[column.type]}'
            yield f"{column.name}_peak", f'max("{column.name}" / nullif(seconds, 0))::DOUBLE'
        elif column.kind is Kind.GAUGE:
            yield from _gauge(column)


def _gauge(column: Column) -> Iterator[tuple[str, str]]:
    for what, function in (("min", "min"), ("max", "max"), ("avg", "avg")):
        kind = "DOUBLE" if what == "avg" else PARQUET[column.type]
        yield f"{column.name}_{what}", f'{function}("{column.name}")::{kind}'
    yield f"{column.name}_last", f"({last_value(column.name)})::{PARQUET[column.type]}"


def last_value(column: str) -> str:
    """Return SQL for the value in a group's last row: null if that row marks it as gone."""
    return (
        f'CASE WHEN max(CASE WHEN "{column}" IS NOT NULL THEN time END) = max(time) '
        f'THEN arg_max("{column}", time) END'
    )


def partition_of(view: str, at: int) -> str:
    """Return the directory below the lake for rows of this time: a day's, of summaries a month's.

    >>> partition_of("wal", 0), partition_of("wal_by_hour", 0)
    ('wal/date=1970-01-01', 'wal_by_hour/month=1970-01')
    """
    if is_rollup(view):
        return month_of(view, at)
    return f"{view}/date={datetime.fromtimestamp(at // MICRO, UTC):%Y-%m-%d}"


def month_of(view: str, at: int) -> str:
    """Return the directory below the lake for rows of the month of this time.

    >>> month_of("wal", 0)
    'wal/month=1970-01'
    """
    return f"{view}/month={datetime.fromtimestamp(at // MICRO, UTC):%Y-%m}"


def is_rollup(view: str) -> bool:
    return any(view.endswith(f"_by_{rollup}") for rollup in Rollup)


def step(rollup: Rollup) -> int:
    """The length of a summary's steps in microseconds."""
    return rollup.seconds * MICRO
