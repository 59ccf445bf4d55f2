"""A year of one instance as its recorder leaves it, generated: for `bench/viewer.py`.

Every built-in source of PostgreSQL 18 and the host, at its interval, with as many rows as a busy
server of one application gives: 500 statements, 300 tables, some four sessions at work in the day.
What seldom changes has few rows, because only changes are stored. The code of the store writes,
summarizes, seals and merges. There are rows as sampled for as long as they are kept; for the time
before, the summaries of one week are repeated.

It ends at 10:40 in the morning: a few minutes before the largest tables of that day are sealed,
when SQLite has most.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from history_mix import DAY, put, summary_of

from mrtuner.history.recording.source import Kind, Source, Type, built_in
from mrtuner.history.store import compaction, layout, parquet, summaries
from mrtuner.history.store.layout import HOUR, MICRO
from mrtuner.history.store.own_sources import EVENTS, OWN, SAMPLES
from mrtuner.history.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mrtuner.history.store.parquet import Engine

NAME = "shop:5432"
#: 2026-11-23 10:40 UTC.
NOW = (1_795_392_000 + 10 * 3600 + 40 * 60) * MICRO
TODAY = NOW // DAY * DAY
_STATEMENTS, _TABLES = 500, 300
_WEEK = 7

#: A day: quiet at night, busy in the afternoon.
_BUSY = "(0.65 - 0.35 * cos(2 * pi() * (s % 86400 - 10800) / 86400))"


def _noise(place: int) -> str:
    return f"(0.5 + (hash(k, s, {place}) % 1000003) / 1000003.0)"


def _one_of(words: Iterable[str | None], by: str) -> str:
    """Return SQL that picks one of these words by a whole number."""
    listed = ", ".join("NULL" if word is None else f"'{word}'" for word in words)
    return f"([{listed}])[(1 + ({by}) % {listed.count(',') + 1})::BIGINT]"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How many rows a source may have, which of them a sample has, and what is in them."""

    rows: int = 1
    where: str = "true"  # over s, the second, and k, the row
    columns: dict[str, str] = field(default_factory=dict)


