"""The control groups above a process: version 1, version 2, and both together.

A process is a member of one group in each mounted hierarchy; every group up to the root may
have a limit, and the lowest one counts. Source: cgroups(7), cgroup_namespaces(7), and the
kernel's admin-guide/cgroup-v2.rst and admin-guide/cgroup-v1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal, TypeVar

from mrtuner.facts import Fact, Missing
from mrtuner.host.mounts import Mount, mounts_seen_by
from mrtuner.host.tree import Tree

T = TypeVar("T")
Version = Literal[1, 2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """One line of /proc/PID/cgroup."""

    version: Version
    controllers: frozenset[str]  # none in version 2: the groups list what they control
    path: PurePosixPath


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroup:
    """One control group: its name, as the kernel reports it to us, and the folder of its files."""

    version: Version
    name: PurePosixPath
    folder: PurePosixPath

    def source(self, file: str) -> str:
        """The origin of a number in one of its files, in words."""
        return f"cgroup v{self.version} {file} of {self.name}"


@dataclass(frozen=True, slots=True)
class Lineage:
    """A process's groups for one controller, its own first, and what could not be seen of them."""

    groups: tuple[ControlGroup, ...]
    hidden: tuple[str, ...]  # sentences


def parse_cgroup(text: str) -> Iterator[Membership]:
    """Read /proc/PID/cgroup.

    >>> [(each.version, str(each.path)) for each in parse_cgroup("4:memory:/a:b\\n0::/")]
    [(1, '/a:b'), (2, '/')]
    """
    for line in text.splitlines():
        fields = line.split(":", 2)
        if len(fields) != 3:
            continue
        number, controllers, path = fields
        yield Membership(
            version=2 if number == "0" else 1,
            controllers=frozenset(controllers.split(",")),
            path=PurePosixPath(path),
        )


def lineage(tree: Tree, controller: str) -> Lineage:
    """Return the groups that may limit the process by `controller` (``memory``, ``cpu``)."""
    text = tree.peek(f"{tree.process}/cgroup")
    if text is None:
        linux = tree.is_there("/proc/meminfo")
        return Lineage((), (f"{tree.process}/cgroup cannot be read",) if linux else ())
    member = _membership(parse_cgroup(text), controller)
    return Lineage((), ()) if member is None else _located(member, tree, controller)


def _membership(members: Iterable[Membership], controller: str) -> Membership | None:
    """The membership for a controller: version 2 applies only if version 1 does not list it."""
    unified = None
    for member in members:
        if controller in member.controllers:
            return member
        if member.version == 2:
            unified = member
    return unified


def _hierarchies(tree: Tree) -> Iterator[Mount]:
    """The cgroup mounts that we can open, from the first process that sees any.

    Our own come first: the kernel gives group names relative to the reader. After `ip netns exec`,
    which mounts a new /sys, ours has none, but that of the first process has.
    """
    for process in dict.fromkeys(("/proc/self", tree.process, "/proc/1")):
        inside = PurePosixPath("/" if process == "/proc/self" else f"{process}/root")
        found = [m for m in mounts_seen_by(tree, process) if m.fstype in ("cgroup", "cgroup2")]
        if found and tree.is_there(inside / "."):
            yield from (_moved(mount, inside) for mount in found)
            return


def _moved(mount: Mount, inside: PurePosixPath) -> Mount:
    """The same mount, with a mount point that can be opened from here."""
    return replace(mount, point=inside / mount.point.relative_to("/"))


def _located(member: Membership, tree: Tree, controller: str) -> Lineage:
    mounts = [each for each in _hierarchies(tree) if _carries(each, member.version, controller)]
    if not mounts:
        return Lineage((), ("no cgroup hierarchy is visible here",))
    groups, complete = _walk(member, mounts)
    outside = f"cgroup {member.path} lies outside the hierarchy mounted here"
    return Lineage(groups, () if complete else (outside,))


def _carries(mount: Mount, version: Version, controller: str) -> bool:
    if version == 2:
        return mount.fstype == "cgroup2"
    return mount.fstype == "cgroup" and controller in mount.options


def _walk(member: Membership, mounts: Iterable[Mount]) -> tuple[tuple[ControlGroup, ...], bool]:
    """The member's groups up to the mount's root, and whether its own is among them.

    If a hierarchy is mounted several times, the mount that shows the most parents is used.
    """
    for mount in sorted(mounts, key=lambda each: len(PurePosixPath(each.root).parts)):
        root = PurePosixPath(mount.root)
        if _is_inside(member.path, root):
            return tuple(_ancestors(member, mount)), True
        if _is_outer(root, member.path):
            return (ControlGroup(version=member.version, name=root, folder=mount.point),), False
    return (), False


def _ancestors(member: Membership, mount: Mount) -> Iterator[ControlGroup]:
    root = PurePosixPath(mount.root)
    for name in (member.path, *member.path.parents):
        if not name.is_relative_to(root):
            return
        folder = mount.point / name.relative_to(root)
        yield ControlGroup(version=member.version, name=name, folder=folder)


def _is_inside(path: PurePosixPath, root: PurePosixPath) -> bool:
    """Whether `path` is below `root`: ``/../other`` is not below ``/``."""
    return path.is_relative_to(root) and path.relative_to(root).parts[:1] != ("..",)


def _is_outer(root: PurePosixPath, path: PurePosixPath) -> bool:
    """Whether `root`, written ``/../..`` from inside a cgroup namespace, is above `path`."""
    ups = [part for part in path.parts if part == ".."]
    return set(root.parts[1:]) == {".."} and len(root.parts) - 1 > len(ups)


def read_limit(
    tree: Tree, group: ControlGroup, file: str, parse: Callable[[str], T | None], *, of: str
) -> Fact[T] | Missing | None:
    """Read one limit: None if there is none, Missing if its file is unreadable or invalid.

    `parse` returns None for "unlimited" and raises ValueError for what cannot be a limit; `of`
    is the fact that is limited, and the option that would supply it.
    """
    where = group.source(file)
    try:
        text = tree.read(group.folder / file)
    except OSError as error:
        return Missing(of, f"{where} cannot be read: {error.strerror}", f"--{of}")
    if text is None:
        return None
    try:
        value = parse(text)
    except ValueError:
        shown = text.splitlines()[0][:40] if text else ""
        return Missing(of, f"{where} contains {shown!r}, which is not a limit: ignored", f"--{of}")
    return None if value is None else Fact(value, where)


def counts(tree: Tree, group: ControlGroup, file: str) -> Mapping[str, int]:
    """Return the numbers of a file with a name and a number on each line; empty without it."""
    lines = (line.split() for line in (tree.peek(group.folder / file) or "").splitlines())
    return {each[0]: int(each[1]) for each in lines if len(each) == 2 and each[1].isdigit()}
