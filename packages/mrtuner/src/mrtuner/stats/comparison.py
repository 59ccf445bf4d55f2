"""Whether B is better than A: paired runs, judged on the logarithm of their ratio.

Runs on one machine drift together over minutes, so only neighbours in time are compared: a
block measures A and B once each, and its evidence is ln(b / a). Student's t on these log
ratios keeps to its nominal 5 % of false alarms from three pairs on, also when the machine
drifts, while a percentile bootstrap of the medians does not. The Hodges-Lehmann estimate with its
exact signed-rank interval is given as a second opinion, which a single outlier pair cannot
change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, combinations_with_replacement
from statistics import NormalDist, fmean, median, stdev
from typing import Any, Final

from mrtuner.errors import BadValue
from mrtuner.extras import without

POWER: Final = 0.80
#: Below this a verdict would rest on a t quantile of 12.7 and a guessed spread.
FEWEST_PAIRS: Final = 3
#: The fewest pairs for which a signed-rank interval of 95 % exists: 2 / 2**6 < 5 %.
FEWEST_BLOCKS: Final = 6
#: Counting subsets takes cubic time; with this many pairs no second opinion is needed.
MOST_FOR_EXACT: Final = 200

Pair = tuple[float, float]
Interval = tuple[float, float]


class Verdict(StrEnum):
    """What the pairs show about B against A.

    EQUIVALENT is checked first: an interval inside ±delta means that any difference is too small
    to matter, even if it also shows that there is one. BETTER and WORSE need the whole interval
    on one side of no difference.
    """

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of n pairs (a, b). Ratios are b / a; intervals have confidence 1 - alpha."""

    pairs: int
    ratio: float  # exp of the mean log ratio
    low: float  # 0, and high is infinite, with a single pair
    high: float
    hodges_lehmann: float  # exp of the median of all pairwise means
    hl_low: float | None  # exact; None with too few pairs for such an interval
    hl_high: float | None
    sd: float  # of the log ratios; infinite with a single pair
    p_value: float  # two-sided paired t
    mde: float  # the ratio - 1 that this many pairs detect with 80 % power
    verdict: Verdict
    because: str
    more_blocks: int | None  # undecided only: blocks still needed for 80 % power
    disagreement: bool  # the Hodges-Lehmann interval gives another verdict
    near_resolution: bool  # better or worse, by less than the mde

    @property
    def gain(self) -> float:
        """The ratio - 1: 0.12 for 12 % more."""
        return self.ratio - 1

    @property
    def false_alarm(self) -> bool:
        """Whether pairs that measured the same configuration twice seem to differ.

        One false alarm in twenty calibrations is expected; more of them mean that the pairs are not
        independent, and that no verdict from this machine can be trusted.
        """
        return self.pairs >= FEWEST_PAIRS and not self.low <= 1 <= self.high


