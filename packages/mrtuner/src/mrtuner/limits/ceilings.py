"""The hard limits of an instance and its volume, as numbers with their sources.

Reads and writes are counted together. Throughput is in bytes per second: an instance's megabits
are decimal, a volume's MiB/s are not, and CloudWatch counts bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mrtuner.catalog import classes, volumes
from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.volumes import Volume

MBPS: Final = 125_000  # bytes per second in a megabit per second
#: Source: EC2 User Guide, EBS-optimized instances: at least once in 24 hours.
BURST_MINUTES: Final = 30
#: The storage of an Aurora cluster, which is not an EBS volume; engine names start with it.
AURORA: Final = "aurora"
#: Burstable families that stop at their baseline; the later ones are Unlimited on RDS.
LIMITED: Final = frozenset({"t2"})


class Resource(StrEnum):
    """What can run out."""

    THROUGHPUT = "throughput"
    IOPS = "iops"
    # A host may limit reads and writes separately, as cgroups do.
    READ_THROUGHPUT = "read throughput"
    WRITE_THROUGHPUT = "write throughput"
    READ_IOPS = "read iops"
    WRITE_IOPS = "write iops"
    NETWORK_IN = "network in"
    NETWORK_OUT = "network out"
    CPU = "cpu"
    CONNECTIONS = "connections"
    MEMORY = "memory"


#: The source of a ceiling that nobody sets: there is no more than all.
BY_DEFINITION: Final = "by definition"


class CeilingKind(StrEnum):
    """How long a ceiling holds."""

    SUSTAINED = "sustained"  # permanently
    BURST = "burst"  # while credits last
    FORMER = "former"  # of an instance started before December 2019


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """One limit of one part."""

    resource: Resource
    part: str  # instance, volume, server; on a host also cgroup, interface
    kind: CeilingKind
    value: float  # bytes per second, operations per second, per cent, connections, bytes
    source: str
    note: str = ""

    @property
    def name(self) -> str:
        """Part, resource and kind, such as ``instance throughput, burst``."""
        which = {
            CeilingKind.SUSTAINED: "",
            CeilingKind.BURST: ", burst",
            CeilingKind.FORMER: ", before December 2019",
        }
        return f"{self.part} {self.resource}{which[self.kind]}"


def ceilings(
    instance: InstanceClass,
    volume: Volume | None,
    *,
    connections: tuple[int, str] | None = None,
    aurora: bool = False,
) -> tuple[Ceiling, ...]:
    """Every known limit; `connections` is max_connections and its source.

    An Aurora instance's data are not on an EBS volume, so its class's EBS limits do not apply.
    """
    found = [] if aurora else [*_ebs(instance), *_former(instance)]
    found += [*_network(instance), *_cpu(instance)]
    if volume is not None:
        found += _volume(volume)
    found.append(
        sustained(Resource.MEMORY, "instance", instance.memory, _class_source(), "the machine's")
    )
    if connections is not None:
        found.append(sustained(Resource.CONNECTIONS, "server", *connections))
    return tuple(found)


def default_connections(class_name: str, *, aurora: bool = False) -> tuple[int, str]:
    """Return max_connections by RDS's default formula, and a source that calls it an estimate.

    Raises:
        BadValue: the class is unknown.
    """
    from mrtuner.formula.class_memory import class_memory

    engine = classes.AURORA if aurora else classes.POSTGRES
    memory = class_memory(classes.instance_class(class_name), engine).value
    most = min(memory // 9_531_392, 5000)
    return most, "RDS's default LEAST({DBInstanceClassMemory/9531392},5000), estimated"


def binding(known: Sequence[Ceiling], resource: Resource) -> Ceiling | None:
    """The lowest permanent limit: what the instance can count on."""
    return _least(
        one for one in known if one.resource is resource and one.kind is CeilingKind.SUSTAINED
    )  # fmt: skip


def peak(known: Sequence[Ceiling], resource: Resource) -> Ceiling | None:
    """The lowest limit while all credits last."""
    own = [one for one in known if one.resource is resource and one.kind is not CeilingKind.FORMER]
    parts = {one.part for one in own}
    highest = (max((c for c in own if c.part == part), key=lambda c: c.value) for part in parts)
    return _least(highest)


def _least(found: Iterator[Ceiling]) -> Ceiling | None:
    return min(found, key=lambda one: (one.value, one.part), default=None)


def sustained(resource: Resource, part: str, value: float, source: str, note: str = "") -> Ceiling:
    """A ceiling that holds permanently."""
    return Ceiling(
        resource=resource, part=part, kind=CeilingKind.SUSTAINED, value=value, source=source,
        note=note,
    )  # fmt: skip


def _ebs(instance: InstanceClass) -> Iterator[Ceiling]:
    pairs = (
        (Resource.THROUGHPUT, instance.ebs_baseline_mbps, instance.ebs_max_mbps, MBPS),
        (Resource.IOPS, instance.ebs_baseline_iops, instance.ebs_max_iops, 1),
    )
    for resource, baseline, most, factor in pairs:
        if baseline is None or most is None:
            continue
        note = f"{baseline} Mbps" if factor == MBPS else ""
        yield sustained(resource, "instance", baseline * factor, _class_source(), note)
        if most > baseline:
            lasts = f"at least {BURST_MINUTES} min in 24 h"
            yield Ceiling(
                resource=resource, part="instance", kind=CeilingKind.BURST, value=most * factor,
                source=_class_source(),
                note=f"{most} Mbps, {lasts}" if factor == MBPS else lasts,
            )  # fmt: skip


def _former(instance: InstanceClass) -> Iterator[Ceiling]:
    """Old limits, kept by instances that were started before the limits were raised."""
    then = volumes.before_december_2019(instance.name)
    now = (instance.ebs_baseline_mbps, instance.ebs_max_mbps)
    for mbps in dict.fromkeys(then):
        if mbps is not None and mbps not in now:
            yield Ceiling(
                resource=Resource.THROUGHPUT, part="instance", kind=CeilingKind.FORMER,
                value=mbps * MBPS, source=volumes.sources()["before_december_2019"],
                note=f"{mbps} Mbps, {'baseline' if mbps == then[0] != then[1] else 'maximum'}",
            )  # fmt: skip


def _network(instance: InstanceClass) -> Iterator[Ceiling]:
    figures = re.search(r"baseline ([0-9.]+) Gbps; peak ([0-9.]+) Gbps", instance.network)
    if figures is None:
        return
    baseline, most = (float(text) * 1000 * MBPS for text in figures.groups())
    for resource in (Resource.NETWORK_IN, Resource.NETWORK_OUT):
        yield sustained(resource, "instance", baseline, _class_source(), "each direction")
        if most > baseline:
            yield Ceiling(
                resource=resource, part="instance", kind=CeilingKind.BURST, value=most,
                source=_class_source(), note="while network credits last, best effort",
            )  # fmt: skip


def _cpu(instance: InstanceClass) -> Iterator[Ceiling]:
    baseline = volumes.cpu_baseline(instance.name)
    if baseline is None:
        yield sustained(Resource.CPU, "instance", 100, BY_DEFINITION, f"{instance.vcpus} vCPUs")
        return
    source = volumes.sources()["cpu_baseline"]
    if instance.family in LIMITED:
        yield sustained(Resource.CPU, "instance", baseline, source, "once credits are used up")
        yield Ceiling(
            resource=Resource.CPU, part="instance", kind=CeilingKind.BURST, value=100,
            source=BY_DEFINITION, note="while CPU credits last",
        )  # fmt: skip
    else:
        note = (
            f"{instance.vcpus} vCPUs; Unlimited, which costs extra above {baseline:g} % on average"
        )
        yield sustained(Resource.CPU, "instance", 100, BY_DEFINITION, note)


def _volume(volume: Volume) -> Iterator[Ceiling]:
    source = volumes.sources()["io2" if volume.kind == "io2" else "volumes"]
    striped = f"{volume.stripes} stripes" if volume.stripes > 1 else ""
    if volume.iops is not None:
        yield sustained(Resource.IOPS, "volume", volume.iops, source, striped)
    if volume.burst_iops is not None and volume.burst_seconds is not None:
        yield Ceiling(
            resource=Resource.IOPS, part="volume", kind=CeilingKind.BURST, value=volume.burst_iops,
            source=volumes.sources()["gp2_credits"],
            note=f"{volume.burst_seconds / 60:.0f} min from full credits",
        )  # fmt: skip
    if volume.throughput is not None:
        yield sustained(Resource.THROUGHPUT, "volume", volume.throughput, source, striped)


def _class_source() -> str:
    return classes.sources()["figures"]
