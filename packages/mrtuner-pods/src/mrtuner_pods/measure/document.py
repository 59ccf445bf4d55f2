"""What holds processes back, as JSON: ``mrtuner.pods.measure/1``."""

from __future__ import annotations

from typing import Annotated

from mrtuner.documents import Doc, Document, Struct, convert
from mrtuner_pods.measure.bottleneck import Cause, held_back
from mrtuner_pods.measure.reading import Measurement
from mrtuner_pods.measure.runtimes import RuntimeBelief, beliefs, usable


class MeasuredProcess(Struct):
    """One process."""

    pid: Annotated[int, Doc("its number")]
    name: Annotated[str, Doc("its name")]
    cpu: Annotated[float, Doc("CPUs that it used")]
    threads: Annotated[list[float], Doc("share of each thread, the busiest first")]
    delay: Annotated[float | None, Doc("threads that were ready to run but had no CPU, on average")]
    memory: Annotated[int | None, Doc("proportional set size [bytes]; null if not shown")]


class MeasuredQuota(Struct):
    """The quota of a control group."""

    group: Annotated[str, Doc("its name")]
    cpus: Annotated[float, Doc("CPU time that it allows, in CPUs")]
    source: Annotated[str, Doc("where this was read")]
    own: Annotated[bool, Doc("whether the processes are in this group, not in one below it")]
    share: Annotated[float | None, Doc("share of the periods in which it was used up")]
    throttled: Annotated[
        float | None, Doc("seconds per second for which it stopped them, over all CPUs")
    ]


class HeldBack(Document, tag="mrtuner.pods.measure/1"):
    """What processes used of their CPUs, and what held them back."""

    cause: Annotated[Cause, Doc("what holds them back")]
    evidence: Annotated[list[str], Doc("what shows it")]
    action: Annotated[str, Doc("what to do")]
    seconds: Annotated[float, Doc("between the two readings")]
    cpu: Annotated[float, Doc("CPUs used by all processes")]
    usable: Annotated[float | None, Doc("CPUs that they can have: the smallest cpuset or quota")]
    online: Annotated[int | None, Doc("CPUs of the machine")]
    allowed: Annotated[int | None, Doc("CPUs that they may run on")]
    delay: Annotated[float | None, Doc("threads that were ready to run but had no CPU")]
    idle: Annotated[float | None, Doc("CPUs that were idle, of those they may run on")]
    steal: Annotated[float | None, Doc("CPUs that the hypervisor took")]
    waiting: Annotated[
        float | None, Doc("connections that waited to be accepted, on average; null if not shown")
    ]
    processes: Annotated[list[MeasuredProcess], Doc("the busiest first")]
    quotas: Annotated[list[MeasuredQuota], Doc("of their control groups, their own first")]
    hidden: Annotated[list[str], Doc("why a quota might not be visible")]
    beliefs: Annotated[list[RuntimeBelief], Doc("how many CPUs runtimes count here")]
    accepted: Annotated[
        float | None,
        Doc("connections per second: as given, else all opened in their network namespace"),
    ] = None
    accept_wait: Annotated[
        float | None,
        Doc("mean seconds until a connection was accepted, by Little's law; null: not known"),
    ] = None


def held_back_document(seen: Measurement) -> HeldBack:
    found, can_have = held_back(seen), usable(seen)
    return HeldBack(
        cause=found.cause, evidence=list(found.evidence), action=found.action,
        seconds=seen.seconds, cpu=seen.cpu, usable=None if can_have is None else float(can_have),
        online=seen.online, allowed=seen.narrowest[0] if seen.narrowest else None,
        delay=seen.delay, idle=seen.idle, steal=seen.steal,
        waiting=seen.queue,
        processes=[convert(one, MeasuredProcess) for one in seen.processes],
        quotas=[
            MeasuredQuota(
                group=str(one.group.name), cpus=float(one.quota), source=one.source, own=one.own,
                share=one.share, throttled=one.throttled,
            )
            for one in seen.quotas
        ],
        hidden=list(seen.hidden),
        beliefs=list(beliefs(seen)),
        accepted=seen.rate or seen.opened,
        accept_wait=seen.accept_wait,
    )  # fmt: skip
