"""The combined result of the trials with one number of workers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median
from typing import Annotated, Final, TypeVar

from mrtuner.cpu.model import Trial
from mrtuner.described import Doc
from mrtuner.stats import consistency

T = TypeVar("T")
#: A V below this does not matter, even where it is not due to chance.
_MATTERS: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuLevel:
    """The trials with one number of workers.

    Times are means over workers and trials [s]; figures of unevenness are medians over trials.
    """

    count: Annotated[int, Doc("number of workers")]
    trials: Annotated[int, Doc("trials that count")]
    wall: Annotated[float, Doc("time of a worker")]
    fastest: Annotated[float, Doc("median of the fastest worker")]
    slowest: Annotated[float, Doc("median of the slowest worker")]
    cpu: Annotated[float | None, Doc("CPU time")]
    delay: Annotated[float | None, Doc("runnable, but not running")]
    rest: Annotated[float | None, Doc("neither")]
    spread: Annotated[float, Doc("V: slowest / fastest − 1")]
    chance: Annotated[float, Doc("V that chance alone exceeds once in twenty times")]
    variation: Annotated[float, Doc("coefficient of variation")]
    fairness: Annotated[float, Doc("Jain's index")]
    slow_share: Annotated[float, Doc("share of the workers that are slow")]
    slow_ratio: Annotated[float, Doc("time of the slow workers over that of the others")]
    throughput: Annotated[float, Doc("Σ 1 / `wall` of the workers, mean over trials")]
    throttled: Annotated[float | None, Doc("periods in which a quota was exhausted, per trial")]
    steal: Annotated[float | None, Doc("share of time that the hypervisor gave to others")]
    foreign: Annotated[float | None, Doc("share of time that went to other work")]

    @property
    def uneven(self) -> bool:
        """Whether equal work took unequal time, more than by chance."""
        return self.spread > self.chance

    @property
    def clearly_uneven(self) -> bool:
        """Whether it did, by so much that it matters."""
        return self.uneven and self.spread >= _MATTERS


def levels(trials: Iterable[Trial], *, seed: int) -> tuple[CpuLevel, ...]:
    """Return one level for each number of workers with a valid trial."""
    good = sorted((each for each in trials if not each.rejected), key=lambda trial: trial.count)
    return tuple(
        _level(count, list(same), seed) for count, same in groupby(good, lambda each: each.count)
    )


def throughput(trial: Trial) -> float:
    return sum(1 / worker.wall for worker in trial.workers)


def _level(count: int, trials: Sequence[Trial], seed: int) -> CpuLevel:
    walls = [[worker.wall for worker in trial.workers] for trial in trials]
    workers = [worker for trial in trials for worker in trial.workers]
    splits = [consistency.split(each) for each in walls]
    return CpuLevel(
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
    positive = [[max(piece, 1e-9) for piece in worker.pieces] for worker in trial.workers]
    return consistency.chance(positive, seed=seed)


def _mean(of: Sequence[T], value: Callable[[T], float | None]) -> float | None:
    known = [each for each in map(value, of) if each is not None]
    return fmean(known) if known else None
