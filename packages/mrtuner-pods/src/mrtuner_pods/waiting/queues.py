"""The queues in front of workers, and nothing else: fast, for searching and for curves.

A request takes one slot (a worker, or a thread of it) for its whole service time. Each queue is
first come, first served, so its slots are a heap of the times at which they become free. It
takes the same arrivals and times as `stages`, and must give the same waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from heapq import heappop, heappush, heapreplace
from random import Random

from mrtuner_pods.waiting.routing import Routing, router


class Accepting(Enum):
    """Which worker of a pod accepts a request."""

    FREE = auto()  # one with a free thread: one queue in a pod
    ANY = auto()  # any, by chance, which may let it wait: a queue for each
    LEAST_BUSY = auto()  # the one with the fewest requests, which may let it wait: a queue for each

    @property
    def routing(self) -> Routing:
        """How requests are spread over the queues of a pod, where there are several."""
        return Routing.LEAST_CONNECTIONS if self is Accepting.LEAST_BUSY else Routing.RANDOM


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Pods of workers of threads."""

    pods: int
    workers: int  # in a pod
    threads: int = 1  # of a worker
    accepting: Accepting = Accepting.FREE
    #: How long a worker that has other requests waits before it accepts one [s]; with FREE only.
    accept_delay: float = 0.0

    @property
    def slots(self) -> int:
        """Requests that can be in service at once."""
        return self.pods * self.workers * self.threads

    @property
    def delays(self) -> bool:
        """Whether `accept_delay` matters: a single worker has no others to leave requests to."""
        return self.accept_delay > 0 and self.workers > 1 and self.threads > 1

    @property
    def queues(self) -> int:
        return 1 if self.accepting is Accepting.FREE else self.workers


def waits(
    arriving: Sequence[float],
    times: Sequence[float],
    layout: Layout,
    routing: Routing,
    chance: Random,
) -> list[float]:
    """Return how long each request waits for a slot, in the order of arrival."""
    if routing.looks or layout.accepting is Accepting.LEAST_BUSY:
        return _waits_of_counted(arriving, times, layout, routing, chance)
    choose, queues, found = router(routing, layout.pods, chance), layout.queues, []
    free = _free(layout)
    nobody: Sequence[int] = ()
    for arrival, time in zip(arriving, times, strict=True):
        place = choose(nobody)
        if queues > 1:
            place = place * queues + int(chance.random() * queues)
        slots = free[place]
        start = max(slots[0], arrival)
        heapreplace(slots, start + time)
        found.append(start - arrival)
    return found


def _waits_of_counted(
    arriving: Sequence[float],
    times: Sequence[float],
    layout: Layout,
    routing: Routing,
    chance: Random,
) -> list[float]:
    """Like `waits`, if the router sees how many requests a pod or worker has."""
    choose, queues, found = router(routing, layout.pods, chance), layout.queues, []
    choose_in = [router(layout.accepting.routing, queues, chance) for _ in range(layout.pods)]
    free = _free(layout)
    in_pods, in_queues = [0] * layout.pods, [0] * len(free)
    leaving: list[tuple[float, int]] = []
    for arrival, time in zip(arriving, times, strict=True):
        while leaving and leaving[0][0] <= arrival:
            place = heappop(leaving)[1]
            in_pods[place // queues] -= 1
            in_queues[place] -= 1
        pod = choose(in_pods)
        place = pod * queues
        if queues > 1:
            place += choose_in[pod](in_queues[place : place + queues])
        slots = free[place]
        start = max(slots[0], arrival)
        heapreplace(slots, start + time)
        in_pods[pod] += 1
        in_queues[place] += 1
        heappush(leaving, (start + time, place))
        found.append(start - arrival)
    return found


def _free(layout: Layout) -> list[list[float]]:
    """The heap of each queue: when its slots become free, at the beginning all at 0."""
    each = layout.workers * layout.threads // layout.queues
    return [[0.0] * each for _ in range(layout.pods * layout.queues)]


def settled(values: Sequence[float]) -> Sequence[float]:
    """Return the values without the first tenth, in which the queues fill."""
    return values[len(values) // 10 :]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the quantile: at least this share of the values does not exceed it."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]
