"""Service times and arrivals, drawn from a seed or taken from measurements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from statistics import fmean, pstdev
from typing import Final, Self

from mrtuner.errors import BadValue

#: With more variation, a mean says nothing: only measured times do.
MOST_VARIATION: Final = 20.0
#: The fewest measured times for a p95.
LEAST_SAMPLES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Times of a mean [s] and a coefficient of variation (deviation over mean), or measured ones.

    A variation of 1 is the exponential law, below it gamma, above it two exponential laws with
    balanced means: many short requests and few long ones.
    """

    mean: float
    variation: float = 1.0
    samples: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not (self.mean > 0 and math.isfinite(self.mean)):
            raise BadValue(f"a mean time of {self.mean:g} s is not above zero", "Give a time > 0.")
        if not 0 <= self.variation <= MOST_VARIATION and not self.samples:
            raise BadValue(
                f"a variation of {self.variation:g} is not between 0 and {MOST_VARIATION:g}",
                "Give the standard deviation over the mean, such as 1, or measured times.",
            )

    @classmethod
    def measured(cls, samples: Sequence[float]) -> Self:
        """Return the distribution of measured times [s], which are drawn with replacement.

        Raises BadValue if there are fewer than LEAST_SAMPLES, or one is not above zero.
        """
        if len(samples) < LEAST_SAMPLES:
            raise BadValue(
                f"{len(samples)} measured times are too few",
                f"Give {LEAST_SAMPLES} or more, or their mean and variation.",
            )
        if not all(sample > 0 and math.isfinite(sample) for sample in samples):
            raise BadValue("a measured time is not above zero", "Give times of whole requests.")
        mean = fmean(samples)
        return cls(mean=mean, variation=pstdev(samples, mean) / mean, samples=tuple(samples))

    def draw(self, chance: Random, count: int) -> list[float]:
        """Return this many times [s]."""
        if self.samples:
            return chance.choices(self.samples, k=count)
        if self.variation == 0:
            return [self.mean] * count
        return list(_drawn(self.mean, self.variation, chance, count))


def _drawn(mean: float, variation: float, chance: Random, count: int) -> Iterator[float]:
    if variation > 1:
        yield from _two_phases(mean, variation, chance, count)
    elif variation == 1:
        yield from (chance.expovariate(1 / mean) for _ in range(count))
    else:
        shape = 1 / variation**2
        yield from (chance.gammavariate(shape, mean / shape) for _ in range(count))


def _two_phases(mean: float, variation: float, chance: Random, count: int) -> Iterator[float]:
    """Each phase contributes half of the mean: p₁ = (1 + √((c² - 1) / (c² + 1))) / 2."""
    often = (1 + math.sqrt((variation**2 - 1) / (variation**2 + 1))) / 2
    short, long = 2 * often / mean, 2 * (1 - often) / mean
    for _ in range(count):
        yield chance.expovariate(short if chance.random() < often else long)


def arrivals(rate: float, count: int, chance: Random, *, variation: float = 1.0) -> list[float]:
    """Return when this many requests arrive [s], `rate` a second; variation 1 is Poisson."""
    gaps = Times(mean=1 / rate, variation=variation).draw(chance, count)
    return list(accumulate(gaps))
