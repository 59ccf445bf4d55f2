"""The test itself: numbers of workers in shuffled order, repeated; spoilt trials are retried."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from random import Random
from typing import Final, Protocol

from mrtuner.cpu import gauges, pairs
from mrtuner.cpu.crew import Crew, crew, steps_per_second
from mrtuner.cpu.model import CpuPlan, Mode, Trial, Usable, Worker
from mrtuner.host.tree import Tree

#: Up to here every number of workers is tried; beyond, only about this many of them.
MOST_COUNTS: Final = 32
#: Time of a trial besides its work [s]: starting workers, the piece that warms them up.
_OVERHEAD: Final = 0.4
#: How long the machine is checked for other work before the start [s].
_LOOK: Final = 1.0

Tell = Callable[[str], None]


class Crewed(Protocol):
    """Workers that have started."""

    @property
    def pids(self) -> Sequence[int]:
        """Return the processes whose CPU time is ours."""
        ...

    def work(self, plan: CpuPlan) -> tuple[Worker, ...]:
        """Do the planned work, all together, and keep burning CPU until the end."""
        ...


class CpuSite(Protocol):
    """Where workers run: as processes on this machine, or in the sessions of a server."""

    tree: Tree
    cpus: Sequence[int]  # those that we watch for other work; none if not visible

    def workers(self, count: int) -> AbstractContextManager[Crewed]: ...


class Here:
    """Workers as processes on this machine."""

    def __init__(self, mode: Mode, tree: Tree, usable: Usable) -> None:
        self.tree = tree
        self.cpus: Sequence[int] = usable.cpus
        self._mode, self._usable = mode, usable

    @cached_property
    def speed(self) -> float:
        """Steps per second of one worker; measured on first use."""
        return steps_per_second(self._mode)

    @contextmanager
    def workers(self, count: int) -> Iterator[Crewed]:
        """Yield this many processes, free to run on every CPU that we may use."""
        speed = self.speed  # measured before other workers run
        slowed = max(1.0, count / max(0.01, self._usable.count))
        with crew(self._mode, count) as started:
            yield _Processes(started, speed, slowed)


class _Processes:
    def __init__(self, started: Crew, speed: float, slowed: float) -> None:
        self._crew, self._speed, self._slowed = started, speed, slowed

    @property
    def pids(self) -> Sequence[int]:
        return self._crew.pids

    def work(self, plan: CpuPlan) -> tuple[Worker, ...]:
        count = max(1, round(self._speed * plan.seconds / plan.pieces))
        expected = plan.seconds * self._slowed
        self._crew.run(1, count, expected=expected)
        return self._crew.run(plan.pieces, count, expected=expected)


def counts(most: int, cpus: int, cores: int | None) -> tuple[int, ...]:
    """Return the numbers of workers to try: all, or some around and between cores and CPUs."""
    if most <= MOST_COUNTS:
        return tuple(range(1, most + 1))
    step = -(-most // MOST_COUNTS)
    corners = {1, 2, most, *_around(cpus), *_around(cores or cpus)}
    return tuple(sorted(each for each in {*range(step, most, step), *corners} if 1 <= each <= most))


def _around(count: int) -> tuple[int, int, int]:
    return count - 1, count, count + 1


def seconds_expected(plan: CpuPlan, usable: Usable) -> float:
    """Return about how long the whole test takes [s], not counting spoilt trials."""
    tried = pairs.seconds_expected(usable.cpus) if plan.pairs else 0.0
    work = plan.seconds * (1 + 1 / plan.pieces)
    waits = (max(1.0, count / max(0.01, usable.count)) for count in plan.counts)
    return tried + plan.repeats * sum(work * wait + _OVERHEAD for wait in waits)


def check_quiet(site: CpuSite) -> str | None:
    """Return why the machine is unfit for measuring just now; None if it is fit."""
    before = gauges.read(site.tree, site.cpus, ())
    time.sleep(_LOOK)
    return gauges.objection(gauges.weather(before, gauges.read(site.tree, site.cpus, ())))


def order(plan: CpuPlan) -> list[int]:
    """Return every repeat as a shuffled round of all counts, so that drift affects all equally."""
    dealer = Random(plan.seed)  # noqa: S311 - an order, not a secret
    rounds = (dealer.sample(plan.counts, len(plan.counts)) for _ in range(plan.repeats))
    return [count for each in rounds for count in each]


def run(site: CpuSite, plan: CpuPlan, *, tell: Tell) -> tuple[Trial, ...]:
    """Run every trial in order, then retry those that were spoilt. All are kept."""
    first = list(_tried(site, plan, order(plan), tell))
    spoilt = [trial.count for trial in first if trial.rejected]
    return (*first, *_tried(site, plan, spoilt, tell))


def _tried(site: CpuSite, plan: CpuPlan, todo: Sequence[int], tell: Tell) -> Iterator[Trial]:
    for place, count in enumerate(todo, 1):
        trial = _trial(site, plan, count)
        slowest = max(worker.wall for worker in trial.workers)
        spoilt = f", not counted: {trial.rejected}" if trial.rejected else ""
        tell(f"[{place}/{len(todo)}] {count} at once: {slowest:.2f} s{spoilt}")
        yield trial


def _trial(site: CpuSite, plan: CpuPlan, count: int) -> Trial:
    with site.workers(count) as crewed:
        before = gauges.read(site.tree, site.cpus, crewed.pids)
        done = crewed.work(plan)
        after = gauges.read(site.tree, site.cpus, crewed.pids)
        seen = gauges.weather(before, after, gauges.frequency(site.tree, site.cpus))
    why = None if plan.forced else gauges.objection(seen)
    return Trial(count=count, workers=done, weather=seen, rejected=why)
