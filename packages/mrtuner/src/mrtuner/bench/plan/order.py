"""The order of runs: randomised complete blocks, balanced by place.

Every block holds each variant once. Of as many blocks in a row as there are variants, each variant
is in each place once: the first run of a block may be a tenth slower than the next, and chance
alone puts the same variant there in nine blocks of eleven. Which order comes first is random, so
that drift does not fall on the same variant every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random


def blocks(variants: Sequence[str], count: int, seed: int) -> list[list[str]]:
    """Return `count` blocks, each with all variants; the same seed gives the same order."""
    chance = Random(seed)  # noqa: S311 - it shuffles runs, it keeps no secret
    found = list[list[str]]()
    while len(found) < count:
        row = chance.sample(variants, len(variants))
        square = [row[place:] + row[:place] for place in range(len(row))]
        found += chance.sample(square, len(square))
    return found[:count]
