"""Entries for the ignore file: what need not be sent, copied, or in an image at all."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from mrtuner.errors import MrTunerError
from mrtuner.units import pretty_bytes
from mrtuner.wording import first_few
from mrtuner_image.advice.situation import Proposal, Situation, edited, inserted
from mrtuner_image.ignore import IgnoreRules, rules_of
from mrtuner_image.not_ignored import Misplaced, What
from mrtuner_image.shell import commands

#: For each kind: what it is called, and what may go wrong.
_KINDS: Final[dict[What, tuple[str, str]]] = {
    "secret": (
        "what must not be sent",
        "A program in the image that reads one of them finds nothing: supply it at run time.",
    ),
    "version control": (
        "the repository",
        "A build that asks git for a version or a date finds no repository.",
    ),
    "log": ("logs", "A program that expects an earlier log finds none."),
    "database": (
        "databases and dumps",
        "A test or a first start that loads one of them finds nothing.",
    ),
    "dependencies": (
        "installed dependencies",
        "The image has only what its own lines install, not what was installed here.",
    ),
    "cache": ("caches", "A build that used one of these caches takes longer."),
}
#: Programs that install what a directory of dependencies holds.
_INSTALLERS: Final = frozenset(
    {"pip", "pip3", "uv", "poetry", "pipenv", "python", "python3", "npm", "yarn", "pnpm", "bower",
     "bundle", "bundler"}
)  # fmt: skip
#: Smallest directory without a COPY for which an entry is proposed [bytes].
_WORTH: Final = 1 << 20
#: Up to this many files of one name get an entry each; more share a pattern.
_FEW: Final = 3
_SHOWN: Final = 3


def secrets_stay_here(now: Situation) -> Iterator[Proposal]:
    """One proposal for files that are secrets, judging by their names."""
    yield from _of_kinds(now, ["secret"])


def misplaced_files(now: Situation) -> Iterator[Proposal]:
    """The repository, logs, databases, caches, and dependencies that the image installs itself."""
    kinds: list[What] = ["version control", "log", "database", "cache"]
    installs = {
        command.program
        for stage in now.model.stages
        for step in stage.steps
        if step.instruction.name == "RUN"
        for command in commands(step.instruction.text)
    }
    yield from _of_kinds(now, [*kinds, "dependencies"] if installs & _INSTALLERS else kinds)


def _of_kinds(now: Situation, kinds: Sequence[What]) -> Iterator[Proposal]:
    asked = _asked_for(now)
    found = [one for one in now.model.missed if not any(_covers(path, one) for path in asked)]
    for kind in kinds:
        of_kind = [one for one in found if one.what == kind]
        patterns = _patterns(now, of_kind)
        if patterns:
            name, risk = _KINDS[kind]
            paths = first_few([one.path for one in of_kind], _SHOWN)
            title = f"leave {name} out of the context: {paths}"
            yield Proposal(kind, title, risk, _with_entries(now, patterns))


def _asked_for(now: Situation) -> set[str]:
    """Paths that a line of the Dockerfile names: they are there on purpose."""
    return {
        source.path
        for stage in now.model.wanted
        for step in stage.steps
        for source in step.inputs
        if source.path
    }


def _covers(asked: str, one: Misplaced) -> bool:
    return asked == one.path or asked.startswith(one.path + "/")


def _patterns(now: Situation, found: Sequence[Misplaced]) -> list[str]:
    """Lines for the ignore file; many files of one name share one pattern, if it hits no other."""
    by_name: dict[str, list[Misplaced]] = {}
    for one in found:
        by_name.setdefault(_family(one), []).append(one)
    lines: list[str] = []
    for family, members in by_name.items():
        shared = len(members) > _FEW and not _hits_others(now, family, members)
        wanted = [family] if shared else [_alone(one) for one in members]
        lines += [line for line in wanted if _matches(now, line, members)]
    return lines


def _hits_others(now: Situation, line: str, members: Sequence[Misplaced]) -> bool:
    rules = _rules(now, line)
    return rules is None or any(
        rules.excludes(entry.path) and not any(_covers(entry.path, one) for one in members)
        for entry in now.model.context.entries
    )


def _family(one: Misplaced) -> str:
    name = posixpath.basename(one.path)
    if one.what == "log" and "." in name:
        return "**/*.log*"
    return f"**/{name}/*" if one.what == "log" else f"**/{name}"


def _alone(one: Misplaced) -> str:
    """The line for one path; a log directory stays, but empty: programs do not create it."""
    is_directory = one.what == "log" and posixpath.basename(one.path) in {"log", "logs"}
    return f"{one.path}/*" if is_directory else one.path


def _rules(now: Situation, line: str) -> IgnoreRules | None:
    """The rules of a line; None if the builder refuses it: names may hold anything."""
    try:
        return rules_of([line], now.builder)
    except MrTunerError:
        return None


def _matches(now: Situation, line: str, members: Sequence[Misplaced]) -> bool:
    """Whether the builder accepts a line and it excludes something."""
    rules = _rules(now, line)
    if rules is None or "\n" in line or not line.isprintable():
        return False
    excluded = [rules.excludes(one.path) or rules.excludes(f"{one.path}/x") for one in members]
    return any(excluded)


def uncopied_directories(now: Situation) -> Iterator[Proposal]:
    """One proposal for large directories that no line copies or mounts: sent for nothing."""
    steps = [step for stage in now.model.stages for step in stage.steps]
    if any(step.instruction.reads_context for step in steps):
        return
    sizes: dict[str, int] = {}
    used: set[str] = set()
    for entry in now.model.context.entries:
        top, slash, _ = entry.path.partition("/")
        if slash or entry.kind == "directory":
            sizes[top] = sizes.get(top, 0) + entry.archived
    for stage in now.model.wanted:
        for step in stage.steps:
            for source in step.inputs:
                used.add(source.path.partition("/")[0])
                used |= {entry.path.partition("/")[0] for _, entry in source.entries}
    within = now.tree.relative(now.tree.dockerfile)
    used.add((within or "").partition("/")[0])
    free = [top for top, size in sizes.items() if top not in used and size >= _WORTH]
    free = [top for top in free if _matches(now, top, [Misplaced("cache", top, 0, 0)])]
    if free:
        names = first_few([f"{top} ({pretty_bytes(sizes[top])})" for top in free], _SHOWN)
        yield Proposal(
            "directories", f"leave out what no line copies: {names}",
            "A COPY added later that names one of them fails until its entry is removed.",
            _with_entries(now, free),
        )  # fmt: skip


def _with_entries(now: Situation, lines: Sequence[str]) -> dict[Path, str]:
    """The ignore file with these lines at its end; a new one also lists itself if copied."""
    path = now.model.context.rules.file or now.tree.root / ".dockerignore"
    text = now.tree.text(path) or ""
    name = now.tree.relative(path)
    if not text and name and name not in lines and now.model.lines_of(name):
        lines = [*lines, name]
    last = text.count("\n") + (1 if not text or text.endswith("\n") else 2)
    changed = edited(text, [inserted(last, *lines)]) if text else "\n".join(lines)
    return {path: changed if changed.endswith("\n") else changed + "\n"}
