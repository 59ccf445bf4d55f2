"""Move build arguments down: a new value rebuilds every later RUN, even if it is not used."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mrtuner_image.advice.situation import Edit, Proposal, Situation, inserted, removed
from mrtuner_image.cache import PlannedStage, Step
from mrtuner_image.dockerfile import assigned

#: Instructions that only pass the value on, and move with the ARG.
_SETS: frozenset[str] = frozenset({"LABEL", "ENV"})


def late_argument(now: Situation) -> Iterator[Proposal]:
    """One proposal for each ARG that changes with every build and is above RUNs without it."""
    for stage in now.model.stages:
        for place, step in enumerate(stage.steps):
            name = _single(step)
            if name not in now.deploys.arguments:
                continue
            moved = _with_its_labels(stage, place, name)
            end = _first_use(stage, moved, name)
            if not any(one.instruction.name == "RUN" for one in stage.steps[place + 1 : end]):
                continue
            yield Proposal(
                name,
                f"move ARG {name} below the lines that do not use it",
                f"A program started by an earlier RUN no longer finds {name} in its environment.",
                now.recipe(_edits(now, stage, moved, end)),
            )


def _single(step: Step) -> str:
    """The name that an ARG declares, if only one; empty for another line."""
    names = [name for name, _ in assigned(step.instruction)]
    return names[0] if step.instruction.name == "ARG" and len(names) == 1 else ""


def _uses(step: Step, name: str) -> bool:
    """Whether a line has the variable anywhere, its flags and heredocs included."""
    return re.search(rf"\$\{{?{name}\b", step.instruction.original) is not None


def _with_its_labels(stage: PlannedStage, place: int, name: str) -> list[int]:
    """The places of the ARG and of the LABEL and ENV lines that only pass its value on."""
    found = [place]
    for later in range(place + 1, len(stage.steps)):
        step = stage.steps[later]
        if not _uses(step, name):
            continue
        if step.instruction.name not in _SETS:
            break
        if step.instruction.name == "ENV" and _named_later(stage.steps[later + 1 :], step):
            break
        found.append(later)
    return found


def _named_later(after: Sequence[Step], env: Step) -> bool:
    names = [re.escape(name) for name, _ in assigned(env.instruction)]
    return any(_uses(step, name) for step in after for name in names)


def _first_use(stage: PlannedStage, moved: Sequence[int], name: str) -> int:
    """The place of the first line that uses it and stays; behind the last line if none does."""
    for place in range(moved[0] + 1, len(stage.steps)):
        if place not in moved and _uses(stage.steps[place], name):
            return place
    return len(stage.steps)


def _edits(now: Situation, stage: PlannedStage, moved: Sequence[int], end: int) -> list[Edit]:
    ahead = [place for place in moved if place < end]
    blocks = []
    for place in ahead:
        one = stage.steps[place].instruction
        rows = now.tree.recipe.split("\n")[now.start(one) - 1 : one.end]
        blocks.append("\n".join(row.removesuffix("\r") for row in rows))
    if end < len(stage.steps):
        row = now.start(stage.steps[end].instruction)
    else:
        row = stage.steps[-1].instruction.end + 1
    return [
        *(removed(now, stage.steps[place].instruction) for place in ahead),
        inserted(row, *blocks),
    ]
