"""What happened in a period, as a person tells it: what nobody recorded, then what went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from mrtuner.answers.incidents import incidents, not_looked_for
from mrtuner.history.analysis.incidents import Incident
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import History

#: The time around an incident that its screen shows as well, but for a queue.
_AROUND: Final = timedelta(minutes=5)
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownIncident:
    """An incident, with the period that shows it."""

    incident: Incident
    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What went wrong, in order of time; empty if nothing did in what was recorded."""

    unrecorded: tuple[str, ...]  # what could not be looked at, one sentence each
    incidents: tuple[ShownIncident, ...]


def story(history: History, about: HistoryPeriod) -> Story:
    found = incidents(history, about)
    return Story(
        unrecorded=not_looked_for(history, about),
        incidents=tuple(_told(one) for one in found),
    )


def _told(one: Incident) -> ShownIncident:
    more = timedelta(0) if one.kind == "lock queue" else _AROUND
    # A screen shows a minute at least, and a queue of a second is seen in its middle.
    more = max(more, (_MINUTE - (one.end - one.begin)) / 2)
    return ShownIncident(incident=one, begin=one.begin - more, end=one.end + more)
