"""The laboratory's machines: real classes and volumes, with their limits in series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from limits_lab.physics import Limit
from mrtuner.catalog.classes import InstanceClass, instance_classes
from mrtuner.catalog.volumes import Volume, before_december_2019, volume_of
from mrtuner.limits.ceilings import BURST_MINUTES, Resource, ceilings
from mrtuner.units import MiB

_FAMILIES: Final = frozenset(("m5", "r5", "m6g", "r6g", "m6i", "r6i", "m7g", "r7g", "t3", "t4g"))
_MBPS: Final = 125_000  # bytes per second in a megabit per second
#: Minimum distance, as a share, of an unknown ceiling from every known one.
_APART: Final = 0.06
#: An unknown ceiling as a share of the lowest known limit.
_LEFT: Final = (0.4, 0.9)


def drawn(random: Any, chosen: Sequence[Any]) -> Any:
    """Draw one of them."""
    return chosen[int(random.integers(len(chosen)))]


def machines(*, bursting: bool = False, former: bool = False) -> list[InstanceClass]:
    """Classes of many families up to 48 vCPUs; only those that burst, or with `former` limits."""
    return [
        one
        for one in instance_classes().values()
        if one.family in _FAMILIES
        and one.ebs_baseline_mbps
        and one.vcpus <= 48
        and (one.bursts or not bursting)
        and (before_december_2019(one.name)[0] or not former)
    ]


def limits_of(
    random: Any, instance: InstanceClass, volume: Volume, *, former: bool = False
) -> list[Limit]:
    """The limits in series, each off its nominal value by -1 to +1.3 per cent.

    With `former` the instance has the limits from before December 2019.
    """
    then = before_december_2019(instance.name) if former else (None, None)
    mbps = (then[0] or instance.ebs_baseline_mbps or 0, then[1] or instance.ebs_max_mbps or 0)
    iops = (instance.ebs_baseline_iops or 0, instance.ebs_max_iops or 0)
    known = [
        _instance(Resource.THROUGHPUT, mbps[0] * _MBPS, mbps[1] * _MBPS, "EBSByteBalance%"),
        _instance(Resource.IOPS, iops[0], iops[1], "EBSIOBalance%"),
    ]
    if volume.throughput:
        known.append(Limit(resource=Resource.THROUGHPUT, part="volume", rate=volume.throughput))
    if volume.iops:
        burst = volume.burst_iops
        tokens = (volume.burst_seconds or 0) * ((burst or 0) - volume.iops)  # gp2's 5.4 million
        known.append(
            Limit(resource=Resource.IOPS, part="volume", rate=volume.iops, burst=burst,
                  capacity=tokens, metric="BurstBalance" if burst else "")
        )  # fmt: skip
    processors = Limit(resource=Resource.CPU, part="instance", rate=instance.vcpus * 0.995,
                       unit=100 / instance.vcpus)  # fmt: skip
    return [*(_off(one, 1 + random.uniform(-0.01, 0.013)) for one in known), processors]


def _instance(resource: Resource, rate: float, burst: float, metric: str) -> Limit:
    if burst <= rate:
        return Limit(resource=resource, part="instance", rate=rate)
    return Limit(
        resource=resource, part="instance", rate=rate, burst=burst,
        capacity=(burst - rate) * BURST_MINUTES * 60, metric=metric,
    )  # fmt: skip


def _off(limit: Limit, factor: float) -> Limit:
    burst = limit.burst * factor if limit.burst else None
    return replace(limit, rate=limit.rate * factor, burst=burst)


def least(limits: Sequence[Limit], resource: Resource, *, burst: bool = False) -> Limit:
    """The lowest permanent limit, or the lowest one while every bucket is full."""
    return min(
        (one for one in limits if one.resource is resource),
        key=lambda one: (one.burst or one.rate) if burst else one.rate,
    )


def hidden(
    random: Any, instance: InstanceClass, volume: Volume, limits: Sequence[Limit],
    resource: Resource,
) -> Limit:  # fmt: skip
    """A cap below all known limits and near none of them."""
    known = [one.value for one in ceilings(instance, volume) if one.resource is resource]
    rate = least(limits, resource).rate
    while True:
        level = rate * random.uniform(*_LEFT)
        if all(abs(level / value - 1) > _APART for value in known):
            return Limit(resource=resource, part="unknown", rate=level)


def wide(random: Any, instance: InstanceClass) -> Volume:
    """A volume that delivers more than the instance ever can."""
    more = random.uniform(1.2, 1.6)
    iops = math.ceil((instance.ebs_max_iops or 0) * more)
    mib = math.ceil((instance.ebs_max_mbps or 0) * _MBPS * more / MiB)
    gib = int(random.integers(400, 4000))
    if mib <= 4000 and max(iops, 4 * mib) <= 64_000 and random.random() < 0.6:
        return volume_of("gp3", gib, iops=max(iops, 4 * mib, 12_000), throughput=max(mib, 500))
    return volume_of("io1", max(gib, iops // 50 + 1), iops=iops)


def narrow(random: Any) -> Volume:
    """A volume with lower limits than many instances."""
    which = drawn(random, ("gp2", "small gp2", "gp3", "striped gp3", "io1", "io1"))
    if which == "gp2":
        return volume_of("gp2", int(random.integers(100, 1000)))
    if which == "small gp2":
        return volume_of("gp2", int(random.integers(20, 100)))
    if which == "gp3":
        return volume_of("gp3", int(random.integers(20, 400)))
    if which == "striped gp3":
        return volume_of("gp3", int(random.integers(400, 2000)))
    return volume_of("io1", int(random.integers(120, 400)), iops=100 * int(random.integers(10, 60)))


def above(random: Any, volume: Volume) -> InstanceClass:
    """An instance whose permanent limits exceed all of the volume's; the largest if none does."""
    iops, throughput = volume.burst_iops or volume.iops or 0, volume.throughput or 0
    known = machines()
    fit = [one for one in known if (one.ebs_baseline_iops or 0) > 1.2 * iops
           and (one.ebs_baseline_mbps or 0) * _MBPS > 1.2 * throughput]  # fmt: skip
    largest = max(known, key=lambda one: one.ebs_baseline_mbps or 0)
    found: InstanceClass = drawn(random, fit or [largest])
    return found
