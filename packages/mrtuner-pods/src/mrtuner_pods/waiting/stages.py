"""Every stage of a request, simulated event by event.

    slot of a worker → its lock → CPU of the pod → pool → pooler → cores of the database

Arrivals do not wait for answers (open loop): a slow server gets no fewer requests. What a request
waits at each stage adds up to its response time less its own work. The same arrivals, times and
seed give the same waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import Final

from mrtuner_pods.waiting.accepting import Acceptors, acceptors
from mrtuner_pods.waiting.cpu import PERIOD, PodCpu
from mrtuner_pods.waiting.queues import Layout
from mrtuner_pods.waiting.routing import Routing, router
from mrtuner_pods.waiting.turns import Turns


class RequestStage(IntEnum):
    """Where a request can wait."""

    WORKER = 0  # in front of the workers: what a header such as X-Request-Start shows
    LOCK = 1  # for the lock that lets one thread of a process compute
    CPU = 2  # throttled by the quota
    POOL = 3  # for a connection of its own process
    POOLER = 4  # for a server connection of the pooler
    DATABASE = 5  # for a core of the database

    @property
    def words(self) -> str:
        return _WORDS[self]


#: Times that differ by less are equal [s]: rounding errors of sums.
_INSTANT: Final = 1e-9
_WORDS: Final = ("workers", "global lock", "CPU", "pool", "pooler", "database")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How a request spends its service time, in shares of it; the rest is waiting elsewhere."""

    cpu: float = 1.0  # of the application
    database: float = 0.0  # of a core of the database

    @property
    def elsewhere(self) -> float:
        """Asleep: other services, the network."""
        return max(0.0, 1 - self.cpu - self.database)

    @property
    def pieces(self) -> int:
        """Stretches on the CPU: one before the database is asked, one after."""
        return 1 if self.database == 0 and self.elsewhere < 1e-9 else 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Pods and what is behind them. None: as many as can be used."""

    layout: Layout
    routing: Routing = Routing.RANDOM
    lock: bool = True  # one thread of a worker computes at a time (Python, Ruby)
    #: How long one computes while another waits [s]; not simulated under a quota.
    turn: float = inf
    #: One thread accepts requests and others serve them: each request needs the lock once more.
    hands_over: bool = False
    quota: float | None = None  # CPU limit of a pod, in CPUs
    #: When each pod's quota is first renewed [s]; spread evenly where that is not known.
    renewals: tuple[float, ...] = ()
    #: Workers are event loops, which take any number of requests: these wait in the pool instead.
    any_number: bool = False
    pool: int | None = None  # connections of a worker; None: one for each thread
    pooler: int | None = None  # server connections of all poolers
    database: int | None = None  # cores

    def queues_alone(self, work: Work) -> bool:
        """Whether requests can wait in front of workers only."""
        threads = self.layout.threads
        return (
            not self.any_number
            and not self.layout.delays
            and (threads == 1 or not self.lock or work.cpu == 0)
            and self.quota is None
            and (self.pool is None or self.pool >= threads or work.database == 0)
            and (work.database == 0 or (self.pooler is None and self.database is None))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What every request waited, in the order of arrival [s], and what CPU the pods used."""

    stages: tuple[tuple[float, ...], ...]  # by stage, then by request
    total: tuple[float, ...]
    cpu_seconds: tuple[float, ...]  # of each pod in each second in which it used any
    seconds: int  # whole ones of all pods, including those in which they used none
    throttled: float  # share of the 100 ms periods in which a pod was stopped


@dataclass(slots=True)
class _Request:
    arrival: float
    time: float
    waited: list[float]
    pieces: int
    since: float = 0.0
    worker: _Worker | None = None
    handed_over: bool = False


class _Places:
    """A limited number of places; first come, first served."""

    __slots__ = ("_free", "_queue", "_stage")

    def __init__(self, places: float, stage: RequestStage) -> None:
        self._free, self._stage = places, stage
        self._queue: deque[_Request] = deque()

    def taken(self, now: float, request: _Request) -> bool:
        """Take a place and return True, or queue for one."""
        if self._free > 0:
            self._free -= 1
            return True
        request.since = now
        self._queue.append(request)
        return False

    def handed_on(self, now: float) -> _Request | None:
        """Leave a place; return the request that has it now, if any."""
        if not self._queue:
            self._free += 1
            return None
        request = self._queue.popleft()
        request.waited[self._stage] += now - request.since
        return request


