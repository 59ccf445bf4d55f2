"""Copy manifests before the source: packages are reinstalled only when manifests change."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from mrtuner.image.advice.package_managers import PACKAGE_MANAGERS, PackageManager
from mrtuner.image.advice.situation import (
    Edit,
    Proposal,
    Situation,
    inserted,
    replaced,
)
from mrtuner.image.cache import PlannedStage, Step
from mrtuner.image.deploys import removes
from mrtuner.image.shell import Command, commands
from mrtuner.wording import enumerated

#: Instructions that need nothing of the source, so they may come before its COPY.
_WITHOUT_SOURCE: Final = frozenset(
    {"ARG", "ENV", "EXPOSE", "LABEL", "MAINTAINER", "SHELL", "STOPSIGNAL", "USER", "VOLUME",
     "WORKDIR"}
)  # fmt: skip
_SYSTEM: Final = frozenset(
    {"apt-get", "apt", "apk", "yum", "dnf", "microdnf", "zypper", "useradd", "adduser", "groupadd",
     "addgroup", "cd", "mkdir", "set"}
)  # fmt: skip


def manifests_first(now: Situation) -> Iterator[Proposal]:
    """One proposal for each line that installs packages after the source was copied."""
    for stage in now.stages():
        for place in range(len(stage.steps)):
            for manager in PACKAGE_MANAGERS:
                found = _found(now, stage, place, manager)
                if found is not None:
                    copy, names, edits = found
                    yield Proposal(
                        f"{manager.name} {commands(stage.steps[place].instruction.text)[0].text}",
                        f"copy {enumerated(names)} and install before line "
                        f"{copy.instruction.line} copies the source",
                        f"If {manager.name} reads another file of the source, the installation "
                        "fails: copy that one as well.",
                        now.recipe(edits),
                    )
                    break


def _found(
    now: Situation, stage: PlannedStage, place: int, manager: PackageManager
) -> tuple[Step, list[str], list[Edit]] | None:
    """The COPY of the source, the manifests, and the edits; None if nothing can be moved."""
    run = stage.steps[place]
    if run.instruction.name != "RUN" or run.instruction.flags:
        return None
    every = commands(run.instruction.text)
    head = _head(every, manager)
    if not head:
        return None
    named = _named(run, head)
    for start, copy in enumerate(stage.steps[:place]):
        manifests = _manifests(now, copy, named, manager)
        if manifests is None:
            continue
        between = stage.steps[start + 1 : place]
        if not all(_needs_no_source(step, copy) for step in between):
            return None
        return copy, list(manifests.values()), _moved(now, copy, run, manifests, every, head)
    return None


def _head(every: Sequence[Command], manager: PackageManager) -> list[Command]:
    """The commands up to the installation and its cleanup; empty if others come first."""
    head: list[Command] = []
    last = 0
    for command in every:
        text = " ".join(command.words)
        if manager.installs.match(text):
            last = len(head) + 1
        elif not (
            command.program in _SYSTEM
            or removes(command)
            or (last and command.text.startswith("find ") and "-exec chown" in command.text)
            or (command.program in {"pip", "pip3", "npm", "gem", "corepack"} and not last)
        ):
            break
        head.append(command)
        if last and (removes(command) or command.program == "find"):
            last = len(head)
    return head[:last]


def _named(run: Step, head: Sequence[Command]) -> set[str]:
    """Paths in the image that an installation may name, and one in each working directory."""
    directory = run.at
    words: list[str] = []
    for command in head:
        if command.program == "cd" and len(command.words) == 2:
            directory = posixpath.join(directory, command.words[1])
        words += command.words
    return {posixpath.normpath(posixpath.join(directory, word)) for word in ("_", *words)}


def _manifests(
    now: Situation, copy: Step, named: set[str], manager: PackageManager
) -> dict[str, str] | None:
    """The manifests by their paths in the image; None unless this line copies them and more."""
    if copy.instruction.name not in {"COPY", "ADD"} or not copy.copied:
        return None
    bases = {posixpath.dirname(path) for path in named}
    places: dict[str, str] = {}
    others = False
    for source in copy.copied:
        if not source.is_directory:
            return None
        for relative, entry in source.entries:
            place = posixpath.join(posixpath.normpath(copy.at), relative)
            if entry.kind == "file" and _is_of(manager, place, named, bases):
                places[place] = entry.path
            else:
                others = others or entry.kind == "file"
    if not others or not any(_is_manifest(manager, place) for place in places):
        return None
    if any(" " in path or not path.isprintable() for path in places.values()):
        return None
    texts = [now.read(now.tree.root / path) for path in places.values()]
    needs = manager.needs_source
    if any(text is None or (needs is not None and needs.search(text)) for text in texts):
        return None
    return places


def _is_manifest(manager: PackageManager, place: str) -> bool:
    return any(fnmatchcase(posixpath.basename(place), name) for name in manager.manifests)


def _is_of(manager: PackageManager, place: str, named: set[str], bases: set[str]) -> bool:
    """Whether a file is a manifest of this installation: in its directory, or named by it."""
    if place in named:
        return True
    directory, name = posixpath.split(place)
    known = (*manager.manifests, *manager.beside)
    if directory in bases and any(fnmatchcase(name, one) for one in known):
        return True
    above, last = posixpath.split(directory)
    return above in bases and any(fnmatchcase(f"{last}/{name}", one) for one in known if "/" in one)


def _needs_no_source(step: Step, copy: Step) -> bool:
    if step.instruction.name == "RUN":
        return {one.program for one in commands(step.instruction.text)} <= _SYSTEM
    if step.instruction.name == "WORKDIR":  # the source would be copied to another place
        return copy.instruction.words[-1].startswith("/")
    return step.instruction.name in _WITHOUT_SOURCE or step.instruction.flag("from") is None


def _moved(
    now: Situation,
    copy: Step,
    run: Step,
    manifests: dict[str, str],
    every: Sequence[Command],
    head: Sequence[Command],
) -> list[Edit]:
    """Edits that copy the manifests first, and the source after the installation."""
    source = now.block(copy.instruction)
    first = [_copy_of(copy, names, place) for place, names in _by_directory(manifests).items()]
    edits = [
        Edit(now.start(copy.instruction), copy.instruction.end + 1, tuple(first)),
    ]
    rows = now.tree.recipe.split("\n")[now.start(copy.instruction) - 1 : copy.instruction.line - 1]
    source = "\n".join([*(row.removesuffix("\r") for row in rows), source])
    tail = every[len(head) :]
    if not tail:
        return [*edits, inserted(run.instruction.end + 1, source)]
    block = "RUN " + " && ".join(command.text for command in head)
    there = [command.text for command in head if command.program in {"cd", "set"}]
    after = "RUN " + " && ".join([*there, *(command.text for command in tail)])
    return [*edits, replaced(run.instruction, block, source, after)]


def _by_directory(manifests: dict[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for place, path in sorted(manifests.items()):
        found.setdefault(posixpath.dirname(place), []).append(path)
    return found


def _copy_of(copy: Step, names: Sequence[str], directory: str) -> str:
    """The line that copies manifests to where the source's COPY would put them."""
    written = copy.instruction.words[-1].rstrip("/")
    below = posixpath.relpath(directory, posixpath.normpath(copy.at))
    goes_to = (written or "/") if below == "." else f"{written}/{below}"
    flags = [flag for flag in copy.instruction.flags if flag.startswith(("--chown=", "--chmod="))]
    return " ".join(["COPY", *flags, *names, goes_to.rstrip("/") + "/"])
