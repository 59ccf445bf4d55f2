"""What the open-loop probes of a scenario saw, with the old and new primary distinguished.

The old one is the first that answered; a server is identified by its start time, whatever its
address. Times are from the probes' own clock.
"""

from __future__ import annotations

from collections.abc import Iterator

from mrtuner.failover.lab.document import ProbedKind
from mrtuner.rehearsal.observation import Attempt, Observation, ProbeKind


def seen(observed: Observation, kind: ProbeKind, takeover: float) -> ProbedKind:
    """One kind's outage, and what the old primary still answered after the takeover."""
    mine = [each for each in observed.attempts if each.kind is kind]
    gaps = [gap.most for gap in observed.gaps(kind)]
    ended = [gap for gap in gaps if gap is not None]
    return ProbedKind(
        kind=kind.words,
        outage=None if len(ended) < len(gaps) else round(max(ended, default=0.0), 3),
        failed=sum(not each.answered for each in mine),
        late=sum(each.answered and not each.good for each in mine),
        stale=sum(each.kind is kind for each in stale(observed, takeover)),
    )


def stale(observed: Observation, takeover: float) -> Iterator[Attempt]:
    """Answers of the old primary to queries sent after the takeover."""
    for each, new in _answers(observed):
        if each.sent > takeover and not new:
            yield each


def first_by_new(observed: Observation) -> float | None:
    """When the new primary first answered; None: never."""
    return min((each.ended for each, new in _answers(observed) if new), default=None)


def _answers(observed: Observation) -> Iterator[tuple[Attempt, bool]]:
    for each in observed.attempts:
        if each.answered and each.server is not None:
            yield each, each.server.started != observed.servers[0].started
