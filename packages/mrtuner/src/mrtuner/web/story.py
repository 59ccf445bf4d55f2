"""What happened in a period, as a person tells it: what nobody recorded, then what went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from mrtuner.history.analysis.changes import changes
from mrtuner.history.analysis.coverage import Recorded, recorded, seconds_of
from mrtuner.history.analysis.gaps import gaps
from mrtuner.history.analysis.incidents import Incident, incidents
from mrtuner.history.analysis.period import (
    HistoryPeriod,
    as_sampled,
    source_named,
)
from mrtuner.history.reading import History
from mrtuner.units import pretty_duration

#: What is not found if a source was not recorded.
_FOUND_IN: Final = {
    "sessions": "queues for locks",
    "connections": "storms of connections",
    "statements": "slower statements",
    "checkpoints": "checkpoints before their time",
}
#: The time around an incident that its screen shows as well, but for a queue.
_AROUND: Final = timedelta(minutes=5)
#: The search reads every sample of every statement: in a day, those of a busy server take seconds.
_LONGEST: Final = timedelta(days=1)
_MINUTE: Final = timedelta(minutes=1)
_MOST_GAPS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An incident, with the period that shows it."""

    incident: Incident
    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What went wrong, in order of time; empty if nothing did in what was recorded."""

    unrecorded: tuple[str, ...]  # what could not be looked at, one sentence each
    incidents: tuple[Told, ...]


def story(history: History, about: HistoryPeriod) -> Story:
    """Return what happened in a period."""
    if about.end - about.begin > _LONGEST:
        told = f"incidents are looked for in a day at most, not in {pretty_duration(about.seconds)}"
        return Story(unrecorded=(told, *_unrecorded(history, about)), incidents=())
    found = incidents(history, about, changes(history, about))
    return Story(
        unrecorded=tuple(_unrecorded(history, about)),
        incidents=tuple(_told(one) for one in found),
    )


def _told(one: Incident) -> Told:
    more = timedelta(0) if one.kind == "lock queue" else _AROUND
    # A screen shows a minute at least, and a queue of a second is seen in its middle.
    more = max(more, (_MINUTE - (one.end - one.begin)) / 2)
    return Told(incident=one, begin=one.begin - more, end=one.end + more)


def _unrecorded(history: History, about: HistoryPeriod) -> Iterator[str]:
    found = recorded(history, about)
    if found is None:
        yield "nothing was recorded in this period"
        return
    yield from _silent(history, about, found)
    for name, what in _FOUND_IN.items():
        if not history.has(name) or seconds_of(history, about, name) is None:
            yield f"{name} were not recorded: {what} are not looked for"
        elif not as_sampled(history, name, about):
            kept = pretty_duration(source_named(history, name).keep)
            yield f"{name} older than {kept} are kept as summaries: {what} are not looked for"
    if _hidden(history, about):
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
        yield f"there are {len(missing) - _MOST_GAPS} more gaps, which Changes lists"
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
