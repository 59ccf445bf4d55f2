"""The limits that control groups set on the block devices of a data directory.

A limit may be set on any layer, from a filesystem's device down to whole disks, so all are checked;
the counters are those of the layer that has a limit, or of the topmost. Sources: the kernel's
admin-guide/cgroup-v2.rst (io.max) and admin-guide/cgroup-v1/blkio-controller.rst.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mrtuner.host.cgroup import ControlGroup, Lineage, lineage
from mrtuner.host.devices import Device, keyed
from mrtuner.host.tree import Tree
from mrtuner.limits.ceilings import Ceiling, CeilingKind, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A ceiling that a control group sets for a device."""

    device: Device
    group: ControlGroup
    ceiling: Ceiling


def limits_of(tree: Tree, devices: Sequence[Device]) -> tuple[tuple[Limit, ...], tuple[str, ...]]:
    """Limits that the process's control groups set on the devices, and what could not be seen.

    In version 2 every group up to the root counts; in version 1 only the process's own.
    """
    above = lineage(tree, "blkio")
    found = [limit for group in _that_count(above) for limit in _of_group(tree, group, devices)]
    return tuple(found), tuple(f"{why}: a limit would not be seen" for why in above.hidden)


def _that_count(above: Lineage) -> Sequence[ControlGroup]:
    own = above.groups[:1]
    return own if own and own[0].version == 1 else above.groups


def _of_group(tree: Tree, group: ControlGroup, devices: Sequence[Device]) -> Iterator[Limit]:
    rules = _rules_v1(tree, group) if group.version == 1 else _rules_v2(tree, group)
    by_number = {device.number: device for device in devices}
    for number, resource, value, file in rules:
        if number in by_number and value > 0:
            device = by_number[number]
            ceiling = Ceiling(
                resource=resource, part="cgroup", kind=CeilingKind.SUSTAINED, value=value,
                source=group.source(file), note=f"on {device.name}",
            )  # fmt: skip
            yield Limit(device=device, group=group, ceiling=ceiling)


_V1: Final = (
    ("blkio.throttle.read_bps_device", Resource.READ_THROUGHPUT),
    ("blkio.throttle.write_bps_device", Resource.WRITE_THROUGHPUT),
    ("blkio.throttle.read_iops_device", Resource.READ_IOPS),
    ("blkio.throttle.write_iops_device", Resource.WRITE_IOPS),
)
_V2: Final = {
    "rbps": Resource.READ_THROUGHPUT,
    "wbps": Resource.WRITE_THROUGHPUT,
    "riops": Resource.READ_IOPS,
    "wiops": Resource.WRITE_IOPS,
}


def _rules_v1(tree: Tree, group: ControlGroup) -> Iterator[tuple[str, Resource, float, str]]:
    for file, resource in _V1:
        for line in (tree.peek(group.folder / file) or "").splitlines():
            number, _, value = line.partition(" ")
            if value.strip().isdigit():
                yield number, resource, float(value), file


def _rules_v2(tree: Tree, group: ControlGroup) -> Iterator[tuple[str, Resource, float, str]]:
    for number, values in keyed(tree.peek(group.folder / "io.max") or ""):
        for key, value in values.items():
            if key in _V2 and value.isdigit():  # "max" is no limit
                yield number, _V2[key], float(value), "io.max"
