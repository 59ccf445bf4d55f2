"""What processes used of their CPUs between two readings, and what the kernel withheld."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean
from typing import Final

from mrtuner.counter_resets import growth
from mrtuner.errors import UsageError
from mrtuner.host.cgroup import ControlGroup, lineage
from mrtuner.host.counters import CpuTimes, busy_by_cpu
from mrtuner.host.cpu_throttling import Throttling, throttling
from mrtuner.host.cpus import Bound, bounds, narrowest
from mrtuner.host.tree import Tree
from mrtuner_pods.measure import processes
from mrtuner_pods.measure.processes import ThreadTimes

#: Between two looks at the queues of listening sockets [s].
_LOOK: Final = 0.1
_NEW: Final = ThreadTimes(0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUse:
    """What one process used between the readings, in CPUs: seconds per second."""

    pid: int
    name: str
    threads: tuple[float, ...]  # CPU of each, the busiest first
    delay: float | None  # its threads were ready to run and had no CPU; None if not counted
    memory: int | None  # proportional set size at the end [bytes]

    @property
    def cpu(self) -> float:
        return sum(self.threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """How often the quota of a control group was used up."""

    group: ControlGroup
    quota: Fraction  # in CPUs
    source: str
    own: bool  # the processes are in this very group, not in one below it
    share: float | None  # of the periods; None where nothing was counted
    throttled: float | None  # seconds a second, summed over CPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What happened between two readings, `seconds` apart."""

    seconds: float
    processes: tuple[ProcessUse, ...]  # the busiest first
    bounds: tuple[Bound, ...]  # everything that limits the first process, widest first
    quotas: tuple[QuotaUse, ...]
    hidden: tuple[str, ...]  # why a quota might not be visible
    idle: float | None  # CPUs that were idle, of those that the process may run on
    steal: float | None  # CPUs that the hypervisor took
    waiting: tuple[int, ...] | None  # connections to be accepted, at each look; None: not shown
    opened: float | None = None  # connections a second to their network namespace
    rate: float | None = None  # connections a second that they accept, where the caller knows it

    @property
    def queue(self) -> float | None:
        """Connections that waited to be accepted, on average."""
        return fmean(self.waiting) if self.waiting else None

    @property
    def accept_wait(self) -> float | None:
        """Mean time of a connection in the queue [s], by Little's law: its length over the rate.

        The rate of a network namespace counts all that listen there: the wait is at least this.
        """
        rate, queue = self.rate or self.opened, self.queue
        return None if queue is None or not rate else queue / rate

    @property
    def cpu(self) -> float:
        return sum(one.cpu for one in self.processes)

    @property
    def delay(self) -> float | None:
        """Threads that were ready to run and had no CPU, on average."""
        known = [one.delay for one in self.processes if one.delay is not None]
        return sum(known) if known else None

    @property
    def online(self) -> int | None:
        for bound in self.bounds:
            if bound.by == "online" and isinstance(bound.limit.value, frozenset):
                return len(bound.limit.value)
        return None

    @property
    def narrowest(self) -> tuple[int, Bound] | None:
        """How many CPUs the process may run on, and what narrowed them last."""
        found = narrowest(self.bounds)
        return None if found is None else (len(found[0]), found[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    at: float
    threads: Mapping[int, Mapping[int, ThreadTimes]]
    throttled: Mapping[ControlGroup, Throttling | None]
    cpus: Mapping[int, CpuTimes]
    opened: int | None


def measure(
    tree: Tree, pids: Sequence[int], seconds: float, *, rate: float | None = None,
    sleep: Callable[[float], object] = time.sleep, clock: Callable[[], float] = time.monotonic,
) -> Measurement:  # fmt: skip
    """Read the counters of these processes and their descendants twice, `seconds` apart.

    `rate` is the number of connections that they accept [1/s], if it is known. Processes that
    ended since they were found are left out.

    Raises:
        UsageError: none of them exists.
    """
    pids = [pid for pid in pids if processes.name_of(tree, pid) is not None] or pids
    first = Tree(tree.root, require(tree, pids[0]))
    limits = bounds(first)
    groups = [bound.group for bound in limits if bound.group is not None]
    sockets = _sockets(tree, pids)
    before = _read(first, pids, groups, clock)
    waiting = []
    while (left := before.at + seconds - clock()) > 0:
        if sockets is not None:
            waiting.append(processes.waiting_to_be_accepted(tree, pids[0], sockets))
        sleep(min(_LOOK, left))
    after = _read(first, pids, groups, clock)
    above = lineage(first, "cpu")
    passed = after.at - before.at
    found = narrowest(limits)
    allowed = None if found is None else found[0]
    opened = growth(before.opened, after.opened)
    return Measurement(
        seconds=passed,
        processes=tuple(_uses(tree, before, after, passed)),
        bounds=limits,
        quotas=tuple(_quota_uses(limits, above.groups[:1], before, after, passed)),
        hidden=above.hidden,
        idle=_of_cpus(before, after, allowed, passed, lambda one: one.idle + one.iowait),
        steal=_of_cpus(before, after, allowed, passed, lambda one: one.steal),
        waiting=None if sockets is None else tuple(waiting),
        opened=None if opened is None else opened / passed,
        rate=rate,
    )


def require(tree: Tree, pid: int) -> int:
    """Return `pid`; UsageError if there is no such process."""
    if processes.name_of(tree, pid) is None:
        raise UsageError(f"there is no process {pid}", "List processes with ps -e.")
    return pid


def _read(
    first: Tree, pids: Iterable[int], groups: Iterable[ControlGroup], clock: Callable[[], float]
) -> _Reading:
    everyone = dict.fromkeys(one for pid in pids for one in processes.family(first, pid))
    return _Reading(
        at=clock(),
        threads={pid: processes.thread_times(first, pid) for pid in everyone},
        throttled={group: throttling(first, group) for group in groups},
        cpus=busy_by_cpu(first),
        opened=processes.connections_accepted(first, first.pid or 1),
    )


def _sockets(tree: Tree, pids: Iterable[int]) -> frozenset[int] | None:
    found = [
        sockets
        for pid in pids
        for one in processes.family(tree, pid)
        if (sockets := processes.sockets_of(tree, one)) is not None
    ]
    return frozenset().union(*found) if found else None


def _uses(tree: Tree, before: _Reading, after: _Reading, passed: float) -> list[ProcessUse]:
    """The use of processes that exist at the end; those that began meanwhile count from zero."""
    uses = []
    for pid, threads in after.threads.items():
        known = before.threads.get(pid, {})
        pairs = [(known.get(tid, _NEW), now) for tid, now in threads.items()]
        cpu = [now.cpu - then.cpu for then, now in pairs]
        delays = [now.delay - (then.delay or 0.0) for then, now in pairs if now.delay is not None]
        uses.append(
            ProcessUse(
                pid=pid,
                name=processes.title_of(tree, pid) or "?",
                threads=tuple(sorted((one / passed for one in cpu), reverse=True)),
                delay=sum(delays) / passed if delays else None,
                memory=processes.proportional_memory(tree, pid),
            )
        )
    return sorted(uses, key=lambda one: (-one.cpu, one.pid))


def _quota_uses(
    limits: Iterable[Bound], own: Sequence[ControlGroup], before: _Reading, after: _Reading,
    passed: float,
) -> Iterator[QuotaUse]:  # fmt: skip
    for bound in limits:
        if bound.group is None or not isinstance(bound.limit.value, Fraction):
            continue
        share = throttled = None
        earlier, later = before.throttled[bound.group], after.throttled[bound.group]
        if earlier is not None and later is not None:
            periods = later.periods - earlier.periods
            share = (later.throttled - earlier.throttled) / periods if periods > 0 else 0.0
            throttled = (later.seconds - earlier.seconds) / passed
        yield QuotaUse(
            group=bound.group, quota=bound.limit.value, source=bound.limit.source,
            own=bound.group in own, share=share, throttled=throttled,
        )  # fmt: skip


def _of_cpus(
    before: _Reading, after: _Reading, allowed: frozenset[int] | None, passed: float,
    what: Callable[[CpuTimes], float],
) -> float | None:  # fmt: skip
    """Seconds per second, summed over these CPUs; None if there are none."""
    shared = before.cpus.keys() & after.cpus.keys()
    chosen = shared if allowed is None else shared & allowed
    if not chosen:
        return None
    return sum(what(after.cpus[one]) - what(before.cpus[one]) for one in chosen) / passed