@dataclass(slots=True, eq=False)
class _Worker:
    pod: int
    cpu: PodCpu[_Request] | None
    lock: _Places
    turns: Turns[_Request] | None  # the same lock where threads take turns
    pool: _Places
    number: int  # in its pod


def simulate(
    arriving: Sequence[float],
    times: Sequence[float],
    site: Site,
    work: Work,
    chance: Random,
) -> Simulated:
    """Return what each request waited; requests arrive at `arriving` [s] and take `times` [s]."""
    return _Simulation(site, work, chance).run(arriving, times)


class _Simulation:
    def __init__(self, site: Site, work: Work, chance: Random) -> None:
        layout = site.layout
        self._work, self._chance = work, chance
        self._events: list[tuple[float, int, Callable[[float, _Request], None], _Request]] = []
        self._numbers = count()
        self._choose = router(site.routing, layout.pods, chance)
        self._busy = [0] * layout.pods
        many = float("inf")
        self._pooler = _Places(site.pooler or many, RequestStage.POOLER)
        self._database = _Places(site.database or many, RequestStage.DATABASE)
        self._cpus = [self._pod_cpu(site, pod) for pod in range(layout.pods)]
        self._acceptors = [self._pod_acceptors(site, pod) for pod in range(layout.pods)]
        self._used: list[dict[int, float]] = [{} for _ in range(layout.pods)]
        self._hands_over = site.hands_over

    def _pod_cpu(self, site: Site, pod: int) -> PodCpu[_Request] | None:
        if site.quota is None:
            return None
        evenly = PERIOD * (pod + 1) / site.layout.pods
        renewal = site.renewals[pod] if site.renewals else evenly
        return PodCpu(site.quota, renewal, self._call_later, self._computed)

    def _pod_acceptors(self, site: Site, pod: int) -> Acceptors[_Request]:
        many = float("inf")
        workers = [
            _Worker(
                pod,
                self._cpus[pod],
                _Places(1 if site.lock else many, RequestStage.LOCK),
                self._turns(site, pod),
                _Places(site.pool or many, RequestStage.POOL),
                number,
            )
            for number in range(site.layout.workers)
        ]

        def start(now: float, request: _Request, worker: int) -> None:
            self._start(now, request, workers[worker])

        return acceptors(
            site.layout, start, self._call_later, self._chance, any_number=site.any_number
        )

    def _turns(self, site: Site, pod: int) -> Turns[_Request] | None:
        if not site.lock or site.quota is not None or site.layout.threads == 1 or site.turn == inf:
            return None
        return Turns(site.turn, self._call_later, partial(self._count_stint, pod), self._took_turns)

    def run(self, arriving: Sequence[float], times: Sequence[float]) -> Simulated:
        requests = [
            _Request(arrival, time, [0.0] * len(RequestStage), self._work.pieces)
            for arrival, time in zip(arriving, times, strict=True)
        ]
        events = self._events
        for request in requests:
            while events and events[0][0] <= request.arrival:
                now, _, happen, whose = heappop(events)
                happen(now, whose)
            self._arrive(request.arrival, request)
        while events:
            now, _, happen, whose = heappop(events)
            happen(now, whose)
        return self._result(requests)

    def _later(
        self, when: float, happen: Callable[[float, _Request], None], request: _Request
    ) -> None:
        heappush(self._events, (when, next(self._numbers), happen, request))

    def _call_later(self, when: float, happen: Callable[[float, object], None]) -> None:
        heappush(self._events, (when, next(self._numbers), happen, _NOBODY))

    # The stages, in their order.

    def _arrive(self, now: float, request: _Request) -> None:
        pod = self._choose(self._busy)
        self._busy[pod] += 1
        self._acceptors[pod].arrive(now, request)

    def _start(self, now: float, request: _Request, worker: _Worker) -> None:
        request.waited[RequestStage.WORKER] = now - request.arrival
        request.worker = worker
        if self._hands_over and self._work.cpu and worker.turns is not None:
            worker.turns.compute(now, 0.0, request)
        else:
            self._compute(now, request)

    def _compute(self, now: float, request: _Request) -> None:
        if self._work.cpu == 0:
            self._proceed(now, request)
        elif (turns := _worker(request).turns) is not None:
            request.handed_over = True
            turns.compute(now, self._demand(request), request)
        elif _worker(request).lock.taken(now, request):
            self._on_cpu(now, request)

    def _on_cpu(self, now: float, request: _Request) -> None:
        request.since = now
        demand, cpu = self._demand(request), _worker(request).cpu
        if cpu is None:
            self._later(now + demand, self._computed, request)
        else:
            cpu.add(now, demand, request)

    def _demand(self, request: _Request) -> float:
        return request.time * self._work.cpu / self._work.pieces

    def _computed(self, now: float, request: _Request) -> None:
        worker = _worker(request)
        demand = self._demand(request)
        if (stall := now - request.since - demand) > _INSTANT:
            request.waited[RequestStage.CPU] += stall
        self._count_use(worker.pod, request.since, now, demand)
        if (following := worker.lock.handed_on(now)) is not None:
            self._on_cpu(now, following)
        self._proceed(now, request)

    def _took_turns(self, now: float, request: _Request, waited: float) -> None:
        request.waited[RequestStage.LOCK] += waited
        if request.handed_over:
            self._proceed(now, request)
        else:
            self._compute(now, request)

    def _proceed(self, now: float, request: _Request) -> None:
        request.pieces -= 1
        if request.pieces:
            self._connect(now, request)
        else:
            self._leave(now, request)

    def _connect(self, now: float, request: _Request) -> None:
        if self._work.database == 0:
            self._elsewhere(now, request)
        elif _worker(request).pool.taken(now, request):
            self._connected(now, request)

    def _connected(self, now: float, request: _Request) -> None:
        if self._pooler.taken(now, request):
            self._ask(now, request)

    def _ask(self, now: float, request: _Request) -> None:
        if self._database.taken(now, request):
            self._query(now, request)

    def _query(self, now: float, request: _Request) -> None:
        self._later(now + request.time * self._work.database, self._answered, request)

    def _answered(self, now: float, request: _Request) -> None:
        if (following := self._database.handed_on(now)) is not None:
            self._query(now, following)
        if (following := self._pooler.handed_on(now)) is not None:
            self._ask(now, following)
        self._elsewhere(now, request)

    def _elsewhere(self, now: float, request: _Request) -> None:
        away = request.time * self._work.elsewhere
        if away > 0:
            self._later(now + away, self._compute, request)
        else:
            self._compute(now, request)

    def _leave(self, now: float, request: _Request) -> None:
        """Free the connection of the pool only now, as Rails and Django do."""
        worker = _worker(request)
        if self._work.database and (following := worker.pool.handed_on(now)) is not None:
            self._connected(now, following)
        self._busy[worker.pod] -= 1
        self._acceptors[worker.pod].leave(now, worker.number)

    # Results.

    def _count_stint(self, pod: int, begin: float, end: float) -> None:
        if end > begin:
            self._count_use(pod, begin, end, end - begin)

    def _count_use(self, pod: int, begin: float, end: float, demand: float) -> None:
        """Spread CPU time evenly over the seconds in which it was used."""
        used, first, last = self._used[pod], int(begin), int(end)
        if first == last:
            used[first] = used.get(first, 0.0) + demand
            return
        for second in range(first, last + 1):
            inside = min(end, second + 1) - max(begin, second)
            used[second] = used.get(second, 0.0) + demand * inside / (end - begin)

    def _result(self, requests: Sequence[_Request]) -> Simulated:
        last = int(requests[-1].arrival)
        cpus = [cpu for cpu in self._cpus if cpu is not None]
        periods = sum(cpu.periods for cpu in cpus)
        return Simulated(
            stages=tuple(tuple(one.waited[stage] for one in requests) for stage in RequestStage),
            total=tuple(sum(one.waited) for one in requests),
            cpu_seconds=tuple(
                used[second] for used in self._used for second in used if 0 < second < last
            ),
            seconds=max(0, last - 1) * len(self._used),
            throttled=sum(cpu.throttled_periods for cpu in cpus) / periods if periods else 0.0,
        )


def _worker(request: _Request) -> _Worker:
    assert request.worker is not None  # noqa: S101 - it has started
    return request.worker


_NOBODY: Final = _Request(0.0, 0.0, [], 0)
