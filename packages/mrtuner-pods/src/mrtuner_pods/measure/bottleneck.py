"""Why processes do not use the CPU that they were given. Pure.

a quota, its own or above     periods in which it was used up
cpuset, affinity              all the CPUs that are left are used
other work                    threads are ready to run, and the CPUs are busy
a quota that is hidden        threads are ready to run, while CPUs are idle
a lock, or one thread         one process uses one CPU, and nothing keeps it from more
something else is slow        CPUs are idle, while connections wait to be accepted
too little load               none of these
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mrtuner.host.cpus import counted_cpus
from mrtuner_pods.measure.reading import Measurement, QuotaUse

#: A quota holds processes back if it was used up in at least this share of the periods.
_THROTTLED: Final = 0.05
#: CPUs count as used up from this share on.
_USED: Final = 0.9
#: Threads lack a CPU if they wait for one for this share of the time in which they could run.
_DELAYED: Final = 0.2
#: CPUs that a process uses if a lock lets only one of its threads run: from, to.
_ONE_CPU: Final = (0.85, 1.1)
#: A thread takes part if it uses this share of its process's CPU.
_TAKES_PART: Final = 0.05
#: Fewer connections than this, on average, are no queue.
_QUEUE: Final = 0.5


class Cause(StrEnum):
    """What holds processes back."""

    QUOTA = "quota"
    QUOTA_ABOVE = "quota of a parent control group"
    QUOTA_HIDDEN = "a quota that is not visible"
    CPUSET = "cpuset"
    AFFINITY = "affinity"
    MACHINE = "the machine's CPUs"
    OTHERS = "other work on the same CPUs"
    LOCK = "a lock: one thread runs at a time"
    ONE_THREAD = "one thread does all the work"
    ELSEWHERE = "something else is slow"
    LOAD = "too little load"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """What holds the processes back, what shows it, and what to do."""

    cause: Cause
    evidence: tuple[str, ...]
    action: str


def held_back(seen: Measurement) -> Bottleneck:
    """Return why these processes use no more CPU than they do."""
    for judge in (_by_quota, _by_cpus, _by_waiting, _by_one_thread):
        found = judge(seen)
        if found is not None:
            return found
    return _by_nothing_of_the_cpu(seen)


def _by_quota(seen: Measurement) -> Bottleneck | None:
    throttled = [one for one in seen.quotas if (one.share or 0) >= _THROTTLED]
    if not throttled:
        return None
    tightest = min(throttled, key=lambda one: one.quota)
    if tightest.own:
        return Bottleneck(
            cause=Cause.QUOTA, evidence=(_throttled(tightest),),
            action="Raise the CPU limit, or run fewer busy threads at a time.",
        )  # fmt: skip
    return Bottleneck(
        cause=Cause.QUOTA_ABOVE,
        evidence=(_throttled(tightest), *_own_quota(seen.quotas)),
        action=f"Raise the quota of {tightest.group.name}: it limits every group below it.",
    )


def _throttled(one: QuotaUse) -> str:
    periods = f"{one.share:.0%} of periods"
    return f"the quota of {counted_cpus(one.quota)} ({one.source}) was used up in {periods}"


def _own_quota(quotas: Sequence[QuotaUse]) -> tuple[str, ...]:
    own = next((one for one in quotas if one.own), None)
    return () if own is None else (f"its own quota is {counted_cpus(own.quota)} ({own.source})",)


def _by_cpus(seen: Measurement) -> Bottleneck | None:
    narrowest = seen.narrowest
    if narrowest is None or seen.cpu < _USED * narrowest[0]:
        return None
    count, bound = narrowest
    evidence = (f"it used {seen.cpu:.2f} of the {counted_cpus(count)} it may run on "
                f"({bound.limit.source}; {seen.online} are online)",)  # fmt: skip
    if bound.by == "cpuset":
        return Bottleneck(
            cause=Cause.CPUSET, evidence=evidence,
            action="Widen the cpuset: in Kubernetes, the CPU manager's static policy gives whole "
                   "CPUs to pods whose requests equal their limits.",
        )  # fmt: skip
    if bound.by == "affinity":
        return Bottleneck(
            cause=Cause.AFFINITY,
            evidence=evidence,
            action="Start it without taskset, CPUAffinity= or sched_setaffinity.",
        )
    return Bottleneck(
        cause=Cause.MACHINE, evidence=evidence, action="Give it a machine with more CPUs."
    )


def _by_waiting(seen: Measurement) -> Bottleneck | None:
    """Blame other work or a hidden quota if threads were ready to run, but had no CPU."""
    delay = seen.delay
    if delay is None or delay < _DELAYED * (seen.cpu + delay) or seen.cpu + delay < 0.1:
        return None
    evidence = [f"on average, {delay:.2f} threads were ready to run but had no CPU"]
    if seen.idle is not None and seen.idle > delay / 2 and seen.hidden:
        return Bottleneck(
            cause=Cause.QUOTA_HIDDEN,
            evidence=(*evidence, f"{seen.idle:.2f} CPUs were idle meanwhile", *seen.hidden),
            action="Measure on the node, as root: a quota of a parent control group is not visible "
                   "in a container.",
        )  # fmt: skip
    if seen.idle is not None:
        evidence.append(f"{seen.idle:.2f} of its CPUs were idle")
    if seen.steal:
        evidence.append(f"the hypervisor took {seen.steal:.2f} CPUs")
    return Bottleneck(
        cause=Cause.OTHERS, evidence=tuple(evidence),
        action="Raise its CPU request, which is its share when CPUs are short, or move the others.",
    )  # fmt: skip


def _by_one_thread(seen: Measurement) -> Bottleneck | None:
    least, most = _ONE_CPU
    full = [one for one in seen.processes if least <= one.cpu <= most]
    if not full or sum(one.cpu for one in full) < _USED * seen.cpu:
        return None
    taking_part = max(sum(cpu >= _TAKES_PART * one.cpu for cpu in one.threads) for one in full)
    which = f"{full[0].name} ({full[0].pid})"
    used = f"{which} used {full[0].cpu:.2f} CPUs, and hardly waited for one"
    if taking_part > 1:
        return Bottleneck(
            cause=Cause.LOCK,
            evidence=(used, f"{taking_part} of its threads shared that"),
            action="Run more processes: threads of one process take turns under a global lock, as "
                   "Python's and Ruby's do.",
        )  # fmt: skip
    return Bottleneck(
        cause=Cause.ONE_THREAD,
        evidence=(used, "one of its threads used nearly all of that"),
        action="Run more processes, or let several threads do the work.",
    )


def _by_nothing_of_the_cpu(seen: Measurement) -> Bottleneck:
    used = f"it used {seen.cpu:.2f} CPUs, and nothing kept it from using more"
    queue = seen.queue
    if queue is not None and queue >= _QUEUE:
        return Bottleneck(
            cause=Cause.ELSEWHERE,
            evidence=(used, f"{queue:.1f} connections waited to be accepted, on average"),
            action="Look at what its workers wait for: the database, the pool, another service. "
                   "More workers help if these can take more.",
        )  # fmt: skip
    unseen = () if seen.waiting is not None else (
        "its sockets are not shown, so requests may be waiting: run as its user or as root",
    )  # fmt: skip
    return Bottleneck(
        cause=Cause.LOAD, evidence=(used, *unseen), action="Nothing: it has the CPU that it needs."
    )
