"""What happened to a recorded server in a period, and SQL on what was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrtuner import extras
from mrtuner.units import parse_duration

if TYPE_CHECKING:
    from mrtuner.history.analysis.happened import Summary


def history(
    directory: Path | str | None = None,
    *,
    instance: str | None = None,
    since: float | str = "1h",
    until: datetime | None = None,
    cpus: int | None = None,
    top: int = 10,
) -> Summary:
    """Summarise a period: load by wait class, statements, checkpoints, the busiest minute, changes.

    `directory` is where ``mrtuner record`` wrote, by default its own place. The period is the last
    `since` [s, or a text such as ``"6h"``] before `until`, by default the last sample; it begins no
    earlier than the first. `cpus` is what the server can use if that was not recorded; `top` limits
    the statements.

    Raises:
        UsageError: there is no such history or instance.
        MissingPart: DuckDB is not installed.
    """
    extras.require("duckdb")
    from mrtuner.answers.incidents import with_ceilings
    from mrtuner.history.analysis.happened import summary
    from mrtuner.history.analysis.period import period, since_recorded
    from mrtuner.history.directory import history_directory
    from mrtuner.history.reading import open_history

    place = history_directory(None if directory is None else Path(directory))
    with open_history(place) as opened:
        found = period(opened, instance, since=parse_duration(since), until=until)
        about = since_recorded(opened, found)
        return with_ceilings(opened, summary(opened, about, top=top, cpus=cpus))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRows:
    """The rows of a query on a history."""

    columns: list[str]
    rows: list[list[Any]]  # NaN and infinity are None
    damaged: tuple[str, ...]  # files that were left out


def query(sql: str, directory: Path | str | None = None) -> QueryRows:
    """Run one SELECT, or EXPLAIN of one, on a history, in DuckDB's dialect.

    It can read the history and nothing else.

    Raises:
        UsageError: there is no such history, or it is another statement.
        BadValue: DuckDB refuses it.
        MissingPart: DuckDB is not installed.
    """
    extras.require("duckdb")
    from mrtuner.history.directory import history_directory
    from mrtuner.history.reading import open_history

    place = history_directory(None if directory is None else Path(directory))
    with open_history(place) as history:
        history.require_query(sql)
        history.provide(sql)
        history.lock()
        columns, rows = history.table(sql)
        damaged = tuple(map(str, history.damaged))
    return QueryRows(columns=list(columns), rows=[_plain(row) for row in rows], damaged=damaged)


def _plain(row: tuple[Any, ...]) -> list[Any]:
    return [None if isinstance(one, float) and not isfinite(one) else one for one in row]
