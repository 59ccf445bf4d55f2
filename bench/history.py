"""What the history takes on disk and how fast it answers: `make bench-history`, or one part:

    python bench/history.py size          bytes a sample, on the mix of values described below
    python bench/history.py beside        the same samples in SQLite, Prometheus, VictoriaMetrics
    python bench/history.py real          bytes a value of a server that is recorded
    python bench/history.py seal          an hour of 1,000 instances into a file
    python bench/history.py year          a year of one instance, and of 1,000
    python bench/history.py lake          questions to a lake of many instances and a year
    python bench/history.py recorder      what one recorder of many instances takes

The mix: 20 instances with 12 values a minute for 30 days, and 8 counters of each of 20 statements,
all of which run in every minute, for 2 days: 19,584,000 samples. The values are generated, the same
in every run (`bench/history_mix.py`). The code of the store writes and reads everything.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import history_beside as beside_it
import history_lake
import history_live
from history_mix import (
    BEGIN,
    DAY,
    INSTANCE,
    MINUTES,
    STATEMENT,
    bytes_of,
    compact,
    fill,
    floor,
    generated,
    keys_of,
    put,
    rows_of,
    size_of,
    values_of,
)

from mrtuner.history.reading import open_history
from mrtuner.history.store import compaction, layout, parquet
from mrtuner.history.store.layout import HOUR
from mrtuner.history.store.writer import Writer

if TYPE_CHECKING:
    from mrtuner.history.store.parquet import Engine

_DAYS = ((INSTANCE, 30), (STATEMENT, 2))


def say(text: str) -> None:
    """Print one line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def samples_of(instances: int) -> int:
    """Return how many samples the mix has."""
    return sum(
        instances * keys_of(of) * values_of(of) * days * MINUTES for of, days in _DAYS
    )  # fmt: skip


def size(_: argparse.Namespace) -> None:
    """The mix as compaction leaves it, in daily files, and in monthly files, beside the floor."""
    with TemporaryDirectory() as name, Writer(Path(name), [INSTANCE, STATEMENT]) as writer:
        with parquet.engine(memory="2GB") as con:
            for of, days in _DAYS:
                fill(writer, con, of, 20, days, summaries=False)
        for what in ("a file a day", "after months were merged"):
            total = chance = 0.0
            for of, days in _DAYS:
                count = 20 * keys_of(of) * values_of(of) * days * MINUTES
                taken = bytes_of(writer, of.name)
                total += taken
                chance += count * floor(of) / 8
                say(
                    f"{of.name}, {what}: {count:,} samples, {taken / count:.2f} bytes each; "
                    f"of these, {floor(of) / 8:.2f} are chance"
                )
            count = samples_of(20)
            say(
                f"together, {what}: {count:,} samples, {total / count:.2f} bytes each; "
                f"of these, {chance / count:.2f} are chance"
            )
            compact(writer)
    seldom()


def seldom() -> None:
    """Statements that run in one of eight minutes: their rows of the other minutes are left out."""
    with TemporaryDirectory() as name, Writer(Path(name), [STATEMENT]) as writer:
        with parquet.engine(memory="2GB") as con:
            fill(writer, con, STATEMENT, 20, 2, summaries=False, each=8)
        taken = bytes_of(writer, STATEMENT.name)
        stored = rows_of(writer, STATEMENT.name) * values_of(STATEMENT)
        count = 20 * keys_of(STATEMENT) * values_of(STATEMENT) * 2 * MINUTES
        say(
            f"statement_mix, each in one minute of eight: {stored:,} values stored, "
            f"{taken / stored:.2f} bytes each; of {count:,} samples, {taken / count:.2f} each"
        )


def beside(given: argparse.Namespace) -> None:
    """The mix of fewer instances, in the history and in other stores."""
    count = samples_of(given.few)
    with TemporaryDirectory() as name, parquet.engine(memory="2GB") as con:
        scratch = Path(name)
        with Writer(scratch / "history", [INSTANCE, STATEMENT]) as writer:
            for of, days in _DAYS:
                fill(writer, con, of, given.few, days, summaries=False)
            compact(writer)
            stores: dict[str, Callable[[Engine, Writer, Path, bool], int | None]] = {
                "the history": beside_it.history,
                "VictoriaMetrics, after a forced merge": beside_it.victoria,
                "Prometheus, blocks by promtool": beside_it.prometheus,
                "SQLite, a row a sample, as recorded": beside_it.sqlite_wide,
                "SQLite, a row a value": beside_it.sqlite_narrow,
            }
            say(f"{count:,} samples of {given.few} instances; bytes each")
            say("| Store | times as recorded | exact minutes |")
            for what, measure in stores.items():
                taken = [measure(con, writer, scratch, exact) for exact in (False, True)]
                cells = ("" if one is None else f"{one / count:.2f}" for one in taken)
                missing = "" if taken[0] else " (skipped: not installed)"
                say(f"| {what}{missing} | {' | '.join(cells)} |")


def seal(_: argparse.Namespace) -> None:
    """An hour of 1,000 instances, one row a minute, from SQLite into a file and its summary."""
    took = []
    with parquet.engine() as con:
        rows = con.execute(
            f"SELECT * REPLACE (epoch_us(time) AS time) "
            f"FROM ({generated(INSTANCE, 1000, 0, 60)}) ORDER BY time"
        ).fetchall()
    for _round in range(5):
        with TemporaryDirectory() as name, Writer(Path(name), [INSTANCE]) as writer:
            with writer.transaction():
                writer._insert(INSTANCE, rows)
            begin = time.perf_counter()
            moved = compaction.move_to_parquet(writer, BEGIN + 2 * HOUR)
            took.append(time.perf_counter() - begin)
            if moved != len(rows):
                raise SystemExit(f"{moved:,} of {len(rows):,} rows were moved")
    say(
        f"{len(rows):,} rows of {values_of(INSTANCE)} values: "
        f"median {median(took):.2f} s, slowest {max(took):.2f} s"
    )


