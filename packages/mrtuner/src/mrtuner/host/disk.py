"""The size of the filesystem that holds a directory, and its free space."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from mrtuner.facts import Fact, Missing
from mrtuner.host.mounts import Mount, MountedPath, place_of
from mrtuner.host.tree import Tree
from mrtuner.units import Bytes


def disk(tree: Tree, place: MountedPath) -> tuple[Fact[Bytes] | Missing, Fact[Bytes] | Missing]:
    """Size and free space [bytes]; free for an ordinary user, that is without root's reserve."""
    found = _statvfs(place) if tree.live else None
    if found is None or found[0].f_blocks == 0:
        why = f"statvfs reports nothing for {place.path}"
        return Missing("disk_size", why), Missing("disk_free", why)
    of, path = found
    return (
        Fact(Bytes(of.f_blocks * of.f_frsize), f"statvfs {path}: f_blocks"),
        Fact(Bytes(of.f_bavail * of.f_frsize), f"statvfs {path}: f_bavail"),
    )


def wal_disk(
    tree: Tree, data: MountedPath
) -> tuple[Fact[Bytes] | None, Fact[Bytes] | None, Missing | None]:
    """Size and free space of pg_wal's own volume; all None if pg_wal is on the data volume.

    pg_wal may be a mount point or a symbolic link to one. Missing if there is such a volume but
    its size is unknown, or if the data directory is closed to us, so that a link could not be
    seen. A dataset of the same ZFS pool is a volume of its own only with a quota.
    """
    inside = data.path / "pg_wal"
    place = place_of(tree, inside)
    if place.mount and data.mount and place.mount.device != data.mount.device:
        size, free = disk(tree, place)
        if same_pool(place.mount, data.mount) and not limited(size, disk(tree, data)[1]):
            return None, None, None
        if isinstance(size, Missing) or isinstance(free, Missing):
            why = f"pg_wal is on a volume of its own, {place.mount.point}, of unknown size"
            return None, None, Missing("wal-disk", why, "--wal-disk")
        return size, free, None
    if place.path == inside and not _is_open(data.base / str(data.path).lstrip("/")):
        why = f"this user cannot enter {data.path}: pg_wal may be a link to another volume"
        return None, None, Missing("wal-disk", why, "--wal-disk")
    return None, None, None


def same_pool(one: Mount, other: Mount) -> bool:
    """Whether two mounts are datasets of one ZFS pool, whose free space all of them share.

    Subvolumes of a btrfs need no such test: mountinfo shows one device for all of them.
    """
    pools = {mount.source.partition("/")[0] for mount in (one, other)}
    return one.fstype == other.fstype == "zfs" and len(pools) == 1


def limited(size: Fact[Bytes] | Missing, shared: Fact[Bytes] | Missing) -> bool:
    """Whether a quota makes a dataset smaller than the free space of its pool.

    Without a quota its size is what it holds and all of that free space. Source: zfsprops(7).
    """
    if isinstance(size, Missing) or isinstance(shared, Missing):
        return False
    return size.value < shared.value


def _is_open(folder: Path) -> bool:
    """Whether links in a folder can be seen; a folder that does not exist hides none."""
    return not folder.exists() or os.access(folder, os.X_OK)


def _statvfs(place: MountedPath) -> tuple[os.statvfs_result, PurePosixPath] | None:
    """Statistics of the path, or of its mount point if the path is closed to us or missing."""
    point = place.mount.point if place.mount else PurePosixPath("/")
    for path in (place.path, point):
        try:
            return os.statvfs(place.base / str(path).lstrip("/")), path
        except OSError:
            continue
    return None
