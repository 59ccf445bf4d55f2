"""Is a run steady, and where does its warm-up end? From its transactions in each second."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import Final

#: MSER-5 averages so many seconds before it looks.
BATCH: Final = 5
#: Between the two halves of a run; beyond it the run has not been steady.
HALF_RUN_DRIFT: Final = 0.10
#: The robust coefficient of variation over runs: worth a warning, and beyond any verdict.
CV_WARN: Final = 0.05
CV_REFUSE: Final = 0.15

_NORMAL: Final = 1.4826  # a normal distribution's standard deviation over its MAD


def warm_up_seconds(seconds: int) -> int:
    """The warm-up of a run of so many seconds: 15 s, or a tenth of it if that is more."""
    return max(15, -(-seconds // 10))


def mser5(per_second: Sequence[float]) -> int | None:
    """Seconds to drop at the start, by MSER-5; None where the series never settles.

    The cut is the one that leaves the mean of the rest best known: the least sum of squares over
    the square of their number. A cut in the second half says that there is no steady part.
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
    """Second half over first half, less one: 0.1 for a tenth faster; None if it cannot be told."""
    half = len(per_second) // 2
    if half < 1:
        return None
    first, second = fmean(per_second[:half]), fmean(per_second[-half:])
    return second / first - 1 if first > 0 else None


def robust_cv(values: Sequence[float]) -> float | None:
    """1.4826 MAD / median; None for fewer than three values, or a median of zero."""
    if len(values) < 3:
        return None
    middle = median(values)
    spread = median(abs(value - middle) for value in values)
    return _NORMAL * spread / middle if middle else None


def _uncertainty(batches: Sequence[float]) -> float:
    mean = fmean(batches)
    return sum((batch - mean) ** 2 for batch in batches) / len(batches) ** 2