def year(_: argparse.Namespace) -> None:
    """A year of one instance by hour, and the maximum of 1,000 instances from their summaries."""
    by_hour = (
        "SELECT time, c0, c0_peak, g0_max FROM instance_mix_by_hour "
        "WHERE instance = 'instance-0' ORDER BY time"
    )
    from_rows = (
        "SELECT time_bucket(INTERVAL 1 HOUR, time) AS hour, sum(c0), max(c0 / seconds), max(g0) "
        "FROM instance_mix WHERE instance = 'instance-0' GROUP BY 1 ORDER BY 1"
    )
    with TemporaryDirectory() as name:
        directory = Path(name)
        with Writer(directory, [INSTANCE]) as writer, parquet.engine(memory="2GB") as con:
            fill(writer, con, INSTANCE, 1, 365)
        asked(directory, "one instance by hour, from rows, a file a day", from_rows)
        with Writer(directory, [INSTANCE]) as writer:
            compact(writer)
        asked(directory, "one instance by hour, from rows, a file a month", from_rows)
        asked(directory, "one instance by hour, from summaries", by_hour)
    with TemporaryDirectory() as name:
        directory = Path(name)
        with Writer(directory, [INSTANCE]) as writer, parquet.engine(memory="4GB") as con:
            fleet_summaries(writer, con, 1000)
        asked(
            directory, "the maximum of each of 1,000 instances, from summaries",
            "SELECT instance, max(g0_max) FROM instance_mix_by_hour GROUP BY 1",
        )  # fmt: skip


def fleet_summaries(writer: Writer, con: Engine, instances: int) -> None:
    """Write hourly summaries of a year, a file per month; all columns have the noise of the mix."""
    view = layout.rollup_view(INSTANCE)
    columns = []
    for place, (name, _sql) in enumerate(layout.rollup_columns(INSTANCE)):
        exact = f"({size_of(place)} * 60.0 * (0.9 + 0.2 * (hash(i, h, {place}) % 1000003) / 1e6))"
        real = name.endswith(("_peak", "_avg"))
        columns.append(f'{exact if real else f"{exact}::BIGINT"} AS "{name}"')
    for month in range(12):
        begin = month * 30 * 24
        query = f"""SELECT make_timestamp({BEGIN} + h * {HOUR}) AS time,
                           'instance-' || i AS instance, 3600.0::DOUBLE AS seconds, 60 AS samples,
                           {", ".join(columns)}
                    FROM range({instances}) AS a(i), range({begin}, {begin + 30 * 24}) AS b(h)"""
        put(writer, con, INSTANCE, view, query, BEGIN + month * 30 * DAY)


def asked(directory: Path, what: str, sql: str) -> None:
    """Print how long a query takes in an open history, and when the history is opened first."""
    with open_history(directory) as history:
        again = timed(lambda: history.table(sql))
        rows = len(history.table(sql)[1])
    first = timed(lambda: _opened(directory, sql))
    say(f"{what}: {again}; with opening the history, {first} ({rows:,} rows)")


def _opened(directory: Path, sql: str) -> None:
    with open_history(directory) as history:
        history.table(sql)


def timed(action: Callable[[], object]) -> str:
    """Return median and slowest of eleven runs, after one that is not counted."""
    action()
    took = []
    for _ in range(11):
        begin = time.perf_counter()
        action()
        took.append(1000 * (time.perf_counter() - begin))
    return f"median {median(took):.0f} ms, slowest {max(took):.0f} ms"


def lake(given: argparse.Namespace) -> None:
    """Queries of many instances and days."""
    history_lake.build_and_ask(given.instances, given.days, given.keep, say, asked)


def real(given: argparse.Namespace) -> None:
    """A server that is recorded."""
    history_live.real(given.long, say)


def recorder(given: argparse.Namespace) -> None:
    """One recorder of many instances."""
    history_live.recorder(given.fleet, given.seconds, say)


def main(arguments: Sequence[str]) -> int:
    """Run what is named, or all."""
    known: dict[str, Callable[[argparse.Namespace], None]] = {
        "size": size, "beside": beside, "real": real, "seal": seal, "year": year, "lake": lake,
        "recorder": recorder,
    }  # fmt: skip
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", nargs="*", choices=[*known, []], default=list(known))
    parser.add_argument("--few", type=int, default=2, help="beside: instances of the mix")
    parser.add_argument("--instances", type=int, default=100, help="lake: how many")
    parser.add_argument("--days", type=int, default=365, help="lake: how long")
    parser.add_argument("--keep", type=Path, help="lake: build it here, or use what is here")
    parser.add_argument(
        "--fleet", type=int, nargs="+", default=[100, 500], help="recorder: numbers of instances"
    )
    parser.add_argument("--seconds", type=int, default=30, help="recorder: half of the time")
    parser.add_argument("--long", type=int, default=100, help="real: seconds")
    given = parser.parse_args(arguments)
    for name in given.what:
        say(f"\n{name}")
        known[name](given)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
