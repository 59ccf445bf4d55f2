"""The order of runs: randomised complete blocks.

Every block holds each variant once, in random order, so that neither drift nor what one run
leaves behind for the next falls on the same variant every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random


def blocks(variants: Sequence[str], count: int, seed: int) -> list[list[str]]:
    """`count` blocks, each with all variants; the same seed gives the same order."""
    chance = Random(seed)  # noqa: S311 - it shuffles runs, it keeps no secret
    return [chance.sample(variants, len(variants)) for _ in range(count)]
