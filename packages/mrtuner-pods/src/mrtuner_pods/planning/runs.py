"""Simulations of one question, all with the same arrivals and service times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from math import inf
from random import Random
from statistics import fmean

from mrtuner_pods.planning.inputs import Question
from mrtuner_pods.planning.model import PodsWaiting
from mrtuner_pods.waiting.queues import Layout, quantile, settled, waits
from mrtuner_pods.waiting.routing import Routing
from mrtuner_pods.waiting.service_times import arrivals
from mrtuner_pods.waiting.stages import Simulated, Site, simulate

#: Requests in a simulation, at least and for each slot: enough for its p95 to be within a few
#: percent of a longer one's (docs, concepts/waiting).
QUEUES, STAGES = 40_000, 12_000
BY_SLOT = 60


class Runs:
    """Simulates one question at different sites, with the same arrivals and service times."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._load = cache(self._drawn)

    def site(self, layout: Layout, routing: Routing | None = None) -> Site:
        """Return the pods with what the question says is behind them."""
        asked, facts = self._question, self._question.server.facts
        return Site(
            layout=layout,
            routing=routing or asked.routing,
            lock=facts.lock,
            turn=facts.turn,
            hands_over=facts.hands_over,
            pooler=asked.pooler,
            database=asked.database_cpus,
        )

    def p95(self, site: Site) -> float:
        """Return the p95 wait at all stages [s], by the faster simulation if that is enough.

        It is infinite where the waiting grows from beginning to end: threads that wait for their
        lock keep workers busy, so that less than each stage's own capacity passes.
        """
        if not site.queues_alone(self._question.work):
            total = settled(self.whole(site).total)
            return inf if grows(total, self._question.service.mean) else quantile(total, 0.95)
        arriving, times = self._load(_doubled(QUEUES, BY_SLOT * site.layout.slots))
        waited = waits(arriving, times, site.layout, site.routing, self._chance())
        return quantile(settled(waited), 0.95)

    def waiting(self, simulated: Simulated) -> PodsWaiting:
        total = settled(simulated.total)
        p50, p95, p99 = (quantile(total, share) for share in (0.5, 0.95, 0.99))
        return PodsWaiting(mean=fmean(total), p50=p50, p95=p95, p99=p99)

    def whole(self, site: Site, *, longer: int = 1) -> Simulated:
        """Return a simulation of every stage, with `longer` times as many requests."""
        arriving, times = self._load(longer * _doubled(STAGES, BY_SLOT * site.layout.slots // 2))
        return simulate(arriving, times, site, self._question.work, self._chance())

    def _drawn(self, count: int) -> tuple[list[float], list[float]]:
        asked = self._question
        come, take = _random(f"{asked.seed} arrivals"), _random(f"{asked.seed} times")
        arriving = arrivals(asked.rate, count, come, variation=asked.bursts)
        return arriving, asked.service.draw(take, count)

    def _chance(self) -> Random:
        return _random(f"{self._question.seed} routing")


def _doubled(count: int, wanted: int) -> int:
    """Return the count, doubled until it is enough or eightfold, so that few loads are cached."""
    most = 8 * count
    while count < min(wanted, most):
        count *= 2
    return count


def _random(seed: str) -> Random:
    return Random(seed)  # noqa: S311 - a simulation


def grows(waited: Sequence[float], service: float) -> bool:
    """Whether waiting grows all the time, quarter by quarter, far beyond a service time."""
    quarter = len(waited) // 4
    means = [fmean(waited[start : start + quarter]) for start in range(0, 4 * quarter, quarter)]
    rising = all(before < after for before, after in pairwise(means))
    return rising and means[-1] > max(_TIMES_AS_LONG * means[0], _LONG * service)


#: In a stable queue, even near its capacity, waits rarely grow so much by the last quarter.
_TIMES_AS_LONG, _LONG = 3.0, 10.0
