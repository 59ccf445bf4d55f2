"""What happened in a period, as a person tells it: what nobody recorded, then what went wrong."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from mrtuner.answers.incidents import incidents, not_looked_for
from mrtuner.checks.document import checks_document
from mrtuner.history.analysis.incidents import Incident
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import History
from mrtuner.web.document import ScreenIncident, ScreenStory

#: The time around an incident that its screen shows as well; sessions are shown of its own time.
_AROUND: Final = timedelta(minutes=5)
#: Who was in it can be seen among the sessions alone. Those of a storm may be idle: not sampled.
_OF_SESSIONS: Final = frozenset({"lock queue", "deadlocks"})
_SESSIONS: Final = "moment"
_MINUTE: Final = timedelta(minutes=1)
#: The checks that find the same: the catalogue says how, and what helps.
_CHECKS: Final = ("incident", "ceiling-reached")


def story(history: History, about: HistoryPeriod) -> ScreenStory:
    """Return what went wrong, in order of time; nothing if nothing did in what was recorded."""
    return ScreenStory(
        unrecorded=list(not_looked_for(history, about)),
        incidents=[_told(one) for one in incidents(history, about)],
        checks=checks_document(*_CHECKS).checks,
    )


def _told(one: Incident) -> ScreenIncident:
    screen = _SESSIONS if one.kind in _OF_SESSIONS else one.screen
    more = timedelta(0) if screen == _SESSIONS else _AROUND
    # A screen shows a minute at least, and a queue of a second is seen in its middle.
    more = max(more, (_MINUTE - (one.end - one.begin)) / 2)
    return ScreenIncident(
        kind=one.kind, begin=one.begin.timestamp(), end=one.end.timestamp(), text=one.text,
        screen=screen, statement="" if one.query_id is None else str(one.query_id),
        shown=((one.begin - more).timestamp(), (one.end + more).timestamp()),
    )  # fmt: skip
