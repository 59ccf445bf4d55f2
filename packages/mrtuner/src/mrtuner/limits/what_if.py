"""What would suffice: classes and volumes compared with the demand, smallest first.

If a ceiling cut off the demand, only bounds of it are known. The lower bound is what was served.
The upper bound is what the operations in the queue would amount to if each took as long as in quiet
hours and none paused (Little's law); programs do pause, so the truth is in between. Prices are
unknown here: smallest means fewest vCPUs, then least memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from mrtuner.catalog.classes import POSTGRES, InstanceClass, instance_classes
from mrtuner.catalog.volumes import Volume, cpu_baseline, volume_of
from mrtuner.described import Doc
from mrtuner.errors import BadValue
from mrtuner.limits.ceilings import Ceiling, Resource, binding, ceilings
from mrtuner.limits.confirmation import WAITING
from mrtuner.limits.levels import DISK, totals
from mrtuner.limits.metrics.series import MetricSeries
from mrtuner.limits.reached import Findings, pegged_mask
from mrtuner.stats.plateaus import numpy
from mrtuner.units import MiB

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Values

#: Headroom of a new ceiling above the highest level at which load was held down.
HEADROOM: Final = 1.25
#: Share of the minutes that a ceiling must carry where nothing was held down.
QUANTILE: Final = 0.999
#: CPU use that a machine should not exceed for long.
CPU_AT_MOST: Final = 80.0
#: The generations RDS still sells everywhere are not known here; these older ones are left out.
_OLD: Final = frozenset({"m1", "m2", "m3", "m4", "r3", "r4", "t1", "t2", "x1", "x1e"})
#: From this size on, gp3 has four stripes and higher limits.
_STRIPED_GIB: Final = 400
#: The smallest gp3 that RDS offers for PostgreSQL.
_SMALLEST_GIB: Final = 20
#: Volumes are suggested in steps, not to the last byte.
_STEP_MIB: Final = 25
_STEP_IOPS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one resource must carry."""

    resource: Annotated[Resource, Doc("the resource")]
    seen: Annotated[float, Doc("the level that all but one minute in a thousand stayed below")]
    hidden: Annotated[bool, Doc("whether load was held down: `seen` was served, not asked for")]
    at_most: Annotated[float | None, Doc("upper bound on the hidden demand, or null")]
    need: Annotated[float, Doc("what is needed, with headroom")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A class with a volume, and how far its ceilings are from the need."""

    instance: InstanceClass
    volume: Volume | None
    ceilings: Mapping[Resource, Ceiling]  # the binding one for each resource
    headroom: Mapping[Resource, float]  # ceiling over what was seen
    lacks: tuple[Resource, ...]  # where the need is not met

    @property
    def sufficient(self) -> bool:
        """Whether it can carry everything permanently, without burst credits."""
        return not self.lacks


def needs(series: MetricSeries, findings: Findings) -> dict[Resource, Demand]:
    return {
        resource: _need(series, findings, resource, values)
        for resource, values in totals(series).items()
        if resource is not Resource.CONNECTIONS
    }


def candidates(
    instance: InstanceClass, volume: Volume | None, wanted: Mapping[Resource, Demand]
) -> list[Candidate]:
    """The smallest sufficient class of each family, smallest first; the volume grows with it.

    None has less memory than the present one, nor fewer vCPUs than the CPU use requires.
    """
    enough = volume_for(volume, wanted) if volume is not None else None
    best: dict[str, Candidate] = {}
    for one in sorted(_current(instance), key=_size):
        if one.family in best or one.memory < instance.memory or not _cpus(one, instance, wanted):
            continue
        judged = judge(one, enough, wanted)
        if judged.sufficient:
            best[one.family] = judged
    return sorted(best.values(), key=lambda each: _size(each.instance))


def judge(
    instance: InstanceClass, volume: Volume | None, wanted: Mapping[Resource, Demand]
) -> Candidate:
    """Judge the same demand under another class or volume."""
    known = ceilings(instance, volume)
    least: dict[Resource, Ceiling] = {
        resource: ceiling
        for resource in wanted
        if resource is not Resource.CPU and (ceiling := binding(known, resource)) is not None
    }
    return Candidate(
        instance=instance,
        volume=volume,
        ceilings=least,
        headroom={
            resource: ceiling.value / wanted[resource].seen
            for resource, ceiling in least.items()
            if wanted[resource].seen > 0
        },
        lacks=tuple(
            resource for resource, ceiling in least.items()
            if ceiling.value < wanted[resource].need
        ),
    )  # fmt: skip


def volume_for(volume: Volume, wanted: Mapping[Resource, Demand]) -> Volume:
    """Return the volume unchanged if it suffices; else one that does, where RDS offers one.

    io1 and io2 get more IOPS. The others become gp3: of the same size if its included performance
    suffices, else of at least 400 GiB, from which on more can be provisioned. RDS never shrinks
    storage, so nothing grows without need.
    """
    iops, throughput = volume.iops or 0, (volume.throughput or 0) // MiB
    needed_iops = _need_of(wanted, Resource.IOPS, 1, _STEP_IOPS)
    needed_throughput = _need_of(wanted, Resource.THROUGHPUT, MiB, _STEP_MIB)
    if volume.throughput is None:
        needed_throughput = 0  # unknown, so not required
    if needed_iops <= iops and needed_throughput <= throughput:
        return volume
    try:
        if volume.kind in {"io1", "io2"}:
            return volume_of(volume.kind, volume.gib, iops=max(iops, needed_iops))
        # gp2's surplus is no reason to buy a larger gp3, but an unmeasured need is.
        if volume.kind == "gp3" or Resource.IOPS not in wanted:
            needed_iops = max(iops, needed_iops)
        if volume.kind == "gp3" or Resource.THROUGHPUT not in wanted:
            needed_throughput = max(throughput, needed_throughput)
        return _as_gp3(volume.gib, needed_iops, needed_throughput)
    except BadValue:  # more than RDS provides for such a volume
        return volume


def _as_gp3(gib: int, iops: int, throughput: int) -> Volume:
    same = volume_of("gp3", max(gib, _SMALLEST_GIB))
    if iops <= (same.iops or 0) and throughput <= (same.throughput or 0) // MiB:
        return same
    least = volume_of("gp3", max(gib, _STRIPED_GIB))
    throughput = max(throughput, (least.throughput or 0) // MiB)
    iops = max(iops, least.iops or 0, 4 * throughput)  # 0.25 MiB/s for every IOPS
    return volume_of("gp3", least.gib, iops=iops, throughput=throughput)


def _need_of(wanted: Mapping[Resource, Demand], resource: Resource, unit: int, step: int) -> int:
    if resource not in wanted:
        return 0
    return -int(-wanted[resource].need // (unit * step)) * step


def _need(series: MetricSeries, findings: Findings, resource: Resource, values: Values) -> Demand:
    np = numpy()
    seen = float(np.nanquantile(values, QUANTILE)) if np.isfinite(values).any() else 0.0
    held = [one.plateau.level for one in findings.pegged if one.resource is resource]
    at_most = _at_most(series, findings, resource, values) if held else None
    need = max([level * HEADROOM for level in held], default=0.0)
    return Demand(
        resource=resource, seen=seen, hidden=bool(held), at_most=at_most, need=max(seen, need)
    )


def _at_most(
    series: MetricSeries, findings: Findings, resource: Resource, values: Values
) -> float | None:
    """Operations in the queue over an operation's time in quiet minutes, in the resource's unit."""
    np = numpy()
    operations = series.total("ReadIOPS", "WriteIOPS")
    queue = series.metrics.get(WAITING if series.apart else "DiskQueueDepth")
    if resource not in DISK or operations is None or queue is None:
        return None
    there = pegged_mask(findings.pegged, [resource], series.points)
    anywhere = pegged_mask(findings.pegged, DISK, series.points)
    quiet = ~anywhere & (operations > 0) & np.isfinite(queue)
    at = there & (operations > 0) & np.isfinite(queue)
    if at.sum() < 3 or quiet.sum() < 20:
        return None
    middle = _of_sums if series.apart else _median
    time = middle(queue[quiet], operations[quiet])
    if time <= 0:
        return None
    factor = middle(queue[at], operations[at]) / time
    return float(np.median(values[at])) * max(factor, 1.0)


def _median(queue: Values, operations: Values) -> float:
    return float(numpy().median(queue / operations))


def _of_sums(waiting: Values, operations: Values) -> float:
    """The ratio for sessions, from sums: they are few and often none, so a median would be zero."""
    return float(waiting.sum() / operations.sum())


def _current(instance: InstanceClass) -> Iterator[InstanceClass]:
    """Classes for the same engine, without old generations."""
    known = instance.engines
    engine = POSTGRES if POSTGRES in known else min(known, default=POSTGRES)
    for one in instance_classes(engine).values():
        if one.family not in _OLD and one.ebs_baseline_mbps is not None:
            yield one


def _cpus(one: InstanceClass, now: InstanceClass, wanted: Mapping[Resource, Demand]) -> bool:
    if Resource.CPU not in wanted:
        return one.vcpus >= now.vcpus
    demand = wanted[Resource.CPU]
    baseline = cpu_baseline(one.name)  # what a burstable class can keep up without credits
    if baseline is None:  # the room is in CPU_AT_MOST
        return one.vcpus * CPU_AT_MOST >= now.vcpus * demand.seen
    return one.vcpus * min(baseline, CPU_AT_MOST) >= now.vcpus * demand.need


def _size(one: InstanceClass) -> tuple[int, int, float, str]:
    return one.vcpus, one.memory, one.ebs_baseline_mbps or 0, one.name
