"""What is mounted where. Source: proc_pid_mountinfo(5)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mrtuner.host.tree import Tree, real_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One line of mountinfo."""

    number: str  # ID of this mount: unique on the machine, even across namespaces
    device: str  # major:minor of the filesystem; 0:N if it is not on a single block device
    root: str  # the mounted folder of the filesystem; for cgroups the group
    point: PurePosixPath
    fstype: str
    source: str
    options: frozenset[str]  # of the superblock: a cgroup v1 hierarchy lists its controllers here


@dataclass(frozen=True, slots=True)
class MountedPath:
    """A path as its process sees it, with links followed, and the filesystem it is on."""

    base: Path  # where that process's root can be opened
    path: PurePosixPath
    mount: Mount | None


def parse_mountinfo(text: str) -> Iterator[Mount]:
    """Read mountinfo, skipping malformed lines.

    >>> line = "41 31 0:38 / /a\\\\040b rw,relatime shared:9 - cgroup2 none rw,nsdelegate"
    >>> mount, = parse_mountinfo(line)
    >>> str(mount.point), mount.fstype, sorted(mount.options)
    ('/a b', 'cgroup2', ['nsdelegate', 'rw'])
    """
    for line in text.splitlines():
        place, dash, kind = line.partition(" - ")
        left, right = place.split(), kind.split()
        if not dash or len(left) < 6 or len(right) < 2:
            continue
        yield Mount(
            number=left[0],
            device=left[2],
            root=_unescaped(left[3]),
            point=PurePosixPath(_unescaped(left[4])),
            fstype=right[0],
            source=_unescaped(right[1]),
            options=frozenset(right[2].split(",")) if len(right) > 2 else frozenset(),
        )


def _unescaped(field: str) -> str:
    """Decode the kernel's three octal digits for space, tab, newline and backslash."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field)


def mounts_seen_by(tree: Tree, process: str) -> list[Mount]:
    """The mounts in the namespace of `process` (``/proc/self``), in mount order."""
    return list(parse_mountinfo(tree.peek(f"{process}/mountinfo") or ""))


def mounts_of(tree: Tree) -> list[Mount]:
    """The mounts of the tree's process, even in another mount namespace, in mount order."""
    process, _ = _viewpoint(tree)
    return mounts_seen_by(tree, process)


def mount_of(path: PurePosixPath, mounts: Iterable[Mount]) -> Mount | None:
    """The filesystem that `path` is on: the deepest mount point above it, the latest if stacked."""
    best = None
    for mount in mounts:
        above = path.is_relative_to(mount.point)
        if above and (best is None or len(mount.point.parts) >= len(best.point.parts)):
            best = mount
    return best


def place_of(tree: Tree, path: PurePosixPath) -> MountedPath:
    """Where the process's `path` is, even in another mount namespace."""
    process, base = _viewpoint(tree)
    seen = real_path(base, path)
    return MountedPath(base, seen, mount_of(seen, mounts_seen_by(tree, process)))


def _viewpoint(tree: Tree) -> tuple[str, Path]:
    """Whose mounts to read, and where its root can be opened.

    Mounts are numbered, so equal tables mean one namespace. In another namespace our own paths mean
    nothing, even if that process is closed to us.
    """
    own = "/proc/self"
    if mounts_seen_by(tree, tree.process) == mounts_seen_by(tree, own):
        return own, tree.root
    return tree.process, tree.at(f"{tree.process}/root")