#: A hash that changes every 4 s, which is how long a session stays in a wait.
_STAY = "hash(k, s // 4)"
_DATABASES = ("shop", "billing", "reports", "postgres")
_WAITS = (
    (None, None), (None, None), (None, None), ("IO", "DataFileRead"), ("IO", "DataFileRead"),
    ("IO", "WALSync"), ("LWLock", "WALWrite"), ("LWLock", "BufferContent"),
    ("Lock", "transactionid"), ("Lock", "tuple"), ("Client", "ClientRead"), ("IPC", "BgWorker"),
)  # fmt: skip
#: The first statements run most often, as is usual.
_STATEMENT = f"(1000003 * (1 + floor({_STATEMENTS} * pow(({_STAY} % 1000) / 1000.0, 4))::BIGINT))"
_WAITED = f"hash({_STAY}, 1)"
SHAPES: dict[str, Shape] = {
    "sessions": Shape(
        rows=10, where=f"hash(k, s // 4, 2) % 1000 < 450 * {_BUSY}",
        columns={
            "pid": "1000 + k * 100 + (s // 600) % 100",
            "database": _one_of(_DATABASES, "k // 6"),
            "role": _one_of(("web", "web", "batch"), "k"),
            "application": _one_of(("shop-web", "shop-web", "shop-jobs"), "k"),
            "backend_type": "'client backend'",
            "state": _one_of(("active",) * 15 + ("idle in transaction",), f"hash({_STAY}, 3)"),
            "wait_type": _one_of([of for of, _ in _WAITS], _WAITED),
            "wait_event": _one_of([event for _, event in _WAITS], _WAITED),
            "query_id": _STATEMENT,
            "transaction_seconds": "s % 4", "statement_seconds": "s % 4",
            "blocked_by": f"CASE WHEN {_WAITED} % {len(_WAITS)} IN (8, 9) "
                          "THEN (1000 + (k + 1) % 10 * 100)::VARCHAR END",
        },
    ),
    "statements": Shape(
        rows=_STATEMENTS, where="hash(k, s) % (1 + k // 20) = 0",
        columns={
            "database": _one_of(_DATABASES, "k // 200"), "role": _one_of(("web", "batch"), "k"),
            "query_id": "1000003 * (k + 1)", "toplevel": "true", "plans": "0", "jit_ms": "0.0",
        },
    ),
    "tables": Shape(
        rows=_TABLES, where="hash(k, s) % (1 + k // 15) = 0",
        columns={
            "database": "'shop'", "schema": "'public'", "name": "'table_' || k",
            "relation": "16384 + k", "age": "(50000000 + s % 5000000) // 10000000 * 10000000",
        },
    ),
    "bloat": Shape(
        rows=2 * _TABLES, where="hash(k, s) % 4 = 0",
        columns={
            "database": "'shop'", "schema": "'public'", "relation": "16384 + k",
            "kind": f"CASE WHEN k < {_TABLES} THEN 'table' ELSE 'index' END",
            "name": f"CASE WHEN k < {_TABLES} THEN 'table_' ELSE 'index_' END || k",
            "table_name": f"CASE WHEN k >= {_TABLES} THEN 'table_' || (k - {_TABLES}) END",
        },
    ),
    "sequences": Shape(
        rows=200, where="hash(k, s) % 100 = 0",
        columns={
            "database": "'shop'", "schema": "'public'", "name": "'table_' || k || '_id_seq'",
            "used_by": "'public.table_' || k || '.id'", "maximum": "2147483647",
            "used": f"round(0.4 * {_noise(0)}, 3)",
        },
    ),
    "databases": Shape(rows=5, columns={"database": _one_of((*_DATABASES, None), "k")}),
    "ages": Shape(
        rows=4, where="hash(k, s) % 6 = 0",
        columns={
            "database": _one_of(_DATABASES, "k"),
            "age": "(s // 4 % 190000000) // 100000 * 100000",
            "multixact_age": "(s // 40 % 190000000) // 100000 * 100000",
        },
    ),
    "sizes": Shape(rows=4, columns={"database": _one_of(_DATABASES, "k")}),
    "io": Shape(
        rows=32, where="hash(k, s) % (1 + k // 4) = 0",
        columns={
            "backend_type": _one_of(
                ("client backend", "checkpointer", "background writer", "autovacuum worker",
                 "walsender", "background worker", "io worker", "autovacuum launcher"), "k % 8"),
            "object": _one_of(("relation", "relation", "relation", "temp relation"), "k // 8"),
            "context": _one_of(("normal", "vacuum", "bulkread", "bulkwrite"), "k // 8"),
        },
    ),
    "connections": Shape(columns={
        "clients": f"(120 * {_BUSY} * {_noise(0)})::BIGINT", "maximum": "400", "ordinary": "397",
        "oldest_transaction": f"round(30 * {_noise(1)}, 2)",
    }),
    "host": Shape(columns={
        "cpus": "8", "device": "'nvme0n1'", "group_throttled": "0.0",
        **{name: f"round(15 * {share} * {_BUSY} * {_noise(place)}, 2)" for place, (name, share) in
           enumerate({"cpu_user": 2.6, "cpu_system": 0.7, "cpu_iowait": 0.3, "cpu_steal": 0.02,
                      "cpu_idle": 4.4}.items())},
    }),
    "slots": Shape(columns={
        "name": "'standby'", "kind": "'physical'", "active": "true", "status": "'reserved'",
    }),
    "replication": Shape(columns={
        "application": "'standby'", "client": "'10.0.0.7'", "pid": "4711",
        "state": "'streaming'", "sync_state": "'async'",
    }),
    "slru": Shape(rows=8, columns={"name": "'cache_' || k"}),
    "progress": Shape(where="s % 3600 < 120", columns={
        "pid": "5000 + s // 3600 % 100", "command": "'VACUUM'", "database": "'shop'",
        "relation": "16384 + s // 3600 % 300", "phase": "'scanning heap'",
    }),
}  # fmt: skip
#: How many settings there are; one of them changes every 20 days.
_SETTINGS = 380


def rows(source: Source, begin: int, end: int) -> str:
    """Return a query for DuckDB: the rows of a source from one second to another."""
    shape = SHAPES.get(source.name, Shape())
    every = round(source.interval)
    columns = ", ".join(
        f"({shape.columns.get(column.name, _value(column.kind, column.type, place))})"
        f'::{layout.PARQUET[column.type]} AS "{column.name}"'
        for place, column in enumerate(source.columns)
    )
    return f"""SELECT make_timestamp({_at(source.name)}) AS time, '{NAME}' AS instance,
                      {every}::DOUBLE AS seconds, {columns}
               FROM range({begin}, {end}, {every}) AS a(s), range({shape.rows}) AS b(k)
               WHERE {shape.where}"""


