"""What autovacuum needs, from rates that were measured, recorded or counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.answers.recorded import remembered
from mrtuner.errors import UsageError
from mrtuner.units import parse_duration

if TYPE_CHECKING:
    from mrtuner.history.analysis.period import HistoryPeriod
    from mrtuner.history.reading import History
    from mrtuner.vacuum import Vacuum
    from mrtuner.vacuum.model import Rates

#: How far back a history is searched [s]: a week has every kind of day.
WEEK: Final = 7 * 86_400.0


def vacuum(
    dsn: str,
    *,
    watch: float | str | None = None,
    history: Path | str | None = None,
    instance: str | None = None,
    sample: Sequence[str] = (),
    long: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Vacuum:
    """Advise autovacuum settings for the database at `dsn`, and find what blocks vacuum.

    Rates are measured over a `watch` [s, or a text such as ``"15min"``], or are those of each
    table's busiest day in a `history` (of the server `instance`), else averages since the last
    reset of statistics. Only reads, and locks no tables but those in `sample`, written as in SQL:
    rows of these with large values are read and compared before and after the watch. Sessions and
    prepared transactions older than `long` [s] are reported.

    Raises:
        ConnectError: the server cannot be read.
        UsageError: a watch with a history, no such history, or a table that cannot be read.
    """
    from mrtuner.vacuum import Thresholds
    from mrtuner.vacuum import vacuum as of_server

    if watch is not None and history is not None:
        raise UsageError("--history and --watch cannot be used together", "Omit one of them.")
    recorded = None
    if history is not None:
        with remembered(history, instance, since=WEEK) as (opened, about):
            recorded = busiest_rates(opened, about)
    return of_server(
        dsn,
        watch=None if watch is None else parse_duration(watch),
        sample=sample,
        sleep=sleep,
        thresholds=Thresholds() if long is None else Thresholds(long=long, working=long),
        recorded=recorded,
    )


def busiest_rates(history: History, about: HistoryPeriod) -> Mapping[tuple[str, int], Rates]:
    """Return the rates of each table's busiest day of a period, by database and oid.

    Raises:
        UsageError: tables were not recorded.
    """
    from dataclasses import asdict

    from mrtuner.history.analysis.busiest_day import busiest_days
    from mrtuner.vacuum.rates import of_counts

    days = busiest_days(history, about)
    return {table: of_counts(**asdict(day)) for table, day in days.items()}
