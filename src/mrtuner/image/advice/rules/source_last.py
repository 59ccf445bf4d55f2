"""Copy what rarely changes first, the source last: a change of code pushes only the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mrtuner.image.advice.situation import Proposal, Situation, replaced
from mrtuner.image.cache import Step
from mrtuner.image.context import Entry
from mrtuner.image.deploys import Deploys
from mrtuner.image.layers import shipped
from mrtuner.image.sources import Source

#: Most lines of a stage that copy, and most files in one line: more would be hard to maintain.
_MOST: Final = 12
#: At least one directory must be this large [bytes]
_WORTH: Final = 100_000
#: and change in a smaller share of the deploys than this.
_SELDOM: Final = 0.5


def source_last(now: Situation) -> Iterator[Proposal]:
    """One proposal for each COPY of a directory with large parts that rarely change."""
    inside = shipped(now.model.wanted)
    for stage in now.stages():
        for step in stage.steps if stage.stage.index in inside else ():
            lines = _lines(now, step)
            others = sum(other is not step and bool(other.copied) for other in stage.steps)
            if lines and len(lines) + others <= _MOST:
                yield Proposal(
                    " ".join(step.instruction.words),
                    f"copy what rarely changes before the source, in {len(lines)} lines instead "
                    f"of line {step.instruction.line}",
                    "A new top-level directory or file needs its own line, or it is missing from "
                    "the image.",
                    now.recipe([replaced(step.instruction, *lines)]),
                )


def _lines(now: Situation, step: Step) -> list[str]:
    """Lines that copy the same files, rarely changed ones first; none if that gains nothing."""
    if step.instruction.name not in {"COPY", "ADD"} or len(step.copied) != 1:
        return []
    (source,) = step.copied
    if not source.is_directory or not all(_is_plain(top) for top in _tops(source)):
        return []
    sizes: dict[str, int] = {}
    for relative, entry in source.entries:
        top = relative.partition("/")[0]
        sizes[top] = sizes.get(top, 0) + entry.archived
    of_kind = {name: entry.kind for name, entry in _tops(source)}
    directories = [top for top in sizes if of_kind.get(top, "directory") == "directory"]
    files = [top for top in sizes if top not in directories]
    often = _often(now.deploys, source.path, list(sizes))
    worth = any(sizes[top] >= _WORTH and often[top] < _SELDOM for top in directories)
    if not worth or len(files) > _MOST or len(directories) + bool(files) == 1:
        return []
    return _copies(step, source.path, directories, files, often)


def _tops(source: Source) -> list[tuple[str, Entry]]:
    return [(name, entry) for name, entry in source.entries if "/" not in name]


_USUAL: Final = 0o755


def _is_plain(top: tuple[str, Entry]) -> bool:
    """Whether a separate COPY has the same result: it gives directories usual permissions."""
    name, entry = top
    if entry.kind == "directory" and entry.mode != _USUAL:
        return False
    return name.isprintable() and not any(char in name for char in " *?[]\\$\"'#")


def _often(deploys: Deploys, source: str, names: list[str]) -> Mapping[str, float]:
    """The share of deploys that change something below each name."""
    start = f"{source}/" if source else ""
    whole = sum(deploy.weight for deploy in deploys.each) or 1
    found = dict.fromkeys(names, 0.0)
    for deploy in deploys.each:
        tops = {
            path[len(start) :].partition("/")[0] for path in deploy.paths if path.startswith(start)
        }
        for top in tops & found.keys():
            found[top] += deploy.weight / whole
    return found


def _copies(
    step: Step, source: str, directories: list[str], files: list[str], often: Mapping[str, float]
) -> list[str]:
    start = f"{source}/" if source else ""
    goes_to = step.instruction.words[-1].rstrip("/")
    flags = list(step.instruction.flags)
    lines = {name: f"{start}{name} {goes_to}/{name}/" for name in directories}
    shares = {name: often[name] for name in directories}
    if files:
        lines[""] = " ".join(f"{start}{name}" for name in sorted(files)) + f" {goes_to}/"
        shares[""] = sum(often[name] for name in files)
    ordered = sorted(lines, key=lambda name: (shares[name], name))
    return [" ".join(["COPY", *flags, lines[name]]) for name in ordered]
