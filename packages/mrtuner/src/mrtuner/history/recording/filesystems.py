"""The file systems of a server's machine, as a source: their size and free space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final

from mrtuner.facts import Fact
from mrtuner.history.recording.program import OwnProgram, Place, Rows
from mrtuner.host.disk import disk
from mrtuner.host.mounts import Mount, mount_of, mounts_of, place_of
from mrtuner.host.storage import NETWORK_FILESYSTEMS
from mrtuner.host.tree import Tree

_DECLARATION: Final = """
help = "Size and free space of each file system of the server's host, if the recorder runs on it"
interval = "1min"

[keys]
mount = { help = "where it is mounted" }

[texts]
device = { help = "what is mounted there" }
data_directory = { type = "boolean", help = "whether the data directory is on it" }

[gauges]
size = { unit = "bytes", help = "its size" }
free = { unit = "bytes", help = "free for ordinary users, without root's reserve" }
used = { type = "float", unit = "share", help = "not free, of its size" }
"""
#: Images that are always full.
_READ_ONLY: Final = frozenset({"squashfs", "iso9660", "erofs"})
#: File systems on several devices, which have a number like those that are on none.
_OWN_DEVICES: Final = frozenset({"btrfs", "zfs", "bcachefs"})


def _open(place: Place) -> Rows | None:
    """Return a function that measures them; None if the server runs elsewhere."""
    if place.postmaster is None:
        return None
    tree = Tree(pid=place.postmaster)
    given = place.data_directory
    return partial(_rows, tree, PurePosixPath(given) if given else tree.working_directory())


FILESYSTEMS: Final = OwnProgram(_DECLARATION, _open)


def _rows(tree: Tree, data: PurePosixPath | None) -> Iterable[Mapping[str, Any]]:
    mounts = mounts_of(tree)
    of_data = None if data is None else mount_of(place_of(tree, data).path, mounts)
    for mount in _stored(mounts, of_data):
        size, free = disk(tree, place_of(tree, mount.point))
        if isinstance(size, Fact) and isinstance(free, Fact):
            yield {
                "mount": str(mount.point), "device": mount.source,
                "data_directory": of_data is not None and mount.device == of_data.device,
                "size": size.value, "free": free.value,
                "used": 1 - free.value / size.value,
            }  # fmt: skip


def _stored(mounts: Iterable[Mount], of_data: Mount | None) -> Iterator[Mount]:
    """Yield one mount of each file system that keeps data; the data directory's comes first."""
    kept = [one for one in mounts if _keeps_data(one)]
    seen = set()
    for mount in kept if of_data is None else [of_data, *kept]:
        if mount.device not in seen:
            seen.add(mount.device)
            yield mount


def _keeps_data(mount: Mount) -> bool:
    if mount.fstype in _READ_ONLY:
        return False
    return not mount.device.startswith("0:") or mount.fstype in NETWORK_FILESYSTEMS | _OWN_DEVICES
