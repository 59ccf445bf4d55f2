"""The changes of each table on its busiest day: for `vacuum`, which must keep up with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from mrtuner.errors import UsageError
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, view_for
from mrtuner.history.reading import History

_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_COUNTERS: Final = (
    "inserted", "updated", "hot_updated", "deleted", "vacuums", "toast_inserted", "toast_deleted"
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDay:
    """Growth of a table's counters in a day, or in the whole record if that is shorter."""

    seconds: float  # of it that were recorded
    inserted: int
    updated: int
    hot_updated: int
    deleted: int
    vacuums: int
    toast_inserted: int
    toast_deleted: int


def busiest_days(history: History, about: HistoryPeriod) -> Mapping[tuple[str, int], TableDay]:
    """Return, by database and oid, the 24 hours in which most rows of the table died.

    A day may begin at any hour. Tables in which nothing changed are left out.

    Raises:
        UsageError: tables were not recorded.
    """
    recorded = _recorded(history, about)
    sums = ", ".join(f"sum({name}) AS {name}" for name in _COUNTERS)
    windows = ", ".join(f"sum({name}) OVER w AS {name}" for name in _COUNTERS)
    rows = history.rows(
        f"""SELECT * FROM (
                SELECT *, row_number() OVER (
                    PARTITION BY database, relation
                    ORDER BY updated - hot_updated + deleted DESC, inserted DESC, hour) AS place
                FROM (
                    SELECT database, relation, hour, {windows} FROM (
                        SELECT database, relation, date_trunc('hour', time) AS hour, {sums}
                        FROM {view_for(history, "tables", about.begin)}
                        WHERE {IN_PERIOD} AND inserted IS NOT NULL GROUP BY 1, 2, 3) AS h
                    WINDOW w AS (PARTITION BY database, relation ORDER BY hour
                                 RANGE BETWEEN INTERVAL 23 HOUR PRECEDING AND CURRENT ROW)) AS d
            ) AS ranked WHERE place = 1""",
        about.parameters,
    )
    seconds = {hour: _seconds(recorded, hour) for hour in {row["hour"] for row in rows}}
    return {
        (row["database"], row["relation"]): TableDay(
            seconds=seconds[row["hour"]], **{name: int(row[name] or 0) for name in _COUNTERS}
        )
        for row in rows
        if seconds[row["hour"]]  # Unknown, if only the clock jumped.
    }


def _seconds(recorded: Mapping[datetime, float], hour: datetime) -> float:
    """Return how much was recorded of the day that ends with this hour, or begins the record."""
    begin = max(hour + _HOUR - _DAY, min(recorded))
    return sum(seconds for at, seconds in recorded.items() if begin <= at < begin + _DAY)


def _recorded(history: History, about: HistoryPeriod) -> Mapping[datetime, float]:
    """Return by hour the time over which tables were sampled [s]."""
    rows = history.rows(
        f"""SELECT date_trunc('hour', time) AS hour, coalesce(sum(seconds), 0) AS seconds
            FROM samples WHERE source = 'tables' AND {IN_PERIOD} GROUP BY 1""",
        about.parameters,
    )
    found = {row["hour"]: float(row["seconds"]) for row in rows}
    if not any(found.values()):
        raise UsageError(
            f"the tables of {about.instance} have fewer than two samples",
            "Record for longer than ten minutes, or leave out --history.",
        )
    return found
