"""The block devices below a data directory, and what they counted.

The search goes from the path to its filesystem (mountinfo), to the device, and through partitions,
LVM, RAID and loop devices down to whole disks. Sources: the kernel's admin-guide/iostats.rst and
admin-guide/cgroup-v2.rst (io.stat).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from mrtuner.host.cgroup import ControlGroup
from mrtuner.host.mounts import place_of
from mrtuner.host.storage import MOST_LOOPS, block_devices
from mrtuner.host.tree import Tree, names_in, text_of

#: The unit of diskstats and blkio, whatever the device's own block size. Source: iostats.rst.
_SECTOR: Final = 512


@dataclass(frozen=True, slots=True)
class Device:
    """One whole block device: ``loop0`` with the number ``7:0``."""

    name: str
    number: str


@dataclass(frozen=True, slots=True)
class Counted:
    """Counters of a device or group since its start; times in seconds, None if not counted."""

    reads: int
    writes: int
    read_bytes: int
    written_bytes: int
    read_time: float | None
    write_time: float | None
    queued_time: float | None  # sum over all requests: its growth per second is the queue


# Which devices.


def layers(tree: Tree, path: PurePosixPath) -> tuple[Device, ...]:
    """Whole devices below a path, topmost first; empty if it is on no block device we can see."""
    return tuple(dict.fromkeys(_below(tree, path, MOST_LOOPS)))


def _below(tree: Tree, path: PurePosixPath, deep: int) -> Iterator[Device]:
    mount = place_of(tree, path).mount
    for folder in () if mount is None else block_devices(tree, mount):
        yield from _stack(tree, folder.resolve(), deep)


def _stack(tree: Tree, folder: Path, deep: int) -> Iterator[Device]:
    """A partition's disk, the device itself, then its components."""
    if (folder / "partition").exists():
        folder = folder.parent
    number = text_of(folder / "dev")
    if number:
        yield Device(folder.name, number)
    for slave in names_in(folder / "slaves"):
        yield from _stack(tree, (folder / "slaves" / slave).resolve(), deep)
    backing = text_of(folder / "loop" / "backing_file")
    if backing and deep:
        yield from _below(tree, PurePosixPath(backing), deep - 1)


# Their counters.


def counted(tree: Tree, device: Device, group: ControlGroup | None = None) -> Counted | None:
    """A device's counters or, in version 2, those of the group that limits it; None if hidden.

    A version 1 group counts requests before it delays them, so the device's counters are used.
    These include merged requests, because the group counts requests before they are merged.
    """
    if group is not None and group.version == 2:
        return _counted_by_group(tree, device, group)
    lines = (line.split() for line in (tree.peek("/proc/diskstats") or "").splitlines())
    return next((_counted_by_device(f) for f in lines if ":".join(f[:2]) == device.number), None)


def _counted_by_device(fields: Sequence[str]) -> Counted | None:
    if len(fields) < 14:
        return None
    reads, merged, read, reading, writes, also, written, writing = map(int, fields[3:11])
    return Counted(
        reads=reads + merged, writes=writes + also,
        read_bytes=read * _SECTOR, written_bytes=written * _SECTOR,
        read_time=reading / 1000, write_time=writing / 1000, queued_time=int(fields[13]) / 1000,
    )  # fmt: skip


def _counted_by_group(tree: Tree, device: Device, group: ControlGroup) -> Counted | None:
    for number, values in keyed(tree.peek(group.folder / "io.stat") or ""):
        if number == device.number:
            kinds = ("rios", "wios", "rbytes", "wbytes")
            reads, writes, read, written = (int(values.get(key, "0")) for key in kinds)
            return Counted(reads, writes, read, written, None, None, None)
    return Counted(0, 0, 0, 0, None, None, None)  # nothing yet


def keyed(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Parse lines such as ``8:16 rbps=2097152 wbps=max riops=max wiops=120``."""
    for line in text.splitlines():
        number, *pairs = line.split()
        yield number, dict(pair.split("=", 1) for pair in pairs if "=" in pair)
