"""Install what a Python project or wheel requires before it is copied.

pip installs it and its dependencies in one command, so a changed line of code reinstalls all of
them. A command above the COPY that names them stays cached; pip then finds them installed.
"""

from __future__ import annotations

import posixpath
import re
import shlex
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

from mrtuner.image.advice.situation import Proposal, Situation, inserted, is_within
from mrtuner.image.cache import PlannedStage, Step
from mrtuner.image.layers import destinations
from mrtuner.image.shell import Command, commands
from mrtuner.requirements import name_of, normalized, required
from mrtuner.wording import plural

_INSTALLS: Final = re.compile(r"(python3? -m )?pip3? install\b")
#: Options that do not affect what is installed, or from where.
_OPTIONS: Final = frozenset(
    {"--no-cache-dir", "--quiet", "-q", "--disable-pip-version-check", "--no-compile",
     "--prefer-binary", "--no-input", "--root-user-action=ignore"}
)  # fmt: skip
_WITH_EXTRAS: Final = re.compile(r"(?P<path>[^\[\]]+?)(?:\[(?P<extras>[\w., -]+)\])?")
#: Instructions between the COPY and the installation that do not affect a pip above them.
_HARMLESS: Final = frozenset(
    {"ADD", "COPY", "EXPOSE", "LABEL", "MAINTAINER", "STOPSIGNAL", "WORKDIR"}
)
_PROJECT: Final = "pyproject.toml"
#: Larger metadata of a wheel are not read [bytes].
_LARGEST: Final = 1 << 20
_METADATA: Final = re.compile(r"[^/]+\.dist-info/METADATA")


@dataclass(frozen=True, slots=True)
class _Target:
    """What a command installs from the context."""

    command: str  # up to its options
    path: str  # in the image
    extras: tuple[str, ...]


def dependencies_first(now: Situation) -> Iterator[Proposal]:
    """One proposal for each line in which pip installs a project or a wheel of the context."""
    for stage in now.stages():
        for place, run in enumerate(stage.steps):
            target = _target(run)
            if target is None:
                continue
            copy = next((one for one in range(place) if _brings(stage.steps[one], target)), None)
            if copy is None:
                continue
            between = {one.instruction.name for one in stage.steps[copy + 1 : place]}
            there = _installed_before(now, stage, copy)
            names = _required(now, stage.steps[copy:place], target)
            if not between <= _HARMLESS or there is None or names is None:
                continue
            missing = [name for name in names if name_of(name) not in there]
            if missing:
                first = now.start(stage.steps[copy].instruction)
                words = " ".join(shlex.quote(name) for name in missing)
                yield Proposal(
                    f"{stage.stage.name} {target.path}",
                    f"install the {plural(len(missing), 'requirement')} of {target.path} before "
                    f"line {stage.steps[copy].instruction.line} copies it",
                    "Later requirements are installed with it until this line names them too; pip "
                    "marks what a line names as requested.",
                    now.recipe([inserted(first, f"RUN {target.command} {words}")]),
                    unseen=True,
                )


def _target(run: Step) -> _Target | None:
    """What the first command of a line installs; None unless that is a single path."""
    one = run.instruction
    if one.name != "RUN" or one.flags or one.text.startswith("["):
        return None
    first = commands(one.text)[0]
    given = _arguments(first)
    if given is None:
        return None
    options, (word, *others) = given
    match = _WITH_EXTRAS.fullmatch(word)
    if others or match is None or not _is_path(match["path"]):
        return None
    head = " ".join(first.words[: first.words.index("install") + 1])
    extras = tuple(part.strip() for part in (match["extras"] or "").split(",") if part.strip())
    path = posixpath.normpath(posixpath.join(run.at or "/", match["path"]))
    return _Target(" ".join([head, *options]), path, extras)


def _arguments(command: Command) -> tuple[list[str], list[str]] | None:
    """The options and other words of a pip install; None if it is none, or not understood."""
    if not _INSTALLS.match(" ".join(command.words)):
        return None
    words = command.words[command.words.index("install") + 1 :]
    options = [word for word in words if word.startswith("-")]
    named = [word for word in words if not word.startswith("-")]
    return (options, named) if named and set(options) <= _OPTIONS else None


def _is_path(word: str) -> bool:
    return word.startswith((".", "/")) or word.endswith((".whl", "/"))


def _brings(step: Step, target: _Target) -> bool:
    """Whether a line copies any file of the target."""
    return any(is_within(place, target.path) for place, _ in _copied(step))


def _copied(step: Step) -> Iterator[tuple[str, str]]:
    """The files that a line copies from the context: path in the image, path in the context."""
    for place, entry in destinations(step):
        if entry.kind == "file":
            yield posixpath.normpath(place), entry.path


def _required(now: Situation, copies: Sequence[Step], target: _Target) -> list[str] | None:
    """What the target requires; None if the context does not show it, or it requires itself."""
    wheel = target.path.endswith(".whl")
    wanted = target.path if wheel else posixpath.join(target.path, _PROJECT)
    files = dict(pair for step in copies for pair in _copied(step))
    if wanted not in files:
        return None
    path = now.tree.root / files[wanted]
    found = _of_wheel(path) if wheel else _of_project(now.read(path))
    if found is None:
        return None
    name, told = found
    names = required(told, target.extras)
    itself = names is None or any(name_of(one) == normalized(name) for one in names)
    return None if itself else names


def _of_wheel(path: Path) -> tuple[str, list[str]] | None:
    """A wheel's name and requirements, from its metadata; None if these cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            (member,) = [one for one in archive.infolist() if _METADATA.fullmatch(one.filename)]
            if member.file_size > _LARGEST:
                return None
            headers = HeaderParser().parsestr(archive.read(member).decode())
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return None
    return str(headers["Name"]), [str(one) for one in headers.get_all("Requires-Dist", [])]


def _of_project(text: str | None) -> tuple[str, list[str]] | None:
    """A project's name and requirements; None if they are dynamic or cannot be read."""
    try:
        project = tomllib.loads(text or "")["project"]
        if {"dependencies", "optional-dependencies"} & set(project.get("dynamic", ())):
            return None
        told = [str(one) for one in project.get("dependencies", ())]
        for extra, listed in project.get("optional-dependencies", {}).items():
            told += [f"{one}{' and' if ';' in one else ';'} extra == '{extra}'" for one in listed]
        return str(project["name"]), told
    except (KeyError, TypeError, AttributeError, tomllib.TOMLDecodeError):
        return None


def _installed_before(now: Situation, stage: PlannedStage, place: int) -> set[str] | None:
    """Names that earlier lines install with pip; None if one is not understood, such as -r."""
    found: set[str] = set()
    steps = list(stage.steps[:place])
    while isinstance(stage.base, int):
        stage = now.model.wanted.stages[stage.base]
        steps += stage.steps
    for step in steps:
        for command in commands(step.instruction.text) if step.instruction.name == "RUN" else ():
            if not _INSTALLS.match(" ".join(command.words)):
                continue
            given = _arguments(command)
            if given is None:
                return None
            found |= {name_of(word) for word in given[1]}
    return found
