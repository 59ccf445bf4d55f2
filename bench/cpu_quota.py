"""The kernel's CPU limit beside the simulation of the same work, without any server.

    python bench/cpu_quota.py                 # some two minutes, on an idle machine
    python bench/cpu_quota.py --seconds 3     # whether it works

Processes in a control group with a quota each take pieces of CPU time, one after the other, as they
become due. How much later than intended each piece ends than it would with a CPU to itself is what
it was stopped, or waited for the piece before. The simulation gets the same pieces and the point of
100 ms at which the kernel renews the quota. *All at once* is how quotas are often thought of, and
were simulated here once: when the pool is empty all processes stop until the period ends. Shown are
mean and p95.

*Others* is how many CPUs other programs used meanwhile: on a busy machine the run says little.
Needs root and control groups of version 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from application_servers import group_of, quota_group, renewals

from mrtuner_pods.waiting.cpu import PERIOD, PodCpu
from mrtuner_pods.waiting.queues import quantile
from mrtuner_pods.waiting.service_times import Times, arrivals

#: The name of a group ends with a server's port; here there is none.
NO_PORT = 0
MEAN = 0.010
#: Longest step between two looks at the clock in which the process was running [s].
STEP = 50e-6
Pieces = Sequence[tuple[float, float]]  # due [s], CPU time [s]


@dataclass(frozen=True, kw_only=True)
class Case:
    """Processes under a quota."""

    workers: int
    quota: float
    load: float  # of the quota

    def pieces(self, seconds: float, seed: int) -> list[Pieces]:
        """Return the pieces of each process."""
        rate = self.load * self.quota / MEAN / self.workers
        return list(self._pieces(round(rate * seconds), rate, seed))

    def _pieces(self, number: int, rate: float, seed: int) -> Iterator[Pieces]:
        for worker in range(self.workers):
            chance = Random(f"{seed} {worker}")
            due = arrivals(rate, number, chance)
            yield list(zip(due, Times(mean=MEAN).draw(chance, number), strict=True))


def cases() -> Iterator[Case]:
    for load in (0.5, 0.7):
        yield Case(workers=1, quota=0.5, load=load)
        yield Case(workers=2, quota=0.5, load=load)


# The kernel.


def work(tasks: Path, began: Any, pieces: Pieces, told: Any) -> None:
    """Enter the group and do the pieces; `began` delivers the time from which they are due."""
    tasks.write_text(str(os.getpid()))
    _burn(0.002)
    told.send(None)
    start = began.recv()
    ended = []
    for due, length in pieces:
        if (left := start + due - time.monotonic()) > 0:
            time.sleep(left)
        _burn(length)
        ended.append(time.monotonic() - start)
    told.send(ended)


def _burn(seconds: float) -> None:
    """Use CPU time in the way of waiting_apps/app.py, and for the same reason."""
    before = time.perf_counter()
    while seconds > 0:
        now = time.perf_counter()
        if now - before < STEP:
            seconds -= now - before
        before = now


def measured(case: Case, pieces: Sequence[Pieces]) -> tuple[list[list[float]], float, float]:
    """Return when each piece ended and the quota is first renewed [s], and CPUs used by others."""
    fork = multiprocessing.get_context("fork")
    with quota_group(case.quota, NO_PORT) as group:
        starts, ends, processes = [], [], []
        for each in pieces:
            (began, start), (told, end) = fork.Pipe(duplex=False), fork.Pipe(duplex=False)
            process = fork.Process(
                target=work, args=(group_of(NO_PORT) / "cgroup.procs", began, each, end)
            )
            process.start()
            starts.append(start)
            ends.append(told)
            processes.append(process)
        for told in ends:
            told.recv()
        (renewed,) = renewals([group])
        begin, before = time.monotonic() + 0.1, _busy()
        for start in starts:
            start.send(begin)
        found = [told.recv() for told in ends]
        for process in processes:
            process.join()
    ours = sum(length for each in pieces for _, length in each)
    others = (_busy() - before - ours) / (time.monotonic() - begin)
    return found, (renewed - begin) % PERIOD or PERIOD, max(0.0, others)


def _busy() -> float:
    """Return the CPU seconds of the machine so far: user, nice, system, interrupts."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(int(fields[place]) for place in (0, 1, 2, 5, 6)) / os.sysconf("SC_CLK_TCK")


