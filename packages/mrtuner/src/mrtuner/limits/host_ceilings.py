"""A host's own ceilings, and the counters that show how close it comes to them.

Everything is read from kernel files, as the postmaster sees them. Only declared limits are
ceilings here: a disk seldom declares its speed, and the level at which it tops out is then found
as an unknown ceiling.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Final

from mrtuner.counter_resets import growth
from mrtuner.facts import Fact
from mrtuner.host import memory
from mrtuner.host.cgroup import ControlGroup
from mrtuner.host.counters import (
    available_memory,
    busy_by_cpu,
    cpu_of_group,
    cpu_times,
    default_interface,
    traffic,
)
from mrtuner.host.cpus import CpuSet, bounds, counted_cpus, narrowest
from mrtuner.host.devices import Counted, Device, counted, layers
from mrtuner.host.io_limits import Rule, limits_of
from mrtuner.host.tree import Tree
from mrtuner.limits.ceilings import BY_DEFINITION, MBPS, Ceiling, Resource, sustained
from mrtuner.units import KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedHost:
    """What is watched on one host, and what limits it."""

    tree: Tree
    device: Device | None
    group: ControlGroup | None  # the one that limits the device
    interface: str | None
    cpus: float  # usable CPUs: the quota, or the number of CPUs
    quota: ControlGroup | None  # the one whose CPU time counts, if a quota binds
    some: CpuSet | None  # the CPUs whose time counts, if it may not use all and no quota binds
    ceilings: tuple[Ceiling, ...]
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCounters:
    """All counters at one moment; None if there is none."""

    disk: Counted | None
    received: int | None
    sent: int | None
    busy: float | None  # CPU seconds used; without quota, of its CPUs by anyone
    available: int | None  # bytes of memory


def watched_host(tree: Tree, data_directory: PurePosixPath | None) -> WatchedHost:
    """The limits of the process of `tree` and its data directory. Never fails; may know little."""
    path = data_directory or tree.working_directory()
    devices = layers(tree, path) if path is not None else ()
    limits, notices = limits_of(tree, devices)
    chosen = limits[0] if limits else None
    device = chosen.device if chosen else next(iter(devices), None)
    interface = default_interface(tree)
    cpus, quota, some, cpu = _cpu(tree)
    ceilings = [
        sustained(_RESOURCES[one.rule], "cgroup", one.value, one.source, f"on {one.device.name}")
        for one in limits
    ]
    ceilings += [*_network(tree, interface), cpu, *_memory(tree)]
    return WatchedHost(
        tree=tree,
        device=device,
        group=chosen.group if chosen else None,
        interface=interface,
        cpus=cpus,
        quota=quota,
        some=some,
        ceilings=tuple(ceilings),
        notices=(*notices, *_about(tree, path, devices, device)),
    )


def read(of: WatchedHost) -> HostCounters:
    network = None if of.interface is None else traffic(of.tree, of.interface)
    return HostCounters(
        disk=None if of.device is None else counted(of.tree, of.device, of.group),
        received=None if network is None else network.received,
        sent=None if network is None else network.sent,
        busy=_busy(of),
        available=_available(of),
    )


def rates(
    of: WatchedHost, before: HostCounters, after: HostCounters, seconds: float
) -> dict[str, float]:
    """CloudWatch's metrics between two readings, without what was not counted or was reset."""
    found = _disk_rates(before.disk, after.disk, seconds)
    found["NetworkReceiveThroughput"] = _rate(before.received, after.received, seconds)
    found["NetworkTransmitThroughput"] = _rate(before.sent, after.sent, seconds)
    used = _rate(before.busy, after.busy, seconds)
    found["CPUUtilization"] = None if used is None else min(100 * used / of.cpus, 100.0)
    found["FreeableMemory"] = None if after.available is None else float(after.available)
    return {name: value for name, value in found.items() if value is not None}


def _rate(before: float | None, after: float | None, seconds: float) -> float | None:
    grown = growth(before, after)
    return None if grown is None else grown / seconds


def _disk_rates(
    before: Counted | None, after: Counted | None, seconds: float
) -> dict[str, float | None]:
    if before is None or after is None:
        return {}
    reads, writes = after.reads - before.reads, after.writes - before.writes
    return {
        "ReadIOPS": _rate(before.reads, after.reads, seconds),
        "WriteIOPS": _rate(before.writes, after.writes, seconds),
        "ReadThroughput": _rate(before.read_bytes, after.read_bytes, seconds),
        "WriteThroughput": _rate(before.written_bytes, after.written_bytes, seconds),
        "ReadLatency": _rate(before.read_time, after.read_time, reads) if reads > 0 else None,
        "WriteLatency": _rate(before.write_time, after.write_time, writes) if writes > 0 else None,
        "DiskQueueDepth": _rate(before.queued_time, after.queued_time, seconds),
    }