def compare(
    pairs: Sequence[Pair],
    *,
    delta: float = 0.03,
    alpha: float = 0.05,
    higher_is_better: bool = True,
) -> Comparison:
    """Judge b against a, one pair per block.

    `delta` is the smallest difference that matters: 0.03 makes ratios from 1/1.03 to 1.03
    equivalent. With `higher_is_better` false (latencies) the ratio is still b / a and the
    verdict is reversed. Raises BadValue for no pairs, or a value that is not above zero.
    """
    _check_fractions(delta=delta, alpha=alpha)
    logs = _log_ratios(pairs)
    mean, sd, inside = fmean(logs), _spread(logs), _t_interval(logs, alpha)
    hl = _signed_rank_interval(logs, alpha)
    band = math.log1p(delta)
    verdict = _verdict(inside, band, higher_is_better, len(logs))
    return Comparison(
        pairs=len(logs),
        ratio=_exp(mean),
        low=_exp(inside[0]),
        high=_exp(inside[1]),
        hodges_lehmann=_exp(median(_walsh_averages(logs))),
        hl_low=None if hl is None else _exp(hl[0]),
        hl_high=None if hl is None else _exp(hl[1]),
        sd=sd,
        p_value=_p_value(mean, sd, len(logs)),
        mde=_exp(_detectable(sd, len(logs), alpha)) - 1,
        verdict=verdict,
        because=_because(verdict, len(logs), delta),
        more_blocks=_more_blocks(verdict, logs, band, alpha),
        disagreement=hl is not None and _verdict(hl, band, higher_is_better, len(logs)) != verdict,
        near_resolution=verdict in (Verdict.BETTER, Verdict.WORSE)
        and abs(mean) < _detectable(sd, len(logs), alpha),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p values of several comparisons (Holm, step down), in the given order.

    >>> holm([0.25, 0.125])
    [0.25, 0.25]
    """
    if not all(0 <= p <= 1 for p in p_values):
        raise BadValue("a p value is not between 0 and 1", "Give p values as they were computed.")
    ranked = sorted(range(len(p_values)), key=p_values.__getitem__)
    scaled = [(len(ranked) - place) * p_values[index] for place, index in enumerate(ranked)]
    adjusted = dict(zip(ranked, accumulate(scaled, max), strict=True))
    return [min(1.0, adjusted[index]) for index in range(len(p_values))]


def _check_fractions(**given: float) -> None:
    for name, value in given.items():
        if not 0 < value < 1:
            raise BadValue(
                f"{name} {value} is not between 0 and 1", "Write 3 % as 0.03, for example."
            )


def _log_ratios(pairs: Sequence[Pair]) -> list[float]:
    if not pairs:
        raise BadValue("there are no pairs to compare", "Measure at least one block.")
    for value in (value for pair in pairs for value in pair):
        if not (value > 0 and math.isfinite(value)):
            raise BadValue(
                f"{value} cannot be compared as a ratio",
                "Every measured value must be a finite number above zero.",
            )
    return [math.log(b) - math.log(a) for a, b in pairs]


def _verdict(inside: Interval, band: float, higher_is_better: bool, pairs: int) -> Verdict:
    low, high = inside if higher_is_better else (-inside[1], -inside[0])
    if pairs < FEWEST_PAIRS:
        return Verdict.UNDECIDED
    if -band <= low and high <= band:
        return Verdict.EQUIVALENT
    if low > 0:
        return Verdict.BETTER
    return Verdict.WORSE if high < 0 else Verdict.UNDECIDED


def _because(verdict: Verdict, pairs: int, delta: float) -> str:
    if pairs < FEWEST_PAIRS:
        return f"{pairs} of at least {FEWEST_PAIRS} pairs"
    within = f"{delta * 100:g} %"
    return {
        Verdict.BETTER: "the whole interval is on the better side",
        Verdict.WORSE: "the whole interval is on the worse side",
        Verdict.EQUIVALENT: f"the whole interval is within {within} of no difference",
        Verdict.UNDECIDED: f"the interval includes both no difference and more than {within}",
    }[verdict]


def _more_blocks(verdict: Verdict, logs: Sequence[float], band: float, alpha: float) -> int | None:
    """Return the blocks until no difference is excluded or the interval fits into ±band."""
    if verdict is not Verdict.UNDECIDED:
        return None
    if len(logs) < FEWEST_PAIRS:
        return FEWEST_BLOCKS - len(logs)
    effect = abs(fmean(logs))
    needed = _blocks_for(_spread(logs), max(effect, band - effect), alpha)
    return max(1, needed - len(logs))


def _blocks_for(sd: float, effect: float, alpha: float) -> int:
    normal = NormalDist().inv_cdf(1 - alpha / 2) + NormalDist().inv_cdf(POWER)
    # Student's quantiles exceed the normal ones: this initial value is never too high.
    blocks = max(FEWEST_PAIRS, math.floor((normal * sd / effect) ** 2))
    while _detectable(sd, blocks, alpha) > effect:
        blocks += 1
    return blocks


def _detectable(sd: float, pairs: int, alpha: float) -> float:
    """Return the log ratio that this many pairs detect with a power of 80 %."""
    if pairs < 2:
        return math.inf
    quantiles = _student(1 - alpha / 2, pairs - 1) + _student(POWER, pairs - 1)
    return quantiles * sd / math.sqrt(pairs)


def _spread(logs: Sequence[float]) -> float:
    return stdev(logs) if len(logs) > 1 else math.inf


def _t_interval(logs: Sequence[float], alpha: float) -> Interval:
    if len(logs) < 2:
        return -math.inf, math.inf
    mean = fmean(logs)
    half = _student(1 - alpha / 2, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return mean - half, mean + half


def _p_value(mean: float, sd: float, pairs: int) -> float:
    if math.isinf(sd):
        return 1.0
    if sd == 0:
        return 1.0 if mean == 0 else 0.0
    return 2 * _student_below(-abs(mean) * math.sqrt(pairs) / sd, pairs - 1)


def _walsh_averages(logs: Sequence[float]) -> list[float]:
    return sorted((x + y) / 2 for x, y in combinations_with_replacement(logs, 2))


def _signed_rank_interval(logs: Sequence[float], alpha: float) -> Interval | None:
    """Return the k-th smallest to k-th largest Walsh average; exact for symmetric noise."""
    place = _signed_rank_place(len(logs), alpha)
    if place == 0:
        return None
    averages = _walsh_averages(logs)
    return averages[place - 1], averages[-place]


@lru_cache(maxsize=256)
def _signed_rank_place(pairs: int, alpha: float) -> int:
    """Return the largest k with P(signed-rank sum < k) <= alpha / 2; zero if there is none."""
    if pairs > MOST_FOR_EXACT:
        return 0
    ways = [1]  # ways[w]: subsets of the ranks so far that add up to w
    for rank in range(1, pairs + 1):
        without, chosen = ways + [0] * rank, [0] * rank + ways
        ways = [x + y for x, y in zip(without, chosen, strict=True)]
    limit = Fraction(alpha) / 2 * 2**pairs
    return sum(1 for below in accumulate(ways) if below <= limit)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


@lru_cache(maxsize=1024)
def _student(probability: float, freedom: int) -> float:
    """Return a quantile of Student's t."""
    return float(_special().stdtrit(freedom, probability))


def _student_below(value: float, freedom: int) -> float:
    """Return P(t <= value)."""
    return float(_special().stdtr(freedom, value))


def _special() -> Any:
    try:
        from scipy import special
    except ImportError as missing:
        raise without("scipy") from missing
    return special
