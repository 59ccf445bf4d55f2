"""The last commits of the repository that a directory belongs to, and the files they changed."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mrtuner.errors import MissingPart, MrTunerError, UsageError
from mrtuner.wording import last_line
from mrtuner_image.ignore import ignore_files
from mrtuner_image.tree import Tree

_COMMIT = "\x01"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit along the first parents; a merge counts as one commit with all it brought."""

    id: str
    subject: str
    paths: tuple[str, ...]  # within the directory
    recipe: bool  # it changed the Dockerfile or an ignore file


def read_commits(tree: Tree, number: int) -> list[Commit]:
    """Return the last `number` commits that changed something in the directory, latest first.

    A merge counts as one commit: a deploy brings all of it.

    Raises:
        MissingPart: there is no git. UsageError: the directory is not in a repository with
        commits. MrTunerError: git failed.
    """
    if shutil.which("git") is None:
        raise MissingPart("git is not installed", "Install it, or leave out --history.")
    words = (
        "log", "--first-parent", "-m", f"--max-count={number}", "--no-renames", "--name-only",
        "--relative", "-z", f"--format={_COMMIT}%H%x00%s", "--", ".",
    )  # fmt: skip
    done = subprocess.run(
        ["git", "-C", os.fspath(tree.root), *words], capture_output=True, check=False,
        env={**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
    )  # fmt: skip
    if done.returncode:
        raise _failed(tree.root, done.stderr.decode(errors="replace").strip())
    files = ignore_files(tree.root, tree.dockerfile, tree.builder)
    recipes = {tree.relative(path) for path in (tree.dockerfile, *files)}
    text = os.fsdecode(done.stdout)
    return [_commit(part, recipes) for part in text.split(_COMMIT)[1:]]


def is_shallow(root: Path) -> bool:
    """Whether the repository is a shallow clone, with only its latest commits."""
    done = subprocess.run(
        ["git", "-C", os.fspath(root), "rev-parse", "--is-shallow-repository"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() == "true"


def _commit(part: str, recipes: set[str | None]) -> Commit:
    name, subject, *paths = part.split("\0")
    found = tuple(path.lstrip("\n") for path in paths if path.strip("\n"))
    return Commit(name, subject, found, any(path in recipes for path in found))


def _failed(root: Path, said: str) -> MrTunerError:
    if "not a git repository" in said:
        return UsageError(f"{root} is not in a git repository", "Leave out --history.")
    if "does not have any commits" in said:
        return UsageError(f"the repository of {root} has no commits", "Leave out --history.")
    return MrTunerError(
        f"git cannot read the history: {last_line(said)}", "Run git log there to see why."
    )
