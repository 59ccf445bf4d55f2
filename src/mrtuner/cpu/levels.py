"""The combined result of the trials with one number of workers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median
from typing import TypeVar

from mrtuner.cpu.model import Trial, Worker
from mrtuner.stats import consistency

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A number of concurrent workers.

    Times are means over workers and trials [s]; V and similar figures are medians over trials.
    """

    count: int
    trials: int
    wall: float
    fastest: float
    slowest: float
    cpu: float | None
    delay: float | None
    rest: float | None
    spread: float  # V
    chance: float  # V that chance alone exceeds once in twenty times
    variation: float  # CV
    fairness: float  # Jain's index
    slow_share: float
    slow_ratio: float
    throughput: float  # Σ 1 / wall
    throttled: float | None  # periods per trial
    steal: float | None
    foreign: float | None

    @property
    def uneven(self) -> bool:
        """Whether equal work took unequal time, more than by chance."""
        return self.spread > self.chance


def levels(trials: Iterable[Trial], *, seed: int) -> tuple[Level, ...]:
    """Return one level for each number of workers with a valid trial."""
    good = sorted((each for each in trials if not each.rejected), key=lambda trial: trial.count)
    return tuple(
        _level(count, list(same), seed) for count, same in groupby(good, lambda each: each.count)
    )


def throughput(trial: Trial) -> float:
    """Return Σ 1 / wall: work per second, with one worker's whole work as the unit."""
    return sum(1 / worker.wall for worker in trial.workers)


def _level(count: int, trials: Sequence[Trial], seed: int) -> Level:
    walls = [[worker.wall for worker in trial.workers] for trial in trials]
    workers = [worker for trial in trials for worker in trial.workers]
    splits = [consistency.split(each) for each in walls]
    return Level(
        count=count,
        trials=len(trials),
        wall=fmean(worker.wall for worker in workers),
        fastest=median(map(min, walls)),
        slowest=median(map(max, walls)),
        cpu=_mean(workers, lambda worker: worker.cpu),
        delay=_mean(workers, lambda worker: worker.delay),
        rest=_mean(workers, lambda worker: worker.rest),
        spread=median(map(consistency.spread, walls)),
        chance=median(_chance(trial, seed) for trial in trials),
        variation=median(map(consistency.variation, walls)),
        fairness=median(map(consistency.jain, walls)),
        slow_share=fmean(each.share for each in splits),
        slow_ratio=median(each.ratio for each in splits),
        throughput=fmean(map(throughput, trials)),
        throttled=_mean(trials, lambda trial: trial.weather.throttled),
        steal=_mean(trials, lambda trial: trial.weather.steal),
        foreign=_mean(trials, lambda trial: trial.weather.foreign),
    )


def _chance(trial: Trial, seed: int) -> float:
    return consistency.chance([_positive(worker) for worker in trial.workers], seed=seed)


def _positive(worker: Worker) -> list[float]:
    return [max(piece, 1e-9) for piece in worker.pieces]


def _mean(of: Sequence[T], value: Callable[[T], float | None]) -> float | None:
    known = [each for each in map(value, of) if each is not None]
    return fmean(known) if known else None
