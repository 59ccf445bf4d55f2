"""The number of workers beyond which throughput stops growing.

Throughput X(N) is fitted by straight pieces from the origin (no worker, no work) that meet at
whole numbers of workers. A further piece is accepted when Schwarz's criterion (BIC) falls by
more than 6, which Kass and Raftery (1995) call strong evidence, and when its slope is less than
0.8 times that of the piece before. Of two knees the first is where cores begin to be shared, the
second where no more CPUs are available.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from operator import mul
from statistics import fmean
from typing import Final

from mrtuner.errors import BadValue

#: The fall in BIC that one more knee requires.
STRONG: Final = 6.0
#: The slope after a knee, over the one before it, is below this.
FLATTER: Final = 0.8
MOST_KNEES: Final = 2
#: No throughput is measured more exactly than this share of the largest: without such a floor,
#: noise-free points would make any bend certain, however small.
_FLOOR: Final = 0.002

Point = tuple[int, float]


@dataclass(frozen=True, slots=True)
class Knee:
    """The throughput bends at `at` workers; slopes are throughput per additional worker."""

    at: int
    before: float
    after: float
    bic_fall: float


@dataclass(frozen=True, slots=True)
class _Seen:
    """The points, with the repeats of each number of workers combined to save time in the fits."""

    means: tuple[tuple[int, int, float], ...]  # workers, repeats, mean throughput
    within: float  # squared deviations of the repeats from their means, which no fit can reduce
    points: int
    floor: float  # for the mean square

    @property
    def places(self) -> list[int]:
        """Where a knee is possible: a piece after the last place could not be detected."""
        return [n for n, _, _ in self.means[:-1]]


@dataclass(frozen=True, slots=True)
class _Fit:
    knees: tuple[int, ...]
    slopes: tuple[float, ...]
    bic: float


def knees(points: Sequence[Point]) -> tuple[Knee, ...]:
    """Return the knees (none, one or two) of throughput over workers; every repeat is a point.

    Raises BadValue for fewer than one worker or a throughput that is not above zero.
    """
    _check(points)
    if not points:
        return ()
    seen = _drawn_together(points)
    best = _fit(seen, ())
    found: tuple[Knee, ...] = ()
    for count in range(1, MOST_KNEES + 1):
        bent = _best(seen, count)
        if bent is None or best.bic - bent.bic <= STRONG or not _bends(bent.slopes):
            break
        found = _knees(bent, best.bic - bent.bic)
        best = bent
    return found


def _check(points: Sequence[Point]) -> None:
    if any(n < 1 or not (x > 0 and math.isfinite(x)) for n, x in points):
        raise BadValue(
            "throughput must be above zero, of one worker or more", "Give 1 / s as measured."
        )


def _drawn_together(points: Sequence[Point]) -> _Seen:
    repeats: dict[int, list[float]] = {}
    for n, x in sorted(points):
        repeats.setdefault(n, []).append(x)
    return _Seen(
        means=tuple((n, len(xs), fmean(xs)) for n, xs in repeats.items()),
        within=sum((x - fmean(xs)) ** 2 for xs in repeats.values() for x in xs),
        points=len(points),
        floor=(_FLOOR * max(x for _, x in points)) ** 2,
    )


def _best(seen: _Seen, count: int) -> _Fit | None:
    """Return the fit with this many knees and the least BIC; None with too few points."""
    if seen.points <= 2 * count + 1:
        return None
    fits = [_fit(seen, chosen) for chosen in combinations(seen.places, count)]
    return min(fits, key=lambda fit: fit.bic, default=None)


def _fit(seen: _Seen, knees: tuple[int, ...]) -> _Fit:
    rows = [_pieces(n, knees) for n, _, _ in seen.means]
    slopes = _least_squares(rows, seen)
    squares = seen.within + sum(
        repeats * (mean - sum(map(mul, row, slopes))) ** 2
        for row, (_, repeats, mean) in zip(rows, seen.means, strict=True)
    )
    free = len(slopes) + len(knees)
    bic = seen.points * math.log(max(squares / seen.points, seen.floor))
    return _Fit(knees, slopes, bic + free * math.log(seen.points))


def _pieces(n: int, knees: tuple[int, ...]) -> tuple[float, ...]:
    """Return how much of 0…n is before the first knee, between the first and the second, …"""
    edges = (0, *knees, math.inf)
    return tuple(max(0.0, min(n, end) - start) for start, end in pairwise(edges))


def _bends(slopes: Sequence[float]) -> bool:
    return all(before > 0 and after < FLATTER * before for before, after in pairwise(slopes))


def _knees(fit: _Fit, fall: float) -> tuple[Knee, ...]:
    both = zip(fit.knees, pairwise(fit.slopes), strict=True)
    return tuple(Knee(at, before, after, fall) for at, (before, after) in both)


def _least_squares(rows: Sequence[Sequence[float]], seen: _Seen) -> tuple[float, ...]:
    """Solve the normal equations: at most three, and regular, as every piece has points."""
    weighed = list(zip(rows, seen.means, strict=True))
    size = range(len(rows[0]))
    system = [
        [sum(repeats * row[i] * row[j] for row, (_, repeats, _) in weighed) for j in size]
        + [sum(repeats * row[i] * mean for row, (_, repeats, mean) in weighed)]
        for i in size
    ]
    for i in size:
        system[i] = [value / system[i][i] for value in system[i]]
        for j in size:
            if j != i:
                factor = system[j][i]
                system[j] = [a - factor * b for a, b in zip(system[j], system[i], strict=True)]
    return tuple(row[-1] for row in system)
