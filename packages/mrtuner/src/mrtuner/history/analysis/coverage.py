"""How much of a period was recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from mrtuner.errors import UsageError
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, counted_in, from_minute
from mrtuner.history.reading import History
from mrtuner.history.store import summaries

#: How long the samples of each minute are kept [s].
_MINUTES_KEPT: Final = next(
    one.keep for one in summaries.SUMMARIES if one.view == "samples_by_minute"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The first and the last sample of a period, of any source; UTC."""

    first: datetime
    last: datetime


def recorded(history: History, about: HistoryPeriod) -> Recorded | None:
    """Return between which times a period was recorded; None if it was not.

    Of times whose minutes are no longer kept, only the hours are known.
    """
    found = history.row(
        f"""SELECT min(earliest) AS first, max(latest) AS last FROM samples_by_minute
            WHERE {IN_PERIOD} AND latest >= $first AND earliest < $end""",
        from_minute(about) | {"first": about.parameters["begin"]}, inside=True,
    )  # fmt: skip
    if found["first"] is None:
        hour = about.begin.replace(minute=0, second=0, microsecond=0)
        found = history.row(
            f"""SELECT min(time) AS first, max(time) + INTERVAL 1 HOUR AS last
                FROM samples_by_hour WHERE {IN_PERIOD} AND time < $oldest""",
            replace(about, begin=hour).parameters | {"oldest": _oldest_minute(history)},
            inside=True,
        )  # fmt: skip
    if found["first"] is None:
        return None
    first, last = (found[name].replace(tzinfo=UTC) for name in ("first", "last"))
    return Recorded(first=max(first, about.begin), last=min(last, about.end))


def _oldest_minute(history: History) -> datetime:
    """Return since when minutes are kept, UTC: later, an hour says less than they do."""
    newest = history.newest()
    return datetime.min if newest is None else newest - timedelta(seconds=_MINUTES_KEPT)


def require_recorded(history: History, about: HistoryPeriod) -> None:
    """Refuse a period of which nothing was recorded: compared with it, everything seems new.

    Raises:
        UsageError: it has no sample.
    """
    if recorded(history, about) is None:
        first, last = history.first_sample(about.instance), history.last_sample(about.instance)
        raise UsageError(
            f"nothing was recorded from {about.begin:%Y-%m-%d %H:%M:%S} to "
            f"{about.end:%Y-%m-%d %H:%M:%S} UTC",
            f"{about.instance} was recorded from {first:%Y-%m-%d %H:%M:%S} to "
            f"{last:%Y-%m-%d %H:%M:%S} UTC: choose a period in this time.",
        )


def seconds_of(history: History, about: HistoryPeriod, source: str) -> float | None:
    """Return how many seconds of a period the samples of a source cover; None without samples.

    The first sample of a recording covers none, since there is nothing to compare it with.
    """
    sampled, parameters = counted_in(history, "samples", about, "source, seconds")
    row = history.row(
        f"""SELECT count(*) AS number, sum(seconds) AS seconds FROM ({sampled}) AS s
            WHERE source = $source""",
        parameters | {"source": source}, inside=True,
    )  # fmt: skip
    return float(row["seconds"] or 0) if row["number"] else None
