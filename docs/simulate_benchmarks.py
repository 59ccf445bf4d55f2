"""Simulate machines to see how often a benchmarking method reports a nonexistent difference.

`python -m docs.simulate_benchmarks 3 10` prints the table of docs/concepts/measuring.md.
The machine drifts: its log throughput follows an AR(1) process from run to run, and every run
adds its own noise. Both arms are equal unless an effect is planted.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Logs = NDArray[np.float64]  # [repeat, pair, arm], logs of throughput
#: Lower and upper ends of the interval of the log ratio, by repeat.
Ends = tuple[NDArray[np.float64], NDArray[np.float64]]

_ALPHA: Final = 0.05
_RESAMPLES: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMachine:
    """The disturbances of the runs; standard deviations of log throughput."""

    noise: float = 0.02  # of each run independently
    drift: float = 0.05
    memory: float = 0.9  # correlation of the drift from one run to the next


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodResult:
    """One benchmarking method with a number of pairs of runs."""

    way: str
    pairs: int
    called: float  # share of the repeats whose interval excludes no difference
    half_width: float  # median half width of the interval, as a share


def simulate(
    pairs: int,
    machine: SimulatedMachine,
    *,
    effect: float = 0.0,
    repeats: int = 1500,
    seed: int = 1,
) -> list[MethodResult]:
    """Run every method on its own random stream; the same seed gives the same figures.

    `effect` is planted: 0.05 makes the second arm 5 % faster, and `called` becomes the power.
    """
    found = []
    for number, (way, in_blocks, interval) in enumerate(_WAYS):
        chance = np.random.default_rng([seed, number, pairs])
        logs = _runs(chance, machine, repeats, pairs, in_blocks=in_blocks)
        logs[:, :, 1] += math.log1p(effect)
        low, high = interval(logs, chance)
        found.append(
            MethodResult(
                way=way,
                pairs=pairs,
                called=float(np.mean((low > 0) | (high < 0))),
                half_width=float(np.expm1(np.median((high - low) / 2))),
            )
        )
    return found


def _runs(
    chance: np.random.Generator,
    machine: SimulatedMachine,
    repeats: int,
    pairs: int,
    *,
    in_blocks: bool,
) -> Logs:
    """In blocks, run pairs together in random order; else all of one arm, then the other."""
    drift = np.empty((repeats, 2 * pairs))
    drift[:, 0] = chance.normal(0, machine.drift, repeats)
    fresh = machine.drift * math.sqrt(1 - machine.memory**2)
    for run in range(1, 2 * pairs):
        drift[:, run] = machine.memory * drift[:, run - 1] + chance.normal(0, fresh, repeats)
    seen = drift + chance.normal(0, machine.noise, drift.shape)
    if not in_blocks:
        return np.stack([seen[:, :pairs], seen[:, pairs:]], axis=2)
    blocks = seen.reshape(repeats, pairs, 2)
    swapped = chance.random((repeats, pairs, 1)) < 0.5
    return np.where(swapped, blocks[:, :, ::-1], blocks)


def _bootstrap_of_medians(logs: Logs, chance: np.random.Generator) -> Ends:
    """Percentiles of the ratio of medians, each arm resampled separately."""
    repeats, pairs, _ = logs.shape
    ratios = np.empty((_RESAMPLES, repeats))
    rows = np.arange(repeats)[:, None]
    for turn in range(_RESAMPLES):
        picks = chance.integers(0, pairs, (2, repeats, pairs))
        a, b = (np.median(logs[rows, picks[arm], arm], axis=1) for arm in (0, 1))
        ratios[turn] = b - a
    return _percentiles(ratios)


def _paired_bootstrap(logs: Logs, chance: np.random.Generator) -> Ends:
    """Percentiles of the median log ratio, with pairs resampled."""
    differences = logs[:, :, 1] - logs[:, :, 0]
    repeats, pairs = differences.shape
    medians = np.empty((_RESAMPLES, repeats))
    rows = np.arange(repeats)[:, None]
    for turn in range(_RESAMPLES):
        medians[turn] = np.median(differences[rows, chance.integers(0, pairs, (repeats, pairs))], 1)
    return _percentiles(medians)


def _paired_t(logs: Logs, _chance: np.random.Generator) -> Ends:
    """The method of a proof and a grid: Student's t on the log ratios of blocks."""
    differences = logs[:, :, 1] - logs[:, :, 0]
    pairs = differences.shape[1]
    spread = differences.std(axis=1, ddof=1) / math.sqrt(pairs)
    half = float(stats.t.ppf(1 - _ALPHA / 2, pairs - 1)) * spread
    middle = np.mean(differences, axis=1)
    return middle - half, middle + half


def _percentiles(values: NDArray[np.float64]) -> Ends:
    low, high = np.quantile(values, [_ALPHA / 2, 1 - _ALPHA / 2], axis=0)
    return low, high


_WAYS: Final[tuple[tuple[str, bool, Callable[[Logs, np.random.Generator], Ends]], ...]] = (
    ("A…A B…B, bootstrap of medians", False, _bootstrap_of_medians),
    ("blocks, bootstrap of pairs", True, _paired_bootstrap),
    ("blocks, paired t", True, _paired_t),
)


def table(numbers: Sequence[int]) -> Iterator[str]:
    """Yield what each method reports of two equal arms, by the number of pairs."""
    for pairs in numbers:
        yield from ("", f"{pairs} pairs")
        for one in simulate(pairs, SimulatedMachine()):
            yield f"  {one.way:<30} {one.called:>4.0%}   ± {one.half_width * 100:.1f} %"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in table([int(text) for text in sys.argv[1:]]))
