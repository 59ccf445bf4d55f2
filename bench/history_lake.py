"""A lake of many instances and days, and typical queries of a fleet."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from history_mix import BEGIN, DAY, INSTANCE, bytes_of, compact, fill, values_of

from mrtuner.history.store import layout, parquet
from mrtuner.history.store.writer import Writer

Say = Callable[[str], None]
Asked = Callable[[Path, str, str], None]
#: More than the bytes of a day of an instance's rows and their summary.
_ROOM = 60_000


def build_and_ask(instances: int, days: int, keep: Path | None, say: Say, asked: Asked) -> None:
    """Build the lake, or use the one in `keep`, and time the queries."""
    with TemporaryDirectory() as name:
        directory = keep or Path(name)
        if not (directory / layout.DATABASE).exists():
            room = shutil.disk_usage(directory.parent if keep else directory).free
            if room < instances * days * _ROOM:
                raise SystemExit(f"{instances * days * _ROOM / 1e9:.0f} GB are needed for the lake")
            _build(directory, instances, days, say)
        _ask(directory, instances, days, asked)


def _build(directory: Path, instances: int, days: int, say: Say) -> None:
    begin = time.perf_counter()
    with Writer(directory, [INSTANCE]) as writer:
        with parquet.engine(memory="2GB") as con:
            fill(writer, con, INSTANCE, instances, days)
        compact(writer)
        rows, summaries = (
            bytes_of(writer, view) for view in (INSTANCE.name, layout.rollup_view(INSTANCE))
        )
        files = len(writer.files())
    samples = instances * days * 1440 * values_of(INSTANCE)
    say(
        f"{instances:,} instances, {days} days, {values_of(INSTANCE)} values a minute: "
        f"{samples:,} samples, {rows / 1e9:.2f} GB of rows ({rows / samples:.2f} bytes a sample), "
        f"{summaries / 1e9:.2f} GB of summaries by hour, {files} files; "
        f"written in {time.perf_counter() - begin:.0f} s"
    )


def _ask(directory: Path, instances: int, days: int, asked: Asked) -> None:
    one = f"instance = 'instance-{instances // 2}'"
    by_hour = "SELECT time_bucket(INTERVAL 1 HOUR, time) AS hour, sum(c0), max(g0)"
    since = f"time >= make_timestamp({BEGIN + (days - 30) * DAY})"
    of = f"of {instances:,} instances"
    asked(
        directory, f"one {of}, 30 days by hour, from rows",
        f"{by_hour} FROM instance_mix WHERE {one} AND {since} GROUP BY 1 ORDER BY 1",
    )  # fmt: skip
    asked(
        directory, f"one {of}, {days} days, all rows",
        f"SELECT count(*), sum(c0), max(g0) FROM instance_mix WHERE {one}",
    )  # fmt: skip
    for length in (1, 7):
        asked(
            directory, f"the maximum of each {of}, {length} days, from rows",
            "SELECT instance, max(g0) FROM instance_mix "
            f"WHERE time >= make_timestamp({BEGIN + (days - length) * DAY}) GROUP BY 1",
        )  # fmt: skip
    asked(
        directory, f"one {of}, {days} days by hour, from summaries",
        f"SELECT time, c0, g0_max FROM instance_mix_by_hour WHERE {one} ORDER BY time",
    )  # fmt: skip
    asked(
        directory, f"the maximum of each {of}, {days} days, from summaries",
        "SELECT instance, max(g0_max) FROM instance_mix_by_hour GROUP BY 1",
    )  # fmt: skip
