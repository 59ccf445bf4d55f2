"""What was not looked for in a period: nothing of that kind found means nothing there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from mrtuner.history.analysis.coverage import Recorded, recorded, seconds_of
from mrtuner.history.analysis.gaps import gaps
from mrtuner.history.analysis.incidents import searched, without_usual
from mrtuner.history.analysis.period import HistoryPeriod, as_sampled, source_named
from mrtuner.history.reading import History
from mrtuner.units import pretty_duration
from mrtuner.wording import enumerated

#: What is not found if a source was not recorded.
_FOUND_IN: Final = {
    "sessions": "queues for locks",
    "connections": "storms of connections",
    "statements": "slower statements",
    "checkpoints": "checkpoints before their time",
}
_MINUTE: Final = timedelta(minutes=1)
_MOST_GAPS: Final = 3


def not_looked_for(history: History, about: HistoryPeriod) -> tuple[str, ...]:
    """Return what `incidents` could not look for, a sentence each; empty if that is nothing."""
    return (*_not_looked_for(history, about), *without_usual(history, about))


def _not_looked_for(history: History, about: HistoryPeriod) -> Iterator[str]:
    found = recorded(history, about)
    if found is None:
        yield "nothing was recorded in this period"
        return
    within = searched(about)
    if within != about:
        yield (
            f"{enumerated(_FOUND_IN.values())} are looked for in the last day of a period: not "
            f"before {_clock(within.begin)}"
        )
    yield from _silent(history, about, found)
    for name, what in _FOUND_IN.items():
        if not history.has(name) or seconds_of(history, within, name) is None:
            yield f"{name} were not recorded: {what} are not looked for"
        elif not as_sampled(history, name, within):
            kept = pretty_duration(source_named(history, name).keep)
            yield f"{name} older than {kept} are kept as summaries: {what} are not looked for"
    if _hidden(history, within):
        yield (
            "the recorder's role may not see what others do: queues for locks are not looked for; "
            "GRANT pg_read_all_stats"
        )


def _silent(history: History, about: HistoryPeriod, found: Recorded) -> Iterator[str]:
    """Yield the times without any sample: before the first, between two, after the last."""
    if found.first - about.begin > _MINUTE:
        yield f"nothing was recorded before {_clock(found.first)}"
    missing = gaps(history, about)
    for gap in missing[:_MOST_GAPS]:
        yield f"nothing was recorded from {_clock(gap.begin)} to {_clock(gap.end)}"
    if len(missing) > _MOST_GAPS:
        yield f"there are {len(missing) - _MOST_GAPS} more gaps"
    if about.end - found.last > _MINUTE:
        yield f"nothing was recorded after {_clock(found.last)}"


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _hidden(history: History, about: HistoryPeriod) -> bool:
    """Whether what sessions do was hidden: then even the number of active ones is unknown."""
    if not as_sampled(history, "connections", about):
        return False
    row = history.row(
        """SELECT count(clients) AS known, count(active) AS seen FROM connections
           WHERE instance = $instance AND time >= $begin AND time < $end""",
        about.parameters, inside=True,
    )  # fmt: skip
    return bool(row["known"]) and not row["seen"]
