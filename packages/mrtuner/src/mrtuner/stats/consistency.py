"""Whether equal workers take equal time: the spread of their times, and how much is chance.

The main figure is V = max / min - 1, as in the tests of 2017: if two workers that share a core each
get a share s of its speed, V is 1 / s - 1, so s = 0.5 gives 100 %. V grows with the number of
workers by chance alone, so it is compared with the V of times whose pieces were redealt at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, pstdev
from typing import Final

from mrtuner.errors import BadValue

#: Slow and fast workers are only distinguished above this ratio of their means.
APART: Final = 1.15
#: Two groups must explain this share of the variance; any split of uniform times explains 3/4.
EXPLAINED: Final = 0.85
#: Deals from which the level of chance is taken.
_DRAWS: Final = 400


@dataclass(frozen=True, slots=True)
class Split:
    """The slow workers: their share of all, and the ratio of their mean time to the others'."""

    share: float  # 0 when there are not two groups
    ratio: float  # 1 when there are not two groups


def spread(times: Sequence[float]) -> float:
    """Return V, how much longer the slowest took than the fastest; 0.5 is half as long again.

    >>> spread([2.0, 3.0])
    0.5
    """
    _check(times)
    return max(times) / min(times) - 1


def variation(times: Sequence[float]) -> float:
    """Return the CV: the population standard deviation of the times over their mean."""
    _check(times)
    return pstdev(times) / fmean(times)


def jain(times: Sequence[float]) -> float:
    """Return Jain's index of fairness of the speeds 1 / t: 1 when all are equal, 1 / n at worst.

    Source: Jain, Chiu and Hawe, DEC-TR-301 (1984): (Σx)² / (n Σx²).
    """
    _check(times)
    speeds = [1 / time for time in times]
    return sum(speeds) ** 2 / (len(speeds) * sum(speed**2 for speed in speeds))


def split(times: Sequence[float]) -> Split:
    """Split the workers into fast and slow if that explains most of the variance.

    For C cores of two threads and C < N < 2C workers, 2 (N - C) / N of them share a core.
    """
    _check(times)
    ranked = sorted(times)
    total = _scatter(ranked)
    cuts = range(1, len(ranked))
    if total == 0 or not cuts:
        return Split(0.0, 1.0)
    cut = min(cuts, key=lambda place: _scatter(ranked[:place]) + _scatter(ranked[place:]))
    within = _scatter(ranked[:cut]) + _scatter(ranked[cut:])
    ratio = fmean(ranked[cut:]) / fmean(ranked[:cut])
    if ratio < APART or 1 - within / total < EXPLAINED:
        return Split(0.0, 1.0)
    return Split((len(ranked) - cut) / len(ranked), ratio)


def chance(pieces: Sequence[Sequence[float]], *, seed: int) -> float:
    """Return the V that chance exceeds in one case of twenty, from all workers' pieces.

    All pieces are shuffled and redealt, to each worker as many as it had: what remains is the
    spread among workers that do not really differ.
    """
    for times in pieces:
        _check(times)
    _check([sum(times) for times in pieces])
    dealer = Random(seed)  # noqa: S311 - a simulation
    every = [time for times in pieces for time in times]
    found = sorted(_dealt(every, [len(times) for times in pieces], dealer) for _ in range(_DRAWS))
    return found[_DRAWS * 19 // 20 - 1]


def _dealt(every: list[float], counts: Sequence[int], dealer: Random) -> float:
    dealer.shuffle(every)
    start, sums = 0, []
    for count in counts:
        sums.append(sum(every[start : start + count]))
        start += count
    return spread(sums)


def _scatter(times: Sequence[float]) -> float:
    middle = fmean(times)
    return sum((time - middle) ** 2 for time in times)


def _check(times: Sequence[float]) -> None:
    if not times or min(times) <= 0:
        raise BadValue("times must be above zero, and at least one", "Give seconds as measured.")
