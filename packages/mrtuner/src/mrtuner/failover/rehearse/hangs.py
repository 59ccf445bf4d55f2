"""How long a client really waited in each case, compared with the prediction.

A hang is one client's wait for one answer or error. It is not how long the server was away: a
client that gets an error immediately tries again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mrtuner.failover.predict.hang_times import Case, Prediction
from mrtuner.rehearsal.observation import Attempt, Observation, ProbeKind

#: The cases that probes can distinguish. They cannot know whether a server is frozen, only how long
#: its clients waited; stale servers are counted elsewhere.
MEASURED: Final = (Case.CONNECT, Case.IDLE, Case.FLIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """The longest wait in a case."""

    case: Case
    longest: float | None  # s; None: no client of this kind experienced the outage
    at_least: bool = False  # the probe gave up before it ended
    met: int = 0  # attempts that ended late or with an error
    predicted: Prediction | None = None  # if the server vanishes silently

    def within(self, limit: float) -> bool | None:
        """Whether no client waited longer than `limit`; None if none experienced the outage."""
        return None if self.longest is None else self.longest <= limit and not self.at_least


def hangs(
    seen: Observation, since: float, predictions: Iterable[Prediction] = ()
) -> tuple[Hang, ...]:
    """Hangs of attempts that ended after `since` [s]; the probes' own schedule does not matter."""
    known = {one.case: one for one in predictions}
    return tuple(_hang(case, seen.attempts, since, known.get(case)) for case in MEASURED)


def _hang(
    case: Case, attempts: Iterable[Attempt], since: float, predicted: Prediction | None
) -> Hang:
    waits = list(_waits(case, (one for one in attempts if one.ended >= since and not one.good)))
    longest = max(waits, key=lambda wait: wait[0], default=(None, False))
    return Hang(
        case=case, longest=longest[0], at_least=longest[1], met=len(waits), predicted=predicted
    )


def _waits(case: Case, attempts: Iterable[Attempt]) -> Iterator[tuple[float, bool]]:
    """Seconds that each attempt waited in this case, and whether we ended it."""
    for one in attempts:
        if _case(one) is case:
            start = one.sent if case is Case.CONNECT or one.asked is None else one.asked
            yield one.ended - start, one.given_up


def _case(one: Attempt) -> Case:
    if one.kind.held and not one.fresh:
        return Case.IDLE
    if one.kind is ProbeKind.FLIGHT and one.asked is not None:
        return Case.FLIGHT
    return Case.CONNECT


def longest(found: Sequence[Hang]) -> Hang | None:
    """Return the worst of them, or None."""
    met = [one for one in found if one.longest is not None]
    return max(met, key=lambda one: one.longest or 0.0, default=None)
