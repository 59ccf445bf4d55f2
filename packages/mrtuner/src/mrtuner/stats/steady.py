"""Whether a run is steady, and where its warm-up ends, from its transactions per second."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import Final

#: MSER-5 first averages this many seconds.
BATCH: Final = 5
#: Of fewer values no best cut lies beyond the half: of four batches the third is the last tried.
TELLING: Final = 5 * BATCH
#: A shorter warm-up [s] is what a person asked for: it is not extended.
LEAST_WARM_UP: Final = 15
#: Difference between the two halves of a run beyond which it was not steady.
HALF_RUN_DRIFT: Final = 0.10
#: The robust coefficient of variation over runs: limits for a warning, and for any verdict.
CV_WARN: Final = 0.05
CV_REFUSE: Final = 0.15

_NORMAL: Final = 1.4826  # a normal distribution's standard deviation over its MAD


def warm_up_seconds(seconds: int) -> int:
    """Return the warm-up of a run of this many seconds: 15 s, or a tenth of it if that is more."""
    return max(LEAST_WARM_UP, -(-seconds // 10))


def settling_seconds(length: int) -> int:
    """Return what a warm-up of this length [s] takes until it can tell whether it has settled.

    A series lacks a second at its start and one at its end, so of 25 s it is too short.

    >>> settling_seconds(15), settling_seconds(60), settling_seconds(1)
    (30, 60, 1)
    """
    return 2 * length if LEAST_WARM_UP <= length <= TELLING else length


def settled(per_second: Sequence[float]) -> bool:
    """Return whether a series has a steady part (MSER-5), and is long enough to tell."""
    return len(per_second) >= TELLING and mser5(per_second) is not None


def mser5(per_second: Sequence[float]) -> int | None:
    """Return the seconds to drop at the start, by MSER-5; None where the series never settles.

    The best cut leaves the mean of the rest known best: it has the least sum of squares over the
    square of the number of values. A cut in the second half means that there is no steady part.
    White, "An effective truncation heuristic for bias reduction", Simulation 69 (1997).
    """
    batches = [
        fmean(per_second[start : start + BATCH])
        for start in range(0, len(per_second) - BATCH + 1, BATCH)
    ]
    if len(batches) < 2:
        return 0
    cuts = range(len(batches) - 1)
    best = min(cuts, key=lambda cut: _uncertainty(batches[cut:]))
    return best * BATCH if best <= len(batches) // 2 else None


def half_run_drift(per_second: Sequence[float]) -> float | None:
    """Return second half over first half, minus one: 0.1 for a tenth faster; None if unknown."""
    half = len(per_second) // 2
    if half < 1:
        return None
    first, second = fmean(per_second[:half]), fmean(per_second[-half:])
    return second / first - 1 if first > 0 else None


def robust_cv(values: Sequence[float]) -> float | None:
    """Return 1.4826 MAD / median; None for fewer than three values, or a median of zero."""
    if len(values) < 3:
        return None
    middle = median(values)
    spread = median(abs(value - middle) for value in values)
    return _NORMAL * spread / middle if middle else None


def _uncertainty(batches: Sequence[float]) -> float:
    mean = fmean(batches)
    return sum((batch - mean) ** 2 for batch in batches) / len(batches) ** 2
