"""The files in which a Linux kernel describes a machine, below any root."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

#: Linux itself follows this many links in one path. Source: include/linux/namei.h, MAXSYMLINKS.
MOST_LINKS = 40


@dataclass(frozen=True, slots=True)
class Tree:
    """One machine's /proc and /sys, and the process they are read for."""

    root: Path = Path("/")
    pid: int | None = None  # None: this process

    @property
    def live(self) -> bool:
        """True for the machine we run on: then the standard library may be used too."""
        return self.root == Path("/")

    @property
    def process(self) -> str:
        """The folder of the process: ``/proc/self`` or ``/proc/4711``."""
        return f"/proc/{self.pid or 'self'}"

    def at(self, path: str | PurePosixPath) -> Path:
        """Return where to open what the machine calls `path`."""
        return self.root / str(path).lstrip("/")

    def read(self, path: str | PurePosixPath) -> str | None:
        try:
            return self.at(path).read_text(encoding="utf-8", errors="replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def peek(self, path: str | PurePosixPath) -> str | None:
        """Like `read`, but return None if the file cannot be read for any reason."""
        return text_of(self.at(path))

    def target(self, path: str | PurePosixPath) -> str | None:
        """Return where a symbolic link points; None if there is none that we may read."""
        try:
            return str(self.at(path).readlink())
        except OSError:
            return None

    def working_directory(self) -> PurePosixPath | None:
        """Return the process's working directory; only its owner and root see it.

        That of a postmaster is its data directory.
        """
        found = self.target(f"{self.process}/cwd")
        return None if found is None else PurePosixPath(found)

    def is_there(self, path: str | PurePosixPath) -> bool:
        """Whether `path` exists, as far as we may see."""
        try:
            return self.at(path).exists()
        except OSError:
            return False


def text_of(path: Path) -> str | None:
    """Return the stripped text of a file; None if it is missing or closed to us."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; none if it is missing or closed to us."""
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def real_path(base: Path, path: PurePosixPath) -> PurePosixPath:
    """Follow the links of an absolute `path` like a process whose root is `base`.

    Path.resolve cannot: it would resolve an absolute link from our own root. A path that does not
    exist is left as written.
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
    """Return where a symbolic link points, or None if it is not one."""
    try:
        return PurePosixPath(path.readlink())
    except OSError:
        return None