# The simulation.


class AllAtOnce:
    """A quota that stops every process when it is used up, until the period ends."""

    def __init__(
        self, quota: float, renewal: float, later: Callable[..., None], done: Callable[..., None]
    ) -> None:
        self._full = self._left = quota * PERIOD
        self._renewal, self._later, self._done = renewal, later, done
        self._running: list[list[Any]] = []  # what is left of each, and whose it is
        self._now, self._version = 0.0, 0

    def add(self, now: float, demand: float, who: Any) -> None:
        self._advance(now)
        self._running.append([demand, who])
        self._plan()

    def _advance(self, now: float) -> None:
        while self._renewal <= now:
            self._use(self._renewal)
            self._left, self._renewal = self._full, self._renewal + PERIOD
        self._use(now)

    def _use(self, now: float) -> None:
        number = len(self._running)
        ran = min(now - self._now, self._left / number) if number else 0.0
        for one in self._running:
            one[0] -= ran
        self._left -= ran * number
        self._now = now

    def _plan(self) -> None:
        self._version += 1
        if not self._running:
            return
        least, number = min(one[0] for one in self._running), len(self._running)
        ends = self._now + max(0.0, least)
        if least * number > self._left + 1e-12:
            ends = self._renewal

        def call(now: float, _nothing: object, version: int = self._version) -> None:
            if version == self._version:
                self._advance(now)
                for one in [one for one in self._running if one[0] <= 1e-12]:
                    self._running.remove(one)
                    self._done(now, one[1])
                self._plan()

        self._later(ends, call)


def simulated(
    kind: Callable[..., Any], case: Case, pieces: Sequence[Pieces], renewal: float
) -> list[list[float]]:
    """Return when each piece ends, by process [s]."""
    events: list[tuple[float, int, Callable[[float, object], None]]] = []
    numbers = count()
    queues = [deque(each) for each in pieces]
    ended: list[list[float]] = [[] for _ in pieces]

    def later(when: float, call: Callable[[float, object], None]) -> None:
        heappush(events, (when, next(numbers), call))

    def begin(worker: int, now: float) -> None:
        if queues[worker]:
            due, length = queues[worker].popleft()
            later(max(due, now), lambda at, _: cpu.add(at, length, worker))

    def done(now: float, worker: int) -> None:
        ended[worker].append(now)
        begin(worker, now)

    cpu = kind(case.quota, renewal, later, done)
    for worker in range(case.workers):
        begin(worker, 0.0)
    while events:
        now, _, call = heappop(events)
        call(now, None)
    return ended


def lateness(ended: Sequence[Sequence[float]], pieces: Sequence[Pieces]) -> list[float]:
    """Return how much later each piece ends than it would with a CPU to itself [ms]."""
    return [
        1000 * (end - due - length)
        for ends, each in zip(ended, pieces, strict=True)
        for end, (due, length) in zip(ends, each, strict=True)
    ]


def told(values: Sequence[float]) -> str:
    return f"{fmean(values):.1f}, {quantile(values, 0.95):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    print("| processes, CPUs, load | measured [ms] | simulated | all at once | others |")
    print("|:--|--:|--:|--:|--:|")
    for case in cases():
        for seed in range(given.runs):
            pieces = case.pieces(given.seconds, seed)
            ended, renewal, others = measured(case, pieces)
            ours = (simulated(kind, case, pieces, renewal) for kind in (PodCpu, AllAtOnce))
            shown = [told(lateness(column, pieces)) for column in (ended, *ours)]
            name = f"{case.workers}, {case.quota:g}, {case.load:.0%}"
            print(f"| {name} | {' | '.join(shown)} | {others:.2f} |", flush=True)


if __name__ == "__main__":
    main()
