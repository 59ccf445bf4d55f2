"""Mergeable histograms of times, because percentiles must never be averaged.

Values are kept to three significant digits, as in HdrHistogram, so a percentile is off by half
a percent at most. A percentile is given only if enough values exceed it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Final

from mrtuner.described import Doc, document_name
from mrtuner.errors import BadValue

DIGITS: Final = 3
#: Values that must exceed a percentile for it to be meaningful.
BEYOND: Final = 10


@document_name("TransactionTimes")
@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram of the times of single transactions."""

    counts: Annotated[
        tuple[tuple[int, int], ...],
        Doc("microseconds, to three digits, and how often; ascending"),
    ] = ()

    @property
    def total(self) -> int:
        return sum(count for _, count in self.counts)

    @property
    def mean(self) -> float:
        """The mean [µs]; BadValue for an empty histogram."""
        if not self.counts:
            raise BadValue("an empty histogram has no mean", "Measure something first.")
        return sum(value * count for value, count in self.counts) / self.total

    def percentile(self, share: float) -> int | None:
        """Return the least value [µs] that this share did not exceed; None with too few values.

        A share p needs 10 / (1 - p) values: 1,000 for 0.99, 10,000 for 0.999.
        """
        if not 0 < share < 1:
            raise BadValue(f"share {share} is not between 0 and 1", "Write p99 as 0.99.")
        total = self.total
        if total < needed(share):
            return None
        rank = math.ceil(round(share * total, 6))  # 0.95 * 20 is slightly above 19
        reached = accumulate(count for _, count in self.counts)
        return next(
            value for (value, _), seen in zip(self.counts, reached, strict=True) if seen >= rank
        )


def needed(share: float) -> int:
    return math.ceil(round(BEYOND / (1 - share), 6))


def histogram(times: Mapping[int, int]) -> Histogram:
    """Return a histogram of values [µs] and their counts.

    >>> histogram({123456: 2, 123400: 1, 7: 1})
    Histogram(counts=((7, 1), (123000, 3)))
    """
    kept: Counter[int] = Counter()
    for value, count in times.items():
        kept[_rounded(value)] += count
    return Histogram(tuple(sorted(kept.items())))


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """Return all values of all histograms; rounded values are not rounded further."""
    together: Counter[int] = Counter()
    for one in histograms:
        together.update(dict(one.counts))
    return Histogram(tuple(sorted(together.items())))


def _rounded(value: int) -> int:
    """Return three significant digits; halves round to even."""
    return round(value, DIGITS - len(str(value))) if value >= 10**DIGITS else value
