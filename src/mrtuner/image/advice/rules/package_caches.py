"""Remove package caches in the line that creates them: a later line is too late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mrtuner.image.advice.package_managers import PACKAGE_CACHES, PackageCache
from mrtuner.image.advice.situation import (
    Proposal,
    Situation,
    appended,
    replaced,
    with_command,
)
from mrtuner.image.cache import Step
from mrtuner.image.layers import shipped
from mrtuner.image.shell import commands


def package_caches(now: Situation) -> Iterator[Proposal]:
    """One proposal for each line and kind of cache, in the stages that the image contains."""
    inside = shipped(now.model.wanted)
    for stage in now.stages():
        if stage.stage.index not in inside:
            continue
        for step in stage.steps:
            if step.instruction.name != "RUN" or step.instruction.text.startswith("["):
                continue
            for cache in PACKAGE_CACHES:
                text = step.instruction.original
                if cache.gone.search(text) or _set_aside(now, cache) or _needed(now, step, cache):
                    continue
                block = _without(now.block(step.instruction), step, cache)
                if block is not None:
                    how = " ".join(cache.option) if cache.option else cache.removal
                    yield Proposal(
                        f"{cache.name} {commands(step.instruction.text)[0].text}",
                        f"leave no cache of {cache.name} in line {step.instruction.line}: {how}",
                        _RISK.format(cache.name),
                        now.recipe([replaced(step.instruction, block)]),
                    )


def _needed(now: Situation, step: Step, cache: PackageCache) -> bool:
    """Whether this or a later line installs without recreating what this one would remove."""
    if cache.made_by is None:
        return False
    installing = [
        other.instruction.text
        for stage in now.stages()
        for other in stage.steps
        if other is step
        or (other.instruction.name == "RUN" and other.instruction.line > step.instruction.line)
    ]
    return any(cache.left_by.search(text) and not cache.made_by.search(text) for text in installing)


def _set_aside(now: Situation, cache: PackageCache) -> bool:
    """Whether an ENV or ARG turns the cache off, or keeps it elsewhere."""
    return any(
        cache.gone.search(step.instruction.text)
        for stage in now.stages()
        for step in stage.steps
        if step.instruction.name in {"ENV", "ARG"}
    )


_RISK: Final = "The image lacks the cache of {}: a later line that installs more fetches it again."


def _without(block: str, step: Step, cache: PackageCache) -> str | None:
    """The line changed to leave no cache; None if it leaves none or cannot be changed."""
    leaving = [
        command
        for command in commands(step.instruction.text)
        if cache.left_by.match(" ".join(command.words))
    ]
    if not leaving:
        return None
    if cache.option is None:
        return appended(block, cache.removal)
    words, option = cache.option
    for command in leaving:
        text = command.text
        if words in text:
            changed = with_command(block, text, text.replace(words, f"{words} {option}", 1))
            if changed is None:
                return None
            block = changed
    return block
