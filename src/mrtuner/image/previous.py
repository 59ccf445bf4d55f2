"""What the last build of an image tells of the next: the layer of each line, and the base's.

A line that is built again after a small change makes a layer of about the same size, compressed
too: the last one is a better witness than any compressor of ours. Layers are given to lines by the
image's own history. Source: OCI image specification 1.1, config.md (history).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mrtuner.errors import BadValue, MissingPart
from mrtuner.files import read_file
from mrtuner.image.cost import Change, Cost, Line, Total
from mrtuner.image.dockerfile import LAYERED, Stage, parse
from mrtuner.image.stored import Blob, StoredImage

#: What a cold guess may be off, as factors: this compressor beside podman's, on four kinds of
#: files. Compared in tests/image/test_image_warm.py.
COLD: Final = (0.95, 1.12)
_NOP: Final = re.compile(r"#\(nop\)\s+(\w+)")
_INSTRUCTION: Final = re.compile(r"[A-Z]+")
#: BuildKit makes a layer of the directory; podman does not.
_MAYBE: Final = "WORKDIR"
#: How far it is, of how much.
Tell = Callable[[float, float], None]


@dataclass(frozen=True, slots=True)
class BaseLayers:
    """The image's layers that no line of the Dockerfile made."""

    layers: int
    size: int  # compressed [bytes]


def known_from(
    found: Cost,
    image: StoredImage,
    arguments: Mapping[str, str] | None = None,
    tell: Tell = lambda _done, _of: None,
) -> tuple[Cost, BaseLayers]:
    """Return the cost with the sizes of an image that this Dockerfile made earlier.

    A layer whose bytes the context does not tell is read once, to count them.

    Raises:
        BadValue: another Dockerfile made the image.
    """
    recipe = parse(read_file(found.dockerfile), dict(arguments or {}))
    shipped = _shipped(recipe.stages, recipe.stage_of)
    layered = [one for stage in shipped for one in stage.steps if one.name in LAYERED]
    made = list(_made(image))
    taken: dict[int, Blob] = {}
    for one in reversed(layered):
        while made and made[-1][0] == _MAYBE:
            made.pop()
        if not made or made[-1][0] != one.name:
            raise BadValue(
                f"{image.name} was not built by {found.dockerfile}: nothing in its history is "
                f"line {one.line}, {one.name}",
                "Name an image that the last build made.",
            )
        taken[one.line] = made.pop()[1]
    of = sum(blob.size for blob in taken.values())
    done, lines = 0, []
    for line in found.lines:
        tell(done, of)
        lines.append(_line(line, taken.get(line.line), image))
        done += taken[line.line].size if line.line in taken else 0
    changes = tuple(_change(change, lines, taken) for change in found.changes)
    base = BaseLayers(len(made), sum(blob.size for _, blob in made))
    return replace(found, lines=tuple(lines), changes=changes), base


def _shipped(stages: Sequence[Stage], stage_of: Callable[[str, int], Stage | None]) -> list[Stage]:
    """The stages whose layers are in the image, the first one first."""
    found = [stages[-1]]
    while (below := stage_of(found[0].base, found[0].index)) is not None:
        found.insert(0, below)
    return found


def _made(image: StoredImage) -> Iterator[tuple[str, Blob]]:
    """The instruction that made each layer, lowest first."""
    told: Any = image.configuration.get("history")
    rows = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    by = [str(one.get("created_by", "")) for one in rows if not one.get("empty_layer")]
    if len(by) != len(image.layers):
        raise BadValue(
            f"the history of {image.name} does not tell of each of its layers",
            "Name an image that was neither squashed nor put together elsewhere.",
        )
    yield from zip(map(_instruction, by), image.layers, strict=True)


def _instruction(by: str) -> str:
    """The instruction that a line of a history tells of; a bare command is a RUN.

    >>> _instruction("/bin/sh -c #(nop) COPY file:0a in /x "), _instruction("|1 A=1 /bin/sh -c x")
    ('COPY', 'RUN')
    >>> _instruction("COPY a /a # buildkit"), _instruction("RUN /bin/sh -c x # buildkit")
    ('COPY', 'RUN')
    """
    if match := _NOP.search(by):
        return match[1]
    first = by.split(maxsplit=1)[0] if by.strip() else ""
    return first if _INSTRUCTION.fullmatch(first) else "RUN"


def _line(line: Line, blob: Blob | None, image: StoredImage) -> Line:
    if blob is None:
        return line
    size, why = line.layer.size, line.layer.why
    if size is None:
        try:
            size, why = image.uncompressed(blob), ""
        except MissingPart as unread:
            why = unread.message
    least = line.layer.least if size is None else size
    return replace(
        line, layer=replace(line.layer, size=size, least=least, compressed=blob.size, why=why)
    )


def _change(change: Change, lines: Sequence[Line], taken: Mapping[int, Blob]) -> Change:
    by_line = {line.line: line.layer for line in lines}
    again = [(line, state) for line, state in change.states if state != "cached"]
    sizes = [(line, state, by_line[line].size, by_line[line].least) for line, state in again]
    blobs = [(line, state, by_line[line].compressed, 0) for line, state in again if line in taken]
    return replace(change, rebuilt=_total(sizes), pushed=_total(blobs))


def _total(found: Sequence[tuple[int, str, int | None, int]]) -> Total:
    """As `cost` adds them up: of surely rebuilt lines what is known, the others by number."""
    known = sum(
        least if size is None else size for _, state, size, least in found if state == "rebuilt"
    )
    unsure = [
        line for line, state, size, _ in found if size is None or (state == "unknown" and size)
    ]
    return Total(known, tuple(unsure))
