"""Find why workers are slow, by the part of wall = cpu + run delay + rest that grew. Pure.

sibling threads   cpu grows, while a sibling is busy       (pairs, or the kernel's topology)
frequency, cache  cpu grows, equally for all               (no pair stands out)
unequal CPUs      cpu grows, more for some                 (no pair stands out)
saturation        run delay grows, with more workers than CPUs
quota             run delay grows, and periods are throttled
other work        run delay grows, and others were busy
steal             the rest grows, and the hypervisor counts steal
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from mrtuner.cpu.gauges import MOST_FOREIGN
from mrtuner.cpu.levels import CpuLevel, levels, throughput
from mrtuner.cpu.model import Record, Usable
from mrtuner.described import Doc
from mrtuner.stats import knee

#: A part must have grown by this share of the single-worker time before a cause is named.
_WORTH: Final = 0.05
_STEAL: Final = 0.01
_PARTS: Final = ("cpu", "delay", "rest")


class Cause(StrEnum):
    """Why workers get slower."""

    SIBLINGS = "sibling threads"
    FREQUENCY = "frequency or cache"
    UNEQUAL = "unequal CPUs"
    SATURATION = "saturation"
    QUOTA = "quota"
    OTHERS = "other work"
    STEAL = "steal"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """A number of workers beyond which one more brings less.

    `cpu`, `delay` and `rest` are their growth from there to the next level [s].
    """

    at: Annotated[int, Doc("number of workers")]
    before: Annotated[float, Doc("work that one more worker brings up to there; one alone is 1")]
    after: Annotated[float, Doc("work that one more worker brings beyond")]
    bic_fall: Annotated[float, Doc("fall of the Bayesian information criterion by this knee")]
    cause: Annotated[Cause, Doc("why workers get slower")]
    cpu: Annotated[float | None, Doc("growth of CPU time")]
    delay: Annotated[float | None, Doc("growth of the time runnable, but not running")]
    rest: Annotated[float | None, Doc("growth of the rest")]
    throttled: Annotated[
        float | None, Doc("periods in which a quota was exhausted, per trial of the next level")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiblingThreads:
    """Which CPUs are threads of one core."""

    per_core: Annotated[int | None, Doc("threads of a core")]
    how: Annotated[str, Doc("how that is known")]
    pairs: Annotated[tuple[tuple[int, int], ...], Doc("siblings that were found")]
    hidden: Annotated[bool, Doc("whether the kernel is not told of them")]
    shared: Annotated[bool, Doc("whether two usable CPUs belong to one core")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuDiagnosis:
    """What the trials mean."""

    levels: Annotated[tuple[CpuLevel, ...], Doc("one for each number of workers")]
    bends: Annotated[tuple[Knee, ...], Doc("where one more worker begins to bring less")]
    effective_cores: Annotated[
        float | None, Doc("the most work at once, relative to one worker alone")
    ]
    best: Annotated[int | None, Doc("the fewest workers within 5 % of that")]
    threads: Annotated[SiblingThreads, Doc("threads of one core")]
    identity: Annotated[
        float | None, Doc("the largest `rest` over `wall`: how well the parts add up")
    ]
    incomplete: Annotated[tuple[int, ...], Doc("numbers of workers without a trial that counts")]


def diagnose(record: Record) -> CpuDiagnosis:
    """Diagnose a record; the same record always gives the same diagnosis."""
    found = levels(record.trials, seed=record.plan.seed)
    threads = _threads(record)
    alone = next((each.throughput for each in found if each.count == 1), None)
    most = max((each.throughput for each in found), default=None)
    rests = [
        abs(worker.rest) / worker.wall
        for trial in record.trials
        for worker in trial.workers
        if worker.rest is not None
    ]
    return CpuDiagnosis(
        levels=found,
        bends=_bends(record, found, threads, alone),
        effective_cores=most / alone if most and alone else None,
        best=next((one.count for one in found if most and one.throughput >= 0.95 * most), None),
        threads=threads,
        identity=max(rests, default=None),
        incomplete=tuple(sorted(set(record.plan.counts) - {each.count for each in found})),
    )


def _bends(
    record: Record, found: Sequence[CpuLevel], threads: SiblingThreads, alone: float | None
) -> tuple[Knee, ...]:
    if alone is None:
        return ()
    points = [(each.count, throughput(each) / alone) for each in record.trials if not each.rejected]
    return tuple(_knee(bend, found, threads, record.usable) for bend in knee.knees(points))


def _knee(
    bend: knee.Knee, found: Sequence[CpuLevel], threads: SiblingThreads, usable: Usable
) -> Knee:
    at = next(each for each in found if each.count == bend.at)
    after = next(each for each in found if each.count > bend.at)
    grown = _grown(at, after)
    return Knee(
        at=bend.at,
        before=bend.before,
        after=bend.after,
        bic_fall=bend.bic_fall,
        cause=cause(at, after, threads, usable, alone=found[0].wall),
        **grown,
        throttled=after.throttled,
    )


def cause(
    at: CpuLevel, after: CpuLevel, threads: SiblingThreads, usable: Usable, *, alone: float
) -> Cause:
    """Return the cause, from what has grown most between two levels."""
    known = {name: grown for name, grown in _grown(at, after).items() if grown is not None}
    if len(known) < len(_PARTS):
        return Cause.UNKNOWN
    name = max(known, key=known.__getitem__)
    if known[name] < _WORTH * alone:
        return Cause.UNKNOWN
    if name == "cpu":
        return _of_cpu(after, threads)
    if name == "delay":
        return _of_delay(after, usable)
    return Cause.STEAL if (after.steal or 0) > _STEAL else Cause.UNKNOWN


def _of_cpu(after: CpuLevel, threads: SiblingThreads) -> Cause:
    if threads.shared:
        return Cause.SIBLINGS
    return Cause.UNEQUAL if after.clearly_uneven else Cause.FREQUENCY


def _of_delay(after: CpuLevel, usable: Usable) -> Cause:
    if after.throttled:
        return Cause.QUOTA
    if after.count > usable.may_run_on:
        return Cause.SATURATION
    return Cause.OTHERS if (after.foreign or 0) > MOST_FOREIGN else Cause.UNKNOWN


def _grown(at: CpuLevel, after: CpuLevel) -> dict[str, float | None]:
    pairs = {name: (getattr(at, name), getattr(after, name)) for name in _PARTS}
    return {
        name: None if None in (one, other) else other - one for name, (one, other) in pairs.items()
    }


def _threads(record: Record) -> SiblingThreads:
    """Prefer siblings found by pairs to the kernel's topology: a hypervisor can hide siblings."""
    shown = record.topology.threads
    found = tuple((pair.first, pair.second) for pair in record.pairs if pair.siblings)
    if found:
        return SiblingThreads(
            per_core=1
            + max(sum(cpu in other for other in found) for pair in found for cpu in pair),
            how="pairs of CPUs slow each other",
            pairs=found,
            hidden=(shown or 1) == 1,
            shared=True,
        )
    tried = f"; pairs that slow each other: none of {len(record.pairs)}" if record.pairs else ""
    how = record.topology.source + tried
    shared = any(len(core) > 1 for core in record.topology.cores)
    return SiblingThreads(per_core=shown, how=how, pairs=(), hidden=False, shared=shared)
