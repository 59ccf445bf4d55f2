"""Times without samples."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

from mrtuner.described import Doc
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, from_minute, source_named
from mrtuner.history.reading import History

#: More than this many intervals without a sample are a gap.
GAP: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryGap:
    """A time without samples."""

    begin: Annotated[datetime, Doc("the last sample before, UTC")]
    end: Annotated[datetime, Doc("the first sample after, UTC")]


def gaps(history: History, about: HistoryPeriod) -> tuple[HistoryGap, ...]:
    """Times without samples of sessions, inside the period."""
    interval = source_named(history, "sessions").interval if history.has("sessions") else 60.0
    longest = max(GAP * interval, 60.0)
    # No gap fits into a minute, so the first and the last sample of each are enough. In the minute
    # where the period begins only the last one counts, where it ends only the first.
    rows = history.rows(
        f"""SELECT begin, time FROM (
                SELECT time, lag(last) OVER (ORDER BY time) AS begin FROM (
                    SELECT min(earliest) AS time, max(latest) AS last FROM samples_by_minute
                    WHERE {IN_PERIOD} GROUP BY samples_by_minute.time) AS m
                WHERE last >= $first AND time < $end
            ) AS s WHERE date_diff('second', begin, time) > {longest} ORDER BY time""",
        from_minute(about) | {"first": about.parameters["begin"]}, inside=True,
    )  # fmt: skip
    return tuple(
        HistoryGap(begin=row["begin"].replace(tzinfo=UTC), end=row["time"].replace(tzinfo=UTC))
        for row in rows
    )
