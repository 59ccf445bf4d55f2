"""What went wrong in a period, each told in one sentence: queues, storms, slower statements.

An ordinary period has none. Thresholds are chosen, not measured; what they said of two recordings
is in docs/measured-results.md.

To look for another kind, write a module beside these, add its function to `_SEARCHES` and its kind
to `Incident.kind`. `not_looked_for._FOUND_IN` names each source without which one is not found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from mrtuner.history.analysis.changes import HistoryChange
from mrtuner.history.analysis.incidents import (
    connection_storms,
    deadlocks,
    events,
    forced_checkpoints,
    lock_queues,
    slower_statements,
)
from mrtuner.history.analysis.incidents.model import Incident
from mrtuner.history.analysis.incidents.samples import searched
from mrtuner.history.analysis.incidents.slower_statements import without_usual
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import History

__all__ = ["Incident", "incidents", "searched", "without_usual"]

#: What is looked for in samples.
_SEARCHES: Final[tuple[Callable[[History, HistoryPeriod], Iterator[Incident]], ...]] = (
    lock_queues.lock_queues,
    connection_storms.connection_storms,
    deadlocks.deadlocks,
    slower_statements.slow_queries,
    forced_checkpoints.forced_checkpoints,
)


def incidents(
    history: History, about: HistoryPeriod, known: Sequence[HistoryChange] = ()
) -> tuple[Incident, ...]:
    """Return what went wrong, in order of time; `known` are the changes of the period.

    Events are told of all of it, the rest of its last day. What is kept as summaries only, since it
    is older, is not looked at (see `Source.keep`): `not_looked_for` names all of that.
    """
    within = searched(about)
    found = [one for search in _SEARCHES for one in search(history, within)]
    found += events.events(history, about, known)
    return tuple(sorted(found, key=lambda one: (one.begin, one.kind, one.text)))
