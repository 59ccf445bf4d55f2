"""What the kernel has counted so far, as one process of a machine sees it.

Every function reads files of one tree and returns None for what is not there, so that callers on
other systems, in containers or on old kernels know less and do not fail. Sources: proc(5); the
kernel's accounting/psi.rst, admin-guide/cgroup-v2.rst and, for version 1, cpuacct.rst,
sched-bwc.rst and memory.rst.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mrtuner.host import memory
from mrtuner.host.cgroup import ControlGroup, counts, lineage
from mrtuner.host.cpu_throttling import MICROSECONDS, NANOSECONDS, seconds, throttled_seconds
from mrtuner.host.tree import Tree
from mrtuner.units import KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """Seconds of CPU time since the machine started, summed over its CPUs."""

    user: float  # nice included
    system: float
    interrupts: float
    idle: float
    iowait: float
    steal: float

    @property
    def busy(self) -> float:
        """Time neither idle nor waiting; time taken by the hypervisor counts as used."""
        return self.user + self.system + self.interrupts + self.steal

    @property
    def total(self) -> float:
        """All time: the number of CPUs times the time since the start."""
        return self.busy + self.idle + self.iowait


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnGroups:
    """The control groups of a process; None where there are none or they cannot be seen."""

    cpu: ControlGroup | None
    accounts: ControlGroup | None  # that counts its CPU time
    memory: ControlGroup | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUsage:
    """What the control groups of a process used, and how long a quota kept it waiting."""

    cpu: float | None  # seconds
    throttled: float | None  # seconds
    memory: int | None  # bytes now, page cache included


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of a network interface."""

    received: int
    sent: int


def cpu_times(tree: Tree) -> CpuTimes | None:
    """Return the machine's CPU time. Source: /proc/stat."""
    return _cpu_times((tree.peek("/proc/stat") or "").partition("\n")[0].split()[1:9])


def _cpu_times(fields: Sequence[str]) -> CpuTimes | None:
    if len(fields) < 8:
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    user, nice, system, idle, iowait, irq, softirq, steal = (int(one) / ticks for one in fields)
    return CpuTimes(
        user=user + nice, system=system, interrupts=irq + softirq, idle=idle, iowait=iowait,
        steal=steal,
    )  # fmt: skip


def context_switches(tree: Tree) -> int | None:
    """Return how often the machine's CPUs switched processes. Source: /proc/stat."""
    return _named(tree, "ctxt")


def _named(tree: Tree, name: str) -> int | None:
    return next((int(words[1]) for words in _stat(tree) if words[0] == name), None)


def _stat(tree: Tree) -> Iterator[list[str]]:
    return (line.split() for line in (tree.peek("/proc/stat") or "").splitlines())


def boot_time(tree: Tree) -> int | None:
    """Return when the machine started [s since 1970]. Source: /proc/stat."""
    return _named(tree, "btime")


def pressure(tree: Tree) -> Mapping[str, float]:
    """Return the seconds in which some task waited for ``cpu``, ``io`` or ``memory``.

    Empty where the kernel does not count them. Source: /proc/pressure, the field total [µs].
    """
    return dict(_pressure(tree))


def _pressure(tree: Tree) -> Iterator[tuple[str, float]]:
    for name in ("cpu", "io", "memory"):
        for line in (tree.peek(f"/proc/pressure/{name}") or "").splitlines():
            if line.startswith("some "):
                yield name, int(line.rpartition("total=")[2]) / MICROSECONDS


def available_memory(tree: Tree) -> int | None:
    """Return the bytes that programs can have without swapping. Source: /proc/meminfo."""
    available = memory.meminfo(tree).get("MemAvailable")
    return None if available is None else available * KiB


def default_interface(tree: Tree) -> str | None:
    """Return the network interface of the default route. Source: /proc/PID/net/route."""
    lines = (tree.peek(f"{tree.process}/net/route") or "").splitlines()[1:]
    routes = (fields for line in lines if len(fields := line.split()) > 7)
    return next((fields[0] for fields in routes if fields[1] == fields[7] == "0" * 8), None)


def traffic(tree: Tree, interface: str) -> Traffic | None:
    """Return what an interface carried. Source: /proc/PID/net/dev."""
    for line in (tree.peek(f"{tree.process}/net/dev") or "").splitlines():
        name, _, rest = line.partition(":")
        fields = rest.split()
        if name.strip() == interface and len(fields) > 8:
            return Traffic(int(fields[0]), int(fields[8]))
    return None


def own_groups(tree: Tree) -> OwnGroups:
    """Find the process's own control groups; this reads all mounts."""
    cpu, memory_group = (
        next(iter(lineage(tree, controller).groups), None) for controller in ("cpu", "memory")
    )
    accounts = None if cpu is None else _accounts(tree, cpu)
    return OwnGroups(cpu=cpu, accounts=accounts, memory=memory_group)


def group_usage(tree: Tree, of: OwnGroups) -> GroupUsage:
    """Return what these control groups used."""
    return GroupUsage(
        cpu=None if of.accounts is None else _used(tree, of.accounts),
        throttled=None if of.cpu is None else throttled_seconds(tree, of.cpu),
        memory=None if of.memory is None else _held(tree, of.memory),
    )


def cpu_of_group(tree: Tree, group: ControlGroup) -> float | None:
    """Return the CPU seconds of a group and those below it."""
    accounts = _accounts(tree, group)
    return None if accounts is None else _used(tree, accounts)


def _accounts(tree: Tree, group: ControlGroup) -> ControlGroup | None:
    """Return the group that counts this one's CPU time: in version 1, from another hierarchy."""
    if group.version == 2:
        return group
    accounts = lineage(tree, "cpuacct").groups
    return next((one for one in accounts if one.name == group.name), None)


def _used(tree: Tree, accounts: ControlGroup) -> float | None:
    if accounts.version == 2:
        return seconds(counts(tree, accounts, "cpu.stat").get("usage_usec"), MICROSECONDS)
    return seconds(_number(tree, accounts, "cpuacct.usage"), NANOSECONDS)


def busy_by_cpu(tree: Tree) -> Mapping[int, CpuTimes]:
    """Return the time of each CPU that is online. Source: /proc/stat."""
    return {
        int(words[0][3:]): times
        for words in _stat(tree)
        if re.fullmatch(r"cpu\d+", words[0]) and (times := _cpu_times(words[1:9])) is not None
    }


def _held(tree: Tree, group: ControlGroup) -> int | None:
    version_2 = group.version == 2
    return _number(tree, group, "memory.current" if version_2 else "memory.usage_in_bytes")


def _number(tree: Tree, group: ControlGroup, file: str) -> int | None:
    text = tree.peek(group.folder / file) or ""
    return int(text) if text.isdigit() else None
