"""Files that a later line deletes: they stay in an earlier layer and are still pushed."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from mrtuner.image.advice.rules.ignore import with_entries
from mrtuner.image.advice.situation import (
    Proposal,
    Situation,
    absolute,
    appended,
    is_within,
    removed,
    replaced,
    target,
)
from mrtuner.image.cache import Step
from mrtuner.image.deploys import removes
from mrtuner.image.layers import destinations
from mrtuner.image.shell import commands
from mrtuner.wording import first_few


def removed_where_made(now: Situation) -> Iterator[Proposal]:
    """One proposal for each RUN that only removes files: join it to the RUN directly above."""
    for stage in now.stages():
        for before, step in zip(stage.steps, stage.steps[1:], strict=False):
            if not _only_removes(step) or before.instruction.name != "RUN":
                continue
            if before.instruction.text.startswith("[") or _only_removes(before):
                continue
            if before.instruction.flags != step.instruction.flags:
                continue
            block = appended(now.block(before.instruction), step.instruction.text)
            if block is None:
                continue
            yield Proposal(
                step.instruction.text,
                f"remove in line {before.instruction.line} what line {step.instruction.line} "
                "deletes too late",
                "The whole line is rebuilt when either part of it changes.",
                now.recipe([replaced(before.instruction, block), removed(now, step.instruction)]),
            )


def deleted_copies(now: Situation) -> Iterator[Proposal]:
    """One proposal for each RUN that deletes copied files: they need not be in the context."""
    for stage in now.stages():
        for place, step in enumerate(stage.steps):
            if not _only_removes(step) or not _forced(step):
                continue
            entries, all_found = _unused(stage.steps[:place], step)
            if not entries or _stays(now, stage.steps[:place], step, entries):
                continue
            edits = dict(with_entries(now, entries))
            if all_found:
                edits |= now.recipe([removed(now, step.instruction)])
            yield Proposal(
                step.instruction.text,
                f"leave {first_few(entries, 3)} out of the context, which line "
                f"{step.instruction.line} deletes",
                "Other stages and images built from this directory lack them as well.",
                edits,
            )


def _only_removes(step: Step) -> bool:
    return (
        step.instruction.name == "RUN"
        and not step.instruction.text.startswith("[")
        and all(removes(command) for command in commands(step.instruction.text))
    )


def _forced(step: Step) -> bool:
    """Whether all commands are `rm -f`, which accepts that there is nothing to delete."""
    return all(
        command.program == "rm" and any(w.startswith("-") and "f" in w for w in command.words)
        for command in commands(step.instruction.text)
    )


def _unused(before: Sequence[Step], step: Step) -> tuple[list[str], bool]:
    """The context's paths that a line deletes, and whether it deletes nothing else."""
    entries: list[str] = []
    whole = True
    for command in commands(step.instruction.text):
        for word in command.words[1:]:
            if word.startswith("-"):
                continue
            found = [] if any(c in word for c in "*?[$") else _copied(before, absolute(step, word))
            whole = whole and bool(found)
            entries += found
    return list(dict.fromkeys(entries)), whole


def _stays(now: Situation, before: Sequence[Step], step: Step, entries: Sequence[str]) -> bool:
    """Whether a file is also copied elsewhere or below the line that deletes it, or mounted."""
    deleted = [
        absolute(step, word)
        for command in commands(step.instruction.text)
        for word in command.words[1:]
        if not word.startswith("-")
    ]
    above = {one.instruction.line for one in before}
    return any(
        other.instruction.line not in above or not any(is_within(path, one) for one in deleted)
        for stage in now.stages()
        for other in stage.steps
        for path, entry in destinations(other)
        if any(is_within(entry.path, one) for one in entries)
    ) or any(
        is_within(entry.path, one)
        for stage in now.stages()
        for other in stage.steps
        for source in other.mounted
        for _, entry in source.entries
        for one in entries
    )


def _copied(before: Sequence[Step], path: str) -> list[str]:
    """The context's path for one of the image, or nothing if a RUN came after its COPY."""
    for copy in reversed(before):
        if copy.instruction.name == "RUN":
            return []
        for source in copy.copied:
            if not source.is_directory or not is_within(path, target(copy)):
                continue
            relative = posixpath.relpath(path, target(copy))
            names = {name for name, _ in source.entries}
            if relative in names or any(name.startswith(relative + "/") for name in names):
                found = posixpath.join(source.path, relative)
                return [found] if found.isprintable() else []
    return []
