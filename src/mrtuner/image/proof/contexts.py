"""The directories to build: both forms of an image, at each state of the replay.

Both get the same files, except those in which they differ, such as the Dockerfile: each form keeps
its own. A directory `.git` is left out of both.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mrtuner.errors import MrTunerError, UsageError
from mrtuner.image.tree import tree_of
from mrtuner.wording import first_line

_GIT: Final = ".git"
#: Files that the builder also reads; the present ones are used for every commit.
_RECIPES: Final = (".dockerignore", ".containerignore")


@dataclass(frozen=True, slots=True)
class Forms:
    """The two directories as given, and the paths of which each form keeps its own version."""

    old: Path
    new: Path
    own: frozenset[str]

    def settle(self, directory: Path, form: Path) -> None:
        """Replace the files of a copy that each form keeps by those of this form."""
        for path in sorted(self.own):
            target = directory / path
            if os.path.lexists(target):
                _remove(target)
            if os.path.lexists(form / path):
                target.parent.mkdir(parents=True, exist_ok=True)
                copy([form / path], target.parent)


def recipe_in(directory: Path, file: Path | None) -> Path:
    """Return a directory's Dockerfile: `file` within it if that exists, else as `tree_of` does.

    Raises:
        UsageError: there is none.
    """
    own = None if file is None else directory / file
    return tree_of(directory, own if own is not None and own.exists() else file).dockerfile


def forms(old: Path, new: Path, recipes: Iterable[Path]) -> Forms:
    """Return both forms. `recipes` are their Dockerfiles.

    Raises:
        UsageError: they do not differ.
    """
    a, b = _files(old), _files(new)
    own = {path for path in a.keys() | b.keys() if not _alike(path, a, b)}
    if not own:
        raise UsageError(
            f"{old} and {new} have the same files", "Change the Dockerfile of the second one."
        )
    for root in (old, new):
        inside = [path for path in recipes if path.is_relative_to(root)]
        names = [str(path.relative_to(root)) for path in inside]
        ends = [f"{name}{end}" for name in names for end in _RECIPES]
        own |= {name for name in (*names, *ends, *_RECIPES) if os.path.lexists(root / name)}
    return Forms(old, new, frozenset(own))


def _files(root: Path) -> dict[str, Path]:
    """All paths below a directory, except `.git` and directories that are not empty."""
    found: dict[str, Path] = {}
    for above, directories, files in os.walk(root):
        if Path(above) == root and _GIT in directories:
            directories.remove(_GIT)
        links = [name for name in directories if (Path(above) / name).is_symlink()]
        for name in [*files, *links]:
            path = Path(above) / name
            found[str(path.relative_to(root))] = path
        if not directories and not files:
            found[str(Path(above).relative_to(root))] = Path(above)
    return {path: there for path, there in found.items() if path not in {".", _GIT}}


def _alike(path: str, a: Mapping[str, Path], b: Mapping[str, Path]) -> bool:
    if path not in a or path not in b:
        return False
    one, other = a[path].lstat(), b[path].lstat()
    if (one.st_mode, one.st_uid, one.st_gid) != (other.st_mode, other.st_uid, other.st_gid):
        return False
    if stat.S_ISLNK(one.st_mode):
        return a[path].readlink() == b[path].readlink()
    return not stat.S_ISREG(one.st_mode) or filecmp.cmp(a[path], b[path], shallow=False)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a directory with owners, modes and times, without `.git`."""
    target.mkdir(parents=True)
    shutil.copystat(source, target)
    copy([path for path in sorted(source.iterdir()) if path.name != _GIT], target)


def copy(paths: Iterable[Path], into: Path) -> None:
    """Copy files and directories unchanged into another; cp shares blocks where it can."""
    listed = [str(path) for path in paths]
    if not listed:
        return
    done = subprocess.run(
        ["cp", "--archive", "--reflink=auto", "--target-directory", str(into), "--", *listed],
        check=False, capture_output=True, text=True, errors="replace",
    )  # fmt: skip
    if done.returncode:
        said = first_line(done.stderr)
        raise MrTunerError(
            f"cannot copy the directory to build: {said}", "Free space, or set TMPDIR."
        )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def patched(directory: Path, patch: Path, target: Path) -> None:
    """Copy a directory and apply a patch to the copy, with paths relative to the directory.

    Raises:
        UsageError: it does not apply.
    """
    copy_tree(directory, target)
    # In a repository, git would take the paths from its top.
    apart = environment() | {"GIT_CEILING_DIRECTORIES": str(target.parent)}
    done = subprocess.run(
        ["git", "apply", str(patch.absolute())], cwd=target, check=False, capture_output=True,
        text=True, errors="replace", env=apart,
    )  # fmt: skip
    if done.returncode:
        said = first_line(done.stderr)
        raise UsageError(
            f"the patch {patch} does not apply to {directory}: {said.removeprefix('error: ')}",
            "Make it with paths relative to the directory: git diff --relative.",
        )


def environment() -> dict[str, str]:
    """Our environment, without variables that point git to another repository."""
    return {name: text for name, text in os.environ.items() if not name.startswith("GIT_")} | {
        "LC_ALL": "C.UTF-8"
    }
