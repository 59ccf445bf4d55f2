"""How samples are read, and those near each other put together: what several searches need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, as_sampled
from mrtuner.history.reading import History
from mrtuner.history.recording.budget import MOST

T = TypeVar("T")
#: The search reads every sample of every statement: a day of 500 of them takes 3 s.
_LONGEST: Final = timedelta(days=1)
#: A sample covers the time since the one before, which is up to so many times the interval: what
#: both show went on in between.
LATE: Final = 1.5
#: What comes again after a pause of at most this is told as one.
AGAIN: Final = timedelta(minutes=5)
#: Characters of a statement that are told.
TEXT_WIDTH: Final = 80


def searched(about: HistoryPeriod) -> HistoryPeriod:
    """Return the part of a period in which samples are searched: its last day."""
    return replace(about, begin=max(about.begin, about.end - _LONGEST))


def usual_day(about: HistoryPeriod) -> HistoryPeriod:
    """Return the day before a period's end: what is usual in it, whatever part of it is shown.

    A store that is younger has less, which is all there is.
    """
    return replace(about, begin=about.end - _LONGEST)


def longest_interval(history: History, name: str) -> float:
    """Return the longest time between two samples of a source [s]; a longer one is a gap."""
    return LATE * MOST * history.source(name).interval


def near(
    seen: Iterable[tuple[datetime, T]], apart: timedelta
) -> Iterator[list[tuple[datetime, T]]]:
    """Divide what was seen wherever nothing was seen for longer than `apart`."""
    return divided(seen, apart, lambda one: (one[0], one[0]))


def divided(
    items: Iterable[T], apart: timedelta, span: Callable[[T], tuple[datetime, datetime]]
) -> Iterator[list[T]]:
    """Divide items wherever one begins later than `apart` after the end of the one before."""
    part: list[T] = []
    for one in items:
        if part and span(one)[0] - span(part[-1])[1] > apart:
            yield part
            part = []
        part.append(one)
    if part:
        yield part


def grown_together(
    history: History, about: HistoryPeriod, source: str, column: str
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in which a counter grew, those near each other together."""
    if not as_sampled(history, source, about):
        return
    rows = history.rows(
        f"""SELECT * FROM {source} WHERE {IN_PERIOD} AND {column} > 0
            AND seconds <= {longest_interval(history, source)} ORDER BY time""",
        about.parameters, inside=True,
    )  # fmt: skip
    yield from divided(rows, AGAIN, span_of)


def span_of(row: Mapping[str, Any]) -> tuple[datetime, datetime]:
    """The time in which the counters of a row grew: since the sample before."""
    end: datetime = row["time"].replace(tzinfo=UTC)
    return end - timedelta(seconds=float(row["seconds"] or 0)), end


def statement_text(history: History, query_id: int | None) -> str | None:
    """Return the text of a statement; None if it was not recorded."""
    if query_id is None:
        return None
    rows = history.rows(f"SELECT text FROM statement_texts WHERE query_id = {int(query_id)}")
    text: str | None = rows[-1]["text"] if rows else None
    return text


def without_zone(time: datetime) -> datetime:
    """As views have it: UTC, and no zone."""
    return time.replace(tzinfo=None)
