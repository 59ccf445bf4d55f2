"""What the history takes on disk and how fast it answers: `make bench-history`, or:

    python bench/history.py size          bytes a sample, beside SQLite
    python bench/history.py seal          an hour of 1,000 instances into a file
    python bench/history.py year          a year of one instance, and of 1,000

The samples are generated, the same in every run: values that follow the day, with noise; counters
as their growth, as the recorder stores them. The code of the store writes and reads everything.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from mrtuner.history.source import OLDEST, Source, parse
from mrtuner.history.store import layout, parquet, sealing
from mrtuner.history.store.layout import HOUR, MICRO
from mrtuner.history.store.writer import Writer

if TYPE_CHECKING:
    from mrtuner.history.store.parquet import Engine

#: 2026-01-01 00:00 UTC.
BEGIN = 1_767_225_600 * MICRO
MINUTE = 60 * MICRO
DAY = 24 * HOUR


def source(name: str, key: str, counters: int, gauges: int) -> Source:
    """A source with so many columns, such as a view of a server has."""
    lines = [f'/*\nhelp = "generated"\ninterval = "1min"\n{key}\n[counters]']
    lines += [f'c{n} = {{ help = "a counter" }}' for n in range(counters)]
    lines += ["[gauges]", *(f'g{n} = {{ help = "a gauge" }}' for n in range(gauges)), "*/ SELECT"]
    return parse(name, {OLDEST: "\n".join(lines)})


#: 12 values of an instance each minute; 8 counters of a statement.
INSTANCE = source("instance_mix", "", counters=8, gauges=4)
STATEMENT = source("statement_mix", '[keys]\nquery_id = { type = "integer", help = "x" }', 8, 0)


def generated(of: Source, instances: int, begin: int, minutes: int, keys: int = 1) -> str:
    """A query for DuckDB: each value follows the day, with noise of a tenth.

    Counters of a statement are zero most of the time, and such rows are left out, as the recorder
    does.
    """
    day = "(1.2 + sin(2 * pi() * (m % 1440) / 1440))"
    columns = []
    for place, column in enumerate(of.columns):
        if column.name == "query_id":
            columns.append("1000003 * k AS query_id")
            continue
        noise = f"(0.9 + 0.2 * (hash(i, k, m, {place}) % 1000) / 1000)"
        size = 10 ** (2 + place % 5)
        columns.append(f'(({size} * {day} * {noise}) / (1 + k))::BIGINT AS "{column.name}"')
    ran = "hash(i, k, m) % 8 = 0" if keys > 1 else "true"
    return f"""SELECT make_timestamp({begin} + m * {MINUTE}) AS time, 'instance-' || i AS instance,
                      60.0::DOUBLE AS seconds, {", ".join(columns)}
               FROM range({instances}) AS a(i), range({keys}) AS b(k), range({minutes}) AS c(m)
               WHERE {ran}"""


def write_days(
    con: Engine, lake: Path, of: Source, instances: int, days: int, keys: int = 1
) -> int:
    """Write a file a day, as sealing does, and return the bytes."""
    total = 0
    for day in range(days):
        query = generated(of, instances, BEGIN + day * DAY, 1440, keys)
        path = f"{layout.partition_of(of.name, BEGIN + day * DAY)}/{day:08}.parquet"
        parquet.write(con, query, lake, path, sealing.order_of(of))
        total += (lake / path).stat().st_size
    return total


def size() -> None:
    """20 instances with 12 values a minute for 30 days; 20 statements with 8 values for 2 days."""
    with tempfile.TemporaryDirectory() as name, parquet.engine(memory="2GB") as con:
        lake = Path(name)
        instance_bytes = write_days(con, lake, INSTANCE, 20, 30)
        statement_bytes = write_days(con, lake, STATEMENT, 20, 2, keys=20)
        counts = [
            con.execute(
                f"SELECT count(*) FROM read_parquet('{lake}/{of.name}/*/*.parquet')"
            ).fetchone()
            for of in (INSTANCE, STATEMENT)
        ]
        samples = [(count or (0,))[0] * width for count, width in zip(counts, (12, 8), strict=True)]
        hot = sqlite_bytes(con, lake)
    told("instance values", samples[0], instance_bytes)
    told("statement values, with their identifiers", samples[1], statement_bytes)
    told("together", sum(samples), instance_bytes + statement_bytes)
    told("the instance values in SQLite, as recorded", samples[0], hot)


def sqlite_bytes(con: Engine, lake: Path) -> int:
    """The same rows of instances in SQLite, in a table as the recorder's."""
    path = lake / "rows.sqlite"
    with sqlite3.connect(path) as db:
        db.execute(layout.create_table(INSTANCE))
        marks = ", ".join("?" * len(layout.column_names(INSTANCE)))
        found = con.execute(
            f"SELECT * REPLACE (epoch_us(time) AS time) "
            f"FROM read_parquet('{lake}/{INSTANCE.name}/*/*.parquet', hive_partitioning = false) "
            "ORDER BY time"
        )
        while rows := found.fetchmany(50_000):
            db.executemany(f"INSERT INTO {layout.hot_table(INSTANCE)} VALUES ({marks})", rows)
    db.close()
    return path.stat().st_size


