"""Times without samples."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from mrtuner.described import Doc
from mrtuner.history.analysis.coverage import Recorded
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, from_minute
from mrtuner.history.reading import History

#: More than this many intervals without a sample are a gap.
GAP: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryGap:
    """A time without samples."""

    begin: Annotated[datetime, Doc("the last sample before, UTC")]
    end: Annotated[datetime, Doc("the first sample after, UTC")]


def longest_pause(history: History, source: str) -> float:
    """Return how long a source may go without a sample before that is a gap [s]."""
    return max(GAP * history.source(source).interval, 60.0)


def gaps(history: History, about: HistoryPeriod) -> tuple[HistoryGap, ...]:
    """Times without a sample of any source, inside the period."""
    most = longest_pause(history, "sessions") if history.has("sessions") else GAP * 60.0
    # No gap fits into a minute, so the first and the last sample of each are enough. In the minute
    # where the period begins only the last one counts, where it ends only the first.
    return _gaps(
        history,
        f"""SELECT begin, time FROM (
                SELECT time, lag(last) OVER (ORDER BY time) AS begin FROM (
                    SELECT min(earliest) AS time, max(latest) AS last FROM samples_by_minute
                    WHERE {IN_PERIOD} GROUP BY samples_by_minute.time) AS m
                WHERE last >= $first AND time < $end
            ) AS s WHERE date_diff('second', begin, time) > {most} ORDER BY time""",
        from_minute(about) | {"first": about.parameters["begin"]},
    )  # fmt: skip


def gaps_of(
    history: History, source: str, about: HistoryPeriod, found: Recorded
) -> tuple[HistoryGap, ...]:
    """Times without a sample of one source, between the first and the last one of any."""
    known = HistoryPeriod(
        instance=about.instance, begin=max(about.begin, found.first), end=found.last
    )
    return _gaps(
        history,
        f"""SELECT begin, time FROM (
                SELECT time, coalesce(lag(time) OVER (ORDER BY time), $begin) AS begin FROM (
                    SELECT time FROM samples WHERE {IN_PERIOD} AND source = $source
                    UNION ALL SELECT CAST($end AS TIMESTAMP) AS time) AS m
            ) AS s WHERE date_diff('second', begin, time) > {longest_pause(history, source)}
            ORDER BY time""",
        known.parameters | {"source": source},
    )  # fmt: skip


def resets_of(history: History, source: str, about: HistoryPeriod) -> tuple[HistoryGap, ...]:
    """Times before a sample that none can be compared with, since the server was restarted."""
    return _gaps(
        history,
        f"""SELECT begin, time FROM (
                SELECT time, seconds, lag(time) OVER (ORDER BY time) AS begin
                FROM samples WHERE {IN_PERIOD} AND source = $source) AS s
            WHERE begin IS NOT NULL AND seconds IS NULL ORDER BY time""",
        about.parameters | {"source": source},
    )


def _gaps(history: History, sql: str, parameters: dict[str, Any]) -> tuple[HistoryGap, ...]:
    return tuple(
        HistoryGap(begin=row["begin"].replace(tzinfo=UTC), end=row["time"].replace(tzinfo=UTC))
        for row in history.rows(sql, parameters, inside=True)
    )
