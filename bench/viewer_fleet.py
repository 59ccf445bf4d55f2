"""How fast the viewer lists hundreds of instances: `make bench-fleet`.

A day of 300 instances is generated as their recorder leaves it at 10:40: the sources that the page
of all instances reads, at their intervals; two thirds of them servers whose host is sampled, with
one to two sessions at work, the others instances of RDS. Rows of the hours that are over lie in
files by their summaries alone, since the page reads no others.

The page is then asked for, as by the viewer: the first time; again while the store is open; and
after the store was closed, with five seconds of new rows in it. Printed is process CPU time, which
other work on the machine hardly changes, and the size of the answer.

    python bench/viewer_fleet.py --instances 30 --rounds 2      a quick look
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import msgspec
from history_mix import DAY, put, summary_of
from viewer_year import _BUSY, SHAPES, Shape, _noise, _value

from mrtuner.history.reading import open_history
from mrtuner.history.recording.managed import CLOUDWATCH
from mrtuner.history.recording.source import Source, built_in, parse
from mrtuner.history.store import compaction, layout, parquet, summaries
from mrtuner.history.store.lake import LocalLake
from mrtuner.history.store.layout import HOUR, MICRO
from mrtuner.history.store.own_sources import EVENTS, SAMPLES
from mrtuner.history.store.writer import Writer
from mrtuner.history.workspace import Workspace
from mrtuner.limits.recorded_ceilings import CEILINGS
from mrtuner.postgres.sql import OLDEST
from mrtuner.web.answers import fleet_answer

if TYPE_CHECKING:
    from mrtuner.history.store.parquet import Engine

#: 2026-11-24 10:40 UTC, and its hour.
NOW = (1_795_478_400 + 10 * 3600 + 40 * 60) * MICRO
THIS_HOUR = NOW // HOUR * HOUR
#: Every third instance is one of RDS.
_RDS = "i % 3 = 0"
_FACTS = {
    False: {
        "memory": "(8 + i % 5 * 8) * 1073741824::BIGINT", "cpus": "2 + i % 4 * 2",
        "kernel": "'6.1.0'", "architecture": "'x86_64'", "storage": "'ssd'",
        "disk_size": "536870912000", "disk_free": "300000000000 - s", "swap": "0",
    },
    True: {
        "identifier": "'shop-' || i", "class_name": "['db.r5.large', 'db.m6g.xlarge'][1 + i % 2]",
        "engine": "'postgres'", "engine_version": "'16.4'", "storage_type": "'gp3'",
        "allocated_storage": "500", "iops": "12000", "storage_throughput": "500",
    },
}  # fmt: skip


def _facts() -> Shape:
    """Return a row for each fact, depending on the kind of machine."""
    names, values = [], []
    for rds, facts in _FACTS.items():
        for place, (name, value) in enumerate(facts.items()):
            names.append(f"WHEN ({_RDS}) = {rds} AND k = {place} THEN '{name}'")
            values.append(f"WHEN ({_RDS}) = {rds} AND k = {place} THEN ({value})::VARCHAR")
    return Shape(
        rows=8,
        columns={
            "name": f"CASE {' '.join(names)} END", "value": f"CASE {' '.join(values)} END",
            "origin": "'read'",
        },
    )  # fmt: skip


#: How busy an instance is, compared with others.
_SIZE = "((hash(i) % 100) / 100.0)"
_SHAPES = SHAPES | {
    "sessions": Shape(
        rows=3, where=f"hash(k, s // 4, 2) % 1000 < 900 * {_BUSY}",
        columns=SHAPES["sessions"].columns,
    ),
    "machine": _facts(),
    "ceilings": Shape(rows=2, columns={
        "resource": "['write iops', 'read iops'][1 + k]", "part": "'cgroup'", "value": "20000.0",
        "origin": "'io.max'", "note": "NULL",
    }),
    "cloudwatch": Shape(columns={
        "cpu": f"100 * {_BUSY} * {_SIZE}", "read_iops": f"9000 * {_BUSY} * {_SIZE}",
        "write_iops": f"4000 * {_BUSY} * {_SIZE}", "free_memory": "4e9",
        "read_throughput": f"2e8 * {_BUSY} * {_SIZE} * {_noise(9)}",
        "write_throughput": f"6e7 * {_BUSY} * {_SIZE} * {_noise(10)}",
    }),
    "settings": Shape(rows=380, columns={
        "name": "'setting_' || k", "value": "t::VARCHAR", "unit": "NULL",
        "origin": "'configuration file'", "pending": "false",
    }),
}  # fmt: skip
#: Sources of which only summaries are written for hours that are over.
_SUMMARIZED = {"sessions", "samples", "host", "connections", "cloudwatch", "ages"}
#: Sources that only our own hosts have, or only those of RDS.
_WHERE = {"host": f"NOT ({_RDS})", "ceilings": f"NOT ({_RDS})", "cloudwatch": _RDS}


def recorded() -> list[Source]:
    """The sources of the store."""
    names = ("sessions", "connections", "ages", "host", "machine", "settings")
    return [
        *(built_in()[name] for name in names), CLOUDWATCH,
        parse("ceilings", {OLDEST: f"/*{CEILINGS.declaration}*/\n"}),
    ]  # fmt: skip


def say(text: str) -> None:
    """Print one line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def rows(source: Source, instances: int, begin: int, end: int) -> str:
    """Return a query for DuckDB: the rows of a source from one second to another.

    Each instance is sampled at its own second, and has its own time zone.
    """
    shape = _SHAPES.get(source.name, Shape())
    every = 60 if source is CLOUDWATCH else round(source.interval)
    columns = ", ".join(
        f"({shape.columns.get(column.name, _value(column.kind, column.type, place))})"
        f'::{layout.PARQUET[column.type]} AS "{column.name}"'
        for place, column in enumerate(source.columns)
    )
    return f"""SELECT make_timestamp((t + i % {every}) * {MICRO} + i % 50 * 20000) AS time,
                      'shop-' || i || ':5432' AS instance, {every}::DOUBLE AS seconds, {columns}
               FROM (SELECT i, k, t, t + i * 613 AS s
                     FROM range({instances}) AS a(i), range({shape.rows}) AS b(k),
                          range({begin}, {end}, {every}) AS c(t))
               WHERE ({shape.where}) AND ({_WHERE.get(source.name, "true")})"""


