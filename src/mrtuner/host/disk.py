"""How large the filesystem below a directory is, and how much of it is free."""

from __future__ import annotations

import os
from pathlib import PurePosixPath

from mrtuner.facts import Fact, Missing
from mrtuner.host.mounts import Place
from mrtuner.host.tree import Tree
from mrtuner.units import Bytes


def disk(tree: Tree, place: Place) -> tuple[Fact[Bytes] | Missing, Fact[Bytes] | Missing]:
    """Size and free space [bytes]; free as an ordinary user may fill it, without root's reserve."""
    found = _statvfs(place) if tree.live else None
    if found is None or found[0].f_blocks == 0:
        why = f"statvfs tells nothing of {place.path}"
        return Missing("disk_size", why), Missing("disk_free", why)
    of, path = found
    return (
        Fact(Bytes(of.f_blocks * of.f_frsize), f"statvfs {path}: f_blocks"),
        Fact(Bytes(of.f_bavail * of.f_frsize), f"statvfs {path}: f_bavail"),
    )


def _statvfs(place: Place) -> tuple[os.statvfs_result, PurePosixPath] | None:
    """Of the path, or of its mount point where the path is closed to us or not made yet."""
    point = place.mount.point if place.mount else PurePosixPath("/")
    for path in (place.path, point):
        try:
            return os.statvfs(place.base / str(path).lstrip("/")), path
        except OSError:
            continue
    return None
