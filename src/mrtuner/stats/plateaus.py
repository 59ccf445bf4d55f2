"""Where does a series run flat? Levels at which values crowd with an edge above.

A ceiling leaves its mark in two ways. In the histogram of the logarithm, many values lie within a
per cent of one level and few just above it. In time, they lie there one after another, for the
ceiling takes the demand's own noise away. A peak of the day has the first only in part (values
crowd below it as well), a busy mean has neither. One maximum says nothing and is not looked at.

Nothing here knows what the values measure. The steps are as CloudWatch's, minutes or longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mrtuner.extras import without

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Mask = NDArray[np.bool_]

#: Half the width of a level, as a share of it: a minute's average at a ceiling wobbles by less.
BAND: Final = 0.015
#: Holes of so many points, gaps included, do not end a run.
HOLE: Final = 2
#: Points in a run, whatever the step: fewer come about by chance.
SHORTEST_RUN: Final = 6
#: Points at a level altogether, and those that one run at least must have.
FEWEST_POINTS: Final = 20
LONGEST_RUN_AT_LEAST: Final = 10
#: How much denser a level must be than its neighbours just above and just below.
EDGE_ABOVE: Final = 3.0
EDGE_BELOW: Final = 1.8

_BIN: Final = 0.0025  # of the logarithm
_HALF: Final = 4  # bins on either side that make a level while it is looked for: 1 %
_APART: Final = 10  # bins to the middle of a neighbour: 2.5 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Plateau:
    """One level at which a series ran flat."""

    level: float  # median of the values there
    spans: tuple[tuple[int, int], ...]  # runs in time: first point, one past the last
    points: int  # in those runs, gaps not counted
    share: float  # of all points that have a value
    spread: float  # robust standard deviation there, relative to the level
    above: float  # times as dense as just above; large where there is nothing
    below: float  # times as dense as just below
    calm: float  # point-to-point noise there, over that elsewhere; 1 when it cannot be told

    @property
    def longest(self) -> int:
        """Points of the longest run."""
        return max(end - start for start, end in self.spans)


def plateaus(values: Values, *, at_least: float = 0.0) -> list[Plateau]:
    """The levels at which `values` ran flat, highest first; NaN is a gap, in equal steps.

    `at_least` leaves lower levels out. MissingPart without numpy.
    """
    np = numpy()
    known = np.isfinite(values) & (values > max(at_least, 0.0))
    if known.sum() < FEWEST_POINTS:
        return []
    logs = np.log(np.where(known, values, 1.0))
    found = [
        plateau
        for level, above, below in _crowded(logs[known])
        if (plateau := _in_time(values, logs, known, level, above, below)) is not None
    ]
    return sorted(_distinct(found), key=lambda one: -one.level)


def numpy() -> Any:
    """The package, loaded when first needed; MissingPart without it."""
    try:
        import numpy as np
    except ImportError:
        raise without("numpy") from None
    return np


def runs(mask: Mask, *, hole: int = 0, shortest: int = 1) -> list[tuple[int, int]]:
    """Stretches of True as (first, one past the last); holes up to `hole` points are bridged."""
    np = numpy()
    steps = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    joined: list[list[int]] = []
    for start, end in zip(steps[::2].tolist(), steps[1::2].tolist(), strict=True):
        if joined and start - joined[-1][1] <= hole:
            joined[-1][1] = end
        else:
            joined.append([start, end])
    return [(start, end) for start, end in joined if end - start >= shortest]


def inside(spans: tuple[tuple[int, int], ...] | list[tuple[int, int]], length: int) -> Mask:
    """True at the points of the spans."""
    np = numpy()
    mask: Mask = np.zeros(length, dtype=bool)
    for start, end in spans:
        mask[start:end] = True
    return mask


def _crowded(logs: Values) -> Iterator[tuple[float, float, float]]:
    """Levels (as logarithms) denser than what is above and below, and how much denser."""
    np = numpy()
    lowest = float(logs.min())
    places = ((logs - lowest) / _BIN).astype(np.int64)
    pad = _APART + _HALF + 1
    counts = np.bincount(places + pad, minlength=int(places.max()) + 2 * pad + 1)
    mass = np.convolve(counts, np.ones(2 * _HALF + 1), mode="same")
    above, below = np.roll(mass, -_APART), np.roll(mass, _APART)
    peak = mass >= np.maximum.reduce([np.roll(mass, by) for by in range(-_HALF, _HALF + 1)])
    enough = (mass >= FEWEST_POINTS) & (mass >= EDGE_ABOVE * above) & (mass >= EDGE_BELOW * below)
    for place in np.flatnonzero(peak & enough).tolist():
        level = lowest + (place - pad + 0.5) * _BIN
        yield (
            level,
            float(mass[place] / max(above[place], 1)),
            float(mass[place] / max(below[place], 1)),
        )


def _in_time(
    values: Values, logs: Values, known: Mask, level: float, above: float, below: float
) -> Plateau | None:
    np = numpy()
    near = known & (np.abs(logs - level) <= BAND)
    level = float(np.median(logs[near]))
    near = known & (np.abs(logs - level) <= BAND)
    spans = runs(near, hole=HOLE, shortest=SHORTEST_RUN)
    if not spans or max(end - start for start, end in spans) < LONGEST_RUN_AT_LEAST:
        return None
    there = inside(spans, len(values)) & near
    points = int(there.sum())
    if points < FEWEST_POINTS:
        return None
    return Plateau(
        level=float(np.median(values[there])),
        spans=tuple(spans),
        points=points,
        share=points / int(np.isfinite(values).sum()),
        spread=1.4826 * float(np.median(np.abs(logs[there] - np.median(logs[there])))),
        above=above,
        below=below,
        calm=_calm(logs, known, there),
    )


def _calm(logs: Values, known: Mask, there: Mask) -> float:
    """Median step inside over median step outside."""
    np = numpy()
    steps, valid = np.abs(np.diff(logs)), known[1:] & known[:-1]
    within = valid & there[1:] & there[:-1]
    outside = valid & ~there[1:] & ~there[:-1]
    if within.sum() < SHORTEST_RUN or outside.sum() < FEWEST_POINTS:
        return 1.0
    noise = float(np.median(steps[outside]))
    return float(np.median(steps[within])) / noise if noise > 0 else 1.0


def _distinct(found: list[Plateau]) -> list[Plateau]:
    """One of several that are within a band of each other: the one with most points."""
    kept: list[Plateau] = []
    for one in sorted(found, key=lambda each: -each.points):
        if all(abs(one.level / other.level - 1) > 2 * BAND for other in kept):
            kept.append(one)
    return kept