def samples(instances: int, begin: int, end: int) -> str:
    """Return a query for DuckDB: the samples taken of each source."""
    parts = []
    for source in recorded():
        every = round(source.interval)
        parts.append(
            f"""SELECT make_timestamp((t + i % {every}) * {MICRO} + i % 50 * 20000) AS time,
                       'shop-' || i || ':5432' AS instance, {every}::DOUBLE AS seconds,
                       '{source.name}' AS source, 1::BIGINT AS rows, 1.5::DOUBLE AS cost_ms
                FROM range({instances}) AS a(i), range({begin}, {end}, {every}) AS c(t)
                WHERE {_WHERE.get(source.name, "true")}"""
        )
    return " UNION ALL ".join(parts)


def _query(source: Source, instances: int, begin: int, end: int) -> str:
    if source is SAMPLES:
        return samples(instances, begin, end)
    if source is EVENTS:
        return f"""SELECT make_timestamp((t + i) * {MICRO}) AS time,
                          'shop-' || i || ':5432' AS instance, NULL::DOUBLE AS seconds,
                          'restart' AS kind, 'started' AS detail
                   FROM range({instances}) AS a(i), range({begin}, {end}, 3600) AS c(t)
                   WHERE hash(i, t) % 200 = 0"""
    query = rows(source, instances, begin, end)
    if source.name in {"settings", "ceilings"}:
        # First all rows, then only those that change.
        first = (NOW - DAY) // HOUR * HOUR
        return f"""SELECT * FROM ({query}) AS q
                   WHERE time < make_timestamp({first + MICRO} + {round(source.interval)} * {MICRO})
                      OR hash(instance, time) % 20000 = 0"""
    return query


