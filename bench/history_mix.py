"""Generated samples, the same in every run, and the fewest bytes that they can take.

Each value follows the time of day, with noise of up to a tenth that no format can predict:

    size × (1.2 + sin(time of day)) × (0.9 to 1.1), rounded; of statement k, divided by 1 + k

with sizes from 100 to 1,000,000. Counters are stored as their growth, as the recorder does it.
Times are those of a recorder: each instance has its own second of the minute, and is a few
milliseconds late each time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mrtuner.history.recording.source import Source, parse
from mrtuner.history.store import compaction, layout, parquet
from mrtuner.history.store.layout import HOUR, MICRO
from mrtuner.history.store.writer import Writer
from mrtuner.postgres.sql import OLDEST

if TYPE_CHECKING:
    from mrtuner.history.store.parquet import Engine

#: 2026-01-01 00:00 UTC.
BEGIN = 1_767_225_600 * MICRO
MINUTE = 60 * MICRO
DAY = 24 * HOUR
#: Minutes of a day.
MINUTES = 1440
STATEMENTS = 20
#: Levels of the noise: so many that rounding to a whole number hides them.
_LEVELS = 1_000_003


def source(name: str, key: str, counters: int, gauges: int) -> Source:
    """Return a source with that many columns, like a source of a statistics view."""
    lines = [f'/*\nhelp = "generated"\ninterval = "1min"\nkeep = "400d"\n{key}\n[counters]']
    lines += [f'c{n} = {{ help = "a counter" }}' for n in range(counters)]
    lines += ["[gauges]", *(f'g{n} = {{ help = "a gauge" }}' for n in range(gauges)), "*/ SELECT"]
    return parse(name, {OLDEST: "\n".join(lines)})


#: 12 values of an instance each minute; 8 counters of each of 20 statements.
INSTANCE = source("instance_mix", "", counters=8, gauges=4)
STATEMENT = source("statement_mix", '[keys]\nquery_id = { type = "integer", help = "x" }', 8, 0)


def keys_of(of: Source) -> int:
    """Return how many rows an instance has per minute."""
    return STATEMENTS if of is STATEMENT else 1


def size_of(place: int) -> int:
    """Return the size of the values of the column in this place."""
    size: int = 10 ** (2 + place % 5)
    return size


def generated(of: Source, instances: int, first: int, last: int, each: int = 1) -> str:
    """Return a query for DuckDB: the rows of these minutes since BEGIN.

    A statement runs in one of `each` minutes; its rows of the other minutes are left out.
    """
    columns = []
    for place, column in enumerate(of.columns):
        if column.name == "query_id":
            columns.append("1000003 * (k + 1) AS query_id")
            continue
        noise = f"(0.9 + 0.2 * (hash(i, k, m, {place}) % {_LEVELS}) / {_LEVELS})"
        day = f"(1.2 + sin(2 * pi() * (m % {MINUTES}) / {MINUTES}))"
        columns.append(f'({size_of(place)} * {day} * {noise} / (1 + k))::BIGINT AS "{column.name}"')
    at = f"({BEGIN} + m * {MINUTE} + (hash(i) % 60)::BIGINT * {MICRO} + {_late('m')})"
    step = layout.RESOLUTION
    return f"""SELECT make_timestamp({at} // {step} * {step}) AS time,
                      'instance-' || i AS instance,
                      round(60 + ({_late("m")} - {_late("m - 1")}) / 1e6, 2) AS seconds,
                      {", ".join(columns)}
               FROM range({instances}) AS a(i), range({keys_of(of)}) AS b(k),
                    range({first}, {last}) AS c(m)
               WHERE hash(k, m, i) % {each} = 0"""


def _late(minute: str) -> str:
    """Return SQL of how late a sample is [µs]: 0 to 20 ms, mostly near 10, as on a busy machine."""
    return f"((hash(i, {minute}) % 10000)::BIGINT + (hash({minute}, i) % 10000)::BIGINT)"


def floor(of: Source) -> float:
    """Return the average bits of chance in a value: no format needs fewer, even with the formula.

    A value between a and b is one of b - a whole numbers, all equally likely. Where these are few,
    it matters that the two at the ends are less likely.
    """
    counted = [place for place, column in enumerate(of.columns) if column.name != "query_id"]
    bits = [
        _entropy(size_of(place) * (1.2 + math.sin(2 * math.pi * minute / MINUTES)) / (1 + key))
        for place in counted
        for key in range(keys_of(of))
        for minute in range(0, MINUTES, 10)
    ]
    return sum(bits) / len(bits)


def _entropy(middle: float) -> float:
    low, high = 0.9 * middle, 1.1 * middle
    if high - low > 100:
        return math.log2(high - low)
    shares = (
        (min(high, whole + 0.5) - max(low, whole - 0.5)) / (high - low)
        for whole in range(round(low), round(high) + 1)
    )
    return -sum(share * math.log2(share) for share in shares if share > 0)


# A store with such samples, as compaction leaves it.


def fill(
    writer: Writer,
    con: Engine,
    of: Source,
    instances: int,
    days: int,
    *,
    summaries: bool = True,
    each: int = 1,
) -> None:
    """Write a file for each day, with its summary, and add them to the list of files."""
    for day in range(days):
        con.execute(
            "CREATE OR REPLACE TABLE moved AS "
            + generated(of, instances, day * MINUTES, (day + 1) * MINUTES, each)
        )
        views = [(of.name, "FROM moved")]
        if summaries:
            views.append((layout.rollup_view(of), summary_of(of, "FROM moved")))
        for view, query in views:
            put(writer, con, of, view, query, BEGIN + day * DAY)


def summary_of(of: Source, rows: str) -> str:
    """Return the query that summarizes rows by hour."""
    return parquet.rollup(
        rows, of.rollup_by, layout.step(of.rollup), dict(layout.rollup_columns(of))
    )


def put(writer: Writer, con: Engine, of: Source, view: str, query: str, at: int) -> None:
    """Write one file of a store, and add it to the list of files."""
    lake = writer.directory / layout.LAKE
    number = compaction._next_number(writer)
    path = f"{layout.partition_of(view, at)}/{number:08}-{writer.id}.parquet"
    compaction.write(con, query, lake, path, of, view)
    file = parquet.described(con, lake, path, number=number, view=view)
    compaction.adopt(writer, [file], [])


def compact(writer: Writer) -> None:
    """Merge files, as the recorder does after the end of a month."""
    compaction.compact(writer, BEGIN + 400 * DAY)


def rows_of(writer: Writer, view: str) -> int:
    """How many rows the files of a view have."""
    return sum(file.rows for file in writer.files() if file.view == view)


def values_of(of: Source) -> int:
    """Return how many values a row has."""
    return sum(column.name != "query_id" for column in of.columns)


def bytes_of(writer: Writer, view: str) -> int:
    """Return the bytes of a view's files."""
    return sum(file.bytes for file in writer.files() if file.view == view)


def paths_of(writer: Writer, view: str) -> Iterator[Path]:
    """Yield the paths of a view's files."""
    for file in writer.files():
        if file.view == view:
            yield writer.directory / layout.LAKE / file.path
