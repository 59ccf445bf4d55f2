"""What is replayed: the last commits that touch the directory, or generated edits."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from mrtuner.errors import MissingPart, MrTunerError, UsageError
from mrtuner.image.commits import Commit, read_commits
from mrtuner.image.context import Context
from mrtuner.image.kinds import DEAREST_FIRST, Kind, kind_of, kind_of_all
from mrtuner.image.proof.contexts import environment
from mrtuner.image.tree import Tree
from mrtuner.wording import first_line, plural

_SUBJECT: Final = 72  # letters shown


@dataclass(frozen=True, slots=True)
class Change:
    """One change that is deployed; only its replay understands `parent` and `state`."""

    name: str
    kind: Kind
    parent: str
    state: str


class Replay(Protocol):
    """A source of changes, which can bring directories to the states before and after them."""

    changes: Sequence[Change]
    what: str  # where they come from, as words

    def write(self, directory: Path, state: str) -> None:
        """Bring a copy of the directory to a state; files that a form keeps are added later."""


def commits(tree: Tree, most: int) -> Commits | None:
    """Return the last commits that touch a directory; None if no repository has any."""
    try:
        found = read_commits(tree, most)
    except (MissingPart, UsageError):
        return None
    told = _git(["rev-parse", "--absolute-git-dir", "--show-prefix"], tree.root)
    git_directory, prefix = [*told.split("\n"), ""][:2]
    replay = Commits(Path(git_directory), prefix.rstrip("/"), tree.root)
    replay.changes = [
        Change(_name(one), kind_of_all(one.paths), f"{one.id}^", one.id)
        for one in found
        if replay.has(f"{one.id}^") and replay.has(one.id)
    ]
    if not replay.changes:
        return None
    replay.what = f"{plural(len(replay.changes), 'commit')} that touched {tree.root}, the latest"
    return replay


def _name(commit: Commit) -> str:
    return f"{commit.id[:10]} {commit.subject[:_SUBJECT]}"


@dataclass(slots=True)
class Commits:
    """Commits of a repository, along the first parents. Its working tree is left alone."""

    git_directory: Path
    prefix: str
    directory: Path
    changes: Sequence[Change] = ()
    what: str = ""
    _indexes: dict[Path, Path] = field(default_factory=dict)

    def has(self, commit: str) -> bool:
        """Whether the repository has the commit, with the directory in it."""
        try:
            _git(["rev-parse", "--verify", f"{commit}:{self.prefix}"], self.directory)
        except MrTunerError:
            return False
        return True

    def write(self, directory: Path, state: str) -> None:
        """Let git change only the tracked files; others stay as they are."""
        if directory not in self._indexes:
            self._indexes[directory] = directory.with_name(f"{directory.name}.index")
            self._read_tree(directory, ["--reset", f"HEAD:{self.prefix}"])
        self._read_tree(directory, ["--reset", "-u", f"{state}:{self.prefix}"])

    def _read_tree(self, directory: Path, words: Sequence[str]) -> None:
        place = [f"--git-dir={self.git_directory}", f"--work-tree={directory}"]
        index = {"GIT_INDEX_FILE": str(self._indexes[directory])}
        # The repository's file monitor and hooks must not see our copy, nor groups write to it.
        settings = ("core.fsmonitor=false", "core.sparseCheckout=false", "core.hooksPath=/dev/null")
        quiet = [word for setting in settings for word in ("-c", setting)]
        before = os.umask(0o022)
        try:
            _git([*place, *quiet, "read-tree", *words], directory, index)
        finally:
            os.umask(before)


def _git(words: Sequence[str], directory: Path, more: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        ["git", *words], cwd=directory, check=False, capture_output=True,
        env=environment() | (more or {}),
    )  # fmt: skip
    text = done.stdout.decode("utf-8", "surrogateescape")
    if done.returncode:
        said = first_line(done.stderr.decode("utf-8", "replace"))
        raise MrTunerError(
            f"git {words[0]} failed in {directory}: {said.removeprefix('fatal: ')}",
            "Correct the repository, or copy the directory out of it.",
        )
    return text.rstrip("\n")


@dataclass(slots=True)
class Edits:
    """Generated edits: some files of each kind get more empty lines at their end, one at a time."""

    source: Path
    changes: Sequence[Change] = ()
    what: str = ""
    _edited: dict[Path, str] = field(default_factory=dict)

    def write(self, directory: Path, state: str) -> None:
        """Undo the last edit and make another; the empty state is the unchanged directory."""
        path, _, lines = state.rpartition("\0")
        for one in {path, self._edited.pop(directory, "")} - {""}:
            shutil.copy2(self.source / one, directory / one)
        if path:
            self._edited[directory] = path
            with (directory / path).open("ab") as file:
                file.write(b"\n" * int(lines))


def edits(context: Context, own: frozenset[str], each: int, dice: random.Random) -> Edits:
    """Return `each` edits for every kind of file in a context, except of files in `own`.

    Raises:
        UsageError: there is no file to edit.
    """
    by_kind: dict[Kind, list[str]] = {}
    for entry in context.entries:
        if entry.kind == "file" and entry.path not in own:
            by_kind.setdefault(kind_of(entry.path), []).append(entry.path)
    made = [
        Change(f"{path}, edit {number}", kind, "", f"{path}\0{number}")
        for kind in DEAREST_FIRST
        for number, path in enumerate(_some(by_kind.get(kind, []), each, dice), 1)
    ]
    if not made:
        raise UsageError(
            f"{context.root} has no file that can be edited", "Name the directory to build."
        )
    return Edits(context.root, made, f"{plural(len(made), 'generated edit')}, {each} of each kind")


def _some(paths: Sequence[str], each: int, dice: random.Random) -> list[str]:
    """Draw `each` of them, possibly the same one several times."""
    return [dice.choice(paths) for _ in range(each)] if paths else []


def require_git(why: str) -> None:
    """Raise MissingPart if git is not installed."""
    if shutil.which("git") is None:
        raise MissingPart(f"{why} needs git", "Install it, on Debian: apt-get install git.")
