"""Reads a whole machine: asks every reader once and collects what they could not find out."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TypeVar

from mrtuner.facts import Fact, Missing
from mrtuner.host import cpus as processors
from mrtuner.host import memory as ram
from mrtuner.host.disk import disk, wal_disk
from mrtuner.host.io_limits import volume_limits
from mrtuner.host.io_uring import io_uring
from mrtuner.host.kernel_settings import virtual_memory
from mrtuner.host.model import Host
from mrtuner.host.mounts import MountedPath, place_of
from mrtuner.host.storage import storage
from mrtuner.host.tree import Tree

T = TypeVar("T")


def probe(root: Path, *, pid: int | None = None, data_directory: Path | None = None) -> Host:
    """See `mrtuner.host.probe`."""
    tree = Tree(root, pid)
    place = place_of(tree, PurePosixPath(data_directory.absolute() if data_directory else "/"))
    memory, memory_notes = ram.memory(tree)
    cpus, cpu_notes = processors.cpus(tree)
    architecture, kernel, clock = processors.architecture(tree), _kernel(tree), _clock(tree)
    kind, (disk_size, disk_free) = storage(tree, place), disk(tree, place)
    wal_size, wal_free, unseen = wal_disk(tree, place) if data_directory else (None, None, None)
    iops, bandwidth = volume_limits(tree, place.path) if data_directory else (None, None)
    huge_pages, swap = ram.huge_pages(tree), ram.swap(tree)
    found: tuple[object, ...] = (
        memory, cpus, architecture, kernel, kind, disk_size, disk_free,
        unseen, huge_pages, swap, clock,
        *memory_notes, *cpu_notes,
    )  # fmt: skip
    return Host(
        memory=_known(memory),
        cpus=_known(cpus),
        architecture=_known(architecture),
        kernel=_known(kernel),
        storage=_known(kind),
        filesystem=_filesystem(place) if data_directory else None,
        disk_size=_known(disk_size),
        disk_free=_known(disk_free),
        huge_pages=_known(huge_pages),
        swap=_known(swap),
        clock=_known(clock),
        wal_size=wal_size,
        wal_free=wal_free,
        vm=_known(virtual_memory(tree)),
        io_uring=io_uring(tree),
        volume_iops=iops,
        volume_bandwidth=bandwidth,
        missing=tuple(each for each in found if isinstance(each, Missing)),
    )


def _known(answer: Fact[T] | Missing) -> Fact[T] | None:
    return answer if isinstance(answer, Fact) else None


def _filesystem(place: MountedPath) -> Fact[str] | None:
    return Fact(place.mount.fstype, f"mountinfo: {place.mount.point}") if place.mount else None


def _kernel(tree: Tree) -> Fact[str] | Missing:
    """The kernel's release, as printed by `uname -r`."""
    path = "/proc/sys/kernel/osrelease"
    release = tree.peek(path)
    if release:
        return Fact(release, path)
    if tree.live:
        return Fact(os.uname().release, "uname")
    return Missing("kernel", f"{path} cannot be read")


def _clock(tree: Tree) -> Fact[str] | Missing:
    path = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    name = tree.peek(path)
    return Fact(name, path) if name else Missing("clock", f"{path} cannot be read")