# Finding things.


_RESOURCES: Final[Mapping[Rule, Resource]] = {
    "read_bandwidth": Resource.READ_THROUGHPUT,
    "write_bandwidth": Resource.WRITE_THROUGHPUT,
    "read_iops": Resource.READ_IOPS,
    "write_iops": Resource.WRITE_IOPS,
}


def _about(
    tree: Tree, path: PurePosixPath | None, devices: tuple[Device, ...], device: Device | None
) -> Iterator[str]:
    if path is None:
        yield "this role and user cannot see the data directory, so its disk is not watched"
        return
    if device is None:
        yield (
            f"{path} is not on a block device that this user can see (root and the server's user "
            "can), so no disk is watched"
        )
        return
    names = " on ".join(one.name for one in devices)
    yield f"{path} is on {names}; watched: {device.name}"
    wal = layers(tree, path / "pg_wal")
    if wal and wal[0] != devices[0]:
        yield f"pg_wal is on {wal[0].name}, which is not watched"


# Ceilings.


def _network(tree: Tree, interface: str | None) -> Iterator[Ceiling]:
    """The declared speed of a device, or of what is made of devices; of others it is made up.

    A veth pair always declares 10 Gbps, whatever is behind it. Source: drivers/net/veth.c.
    """
    folder = f"/sys/class/net/{interface}"
    path = f"{folder}/speed"
    speed = tree.peek(path) or ""
    if interface is None or not speed.isdigit() or int(speed) == 0 or not _our_network(tree):
        return
    made_of = _DEVTYPE.search(tree.peek(f"{folder}/uevent") or "")
    if not tree.is_there(f"{folder}/device") and made_of is None:
        return
    note = f"{interface}, each direction"
    for resource in (Resource.NETWORK_IN, Resource.NETWORK_OUT):
        yield sustained(resource, "interface", int(speed) * MBPS, path, note)


#: Kinds of virtual interfaces that pass on the speed of the devices below them.
_DEVTYPE: Final = re.compile(r"^DEVTYPE=(bond|vlan|macvlan)$", re.MULTILINE)


def _our_network(tree: Tree) -> bool:
    """Whether our /sys shows the server's interfaces; in another namespace it shows others."""
    theirs, ours = (tree.target(f"{process}/ns/net") for process in (tree.process, "/proc/self"))
    return theirs == ours


def _cpu(tree: Tree) -> tuple[float, ControlGroup | None, CpuSet | None, Ceiling]:
    """The usable CPUs, the group whose quota binds or else the CPUs that the server is confined to,
    and 100 % of them as a ceiling.
    """
    limits = bounds(tree)
    may_use = narrowest(limits)
    whole = float(len(may_use[0]) if may_use else os.cpu_count() or 1)
    quotas = [
        (float(one.limit.value), one) for one in limits if isinstance(one.limit.value, Fraction)
    ]
    quota, bound = min(quotas, key=lambda each: each[0], default=(whole, None))
    if bound is not None and quota < whole:
        note = f"a quota of {counted_cpus(quota)}"
        return quota, bound.group, None, _all_of(note, bound.limit.source)
    if may_use and may_use[1].by != "online":
        note = f"{counted_cpus(whole)} that it may use"
        return whole, None, may_use[0], _all_of(note, may_use[1].limit.source)
    return whole, None, None, _all_of(f"{counted_cpus(whole)} of the machine", BY_DEFINITION)


def _all_of(note: str, source: str) -> Ceiling:
    return sustained(Resource.CPU, "server", 100, source, note)


def _memory(tree: Tree) -> Iterator[Ceiling]:
    found, _ = memory.memory(tree)
    if isinstance(found, Fact):
        yield sustained(Resource.MEMORY, "server", found.value, found.source)


# Counters.


def _busy(of: WatchedHost) -> float | None:
    """CPU seconds used: of the group whose quota binds, else of the CPUs, whoever used them."""
    if of.quota is not None:
        return cpu_of_group(of.tree, of.quota)
    if of.some is not None:
        each = busy_by_cpu(of.tree)
        return sum(each[cpu].busy for cpu in of.some) if of.some <= each.keys() else None
    times = cpu_times(of.tree)
    return None if times is None else times.busy


def _available(of: WatchedHost) -> int | None:
    """Available memory of the whole machine, so only if no control group allows less."""
    limit = next((one for one in of.ceilings if one.resource is Resource.MEMORY), None)
    total = memory.meminfo(of.tree).get("MemTotal")
    if limit is None or total is None or limit.value < total * KiB:
        return None
    return available_memory(of.tree)