def _at(name: str) -> str:
    """Return SQL of the time of a sample, up to 40 ms late [µs]."""
    step = layout.RESOLUTION
    return f"(s * {MICRO} + (hash('{name}', s) % 40000)::BIGINT) // {step} * {step}"


def _value(kind: Kind, of: Type, place: int) -> str:
    if kind in (Kind.KEY, Kind.TEXT):
        return "NULL" if of is not Type.TEXT else "'text'"
    size = f"{10 ** (2 + place % 4)} * {_BUSY} * {_noise(place)} / (1 + k)"
    return f"round({size}, 3)" if of is Type.FLOAT else f"({size})"


def samples(begin: int, end: int) -> str:
    """Return a query for DuckDB: the samples of each source from one second to another."""
    parts = (
        f"""SELECT make_timestamp({_at(source.name)}) AS time, '{NAME}' AS instance,
                   {source.interval}::DOUBLE AS seconds, '{source.name}' AS source,
                   {SHAPES.get(source.name, Shape()).rows}::BIGINT AS rows,
                   round(1 + (hash('{source.name}', s, 1) % 40) / 10.0, 1) AS cost_ms
            FROM range({begin}, {end}, {round(source.interval)}) AS a(s)"""
        for source in built_in().values()
    )
    return " UNION ALL ".join(parts)


def events(begin: int, end: int) -> str:
    """Return a query of events: a restart every four weeks, in other weeks a new connection."""
    return f"""SELECT make_timestamp(s * {MICRO}) AS time, '{NAME}' AS instance,
                      NULL::DOUBLE AS seconds,
                      CASE WHEN s // 86400 % 28 = 0 THEN 'restart' ELSE 'connected' END AS kind,
                      'started' AS detail
               FROM range({begin}, {end}, 3600) AS a(s)
               WHERE s % 86400 = 3600 AND s // 86400 % 7 = 0"""


def settings(begin: int, end: int) -> str:
    """Return a query of settings: all in the first hour of a year, and a change every 20 days."""
    first = (NOW - 365 * DAY) // DAY * 86_400
    return f"""SELECT make_timestamp(s * {MICRO}) AS time, '{NAME}' AS instance,
                      60::DOUBLE AS seconds, 'setting_' || k AS name,
                      (s // 86400)::VARCHAR AS value, NULL::VARCHAR AS unit,
                      'configuration file' AS origin, false AS pending
               FROM range({begin}, {end}, 3600) AS a(s), range({_SETTINGS}) AS b(k)
               WHERE s = {first} OR (s % (20 * 86400) = 50400 AND k = s // 86400 % {_SETTINGS})"""


def build(directory: Path, days: int, say: Callable[[str], None]) -> None:
    """Write the store, unless there is a complete one of today's format."""
    done = directory / "complete"
    written = f"{days} days, format {layout.FORMAT}\n"
    if done.exists() and done.read_text() == written:
        return
    shutil.rmtree(directory, ignore_errors=True)
    with Writer(directory, built_in().values()) as writer:
        with parquet.engine(memory="2GB") as con:
            con.execute("SET enable_progress_bar = false")
            for source in (*built_in().values(), *OWN):
                _past(writer, con, source, days)
                say(f"{source.name}: {_taken(writer, source):.1f} MB")
            _today(writer, con)
        compaction.compact(writer, NOW)
        _texts(writer)
    done.write_text(written)


def _generator(source: Source) -> Callable[[int, int], str]:
    if source is SAMPLES:
        return samples
    if source is EVENTS:
        return events
    return settings if source.name == "settings" else lambda begin, end: rows(source, begin, end)


