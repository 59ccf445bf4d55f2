"""A histogram of Prometheus: cumulative buckets, a sum and a count; and times drawn from one.

What is known exactly is kept: the count of every bucket, and the mean. Where in its bucket a time
lies is not known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from mrtuner.errors import BadValue
from mrtuner_pods.wording import milliseconds

#: Number of times that represent a histogram; a plan draws from them.
_POINTS: Final = 2_000
#: With more than this share beyond the last bucket, the p95 is unknown.
_BEYOND: Final = 0.05
#: A time is above the lower bound of its bucket by at least this [s].
_LEAST: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts of times [s] up to each bound, which may be infinite; no buckets: a summary."""

    buckets: Mapping[float, float]  # cumulative, by upper bound
    total: float  # of all times
    count: float

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def beyond(self) -> float:
        """Share of the times above the last finite bound."""
        finite = [number for bound, number in self.buckets.items() if math.isfinite(bound)]
        return 1 - max(finite, default=0.0) / self.count

    def since(self, earlier: Histogram) -> Histogram | None:
        """Return what was counted since `earlier`; None if a counter fell because of a restart."""
        buckets = {
            bound: number - earlier.buckets.get(bound, 0.0)
            for bound, number in self.buckets.items()
        }
        found = Histogram(
            buckets=buckets, total=self.total - earlier.total, count=self.count - earlier.count
        )
        return None if min([found.count, found.total, *buckets.values()]) < 0 else found

    def samples(self) -> tuple[float, ...]:
        """Return times that have the counts of the buckets and the mean.

        In its bucket from a to b, a time lies at a + (b - a) u**p with u uniform in 0 to 1, and the
        same p for all buckets: the one that gives the right mean. Times above the last bound follow
        an exponential distribution from there, with the mean that is left for them.

        Raises BadValue where buckets and sum contradict each other.
        """
        parts = self._parts()
        inside = [(low, high, share) for low, high, share in parts if math.isfinite(high)]
        above = sum(share for _, high, share in parts if not math.isfinite(high))
        last = max((low for low, high, _ in parts if not math.isfinite(high)), default=0.0)
        lows = sum(low * share for low, _, share in inside)
        widths = sum((high - low) * share for low, high, share in inside)
        # Uniform in the buckets, if that leaves the times above the last bound a mean above it.
        left = (self.mean - lows - widths / 2) / above if above else 0.0
        if above and left > last:
            place, excess = 0.5, left - last
        else:
            excess = 0.0
            place = (self.mean - lows - above * last) / widths if widths else 0.5
            if not -1e-6 <= place <= 1 + 1e-6:
                raise BadValue(
                    f"a mean of {milliseconds(self.mean)} does not fit these buckets",
                    "Their unit differs, or they count other requests than the sum.",
                )
        place = min(max(place, 1e-3), 1 - 1e-3)
        power = 1 / place - 1
        return tuple(
            _time(low, high, even, power, excess) for low, high, even in self._evenly(parts)
        )

    def _parts(self) -> list[tuple[float, float, float]]:
        """The buckets with times in them: from, to, share of the times."""
        bounds = sorted({*self.buckets, math.inf})
        numbers = {**self.buckets, math.inf: self.count}
        edges = [(0.0, 0.0), *((bound, numbers[bound]) for bound in bounds)]
        return [
            (low, high, (upto - before) / self.count)
            for (low, before), (high, upto) in pairwise(edges)
            if upto > before
        ]

    def _evenly(self, parts: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
        """Points in proportion to the shares: bounds of the bucket, and place in it from 0 to 1."""
        found = []
        owed = 0.0
        for low, high, share in parts:
            owed += share * _POINTS
            number = round(owed)
            owed -= number
            found += [(low, high, (one + 0.5) / number) for one in range(number)]
        return found


def _time(low: float, high: float, even: float, power: float, excess: float) -> float:
    if math.isfinite(high):
        return low + max(_LEAST, (high - low) * float(even**power))
    return low + max(_LEAST, -excess * math.log(1 - even))


def doubts(times: Histogram, name: str) -> list[str]:
    if not times.buckets or times.beyond <= _BEYOND:
        return []
    last = max((bound for bound in times.buckets if math.isfinite(bound)), default=0.0)
    return [
        f"{times.beyond:.0%} of the times of {name} are above its last bucket, {last:g} s: how "
        "long the slowest take is unknown"
    ]
