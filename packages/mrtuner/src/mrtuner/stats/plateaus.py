"""Find the levels at which a series runs flat, where values cluster below an edge.

A ceiling shows in two ways. Among the values around that time, many are within a percent of one
level and few just above it. In time, they follow one another, because the ceiling cuts off the
demand's own noise. A daily peak shows only part of the first (values also cluster below it), a
busy mean shows neither. A single maximum proves nothing and is ignored.

A level has to stand out among the points around it, not among all: loads at the same level on
other days neither hide a ceiling nor create one. Stretches at one level are then joined.

Nothing here depends on what the values measure. The steps are like CloudWatch's, minutes or
longer.
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
    Counts = NDArray[np.signedinteger[Any]]
    Mask = NDArray[np.bool_]

#: Half the width of a level, as a share of it: at a ceiling, one-minute averages vary by less.
BAND: Final = 0.015
#: Holes of up to this many points, gaps included, do not end a run.
HOLE: Final = 2
#: The share of consecutive points that must be at the level, and within half of BAND: those of a
#: smooth peak are spread evenly over it.
SOLID: Final = 0.85
TIGHT: Final = 0.6
#: Points in a run, whatever the step: shorter ones occur by chance.
SHORTEST_RUN: Final = 6
#: Fewest points at a level in total, and in its longest run.
FEWEST_POINTS: Final = 20
LONGEST_RUN_AT_LEAST: Final = 10
#: How much denser a level must be than its neighbours just above and just below.
EDGE_ABOVE: Final = 5.0
EDGE_BELOW: Final = 1.8
#: Points among which a level has to stand out, half of them new each time: with minutes, about
#: three hours, fifteen windows a day.
WINDOW: Final = 192

_HALF: Final = 0.01  # of the logarithm, on either side: the width of a level during the search
_APART: Final = 0.025  # distance to the middle of a neighbour
#: Far more than differences of logarithms are off by.
_ROUNDING: Final = 1e-9
#: Stretches this close are at the same level: it moves by less from day to day.
_SAME: Final = 0.0075


@dataclass(frozen=True, slots=True, kw_only=True)
class Plateau:
    """One level at which a series ran flat."""

    level: float  # median of its values
    spans: tuple[tuple[int, int], ...]  # runs in time: first point, one past the last
    points: int  # in those runs, those at the level
    share: float  # of all points that have a value
    spread: float  # robust standard deviation, relative to the level
    above: float  # how many times as dense as just above; large if nothing is there
    below: float  # how many times as dense as just below
    calm: float  # point-to-point noise at the level, over that elsewhere; 1 if unknown
    longest: int  # of these points, those in the longest run


def plateaus(values: Values, *, at_least: float = 0.0) -> list[Plateau]:
    """Return the levels at which `values` ran flat, highest first; NaN is a gap, in equal steps.

    `at_least` excludes lower levels. Raises MissingPart without numpy.
    """
    logs, known = _logarithms(values, at_least)
    if known.sum() < FEWEST_POINTS:
        return []
    found = [one for first in _windows(len(values)) for one in _local(logs, known, first)]
    joined = (_joined(values, logs, known, some) for some in _levels(found))
    return sorted((one for one in joined if one is not None), key=lambda one: -one.level)


def crowded(values: Values, *, at_least: float = 0.0) -> list[float]:
    """Return the levels that many values share, and few just above, consecutive or not."""
    np = numpy()
    logs, known = _logarithms(values, at_least)
    found: list[float] = []
    for first in _windows(len(values)):
        here = slice(first, first + WINDOW)
        for level, _, _ in _crowded(logs[here][known[here]]):
            if all(abs(level - one) > _SAME for one in found):
                found.append(level)
    return [float(np.exp(one)) for one in found]


def stretches(
    values: Values, mask: Mask, *, shortest: int = LONGEST_RUN_AT_LEAST,
    fewest: int = FEWEST_POINTS, counted: Mask | None = None,
) -> Plateau | None:  # fmt: skip
    """Return a mask's points as one plateau, if enough of them are consecutive; else None.

    For levels known to be ceilings by other evidence than clustering: with runs of at least
    `shortest` points, and `fewest` in total. `counted` are the points in them that count, by
    default those of the mask.
    """
    logs, known = _logarithms(values)
    spans = runs(mask & known, hole=HOLE, shortest=shortest)
    found = [_Stretch(0.0, span, 0.0, 0.0) for span in spans]
    return _joined(values, logs, known, found, least=(shortest, fewest),
                   at=mask if counted is None else counted)  # fmt: skip


def _around(ordered: Values, places: Values, half: float) -> Counts:
    """Return, for each place, how many of the values are within `half` of it."""
    first = ordered.searchsorted(places - half, "left")
    return ordered.searchsorted(places + half, "right") - first


def united(values: Values, some: Sequence[Plateau]) -> Plateau:
    """Return plateaus of one level as one, or the first of them if it has every point of them."""
    first, *rest = some
    length = len(values)
    others = inside([span for one in rest for span in one.spans], length)
    if not (others & ~inside(first.spans, length)).any():
        return first
    logs, known = _logarithms(values)
    spans = [
        _Stretch(0.0, span, one.above, one.below) for one in some for span in one.spans
    ]  # fmt: skip
    return _joined(values, logs, known, spans) or some[0]


def _logarithms(values: Values, at_least: float = 0.0) -> tuple[Values, Mask]:
    """Return logarithms of the known values above the limit, 0 elsewhere, and their mask."""
    np = numpy()
    known = np.isfinite(values) & (values > max(at_least, 0.0))
    return np.log(np.where(known, values, 1.0)), known


def numpy() -> Any:
    """Return the package, loaded on first use; MissingPart without it."""
    try:
        import numpy as np
    except ImportError:
        raise without("numpy") from None
    return np


def runs(mask: Mask, *, hole: int = 0, shortest: int = 1) -> list[tuple[int, int]]:
    """Return stretches of True as (first, one past the last); bridge holes up to `hole` points."""
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
    """Return a mask that is True at the points of the spans."""
    np = numpy()
    mask: Mask = np.zeros(length, dtype=bool)
    for start, end in spans:
        mask[start:end] = True
    return mask


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Consecutive points at one level, as one window sees them."""

    level: float  # logarithm
    span: tuple[int, int]
    above: float
    below: float


