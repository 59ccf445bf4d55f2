"""The build context: what is in it after the ignore file, by directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from mrtuner.errors import MrTunerError, UsageError
from mrtuner_image.ignore import IgnoreRules

#: Size of a header in an archive, and of the blocks to which files are padded [bytes].
BLOCK: Final = 512
Kind = Literal["file", "directory", "symlink", "other"]


@dataclass(frozen=True, slots=True)
class ContextEntry:
    """A path of the context, relative to it."""

    path: str
    kind: Kind
    mode: int  # the permissions alone
    size: int = 0  # of its content; 0 for a second name of the same file
    target: str = ""  # of a symbolic link
    own: bool = True  # it belongs to the current user
    content: bytes | None = None  # if it differs from the file on disk

    @property
    def archived(self) -> int:
        """Bytes in an archive: the header, and the content in whole blocks."""
        return BLOCK + -(-self.size // BLOCK) * BLOCK

    @property
    def directories(self) -> list[str]:
        """The directories that contain it, outermost first; a directory is itself the last."""
        parts = self.path.split("/")
        whole = parts if self.kind == "directory" else parts[:-1]
        return ["/".join(whole[:number]) for number in range(1, len(whole) + 1)]


#: Entries read so far, by the rules and the start of the walk, so that none is read twice.
Found = dict[tuple[IgnoreRules, str], tuple[ContextEntry, ...]]


@dataclass(frozen=True, slots=True)
class Context:
    """What a builder can see of a directory."""

    root: Path
    rules: IgnoreRules
    entries: tuple[ContextEntry, ...]
    edits: Mapping[str, bytes] = field(default_factory=dict)  # by path
    found: Found = field(default_factory=dict, repr=False, compare=False)

    def below(self, directory: str) -> tuple[ContextEntry, ...]:
        """The entries below a directory that the rules keep, even if they exclude itself."""
        return tuple(walk(self.root, self.rules, directory, self.edits, self.found))

    def at(self, path: str) -> ContextEntry:
        """What is at a path. OSError if there is nothing."""
        found, content = (self.root / path).lstat(), self.edits.get(path)
        mode, own = stat.S_IMODE(found.st_mode), found.st_uid == os.geteuid()
        entry = ContextEntry(path, _kind(found.st_mode), mode, _size(found), own=own)
        return entry if content is None else _edited(entry, content)

    @property
    def files(self) -> int:
        return sum(entry.kind != "directory" for entry in self.entries)

    @property
    def sent(self) -> int:
        """Bytes sent to a remote builder: the entries as an archive, without headers of long names.

        A local podman reads the directory in place.
        """
        return sum(entry.archived for entry in self.entries) + 2 * BLOCK


@dataclass(frozen=True, slots=True)
class Share:
    """A directory's part of what is sent, with everything below it."""

    path: str
    files: int
    sent: int


def read_context(
    root: Path,
    rules: IgnoreRules,
    edits: Mapping[str, bytes] | None = None,
    found: Found | None = None,
) -> Context:
    """Return what the rules keep of a directory.

    `edits` has the contents of files that would be written or changed. What is in `found` is not
    read again, and what is read is added to it.

    Raises:
        UsageError: there is no such directory. MrTunerError: a part of it cannot be read.
    """
    if not root.is_dir():
        raise UsageError(f"{root} is not a directory", "Name the directory to build.")
    known = {} if found is None else found
    return Context(root, rules, tuple(walk(root, rules, "", edits, known)), edits or {}, known)


def walk(
    root: Path, rules: IgnoreRules, start: str, edits: Mapping[str, bytes] | None, found: Found
) -> Iterator[ContextEntry]:
    """Yield what is below `start`, in the builder's order. Links are not followed, sockets skipped.

    An excluded directory is entered only if a pattern may bring back something in it.
    """
    seen: set[tuple[int, int]] = set()
    within = f"{start}/" if start else ""
    new = {path: content for path, content in (edits or {}).items() if path.startswith(within)}
    try:
        if (rules, start) not in found:
            found[rules, start] = tuple(_below(os.fspath(root), rules, start, seen))
        for entry in found[rules, start]:
            content = new.pop(entry.path, None)
            yield entry if content is None else _edited(entry, content)
        for path, content in new.items():
            if not rules.excludes(path):
                yield _edited(ContextEntry(path, "file", _NEW), content)
    except OSError as error:
        raise MrTunerError(
            f"cannot read {error.filename}: {error.strerror}",
            "Run as a user who may read it, or add it to the ignore file.",
        ) from error


#: The permissions of a file that does not exist yet.
_NEW: Final = 0o644


def _edited(entry: ContextEntry, content: bytes) -> ContextEntry:
    return replace(entry, size=len(content), content=content)


def _below(
    root: str, rules: IgnoreRules, directory: str, seen: set[tuple[int, int]]
) -> Iterator[ContextEntry]:
    with os.scandir(f"{root}/{directory}") as found:
        here = sorted(found, key=lambda entry: os.fsencode(entry.name))
    for item in here:
        path = f"{directory}/{item.name}" if directory else item.name
        excluded = rules.excludes(path)
        is_directory = item.is_dir(follow_symlinks=False)
        if not excluded and (entry := _entry(item, path, seen)) is not None:
            yield entry
        if is_directory and (not excluded or rules.enters(path)):
            yield from _below(root, rules, path, seen)


def _entry(item: os.DirEntry[str], path: str, seen: set[tuple[int, int]]) -> ContextEntry | None:
    found = item.stat(follow_symlinks=False)
    if stat.S_ISSOCK(found.st_mode):
        return None
    kind, mode = _kind(found.st_mode), stat.S_IMODE(found.st_mode)
    own = found.st_uid == os.geteuid()
    if kind == "symlink":
        return ContextEntry(path, kind, mode, target=os.readlink(item.path), own=own)  # noqa: PTH115
    size = _size(found)
    if size and found.st_nlink > 1:
        if (found.st_dev, found.st_ino) in seen:
            size = 0
        seen.add((found.st_dev, found.st_ino))
    return ContextEntry(path, kind, mode, size, own=own)


def _size(found: os.stat_result) -> int:
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def by_directory(context: Context) -> list[Share]:
    """Return the directories two levels down, largest first; `.` holds the files at the top."""
    files: dict[str, int] = {}
    sent: dict[str, int] = {}
    for entry in context.entries:
        for name in entry.directories[:2] or ["."]:
            files[name] = files.get(name, 0) + (entry.kind != "directory")
            sent[name] = sent.get(name, 0) + entry.archived
    shares = [Share(name, files[name], sent[name]) for name in sent]
    return sorted(shares, key=lambda share: (-share.sent, share.path))
