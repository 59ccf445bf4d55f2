"""The limits that control groups set on the block devices of a data directory.

A limit may be set on any layer, from a filesystem's device down to whole disks, so all are checked;
the counters are those of the layer that has a limit, or of the topmost. Sources: the kernel's
admin-guide/cgroup-v2.rst (io.max) and admin-guide/cgroup-v1/blkio-controller.rst.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal

from mrtuner.facts import Fact
from mrtuner.host.cgroup import ControlGroup, Lineage, lineage
from mrtuner.host.devices import Device, keyed, layers
from mrtuner.host.tree import Tree
from mrtuner.units import Bytes

Rule = Literal["read_iops", "write_iops", "read_bandwidth", "write_bandwidth"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What a control group allows on a device, in requests or bytes a second."""

    device: Device
    group: ControlGroup
    rule: Rule
    value: int
    source: str


def volume_limits(tree: Tree, path: PurePosixPath) -> tuple[Fact[int] | None, Fact[Bytes] | None]:
    """The lowest limits on a data directory's devices: requests and bytes a second.

    Of reads and writes the lower counts.
    """
    found, _ = limits_of(tree, layers(tree, path))
    iops = _lowest(limit for limit in found if limit.rule.endswith("iops"))
    bandwidth = _lowest(limit for limit in found if limit.rule.endswith("bandwidth"))
    return iops, None if bandwidth is None else Fact(Bytes(bandwidth.value), bandwidth.source)


def _lowest(limits: Iterable[Limit]) -> Fact[int] | None:
    lowest = min(limits, key=lambda limit: limit.value, default=None)
    return None if lowest is None else Fact(lowest.value, lowest.source)


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
    for number, rule, value, file in rules:
        if number in by_number and value > 0:
            yield Limit(
                device=by_number[number], group=group, rule=rule, value=value,
                source=group.source(file),
            )  # fmt: skip


_V1: Final[Sequence[tuple[str, Rule]]] = (
    ("blkio.throttle.read_bps_device", "read_bandwidth"),
    ("blkio.throttle.write_bps_device", "write_bandwidth"),
    ("blkio.throttle.read_iops_device", "read_iops"),
    ("blkio.throttle.write_iops_device", "write_iops"),
)
_V2: Final[Mapping[str, Rule]] = {
    "rbps": "read_bandwidth",
    "wbps": "write_bandwidth",
    "riops": "read_iops",
    "wiops": "write_iops",
}


def _rules_v1(tree: Tree, group: ControlGroup) -> Iterator[tuple[str, Rule, int, str]]:
    for file, rule in _V1:
        for line in (tree.peek(group.folder / file) or "").splitlines():
            number, _, value = line.partition(" ")
            if value.strip().isdigit():
                yield number, rule, int(value), file


def _rules_v2(tree: Tree, group: ControlGroup) -> Iterator[tuple[str, Rule, int, str]]:
    for number, values in keyed(tree.peek(group.folder / "io.max") or ""):
        for key, value in values.items():
            if key in _V2 and value.isdigit():  # "max" is no limit
                yield number, _V2[key], int(value), "io.max"
