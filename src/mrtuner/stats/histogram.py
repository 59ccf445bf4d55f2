"""Histograms of times that can be merged: percentiles must never be averaged.

Values are kept to three significant digits, as HdrHistogram keeps them, so that a percentile is
off by half a percent at most. A percentile is given only where enough values lie beyond it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from mrtuner.errors import BadValue

DIGITS: Final = 3
#: So many values have to lie beyond a percentile before it means anything.
BEYOND: Final = 10


@dataclass(frozen=True, slots=True)
class Histogram:
    """Times in whole microseconds and how often each was seen, in rising order."""

    counts: tuple[tuple[int, int], ...] = ()

    @property
    def total(self) -> int:
        """How many values."""
        return sum(count for _, count in self.counts)

    @property
    def mean(self) -> float:
        """The mean [µs]; BadValue for an empty histogram."""
        if not self.counts:
            raise BadValue("an empty histogram has no mean", "Measure something first.")
        return sum(value * count for value, count in self.counts) / self.total

    def percentile(self, share: float) -> int | None:
        """The least value [µs] that this share did not exceed; None with too few values for it.

        A share p asks for 10 / (1 - p) values: 1,000 for 0.99, 10,000 for 0.999.
        """
        if not 0 < share < 1:
            raise BadValue(f"share {share} does not lie between 0 and 1", "Write p99 as 0.99.")
        total = self.total
        if total < needed(share):
            return None
        rank = math.ceil(round(share * total, 6))  # 0.95 * 20 is a hair above 19
        reached = accumulate(count for _, count in self.counts)
        return next(
            value for (value, _), seen in zip(self.counts, reached, strict=True) if seen >= rank
        )


def needed(share: float) -> int:
    """How many values a percentile needs."""
    return math.ceil(round(BEYOND / (1 - share), 6))


def histogram(times: Mapping[int, int]) -> Histogram:
    """From values [µs] and their counts.

    >>> histogram({123456: 2, 123400: 1, 7: 1})
    Histogram(counts=((7, 1), (123000, 3)))
    """
    kept: Counter[int] = Counter()
    for value, count in times.items():
        kept[_rounded(value)] += count
    return Histogram(tuple(sorted(kept.items())))


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """All values of all of them; what was rounded once is not rounded further."""
    together: Counter[int] = Counter()
    for one in histograms:
        together.update(dict(one.counts))
    return Histogram(tuple(sorted(together.items())))


def _rounded(value: int) -> int:
    """Three significant digits; halves go to the even neighbour."""
    return round(value, DIGITS - len(str(value))) if value >= 10**DIGITS else value
