"""How much of a period was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, counted_in, from_minute
from mrtuner.history.reading import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The first and the last sample of a period, of any source; UTC."""

    first: datetime
    last: datetime


def recorded(history: History, about: HistoryPeriod) -> Recorded | None:
    """Return between which times a period was recorded; None if it was not."""
    row = history.row(
        f"""SELECT min(earliest) AS first, max(latest) AS last FROM samples_by_minute
            WHERE {IN_PERIOD} AND latest >= $first AND earliest < $end""",
        from_minute(about) | {"first": about.parameters["begin"]}, inside=True,
    )  # fmt: skip
    if row["first"] is None:
        return None
    first, last = (row[name].replace(tzinfo=UTC) for name in ("first", "last"))
    return Recorded(first=max(first, about.begin), last=min(last, about.end))


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
