"""Does the method keep its promises on a machine that drifts? Seeded, a few seconds in all."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mrtuner.stats.comparison import Verdict, compare

Runs = npt.NDArray[np.float64]
RUN_NOISE = 0.02
DRIFT = 0.05
MEMORY = 0.9  # share of the drift that the next run keeps


def drifting_blocks(chance: np.random.Generator, repeats: int, blocks: int) -> Runs:
    """Log throughput of two equal arms, [repeat, block, arm], in random order within a block."""
    runs = 2 * blocks
    drift = np.empty((repeats, runs))
    drift[:, 0] = chance.normal(0, DRIFT, repeats)
    for run in range(1, runs):
        fresh = chance.normal(0, DRIFT * np.sqrt(1 - MEMORY**2), repeats)
        drift[:, run] = MEMORY * drift[:, run - 1] + fresh
    seen = (drift + chance.normal(0, RUN_NOISE, drift.shape)).reshape(repeats, blocks, 2)
    swapped = chance.random((repeats, blocks, 1)) < 0.5
    return np.where(swapped, seen[:, :, ::-1], seen)


def pairs_from(logs: Runs) -> list[tuple[float, float]]:
    return [(float(a), float(b)) for a, b in np.exp(logs)]


def test_equal_arms_on_a_drifting_machine_raise_few_false_alarms() -> None:
    repeats = drifting_blocks(np.random.default_rng(20_240), repeats=3000, blocks=10)
    alarms = sum(compare(pairs_from(one)).p_value < 0.05 for one in repeats)
    assert 0.03 <= alarms / len(repeats) <= 0.07


def test_a_planted_difference_is_found_with_the_predicted_power() -> None:
    """Ten pairs find ln 1.05 with 80 % where (2.2622 + 0.8834) s / sqrt(10) = 0.04879: s 0.04905.

    The sum of two quantiles rounds the power of a t test up or down by a few points.
    """
    chance = np.random.default_rng(5)
    logs = np.log(1.05) + chance.normal(0, 0.04905, (2000, 10))
    found = sum(
        compare([(1.0, float(ratio)) for ratio in np.exp(one)]).verdict is Verdict.BETTER
        for one in logs
    )
    assert 0.74 <= found / 2000 <= 0.86


def test_the_signed_rank_interval_covers_also_under_wild_noise() -> None:
    """Eight pairs: exactly 1 - 10/256 = 96.1 % for any symmetric noise, Cauchy's too."""
    chance = np.random.default_rng(8)
    logs = np.clip(0.05 * chance.standard_cauchy((2000, 8)), -300, 300)
    covered = 0
    for one in logs:
        seen = compare([(1.0, float(np.exp(value))) for value in one])
        assert seen.hl_low is not None
        assert seen.hl_high is not None
        covered += seen.hl_low <= 1 <= seen.hl_high
    assert 0.945 <= covered / 2000 <= 0.975
