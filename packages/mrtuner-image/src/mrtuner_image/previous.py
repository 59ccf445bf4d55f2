"""What the last build of an image shows about the next: layer sizes of each line and the base.

A line that is rebuilt after a small change makes a layer of about the same size, also compressed.
The image's own history shows which line made which layer. Source: OCI image specification 1.1,
config.md (history).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from mrtuner.errors import BadValue, MissingPart
from mrtuner_image.dockerfile import LAYERED
from mrtuner_image.layers import Layer, shipped
from mrtuner_image.model import Model
from mrtuner_image.stored import Blob, StoredImage, tables

_NOP: Final = re.compile(r"#\(nop\)\s+(\w+)")
_INSTRUCTION: Final = re.compile(r"[A-Z]+")
#: BuildKit makes a layer of the directory; podman does not.
_MAYBE: Final = "WORKDIR"
#: Called with the progress and the total.
Tell = Callable[[float, float], None]


@dataclass(frozen=True, slots=True)
class Previous:
    """The image of the last build, and the part of it that comes from its base."""

    image: StoredImage
    base_layers: int
    base_bytes: int  # compressed


def known_from(
    model: Model, image: StoredImage, tell: Tell = lambda _done, _of: None
) -> tuple[Model, Previous]:
    """Return the model with the sizes of an image that this Dockerfile made earlier.

    A layer whose size does not follow from the context is read once, to count its bytes.

    Raises:
        BadValue: another Dockerfile made the image, or its history is incomplete.
    """
    sizes = [list(found) for found in model.sizes]
    made = list(_made(image))
    taken: list[tuple[int, int, Blob]] = []
    for index in sorted(shipped(model.wanted), reverse=True):
        steps = model.wanted[index].steps
        for number in reversed(range(len(steps))):
            one = steps[number].instruction
            if one.name not in LAYERED:
                continue
            while made and made[-1][0] == _MAYBE:
                made.pop()
            if not made or made[-1][0] != one.name:
                raise BadValue(
                    f"{image.name} was not built by {model.tree.dockerfile}: nothing in its "
                    f"history is line {one.line}, {one.name}",
                    "Name an image from the last build.",
                )
            taken.append((index, number, made.pop()[1]))
    done, of = 0, sum(blob.size for *_, blob in taken)
    for index, number, blob in taken:
        tell(done, of)
        sizes[index][number] = _layer(sizes[index][number], blob, image)
        done += blob.size
    base = Previous(image, len(made), sum(blob.size for _, blob in made))
    return replace(model, sizes=sizes), base


def _made(image: StoredImage) -> Iterator[tuple[str, Blob]]:
    """Yield each layer with the name of the instruction that made it, lowest first."""
    rows = tables(image.configuration.get("history"))
    by = [str(one.get("created_by", "")) for one in rows if not one.get("empty_layer")]
    if len(by) != len(image.layers):
        raise BadValue(
            f"the history of {image.name} does not cover all its layers",
            "Name an image that was not squashed or assembled otherwise.",
        )
    yield from zip(map(_instruction, by), image.layers, strict=True)


def _instruction(by: str) -> str:
    """The name of the instruction in a line of a history; a bare command is a RUN.

    >>> _instruction("/bin/sh -c #(nop) COPY file:0a in /x "), _instruction("|1 A=1 /bin/sh -c x")
    ('COPY', 'RUN')
    >>> _instruction("COPY a /a # buildkit"), _instruction("RUN /bin/sh -c x # buildkit")
    ('COPY', 'RUN')
    """
    if match := _NOP.search(by):
        return match[1]
    first = by.split(maxsplit=1)[0] if by.strip() else ""
    return first if _INSTRUCTION.fullmatch(first) else "RUN"


def _layer(layer: Layer, blob: Blob, image: StoredImage) -> Layer:
    size, why = layer.size, layer.why
    if size is None:
        try:
            size, why = image.uncompressed(blob), ""
        except MissingPart as unread:
            why = unread.message
    least = layer.least if size is None else size
    return Layer(size, least, blob.size, why, blob.size)