def build(directory: Path, instances: int) -> None:
    """Write the store; where it is complete already, use it."""
    done = directory / "complete"
    if done.exists():
        return
    shutil.rmtree(directory, ignore_errors=True)
    with Writer(directory, recorded()) as writer, parquet.engine(memory="2GB") as con:
        con.execute("SET enable_progress_bar = false")
        for source in (*recorded(), SAMPLES, EVENTS):
            hours = range((NOW - DAY) // HOUR * HOUR, THIS_HOUR, HOUR)
            for hour in hours:
                # All hours of sessions are alike, and generating one takes seconds.
                at = hours[0] if source.name == "sessions" else hour
                if at == hour:
                    query = _query(source, instances, hour // MICRO, hour // MICRO + 3600)
                    con.execute(f"CREATE OR REPLACE TABLE moved AS {query}")
                _over(writer, con, source, hour, hour - at)
            add(writer, con, source, instances, THIS_HOUR, NOW)
            say(source.name)
        compaction.compact(writer, NOW)
    done.touch()


def _over(writer: Writer, con: Engine, source: Source, hour: int, later: int) -> None:
    """Write files of an hour that is over: summaries, and rows of sources that seldom change."""
    rows = f"SELECT * REPLACE (time + to_microseconds({later}) AS time) FROM moved"
    con.execute(f"CREATE OR REPLACE TABLE summary AS {summary_of(source, rows)}")
    views = {source.name: rows, layout.rollup_view(source): "FROM summary"}
    views |= {one.view: one.query(views[one.of]) for one in summaries.of_source(source.name)}
    if source.name in _SUMMARIZED:
        del views[source.name]
    for view, query in views.items():
        if con.execute(f"SELECT 1 FROM ({query}) LIMIT 1").fetchone() is not None:
            put(writer, con, source, view, query, hour)


def add(
    writer: Writer, con: Engine, source: Source, instances: int, begin: int, end: int
) -> None:  # fmt: skip
    """Insert rows that are in no file yet, in order of time."""
    names = ", ".join(f'"{name}"' for name in layout.column_names(source)[1:])
    query = _query(source, instances, begin // MICRO, end // MICRO)
    found = con.execute(f"SELECT epoch_us(time), {names} FROM ({query}) AS q ORDER BY time")
    with writer.transaction():
        writer._insert(source, found.fetchall())


def answers(directory: Path, instances: int, rounds: int) -> Iterator[tuple[str, float, bytes]]:
    """Yield what was requested, the CPU time of the answer [ms], and the answer."""
    lake = LocalLake(directory / layout.LAKE)
    with (
        closing(Workspace()) as work, Writer(directory, recorded()) as writer,
        parquet.engine() as con,
    ):  # fmt: skip
        for number in range(rounds):
            begin = time.process_time()
            with open_history(directory, lake, work=work) as history:
                for what in ("opened" if number else "first", "again"):
                    body = msgspec.json.encode(fleet_answer(history))
                    yield what, 1000 * (time.process_time() - begin), body
                    begin = time.process_time()
            last = NOW + 5 * number * MICRO
            for source in (*recorded(), SAMPLES, EVENTS):
                add(writer, con, source, instances, last, last + 5 * MICRO)


def main(arguments: Sequence[str]) -> int:
    """Generate the store where it is not there yet, and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keep", type=Path, help="where the store is, or is made")
    parser.add_argument("--instances", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=10, help="how often the store is opened")
    given = parser.parse_args(arguments)
    own = Path(__file__).parents[1] / ".cache" / f"viewer-fleet-{given.instances}"
    keep = given.keep or own
    build(keep, given.instances)
    found = list(answers(keep, given.instances, given.rounds))
    for what in dict.fromkeys(what for what, _, _ in found):
        times = [took for asked, took, _ in found if asked == what]
        say(f"{what}: {median(times):.0f} ms of CPU time, at most {max(times):.0f}")
    _, _, body = found[-1]
    say(f"{len(body):,} bytes, {len(gzip.compress(body)):,} as sent")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
