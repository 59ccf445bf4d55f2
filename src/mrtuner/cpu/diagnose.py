"""Find why workers are slow, by the part of wall = cpu + run delay + rest that grew. Pure.

sibling threads   cpu grows, while a sibling is busy       (pairs, or the kernel's topology)
frequency, cache  cpu grows, equally for all               (no pair stands out)
saturation        run delay grows, with more workers than CPUs
quota             run delay grows, and periods are throttled
other work        run delay grows, and others were busy
steal             the rest grows, and the hypervisor counts steal
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mrtuner.cpu.gauges import MOST_FOREIGN
from mrtuner.cpu.levels import Level, levels, throughput
from mrtuner.cpu.model import Record, Usable
from mrtuner.stats.knee import Knee, knees

#: A part must have grown by this share of the single-worker time before a cause is named.
_WORTH: Final = 0.05
_STEAL: Final = 0.01


class Cause(StrEnum):
    """Why workers get slower."""

    SIBLINGS = "sibling threads"
    FREQUENCY = "frequency or cache"
    SATURATION = "saturation"
    QUOTA = "quota"
    OTHERS = "other work"
    STEAL = "steal"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bend:
    """One knee with its cause, and how much each part grows from there to the next level [s]."""

    at: int
    before: float  # work per additional worker, relative to one worker alone
    after: float
    bic_fall: float
    cause: Cause
    cpu: float | None
    delay: float | None
    rest: float | None
    throttled: float | None  # periods per trial, after the knee


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """Which CPUs are threads of one core, and how that is known."""

    per_core: int | None
    how: str
    pairs: tuple[tuple[int, int], ...]  # siblings
    hidden: bool  # the pairs show what the kernel hides
    shared: bool  # two of the CPUs that we may use belong to one core


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The interpretation of a record."""

    levels: tuple[Level, ...]
    bends: tuple[Bend, ...]
    effective_cores: float | None  # the most work at the same time, relative to one worker alone
    best: int | None  # the fewest workers that reach it within 5 %
    threads: Threads
    identity: float | None  # the largest |rest| over wall: how well the identity holds
    incomplete: tuple[int, ...]  # numbers of workers without a valid trial


def diagnose(record: Record) -> Diagnosis:
    """Diagnose a record; the same record always gives the same diagnosis."""
    found = levels(record.trials, seed=record.plan.seed)
    threads = _threads(record)
    alone = next((each.throughput for each in found if each.count == 1), None)
    most = max((each.throughput for each in found), default=None)
    return Diagnosis(
        levels=found,
        bends=_bends(record, found, threads, alone),
        effective_cores=most / alone if most and alone else None,
        best=_best(found, most),
        threads=threads,
        identity=_identity(record),
        incomplete=tuple(sorted(set(record.plan.counts) - {each.count for each in found})),
    )


def _bends(
    record: Record, found: Sequence[Level], threads: Threads, alone: float | None
) -> tuple[Bend, ...]:
    if alone is None:
        return ()
    points = [(each.count, throughput(each) / alone) for each in record.trials if not each.rejected]
    return tuple(_bend(knee, found, threads, record.usable) for knee in knees(points))


def _bend(knee: Knee, found: Sequence[Level], threads: Threads, usable: Usable) -> Bend:
    at = next(each for each in found if each.count == knee.at)
    after = next(each for each in found if each.count > knee.at)
    grown = (_growth(at.cpu, after.cpu), _growth(at.delay, after.delay),
             _growth(at.rest, after.rest))  # fmt: skip
    return Bend(
        at=knee.at,
        before=knee.before,
        after=knee.after,
        bic_fall=knee.bic_fall,
        cause=cause(at, after, threads, usable, alone=found[0].wall),
        cpu=grown[0],
        delay=grown[1],
        rest=grown[2],
        throttled=after.throttled,
    )


def cause(at: Level, after: Level, threads: Threads, usable: Usable, *, alone: float) -> Cause:
    """Return the cause, from what has grown most between two levels."""
    parts = {
        "cpu": _growth(at.cpu, after.cpu),
        "delay": _growth(at.delay, after.delay),
        "rest": _growth(at.rest, after.rest),
    }
    known = {name: growth for name, growth in parts.items() if growth is not None}
    if len(known) < len(parts):
        return Cause.UNKNOWN
    name = max(known, key=known.__getitem__)
    if known[name] < _WORTH * alone:
        return Cause.UNKNOWN
    if name == "cpu":
        return _of_cpu(threads)
    return _of_delay(after, usable) if name == "delay" else _of_rest(after)


def _of_cpu(threads: Threads) -> Cause:
    return Cause.SIBLINGS if threads.shared else Cause.FREQUENCY


def _of_delay(after: Level, usable: Usable) -> Cause:
    if after.throttled:
        return Cause.QUOTA
    if after.count > usable.may_run_on:
        return Cause.SATURATION
    return Cause.OTHERS if (after.foreign or 0) > MOST_FOREIGN else Cause.UNKNOWN


def _of_rest(after: Level) -> Cause:
    return Cause.STEAL if (after.steal or 0) > _STEAL else Cause.UNKNOWN


def _growth(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _threads(record: Record) -> Threads:
    """Prefer siblings found by pairs to the kernel's topology: a hypervisor can hide siblings."""
    shown = record.topology.threads
    found = tuple((pair.first, pair.second) for pair in record.pairs if pair.siblings)
    if found:
        return Threads(
            per_core=1 + max(_partners(found, cpu) for pair in found for cpu in pair),
            how="pairs of CPUs slow each other",
            pairs=found,
            hidden=(shown or 1) == 1,
            shared=True,
        )
    tried = f"; pairs that slow each other: none of {len(record.pairs)}" if record.pairs else ""
    how = record.topology.source + tried
    shared = any(len(core) > 1 for core in record.topology.cores)
    return Threads(per_core=shown, how=how, pairs=(), hidden=False, shared=shared)


def _partners(pairs: Sequence[tuple[int, int]], cpu: int) -> int:
    return sum(cpu in pair for pair in pairs)


def _best(found: Sequence[Level], most: float | None) -> int | None:
    return next((each.count for each in found if most and each.throughput >= 0.95 * most), None)


def _identity(record: Record) -> float | None:
    rests = [
        abs(worker.rest) / worker.wall
        for trial in record.trials
        for worker in trial.workers
        if worker.rest is not None
    ]
    return max(rests, default=None)
