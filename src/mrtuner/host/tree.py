"""The files in which a Linux kernel describes a machine, below any root."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

#: As many links as Linux itself follows in one path. Source: include/linux/namei.h, MAXSYMLINKS.
MOST_LINKS = 40


@dataclass(frozen=True, slots=True)
class Tree:
    """One machine's /proc and /sys, and the process that they are asked about."""

    root: Path = Path("/")
    pid: int | None = None  # None: ourselves

    @property
    def live(self) -> bool:
        """True for the machine we run on: then the standard library may be asked too."""
        return self.root == Path("/")

    @property
    def process(self) -> str:
        """The folder of the process in question: ``/proc/self`` or ``/proc/4711``."""
        return f"/proc/{self.pid or 'self'}"

    def at(self, path: str | PurePosixPath) -> Path:
        """Where to open what the machine calls `path`."""
        return self.root / str(path).lstrip("/")

    def read(self, path: str | PurePosixPath) -> str | None:
        """The file's text without surrounding space; None if it is not there, else OSError."""
        try:
            return self.at(path).read_text(encoding="utf-8", errors="replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def peek(self, path: str | PurePosixPath) -> str | None:
        """Like `read`, but None for whatever keeps us from reading it."""
        try:
            return self.read(path)
        except OSError:
            return None

    def is_there(self, path: str | PurePosixPath) -> bool:
        """Whether `path` exists, as far as we may look."""
        try:
            return self.at(path).exists()
        except OSError:
            return False


def names_in(folder: Path) -> list[str]:
    """The names in a folder, sorted; none if it is not there or closed to us."""
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def real_path(base: Path, path: PurePosixPath) -> PurePosixPath:
    """Follow the links of an absolute `path` as a process whose root is `base` would.

    Path.resolve cannot: it takes an absolute link for one from our own root. What does not
    exist stays as it is written.
    """
    done, todo = PurePosixPath("/"), list(reversed(path.parts[1:]))
    links = 0
    while todo:
        part = todo.pop()
        if part == "..":
            done = done.parent
            continue
        target = _link(base / str(done / part).lstrip("/"))
        if target is None or links == MOST_LINKS:
            done /= part
            continue
        links += 1
        done = PurePosixPath("/") if target.is_absolute() else done
        todo.extend(reversed([step for step in target.parts if step != "/"]))
    return done


def _link(path: Path) -> PurePosixPath | None:
    """Where a symbolic link points, None for anything else."""
    try:
        return PurePosixPath(path.readlink())
    except OSError:
        return None
