"""What this machine really is: memory and CPUs as far as we may use them, and its storage.

    probe("/") ─ tree      the files of /proc and /sys, and the process they are asked about
                 ├ mounts    mountinfo            ┬ cgroup   the groups above the process
                 │                                ├ memory   RAM, limits, swap, huge pages
                 │                                └ cpus     online, cpuset, affinity, quota
                 └ storage, disk   what the data directory lies on

Every fact carries its source; what could not be read is None and named in `missing`.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TypeVar

from mrtuner.facts import Fact, Missing
from mrtuner.host import cpus as processors
from mrtuner.host import memory as ram
from mrtuner.host.disk import disk
from mrtuner.host.model import Host, HugePages, Storage
from mrtuner.host.mounts import place_of
from mrtuner.host.storage import storage
from mrtuner.host.tree import Tree

__all__ = ["Host", "HugePages", "Storage", "probe"]

T = TypeVar("T")


def probe(
    root: Path = Path("/"), *, pid: int | None = None, data_directory: Path | None = None
) -> Host:
    """Read one machine or container; never fails, but may know little.

    `pid` is the process whose cgroups, CPU set and mounts count (a live postmaster), ours if
    None. `data_directory` is the path whose storage counts, as that process sees it, ``/`` if
    None. `root` holds another machine's /proc and /sys; nothing but files is asked then.
    """
    tree = Tree(root, pid)
    place = place_of(tree, _absolute(data_directory))
    memory, memory_notes = ram.memory(tree)
    cpus, cpu_notes = processors.cpus(tree)
    architecture, kernel, clock = processors.architecture(tree), _kernel(tree), _clock(tree)
    kind, (disk_size, disk_free) = storage(tree, place), disk(tree, place)
    huge_pages, swap = ram.huge_pages(tree), ram.swap(tree)
    found: tuple[object, ...] = (
        memory, cpus, architecture, kernel, kind, disk_size, disk_free, huge_pages, swap, clock,
        *memory_notes, *cpu_notes,
    )  # fmt: skip
    return Host(
        memory=_known(memory),
        cpus=_known(cpus),
        architecture=_known(architecture),
        kernel=_known(kernel),
        storage=_known(kind),
        disk_size=_known(disk_size),
        disk_free=_known(disk_free),
        huge_pages=_known(huge_pages),
        swap=_known(swap),
        clock=_known(clock),
        missing=tuple(each for each in found if isinstance(each, Missing)),
    )


def _known(answer: Fact[T] | Missing) -> Fact[T] | None:
    return answer if isinstance(answer, Fact) else None


def _absolute(data_directory: Path | None) -> PurePosixPath:
    return PurePosixPath(data_directory.absolute() if data_directory else "/")


def _kernel(tree: Tree) -> Fact[str] | Missing:
    """The kernel's release, as `uname -r` prints it."""
    path = "/proc/sys/kernel/osrelease"
    release = tree.peek(path)
    if release:
        return Fact(release, path)
    if tree.live:
        return Fact(os.uname().release, "uname")
    return Missing("kernel", f"{path} cannot be read")


def _clock(tree: Tree) -> Fact[str] | Missing:
    """What EXPLAIN ANALYZE and track_io_timing read the time from."""
    path = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    name = tree.peek(path)
    return Fact(name, path) if name else Missing("clock", f"{path} cannot be read")
