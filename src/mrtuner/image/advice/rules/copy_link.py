"""`COPY --link`, where the builder has it: such a layer does not depend on those below it."""

from __future__ import annotations

from collections.abc import Iterator

from mrtuner.image.advice.situation import Proposal, Situation, replaced
from mrtuner.image.dockerfile import Instruction
from mrtuner.image.layers import shipped


def _gains(one: Instruction) -> bool:
    """Whether --link works: it has no effect with --chmod, and cannot look up owners by name."""
    owner = (one.flag("chown") or "0").split(":")
    known = all(part.isdecimal() or part == "root" for part in owner if part)
    return known and "--link" not in one.flags and not one.flag("chmod")


def copy_link(now: Situation) -> Iterator[Proposal]:
    """One proposal for all COPY lines of the image's stages, except a first line; BuildKit only."""
    if now.builder != "buildkit":
        return
    inside = shipped(now.model.wanted)
    found = [
        step.instruction
        for stage in now.stages()
        if stage.stage.index in inside
        for step in stage.steps[1:]
        if step.instruction.name == "COPY" and _gains(step.instruction)
    ]
    if found:
        edits = []
        for one in found:
            word, _, rest = now.block(one).lstrip().partition(" ")
            edits.append(replaced(one, f"{word} --link {rest.lstrip()}"))
        yield Proposal(
            "link", f"copy with --link ({len(found)} lines)",
            "A destination that is a symbolic link in a lower layer becomes a directory.",
            now.recipe(edits), proven=False,
        )  # fmt: skip