def told(what: str, samples: int, size: int) -> None:
    """One line of the answer."""
    sys.stdout.write(f"{what}: {samples:,} samples, {size / samples:.2f} bytes each\n")


def seal() -> None:
    """An hour of 1,000 instances, one row a minute, from SQLite into a file and its summary."""
    took = []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as name, Writer(Path(name), [INSTANCE]) as writer:
            with parquet.engine() as con:
                samples = generated(INSTANCE, 1000, BEGIN, 60)
                rows = con.execute(
                    f"SELECT * REPLACE (epoch_us(time) AS time) FROM ({samples})"
                ).fetchall()
            with writer.transaction():
                writer._insert(INSTANCE, rows)
            begin = time.perf_counter()
            moved = sealing.seal(writer, BEGIN + 2 * HOUR)
            took.append(time.perf_counter() - begin)
            assert moved == 60_000
    sys.stdout.write(f"60,000 rows: median {median(took):.2f} s, slowest {max(took):.2f} s\n")


def year() -> None:
    """A year of one instance by hour, and the maximum of 1,000 instances from their summaries."""
    with tempfile.TemporaryDirectory() as name, parquet.engine(memory="2GB") as con:
        lake = Path(name)
        write_days(con, lake, INSTANCE, 1, 365)
        one = timed(lambda: con.execute(
            f"""SELECT time_bucket(INTERVAL 1 HOUR, time) AS hour, sum(c0), max(g0)
                FROM read_parquet('{lake}/{INSTANCE.name}/*/*.parquet') GROUP BY 1"""
        ).fetchall())  # fmt: skip
        fleet = fleet_lake(con, lake)
        most = timed(lambda: con.execute(
            f"SELECT instance, max(g0_max) FROM read_parquet('{fleet}/*/*.parquet') GROUP BY 1"
        ).fetchall())  # fmt: skip
    sys.stdout.write(f"a year of one instance at one hour: {one}\n")
    sys.stdout.write(f"the maximum of 1,000 instances over a year of summaries: {most}\n")


def fleet_lake(con: Engine, lake: Path) -> Path:
    """Summaries by hour of 1,000 instances for a year, a file a month."""
    view = layout.rollup_view(INSTANCE)
    day = "(1.2 + sin(2 * pi() * (h % 24) / 24))"
    for month in range(12):
        begin = BEGIN + month * 30 * DAY
        query = f"""SELECT make_timestamp({begin} + h * {HOUR}) AS time,
                           'instance-' || i AS instance,
                           (1000 * {day} * (hash(i, h) % 100))::BIGINT AS g0_max,
                           (900 * {day} * (hash(i, h) % 100))::BIGINT AS g0_min
                    FROM range(1000) AS a(i), range(720) AS c(h)"""
        path = f"{layout.partition_of(view, begin)}/{month:08}.parquet"
        parquet.write(con, query, lake, path, ("instance", "time"))
    return lake / view


def timed(action: Callable[[], object]) -> str:
    """Median and slowest of eleven runs after a first one."""
    action()
    took = []
    for _ in range(11):
        begin = time.perf_counter()
        action()
        took.append(1000 * (time.perf_counter() - begin))
    return f"median {median(took):.0f} ms, slowest {max(took):.0f} ms"


def main(arguments: Sequence[str]) -> int:
    """Run what is named, or all."""
    known: dict[str, Callable[[], None]] = {"size": size, "seal": seal, "year": year}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", nargs="*", choices=[*known, []], default=list(known))
    for name in parser.parse_args(arguments).what:
        known[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