def _past(writer: Writer, con: Engine, source: Source, days: int) -> None:
    """Write files of the days before today: rows while they are kept, summaries of all days."""
    generate = _generator(source)
    kept = min(days, int(source.keep // 86_400))
    for number in range(kept, 0, -1):
        begin = TODAY // MICRO - number * 86_400
        con.execute(f"CREATE OR REPLACE TABLE moved AS {generate(begin, begin + 86_400)}")
        if con.execute("SELECT count(*) FROM moved").fetchone() == (0,):
            continue
        at = begin * MICRO
        put(writer, con, source, source.name, "FROM moved", at)
        con.execute(f"CREATE OR REPLACE TABLE summary AS {summary_of(source, 'FROM moved')}")
        _put_summaries(writer, con, source, {source.name: "FROM moved"}, "FROM summary", at)
        if number % 31 == 0:
            compaction.compact(writer, at)
    if days > kept:
        _repeated(writer, con, source, days, kept)


def _put_summaries(
    writer: Writer, con: Engine, source: Source, rows: dict[str, str], summary: str, at: int
) -> None:
    """Write files of a source's summary, and of the further summaries that `rows` allow."""
    rollup = layout.rollup_view(source)
    rows = rows | {rollup: summary}
    put(writer, con, source, rollup, summary, at)
    for one in summaries.of_source(source.name):
        if one.of in rows:
            put(writer, con, source, one.view, one.query(rows[one.of]), at)


def _repeated(writer: Writer, con: Engine, source: Source, days: int, kept: int) -> None:
    """Write a file of summaries for each month before the first rows as sampled."""
    end = TODAY - kept * DAY
    week = (end - _WEEK * DAY) // MICRO
    con.execute(
        "CREATE OR REPLACE TABLE week AS "
        + summary_of(source, _generator(source)(week, week + _WEEK * 86_400))
    )
    view = layout.rollup_view(source)
    months: dict[str, list[int]] = {}
    for number in range(1, days - kept + 1):
        at = end - number * DAY
        months.setdefault(layout.month_of(view, at), []).append(at)
    for month in months.values():
        first, last = min(month), max(month) + DAY
        weeks = range((end - first) // (_WEEK * DAY) + 1)
        query = " UNION ALL ".join(
            f"SELECT * REPLACE (time - INTERVAL {_WEEK * back} DAY AS time) FROM week"
            for back in weeks
        )
        inside = (
            f"SELECT * FROM ({query}) AS w "
            f"WHERE time >= make_timestamp({first}) AND time < make_timestamp({last})"
        )
        con.execute(f"CREATE OR REPLACE TABLE summary AS {inside}")
        _put_summaries(writer, con, source, {}, "FROM summary", first)


def _today(writer: Writer, con: Engine) -> None:
    """Write the hours of today, and seal after each, as the recorder does."""
    everything = (*built_in().values(), *OWN)
    for begin in range(TODAY, NOW, HOUR):
        end = min(begin + HOUR, NOW)
        for source in everything:
            names = ", ".join(f'"{name}"' for name in layout.column_names(source)[1:])
            query = _generator(source)(begin // MICRO, end // MICRO)
            found = con.execute(
                f"SELECT epoch_us(time), {names} FROM ({query}) AS q ORDER BY time"
            ).fetchall()
            with writer.transaction():
                writer._insert(source, found)
        compaction.move_to_parquet(writer, end)
    with writer.transaction():
        writer.db.execute(
            "INSERT OR REPLACE INTO last_sample SELECT instance, source, max(time) "
            "FROM recent_samples GROUP BY 1, 2"
        )


def _texts(writer: Writer) -> None:
    texts = [
        (1_000_003 * (k + 1), f"SELECT a.*, b.total FROM table_{k % _TABLES} AS a "
         f"JOIN orders_{k} AS b ON b.id = a.order_id WHERE a.customer = $1 AND b.state = $2")
        for k in range(_STATEMENTS)
    ]  # fmt: skip
    with writer.transaction():
        writer.db.executemany("INSERT OR IGNORE INTO statement_text VALUES (?, ?)", texts)


def _taken(writer: Writer, source: Source) -> float:
    """Return the size of a source's files [MB]."""
    views = summaries.views_of(source)
    return sum(file.bytes for file in writer.files() if file.view in views) / 1e6


def described(directory: Path) -> Iterator[str]:
    """What the store holds."""
    with Writer(directory, built_in().values()) as writer:
        files = writer.files()
        hot = sum(
            writer.db.execute(f"SELECT count(*) FROM {layout.hot_table(source)}").fetchone()[0]
            for source in (*built_in().values(), *OWN)
        )
    yield (
        f"{len(files):,} files, {sum(file.bytes for file in files) / 1e6:,.0f} MB, "
        f"{sum(file.rows for file in files):,} rows; {hot:,} rows in SQLite"
    )
