"""The file tree of an image, and how two of them differ.

A tree is assembled from the layers in memory: nothing is unpacked. It does not include times.
Source: OCI image specification 1.1, layer.md (whiteouts); extended attributes as in the headers
that Go's archive/tar writes.
"""

from __future__ import annotations

import hashlib
import posixpath
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from io import BufferedReader
from typing import IO, Final, cast

from mrtuner.image.stored import StoredImage

_CHUNK: Final = 1 << 20
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_ATTRIBUTE: Final = "SCHILY.xattr."
#: Parts of the configuration with which a container runs. The rest describes the build.
_RUN_WITH: Final = ("architecture", "os", "os.version", "variant", "config")


@dataclass(frozen=True, slots=True)
class Node:
    """What is at a path."""

    type: str
    mode: int
    owner: tuple[int, int]
    content: str  # a file's digest, a link's target, a device's numbers
    attributes: tuple[tuple[str, str], ...]


Tree = Mapping[str, Node]
#: What differs at a path, such as its mode; a path that only one tree has is "there or not".
Differences = Mapping[str, frozenset[str]]
THERE: Final = "there or not"
_COMPARED: Final = {
    "type": "type", "mode": "mode", "owner": "owner", "content": "content",
    "attributes": "extended attributes",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of a layer. `link` is the target of a hard link."""

    path: str
    node: Node | None  # None: it removes what lower layers have
    opaque: bool = False  # it removes what they have in a directory, not the directory
    link: str | None = None


class Trees:
    """Reads trees; a layer that several images share is read once."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[_Entry, ...]] = {}

    def of(self, image: StoredImage) -> Tree:
        """Return what a container of this image sees."""
        found: dict[str, Node] = {}
        for layer in image.layers:
            if layer.digest not in self._layers:
                with image.archive(layer) as stream:
                    self._layers[layer.digest] = tuple(_entries(stream))
            _apply(found, self._layers[layer.digest])
        return found


def _entries(stream: IO[bytes]) -> Iterator[_Entry]:
    with tarfile.open(
        fileobj=stream, mode="r|", encoding="utf-8", errors="surrogateescape"
    ) as archive:
        for member in archive:
            path = posixpath.normpath("/" + member.name.lstrip("/"))
            above, name = posixpath.split(path)
            if name == _OPAQUE:
                yield _Entry(above, None, opaque=True)
            elif name.startswith(_WHITEOUT):
                yield _Entry(posixpath.join(above, name.removeprefix(_WHITEOUT)), None)
            elif member.islnk():
                target = posixpath.normpath("/" + member.linkname.lstrip("/"))
                yield _Entry(path, _node(archive, member), link=target)
            else:
                yield _Entry(path, _node(archive, member))
    while stream.read(_CHUNK):
        """To the end, so that its digest is compared."""


def _node(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Node:
    content = member.linkname if member.issym() else ""
    if member.isfile() and (file := archive.extractfile(member)) is not None:
        content = hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()
    elif member.ischr() or member.isblk():
        content = f"{member.devmajor}:{member.devminor}"
    attributes = {
        name.removeprefix(_ATTRIBUTE): value
        for name, value in member.pax_headers.items()
        if name.startswith(_ATTRIBUTE)
    }
    return Node(
        type=_type(member), mode=member.mode & 0o7777, owner=(member.uid, member.gid),
        content=content, attributes=tuple(sorted(attributes.items())),
    )  # fmt: skip


def _type(member: tarfile.TarInfo) -> str:
    if member.isdir():
        return "directory"
    if member.issym():
        return "symlink"
    return "file" if member.isfile() or member.islnk() else f"special {member.type!r}"


def _apply(found: dict[str, Node], entries: Iterable[_Entry]) -> None:
    """Put a layer on top. It removes files of lower layers only, in whatever order it lists."""
    added: dict[str, Node] = {}
    for entry in entries:
        if entry.node is None:
            _remove(found, entry.path, itself=not entry.opaque)
            continue
        node = entry.node
        if entry.link is not None:
            target = added.get(entry.link) or found.get(entry.link)
            node = replace(node, content=target.content) if target else node
        if node.type != "directory":
            _remove(found, entry.path)
        added[entry.path] = node
    found |= added


def _remove(found: dict[str, Node], path: str, *, itself: bool = True) -> None:
    was = found.pop(path, None) if itself else found.get(path)
    if was is not None and was.type == "directory":
        for one in [one for one in found if one.startswith(path.rstrip("/") + "/")]:
            del found[one]


def differences(one: Tree, other: Tree) -> Differences:
    """Return every path at which two trees differ, and what differs there.

    The top directory counts only if both have it: not every builder records it.
    """
    found: dict[str, frozenset[str]] = {}
    for path in sorted(one.keys() | other.keys()):
        a, b = one.get(path), other.get(path)
        if a is None or b is None:
            what = frozenset({THERE} if path != "/" else ())
        else:
            what = frozenset(
                told for name, told in _COMPARED.items() if getattr(a, name) != getattr(b, name)
            )
        if what:
            found[path] = what
    return found


def configuration_differences(one: StoredImage, other: StoredImage) -> dict[str, tuple[str, str]]:
    """Return the differing settings with which containers of two images run, such as Env.

    Of lists, only the items that the other image does not have.
    """
    a, b = _run_with(one), _run_with(other)
    return {
        name: (_only(a.get(name), b.get(name)), _only(b.get(name), a.get(name)))
        for name in sorted(a.keys() | b.keys())
        if a.get(name) != b.get(name)
    }


def _run_with(image: StoredImage) -> dict[str, object]:
    told = {name: image.configuration.get(name) for name in _RUN_WITH}
    inner = told.pop("config") or {}
    return {name: value for name, value in {**told, **inner}.items() if value}


def _only(value: object, other: object) -> str:
    if isinstance(value, list) and isinstance(other, list):
        value = [item for item in value if item not in other]
    return str(value) if value else "none"


def without(found: Differences, noise: Differences, excepted: Iterable[str]) -> Differences:
    """Return the differences that are neither noise nor at a path that may differ.

    A pattern names a path and all below it; a star stands for any characters.
    """
    patterns = [pattern.rstrip("/") for pattern in excepted]
    left: dict[str, frozenset[str]] = {}
    for path, what in found.items():
        more = what - noise.get(path, frozenset())
        named = any(
            fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern}/*") for pattern in patterns
        )
        if more and not named:
            left[path] = more
    return left
