"""Lines that copy what an earlier line has copied to the same place."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from mrtuner.image.advice.situation import Proposal, Situation, is_within, removed
from mrtuner.image.cache import Step
from mrtuner.image.context import Entry
from mrtuner.image.layers import destinations


def copied_twice(now: Situation) -> Iterator[Proposal]:
    """One proposal for each COPY that brings nothing new."""
    for stage in now.stages():
        there: dict[str, tuple[Entry, tuple[str, ...]]] = {}
        for place, step in enumerate(stage.steps):
            if step.instruction.name == "RUN":
                there = {path: one for path, one in there.items() if not _may_change(step, path)}
            if not step.copied or step.instruction.name != "COPY":
                continue
            brought = {posixpath.normpath(path): entry for path, entry in destinations(step)}
            flags = step.instruction.flags
            if brought and all(
                there.get(path) == (entry, flags) for path, entry in brought.items()
            ):
                yield Proposal(
                    " ".join(step.instruction.words),
                    f"remove line {step.instruction.line}: what it copies is already there",
                    _risk(stage.steps[:place]),
                    now.recipe([removed(now, step.instruction)]),
                )
            there |= {path: (entry, flags) for path, entry in brought.items()}


def _may_change(run: Step, path: str) -> bool:
    """Whether a RUN works in a directory above a file, or mentions a part of its path."""
    if run.at not in {"", "/"} and is_within(path, run.at):
        return True
    return any(part in run.instruction.text for part in path.split("/") if part)


def _risk(before: Sequence[Step]) -> str:
    if any(step.instruction.name == "RUN" for step in before):
        return "If a script started by a RUN in between changes these files, they stay changed."
    return "None known: the files are the same."
