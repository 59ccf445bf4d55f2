"""The test itself: numbers of workers in shuffled order, each several times, spoilt ones again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from random import Random
from typing import Final, Protocol

from mrtuner.cpu import gauges, pairs
from mrtuner.cpu.crew import Crew, crew, steps_per_second
from mrtuner.cpu.model import Mode, Plan, Trial, Usable, Worker
from mrtuner.errors import Refused
from mrtuner.host.tree import Tree

#: Up to here every number of workers is tried; beyond, about so many of them.
MOST_COUNTS: Final = 32
#: What a trial takes beside its work [s]: starting workers, the piece that warms them up.
_OVERHEAD: Final = 0.4
#: The look at the machine before the start [s].
_LOOK: Final = 1.0

Tell = Callable[[str], None]


class Crewed(Protocol):
    """Workers that have started."""

    @property
    def pids(self) -> Sequence[int]:
        """The processes whose CPU time is ours."""
        ...

    def work(self, plan: Plan) -> tuple[Worker, ...]:
        """Do the planned work, all at once, and go on burning until the end."""
        ...


class Site(Protocol):
    """Where workers run: on this machine, or in the sessions of a server."""

    tree: Tree
    cpus: Sequence[int]  # those that we watch for other work; none if they are out of sight

    def workers(self, count: int) -> AbstractContextManager[Crewed]:
        """So many workers."""
        ...


class Here:
    """Workers as processes of this machine."""

    def __init__(self, mode: Mode, tree: Tree, usable: Usable) -> None:
        self.tree = tree
        self.cpus: Sequence[int] = usable.cpus
        self._mode, self._usable = mode, usable

    @cached_property
    def speed(self) -> float:
        """Steps that one worker does in a second; measured when first asked for."""
        return steps_per_second(self._mode)

    @contextmanager
    def workers(self, count: int) -> Iterator[Crewed]:
        """So many processes, free to run on every CPU that we may run on."""
        speed = self.speed  # before there are others
        slowed = max(1.0, count / max(0.01, self._usable.count))
        with crew(self._mode, count) as started:
            yield _Processes(started, speed, slowed)


class _Processes:
    def __init__(self, started: Crew, speed: float, slowed: float) -> None:
        self._crew, self._speed, self._slowed = started, speed, slowed

    @property
    def pids(self) -> Sequence[int]:
        return self._crew.pids

    def work(self, plan: Plan) -> tuple[Worker, ...]:
        count = max(1, round(self._speed * plan.seconds / plan.pieces))
        expected = plan.seconds * self._slowed
        self._crew.run(1, count, expected=expected)
        return self._crew.run(plan.pieces, count, expected=expected)


def counts(most: int, cpus: int, cores: int | None) -> tuple[int, ...]:
    """The numbers of workers to try: all, or of many those around cores and CPUs and in between."""
    if most <= MOST_COUNTS:
        return tuple(range(1, most + 1))
    step = -(-most // MOST_COUNTS)
    corners = {1, 2, most, *_around(cpus), *_around(cores or cpus)}
    return tuple(sorted(each for each in {*range(step, most, step), *corners} if 1 <= each <= most))


def _around(count: int) -> tuple[int, int, int]:
    return count - 1, count, count + 1


def seconds_expected(plan: Plan, usable: Usable) -> float:
    """About how long the whole test takes [s], spoilt trials not counted."""
    tried = pairs.seconds_expected(usable.cpus) if plan.pairs else 0.0
    work = plan.seconds * (1 + 1 / plan.pieces)
    waits = (max(1.0, count / max(0.01, usable.count)) for count in plan.counts)
    return tried + plan.repeats * sum(work * wait + _OVERHEAD for wait in waits)


def check_quiet(site: Site) -> str | None:
    """What is wrong with the machine's weather just now; None when it is fit for measuring."""
    before = gauges.read(site.tree, site.cpus, ())
    time.sleep(_LOOK)
    return gauges.objection(gauges.weather(before, gauges.read(site.tree, site.cpus, ())))


def too_busy(why: str) -> Refused:
    """What others do would be taken for what the CPUs do."""
    return Refused(
        f"the machine is busy: {why}",
        "Stop what else runs here (see top), or use --force: the record will say so.",
    )


def order(plan: Plan) -> list[int]:
    """Every repeat is a shuffled round of all counts, so that drift hits all of them alike."""
    dealer = Random(plan.seed)  # noqa: S311 - an order, not a secret
    rounds = (dealer.sample(plan.counts, len(plan.counts)) for _ in range(plan.repeats))
    return [count for each in rounds for count in each]


def run(site: Site, plan: Plan, *, tell: Tell) -> tuple[Trial, ...]:
    """Every trial in its order; then those that were spoilt once more. All are kept."""
    first = list(_tried(site, plan, order(plan), tell))
    spoilt = [trial.count for trial in first if trial.rejected]
    return (*first, *_tried(site, plan, spoilt, tell))


def _tried(site: Site, plan: Plan, todo: Sequence[int], tell: Tell) -> Iterator[Trial]:
    for place, count in enumerate(todo, 1):
        trial = _trial(site, plan, count)
        slowest = max(worker.wall for worker in trial.workers)
        spoilt = f", does not count: {trial.rejected}" if trial.rejected else ""
        tell(f"[{place}/{len(todo)}] {count} at once: {slowest:.2f} s{spoilt}")
        yield trial


def _trial(site: Site, plan: Plan, count: int) -> Trial:
    with site.workers(count) as crewed:
        before = gauges.read(site.tree, site.cpus, crewed.pids)
        done = crewed.work(plan)
        after = gauges.read(site.tree, site.cpus, crewed.pids)
        seen = gauges.weather(before, after, gauges.frequency(site.tree, site.cpus))
    why = None if plan.forced else gauges.objection(seen)
    return Trial(count=count, workers=done, weather=seen, rejected=why)
