"""Where does a series run flat? Levels at which values crowd with an edge above.

A ceiling leaves its mark in two ways. Among the values around that time, many lie within a per
cent of one level and few just above it. In time, they lie there one after another, for the ceiling
takes the demand's own noise away. A peak of the day has the first only in part (values crowd below
it as well), a busy mean has neither. One maximum says nothing and is not looked at.

A level has to stand out among the points around it, not among all: what a load does on other days
at the same level neither hides a ceiling nor makes one. Stretches at one level are then joined.

Nothing here knows what the values measure. The steps are as CloudWatch's, minutes or longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
#: Of the points that follow each other, those that must lie at the level, and within half of BAND:
#: a smooth peak's are spread evenly over it.
SOLID: Final = 0.85
TIGHT: Final = 0.6
#: Points in a run, whatever the step: fewer come about by chance.
SHORTEST_RUN: Final = 6
#: Points at a level altogether, and those that one run at least must have.
FEWEST_POINTS: Final = 20
LONGEST_RUN_AT_LEAST: Final = 10
#: How much denser a level must be than its neighbours just above and just below.
EDGE_ABOVE: Final = 5.0
EDGE_BELOW: Final = 1.8
#: Points among which a level has to stand out, half of them new each time: of minutes some three
#: hours, fifteen windows a day.
WINDOW: Final = 192

_HALF: Final = 0.01  # of the logarithm, on either side: what makes a level while it is looked for
_APART: Final = 0.025  # to the middle of a neighbour
#: Stretches that lie so close are at one level: it moves by less from day to day.
_SAME: Final = 0.0075


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
    logs, known = _logarithms(values, at_least)
    if known.sum() < FEWEST_POINTS:
        return []
    found = [one for first in _windows(len(values)) for one in _local(logs, known, first)]
    joined = (_joined(values, logs, known, some) for some in _levels(found))
    return sorted((one for one in joined if one is not None), key=lambda one: -one.level)


def stretches(
    values: Values, mask: Mask, *, shortest: int = LONGEST_RUN_AT_LEAST, fewest: int = FEWEST_POINTS
) -> Plateau | None:
    """The points of a mask as one plateau, when enough of them follow each other; else None.

    For levels that are known to be ceilings by other means than the crowd: runs of `shortest`
    points at least, `fewest` in all.
    """
    logs, known = _logarithms(values)
    spans = runs(mask & known, hole=HOLE, shortest=shortest)
    found = [_Stretch(0.0, span, 0.0, 0.0) for span in spans]
    return _joined(values, logs, known, found, least=(shortest, fewest))


def densest(values: Values, half: float) -> float | None:
    """The value around which, within this share on either side, most others lie; None of none."""
    np = numpy()
    ordered = np.sort(np.log(values[np.isfinite(values) & (values > 0)]))
    if not len(ordered):
        return None
    return float(np.exp(ordered[int(np.argmax(_around(ordered, half)))]))


def _around(ordered: Values, half: float, middle: float = 0.0) -> Values:
    """Of each value, how many lie within `half` of the place that is `middle` away from it."""
    np = numpy()
    low = np.searchsorted(ordered, ordered + middle - half, "left")
    many: Values = np.searchsorted(ordered, ordered + middle + half, "right") - low
    return many


def united(values: Values, some: Sequence[Plateau]) -> Plateau:
    """Several plateaus of one level as one; the first of them if they have none in common."""
    logs, known = _logarithms(values)
    spans = [
        _Stretch(0.0, span, one.above, one.below) for one in some for span in one.spans
    ]  # fmt: skip
    return _joined(values, logs, known, spans) or some[0]


def _logarithms(values: Values, at_least: float = 0.0) -> tuple[Values, Mask]:
    """Of what is known and above; 0 elsewhere."""
    np = numpy()
    known = np.isfinite(values) & (values > max(at_least, 0.0))
    return np.log(np.where(known, values, 1.0)), known


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


def inside(spans: Sequence[tuple[int, int]], length: int) -> Mask:
    """True at the points of the spans."""
    np = numpy()
    mask: Mask = np.zeros(length, dtype=bool)
    for start, end in spans:
        mask[start:end] = True
    return mask


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Points that follow each other at one level, as one window sees them."""

    level: float  # logarithm
    span: tuple[int, int]
    above: float
    below: float


def _windows(length: int) -> range:
    """Where each window begins; the last may be short."""
    return range(0, max(length - WINDOW // 2, 1), WINDOW // 2)


def _local(logs: Values, known: Mask, first: int) -> Iterator[_Stretch]:
    """What runs flat in the window that begins there."""
    np = numpy()
    here, there = logs[first : first + WINDOW], known[first : first + WINDOW]
    for level, above, below in _crowded(here[there]):
        near = there & (np.abs(here - level) <= BAND)
        middle = float(np.median(here[near]))
        near = there & (np.abs(here - middle) <= BAND)
        tight = there & (np.abs(here - middle) <= BAND / 2)
        for start, end in runs(near, hole=HOLE, shortest=SHORTEST_RUN):
            points = there[start:end].sum()
            if near[start:end].sum() >= SOLID * points and tight[start:end].sum() >= TIGHT * points:
                yield _Stretch(middle, (first + start, first + end), above, below)


def _crowded(logs: Values) -> Iterator[tuple[float, float, float]]:
    """Levels (as logarithms) denser than what is above and below, and how much denser."""
    np = numpy()
    ordered = np.sort(logs)

    mass, above, below = (_around(ordered, _HALF, middle) for middle in (0.0, _APART, -_APART))
    stands = (
        (mass >= LONGEST_RUN_AT_LEAST) & (mass >= EDGE_ABOVE * above) & (mass >= EDGE_BELOW * below)
    )
    while stands.any():
        place = int(np.argmax(np.where(stands, mass, 0)))
        level = float(ordered[place])
        yield (
            level,
            float(mass[place] / max(above[place], 1)),
            float(mass[place] / max(below[place], 1)),
        )
        stands &= np.abs(ordered - level) > 2 * _HALF


def _levels(found: list[_Stretch]) -> Iterator[list[_Stretch]]:
    """Stretches of one level together; the level with the longest of them first."""
    left = sorted(found, key=lambda one: one.span[0] - one.span[1])
    while left:
        level = left[0].level
        yield [one for one in left if abs(one.level - level) <= _SAME]
        left = [one for one in left if abs(one.level - level) > _SAME]


def _joined(
    values: Values, logs: Values, known: Mask, some: Sequence[_Stretch],
    least: tuple[int, int] = (LONGEST_RUN_AT_LEAST, FEWEST_POINTS),
) -> Plateau | None:  # fmt: skip
    """One plateau out of stretches, windows' overlaps counted once; None for too little."""
    np = numpy()
    covered = inside([one.span for one in some], len(values))
    spans = runs(covered, shortest=min(SHORTEST_RUN, least[0]))
    if not spans or max(end - start for start, end in spans) < least[0]:
        return None
    there = covered & known
    there &= np.abs(logs - np.median(logs[there])) <= BAND
    points = int(there.sum())
    if points < least[1]:
        return None
    longest = max(some, key=lambda one: one.span[1] - one.span[0])
    return Plateau(
        level=float(np.median(values[there])),
        spans=tuple(spans),
        points=points,
        share=points / int(np.isfinite(values).sum()),
        spread=1.4826 * float(np.median(np.abs(logs[there] - np.median(logs[there])))),
        above=longest.above,
        below=longest.below,
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
