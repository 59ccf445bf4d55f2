"""Which worker of a pod takes a request, and where requests wait until one does.

A pod's workers are numbered from 0. `start` is called with a request and the worker that serves it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Protocol, TypeVar

from mrtuner_pods.waiting.queues import Accepting, Layout
from mrtuner_pods.waiting.routing import router
from mrtuner_pods.waiting.turns import Later

RequestT = TypeVar("RequestT")
Taken_contra = TypeVar("Taken_contra", contravariant=True)
#: Serves a request from now on: the time, the request, the worker.
Start = Callable[[float, RequestT, int], None]


class Acceptors(Protocol[Taken_contra]):
    """The workers of a pod."""

    def arrive(self, now: float, request: Taken_contra) -> None:
        """Take a request, or let it wait."""

    def leave(self, now: float, worker: int) -> None:
        """Count a thread of the worker as free; it may take a request that waits."""


def acceptors(
    layout: Layout,
    start: Start[RequestT],
    later: Later,
    chance: Random,
    *,
    any_number: bool = False,
) -> Acceptors[RequestT]:
    """Return the workers of a pod of this layout; event loops take any number of requests."""
    if layout.accepting is not Accepting.FREE:
        return _OwnQueues(layout, start, chance)
    if layout.delays:
        return _Delayed(layout, start, later)
    return _SharedQueue(layout, start, any_number=any_number)


class _SharedQueue(Acceptors[RequestT]):
    """A worker with a free thread accepts; the first ones are spread over all workers."""

    def __init__(self, layout: Layout, start: Start[RequestT], *, any_number: bool) -> None:
        self._start, self._any_number = start, any_number
        self._free = deque(list(range(layout.workers)) * layout.threads)
        self._queue: deque[RequestT] = deque()

    def arrive(self, now: float, request: RequestT) -> None:
        if not self._free:
            self._queue.append(request)
            return
        worker = self._free.popleft()
        if self._any_number:
            self._free.append(worker)  # the next request goes to another worker, if any
        self._start(now, request, worker)

    def leave(self, now: float, worker: int) -> None:
        if self._any_number:
            return
        if self._queue:
            self._start(now, self._queue.popleft(), worker)
        else:
            self._free.append(worker)


class _OwnQueues(Acceptors[RequestT]):
    """Any worker accepts, by chance or the least busy first, and lets requests wait."""

    def __init__(self, layout: Layout, start: Start[RequestT], chance: Random) -> None:
        self._choose = router(layout.accepting.routing, layout.workers, chance)
        self._start, self._threads = start, layout.threads
        self._has = [0] * layout.workers  # requests, in service or waiting
        self._queues: list[deque[RequestT]] = [deque() for _ in self._has]

    def arrive(self, now: float, request: RequestT) -> None:
        worker = self._choose(self._has)
        self._has[worker] += 1
        if self._has[worker] > self._threads:
            self._queues[worker].append(request)
        else:
            self._start(now, request, worker)

    def leave(self, now: float, worker: int) -> None:
        self._has[worker] -= 1
        if self._queues[worker]:
            self._start(now, self._queues[worker].popleft(), worker)


class _Delayed(Acceptors[RequestT]):
    """A worker with a free thread accepts, but first waits a moment if its other threads are busy.

    A request that arrives wakes every worker that listens. One that is idle takes it at once; the
    others wait all the same, for as long as the delay or until they finish a request, whichever is
    first, and then take what is there. Source: Puma 5.6.5, server.rb: handle_servers;
    thread_pool.rb: wait_until_not_full, wait_for_less_busy_worker.
    """

    def __init__(self, layout: Layout, start: Start[RequestT], later: Later) -> None:
        self._start, self._later = start, later
        self._threads, self._delay = layout.threads, layout.accept_delay
        self._busy = [0] * layout.workers
        self._queue: deque[RequestT] = deque()
        # A worker listens, waits, or else has found a request and no free thread.
        self._listening = list(range(layout.workers))  # the longest-waiting first
        self._waiting: dict[int, int] = {}  # the number of its wait
        self._numbers = count()

    def arrive(self, now: float, request: RequestT) -> None:
        self._queue.append(request)
        woken, self._listening = self._listening, []
        for worker in sorted(woken, key=lambda one: self._busy[one] > 0):
            self._accept_soon(now, worker)

    def leave(self, now: float, worker: int) -> None:
        self._busy[worker] -= 1
        if worker in self._waiting:
            self._accept(now, worker)
        elif worker not in self._listening:
            self._wait(now, worker)

    def _accept_soon(self, now: float, worker: int) -> None:
        """Do what a worker does that found a request: wait for a thread, then for others."""
        if self._busy[worker] < self._threads:
            self._wait(now, worker)

    def _wait(self, now: float, worker: int) -> None:
        if self._busy[worker] == 0:
            self._accept(now, worker)
            return
        number = self._waiting[worker] = next(self._numbers)

        def over(then: float, _nobody: object) -> None:
            if self._waiting.get(worker) == number:
                self._accept(then, worker)

        self._later(now + self._delay, over)

    def _accept(self, now: float, worker: int) -> None:
        self._waiting.pop(worker, None)
        if self._queue:
            self._busy[worker] += 1
            self._start(now, self._queue.popleft(), worker)
        if self._queue:
            self._accept_soon(now, worker)
        else:
            self._listening.append(worker)