def _windows(length: int) -> range:
    """Return the start of each window; the last may be short."""
    return range(0, max(length - WINDOW // 2, 1), WINDOW // 2)


def _local(logs: Values, known: Mask, first: int) -> Iterator[_Stretch]:
    """Yield what runs flat in the window that begins at `first`."""
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
    """Yield levels (as logarithms) denser than above and below, and how much denser."""
    np = numpy()
    ordered = np.sort(logs)
    # Mostly, no level has enough values, and nothing else needs to be counted.
    if not _anywhere_dense(ordered):
        return
    every = _around(ordered, ordered, _HALF)
    dense = every >= LONGEST_RUN_AT_LEAST
    levels, mass = ordered[dense], every[dense]
    above, below = (_around(ordered, levels + middle, _HALF) for middle in (_APART, -_APART))
    stands = (mass >= EDGE_ABOVE * above) & (mass >= EDGE_BELOW * below)
    while stands.any():
        place = int(np.argmax(np.where(stands, mass, 0)))
        level = float(levels[place])
        yield (
            level,
            float(mass[place] / max(above[place], 1)),
            float(mass[place] / max(below[place], 1)),
        )
        stands &= np.abs(levels - level) > 2 * _HALF


def _anywhere_dense(ordered: Values) -> bool:
    """Whether enough of these values follow one another to form a level."""
    last = LONGEST_RUN_AT_LEAST - 1
    if len(ordered) <= last:
        return False
    return bool((ordered[last:] - ordered[:-last]).min() <= 2 * _HALF + _ROUNDING)


def _levels(found: list[_Stretch]) -> Iterator[list[_Stretch]]:
    """Yield stretches grouped by level; the level with the longest stretch first."""
    left = sorted(found, key=lambda one: one.span[0] - one.span[1])
    while left:
        level = left[0].level
        yield [one for one in left if abs(one.level - level) <= _SAME]
        left = [one for one in left if abs(one.level - level) > _SAME]


def _joined(
    values: Values, logs: Values, known: Mask, some: Sequence[_Stretch],
    least: tuple[int, int] = (LONGEST_RUN_AT_LEAST, FEWEST_POINTS), at: Mask | None = None,
) -> Plateau | None:  # fmt: skip
    """Return one plateau from stretches, counting overlaps once; None if there is too little.

    `at` are the points at the level, by default those within BAND of it.
    """
    np = numpy()
    covered = inside([one.span for one in some], len(values))
    spans = runs(covered, shortest=min(SHORTEST_RUN, least[0]))
    if not spans or max(end - start for start, end in spans) < least[0]:
        return None
    there = covered & known
    there &= np.abs(logs - np.median(logs[there])) <= BAND if at is None else at
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
        longest=max(int(there[start:end].sum()) for start, end in spans),
    )


def _calm(logs: Values, known: Mask, there: Mask) -> float:
    """Return the median step inside over the median step outside."""
    np = numpy()
    steps, valid = np.abs(np.diff(logs)), known[1:] & known[:-1]
    within = valid & there[1:] & there[:-1]
    outside = valid & ~there[1:] & ~there[:-1]
    if within.sum() < SHORTEST_RUN or outside.sum() < FEWEST_POINTS:
        return 1.0
    noise = float(np.median(steps[outside]))
    return float(np.median(steps[within])) / noise if noise > 0 else 1.0
