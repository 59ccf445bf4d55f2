"""What happened to a recorded server, how two periods differ, and SQL on what was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrtuner import extras
from mrtuner.units import parse_duration

if TYPE_CHECKING:
    from mrtuner.history.analysis.period import HistoryPeriod
    from mrtuner.history.document import HistoryComparison, HistoryRows, HistorySummary
    from mrtuner.history.query_part import Part
    from mrtuner.history.reading import History


def history(
    directory: Path | str | None = None,
    *,
    instance: str | None = None,
    since: float | str = "1h",
    until: datetime | None = None,
    cpus: int | None = None,
    top: int = 10,
) -> HistorySummary:
    """Summarise a period: load by wait class, statements, checkpoints, the busiest minute, changes.

    `directory` is where ``mrtuner record`` wrote, by default its own place. The period is the last
    `since` [s, or a text such as ``"6h"``] before `until`, by default the last sample; it begins no
    earlier than the first. `cpus` is what the server can use if that was not recorded; `top` limits
    the statements.

    Raises:
        UsageError: there is no such history or instance.
        MissingPart: DuckDB is not installed.
    """
    with _opened(directory) as opened:
        from mrtuner.history.analysis.period import period, since_recorded

        found = period(opened, instance, since=parse_duration(since), until=until)
        return _summary(opened, since_recorded(opened, found), top=top, cpus=cpus)


def compare_periods(
    before: datetime,
    after: datetime,
    directory: Path | str | None = None,
    *,
    length: float | str = "1h",
    instance: str | None = None,
    cpus: int | None = None,
    top: int = 10,
) -> HistoryComparison:
    """Compare two periods of the same length [s, or a text such as ``"6h"``], by their beginnings.

    Statements are matched by their texts. The other arguments are those of `history`.

    Raises:
        UsageError: there is no such history or instance, or nothing was recorded in a period.
        MissingPart: DuckDB is not installed.
    """
    seconds = parse_duration(length)
    with _opened(directory) as opened:
        from mrtuner.history.analysis.coverage import require_recorded
        from mrtuner.history.analysis.period import period
        from mrtuner.history.analysis.statements import statement_changes
        from mrtuner.history.document import HistoryComparison

        first, second = (
            period(opened, instance, since=seconds, until=begin + timedelta(seconds=seconds))
            for begin in (before, after)
        )
        for one in (first, second):
            require_recorded(opened, one)
        return HistoryComparison(
            before=_summary(opened, first, cpus=cpus),
            after=_summary(opened, second, cpus=cpus),
            statements=statement_changes(opened, first, second, top=top),
        )


@contextmanager
def _opened(directory: Path | str | None) -> Iterator[History]:
    extras.require("duckdb")
    from mrtuner.history.directory import history_directory
    from mrtuner.history.reading import open_history

    place = history_directory(None if directory is None else Path(directory))
    with open_history(place) as history:
        yield history


def _summary(
    history: History, about: HistoryPeriod, *, cpus: int | None, top: int = 10
) -> HistorySummary:
    from mrtuner.answers.incidents import incidents, not_looked_for
    from mrtuner.history.analysis.happened import summary

    return summary(
        history, about, top=top, cpus=cpus,
        incidents=incidents(history, about), not_looked_for=not_looked_for(history, about),
    )  # fmt: skip


def query(
    sql: str, directory: Path | str | None = None, *, part: Part | None = None
) -> HistoryRows:
    """Run one SELECT, or EXPLAIN of one, on a history, in DuckDB's dialect.

    It can read the history and nothing else. With `part`, it has a limit of time and of rows, and
    long texts are cut.

    Raises:
        UsageError: there is no such history, or it is another statement.
        BadValue: DuckDB refuses it, or it took too long.
        MissingPart: DuckDB is not installed.
    """
    from mrtuner.history.document import HistoryRows

    with _opened(directory) as history:
        history.require_query(sql)
        history.provide(sql)
        history.lock()
        columns, rows = history.table(sql) if part is None else history.part(sql, part)
        damaged = tuple(map(str, history.damaged))
    return HistoryRows(columns=list(columns), rows=[_plain(row) for row in rows], damaged=damaged)


def history_views(view: str | None = None, directory: Path | str | None = None) -> HistoryRows:
    """Return the views of a history with their meanings, or the columns of one with their units.

    Raises:
        UsageError: there is no such history.
        BadValue: there is no such view.
        MissingPart: DuckDB is not installed.
    """
    from mrtuner.history.document import HistoryRows

    with _opened(directory) as history:
        if view is None:
            columns, rows = ["view", "what"], [list(one) for one in history.views()]
        else:
            columns, rows = ["column", "type", "unit", "what"], history.described(view)
        damaged = tuple(map(str, history.damaged))
    return HistoryRows(columns=columns, rows=rows, damaged=damaged)


def _plain(row: tuple[Any, ...]) -> list[Any]:
    return [None if isinstance(one, float) and not isfinite(one) else one for one in row]
