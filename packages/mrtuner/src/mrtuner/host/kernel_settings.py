"""The kernel's memory management settings, which administrators set with sysctl."""

from __future__ import annotations

import re

from mrtuner.facts import Fact, Missing
from mrtuner.host.cpus import parse_cpu_list
from mrtuner.host.memory import SIZES, meminfo
from mrtuner.host.model import VirtualMemory
from mrtuner.host.tree import Tree
from mrtuner.units import Bytes, GiB, KiB

#: Source: the kernel's Documentation/admin-guide/sysctl/vm.rst and sysctl/kernel.rst.
SYSCTLS = (
    "vm/overcommit_memory", "vm/overcommit_ratio", "vm/dirty_background_bytes",
    "vm/dirty_background_ratio", "vm/dirty_bytes", "vm/dirty_ratio", "vm/swappiness",
    "vm/zone_reclaim_mode", "kernel/numa_balancing",
)  # fmt: skip
NODES = "/sys/devices/system/node/online"
GIGANTIC = f"{SIZES}/hugepages-{GiB // KiB}kB/nr_hugepages"


def virtual_memory(tree: Tree) -> Fact[VirtualMemory] | Missing:
    """Read the settings from /proc/sys; one that cannot be read is None."""
    found = {path.partition("/")[2]: _number(tree.peek(f"/proc/sys/{path}")) for path in SYSCTLS}
    if all(value is None for value in found.values()):
        return Missing("vm", "/proc/sys/vm cannot be read")
    info = meminfo(tree)
    return Fact(
        VirtualMemory(
            **found,
            ram=_kilobytes(info.get("MemTotal")),
            committed=_kilobytes(info.get("Committed_AS")),
            nodes=_nodes(tree),
            gigantic=_number(tree.peek(GIGANTIC)),
        ),
        "/proc/sys/vm",
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"-?\d+", text) else None


def _kilobytes(number: int | None) -> Bytes | None:
    return None if number is None else Bytes(number * KiB)


def _nodes(tree: Tree) -> int:
    """The number of online NUMA nodes; one if the kernel does not say."""
    try:
        return len(parse_cpu_list(tree.peek(NODES) or "0"))
    except ValueError:
        return 1
