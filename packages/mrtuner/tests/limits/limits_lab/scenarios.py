"""Cases with known truth from the laboratory, to judge `mrtuner limits` independently.

`scenario(seed)` draws a kind, a machine with its volume, and loads; `physics.run` decides what
holds the load down, and thus the truth: a kind only makes it likely. `KINDS` says how often each
is drawn; in `QUIET` ones there is nothing to find.

The limits of classes and volumes, and the counting of tokens, are known from AWS. The loads are
our own idea of loads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from limits_truth import Case

from limits_lab.hardware import (
    above,
    drawn,
    hidden,
    least,
    limits_of,
    machines,
    narrow,
    wide,
)
from limits_lab.observed import Held, held, longest, observe, others, outages, shown
from limits_lab.physics import STEP, Limit, run
from limits_lab.workload import (
    DAY,
    OPERATION,
    Disk,
    Job,
    Stream,
    alone,
    disk,
    greedy,
    log_uniform,
    paced,
    processor_bound,
    rhythm,
    room,
    starts,
    stream,
)  # fmt: skip
from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.volumes import Volume, volume_of
from mrtuner.limits.ceilings import CeilingKind, Resource, ceilings
from mrtuner.limits.examples.simulate import Limiter
from mrtuner.limits.metrics.series import MetricSeries
from mrtuner.stats.plateaus import numpy
from mrtuner.units import KiB, MiB

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Mask, Values

#: How often each kind is drawn.
KINDS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "idle, short pegs": 0.20,  # 30 minutes to some hours at a limit over all days
        "sustained": 0.10,  # the baseline, after burst credits ran out
        "burst": 0.08,  # the burst level, with credits left
        "volume": 0.12,
        "unknown": 0.10,  # a cap in no table: a neighbour, an older machine
        "former": 0.08,  # the limits from before December 2019
        "cpu": 0.04,
        "even": 0.09,  # jobs limited by the application
        "near baseline": 0.07,  # at 90 to 99 % of the baseline, with full balances
        "daily": 0.04,
        "passing": 0.04,  # through the baseline on the way to a burst
        "same number": 0.04,  # a pace within 2 % of a known ceiling's value, without waiting
    }
)
#: Kinds in which there is nothing to find.
QUIET: Final = ("even", "near baseline", "daily", "passing", "same number")
#: Minutes at a limit in "idle, short pegs", over all days.
PEGS: Final = ((30, 59), (60, 120), (120, 240), (240, 480), (480, 1200))
#: A limiter should be found from this many minutes on, in total and in a row; see accuracy.py.
WORTH_FINDING: Final = (30, 15)
#: From this many minutes on, it is no mistake to report a limiter.
WORTH_A_WORD: Final = 6
DAYS: Final = (4, 7, 10, 14)
_HOUR: Final = 3600
#: Kinds that need a class whose credits can run out.
_BURSTING: Final = ("sustained", "burst", "near baseline", "passing", "same number")


@dataclass(slots=True, kw_only=True)
class _Bench:
    """What a kind sets up: a machine and its load."""

    random: Any
    start: datetime
    days: int
    disk: Disk
    instance: InstanceClass
    volume: Volume
    limits: list[Limit]
    stream: Stream
    jobs: list[Job]

    def add(
        self, make: Callable[..., Job], *given: Any, runs: int | None = None, **named: Any
    ) -> None:
        """Add the same job at one hour on some days."""
        for at in starts(self.random, self.start, self.days, runs=runs):
            vcpus = self.instance.vcpus
            self.jobs.append(make(self.random, self.disk, *given, start=at, vcpus=vcpus, **named))

    def streams(self, *, peak: float, rough: float = 1.0, sharp: float | None = None) -> None:
        """Replace the stream; `peak` is its share of the permanent limits."""
        steps = self.days * DAY // STEP
        shape = rhythm(self.random, self.start, steps, sharp=sharp)
        self.stream = stream(
            self.random, self.disk, self.limits, shape,
            vcpus=self.instance.vcpus, peak=peak, rough=rough,
        )  # fmt: skip

    def used(self, limit: Limit) -> Values:
        """What the stream uses, by step."""
        arrivals = self.stream.arrivals
        return arrivals * self.stream.size if limit.resource is Resource.THROUGHPUT else arrivals


def scenario(seed: int, *, days: int | None = None, kind: str | None = None) -> Case:
    """Generate one case; without `days` or `kind`, one of DAYS or KINDS is drawn."""
    np = numpy()
    random = np.random.default_rng([1789, 7, 14, seed])
    drawn_kind = str(random.choice(list(KINDS), p=list(KINDS.values())))
    kind = kind or drawn_kind
    bench = _bench(random, days or int(random.choice(DAYS)), kind)
    _SETUPS[kind](bench)
    if kind not in QUIET and random.random() < 0.35:
        _even(bench, 0.3)
    steps, step = len(bench.stream.arrivals), 300 if random.random() < 0.12 else 60
    down, missing = outages(random, steps, step)
    pace, spread = np.clip(random.standard_normal((2, steps)), -3, 3)
    ran = run(bench.limits, bench.stream, bench.jobs, down=down, noise=(pace, spread))
    metrics = observe(
        ran, bench.limits, step=step, vcpus=bench.instance.vcpus, random=random,
        wobble=log_uniform(random, 0.0003, 0.004), jitter=random.uniform(0.02, 0.12),
    )  # fmt: skip
    metrics |= others(random, bench.instance, metrics)
    for values in metrics.values():
        values[missing] = np.nan
    seen = shown(random, metrics)
    known = [(one, one.whole & ~missing, one.partly & ~missing)
             for one in held(ran, bench.limits, step)
             if one.resource is not Resource.CPU or "CPUUtilization" in seen]  # fmt: skip
    return Case(
        seed=seed, kind=kind, instance=bench.instance, volume=bench.volume,
        series=MetricSeries(start=bench.start, step=step, metrics=seen),
        truths=tuple(_limiter(one, whole) for one, whole, _ in known if _worth(whole, step)),
        hints=tuple(_limiter(one, partly) for one, whole, partly in known
                    if not _worth(whole, step) and partly.sum() * step >= WORTH_A_WORD * 60),
    )  # fmt: skip


def minutes(limiter: Limiter, step: int) -> tuple[float, float]:
    """How long it held in total, and in a row."""
    return float(limiter.minutes.sum()) * step / 60, longest(limiter.minutes) * step / 60


def _worth(whole: Mask, step: int) -> bool:
    in_all, in_one_go = WORTH_FINDING
    return bool(whole.sum() * step >= in_all * 60 and longest(whole) * step >= in_one_go * 60)


def _limiter(one: Held, mask: Mask) -> Limiter:
    return Limiter(resource=one.resource, part=one.part, level=one.level, minutes=mask)


def _bench(random: Any, days: int, kind: str) -> _Bench:
    """A machine for a kind, with a stream that leaves room."""
    start = datetime(2021, 1, 1, tzinfo=UTC)
    start += timedelta(minutes=int(random.integers(3 * 365 * 1440)))
    if kind == "volume" or (kind == "idle, short pegs" and random.random() < 0.4):
        volume = narrow(random)
        instance = above(random, volume)
    elif kind == "same number" and random.random() < 0.4:
        volume = volume_of("gp2", int(random.integers(60, 390)))
        instance = above(random, volume)
    else:
        fit = machines(bursting=kind in _BURSTING, former=kind == "former")
        instance = drawn(random, fit)
        volume = wide(random, instance)
    limits = limits_of(random, instance, volume, former=kind == "former")
    device, peak = disk(random), log_uniform(random, 0.01, 0.1)
    if kind in {"volume", "sustained", "unknown", "former"}:
        peak = random.uniform(0.05, 0.4)
    steps = days * DAY // STEP
    load = stream(random, device, limits, rhythm(random, start, steps), vcpus=instance.vcpus,
                  peak=0.03 if kind == "near baseline" else peak)  # fmt: skip
    return _Bench(
        random=random, start=start, days=days, disk=device, instance=instance, volume=volume,
        limits=limits, stream=load, jobs=[],
    )  # fmt: skip


def _target(
    bench: _Bench, *, burst: bool = False, only: Resource | None = None
) -> tuple[Limit, float]:
    """A limit of the disk, and a request size [bytes] that reaches it before the others."""
    random = bench.random
    throughput = least(bench.limits, Resource.THROUGHPUT, burst=burst)
    iops = least(bench.limits, Resource.IOPS, burst=burst)
    both = (throughput, iops)
    top, often = ((one.burst or one.rate) if burst else one.rate for one in both)
    even = top / often  # bytes per operation that reach both at the same time
    fits = [KiB * 4 < 0.75 * even, 1.3 * even < OPERATION]
    if only is not Resource.THROUGHPUT and fits[0] and (random.random() < 0.5 or not fits[1]):
        high = MiB if 0.75 * even >= OPERATION else 0.75 * even
        return iops, log_uniform(random, 4 * KiB, high)
    return throughput, log_uniform(random, max(4 * KiB, 1.3 * even), MiB)


def _pegs(bench: _Bench) -> None:
    random = bench.random
    low, high = drawn(random, PEGS)
    total = random.uniform(low, high)
    runs = int(random.integers(1, min(bench.days, 5, max(1, total // 20)) + 1))
    limit, size = _target(bench)
    bench.add(greedy, limit, size, runs=runs, seconds=total * 60 / runs)


def _held(bench: _Bench) -> None:
    """Jobs, or a daytime stream, that demand more than the permanent limits."""
    if bench.random.random() < 0.35:
        _by_day(bench)
    else:
        _for_hours(bench, *_target(bench))


def _for_hours(bench: _Bench, limit: Limit, size: float) -> None:
    bench.add(greedy, limit, size, seconds=log_uniform(bench.random, 0.7 * _HOUR, 12 * _HOUR))


def _by_day(bench: _Bench) -> None:
    """A stream that peaks above the permanent limits by so much that credits run out."""
    random, costs = bench.random, {Resource.THROUGHPUT: 12 * KiB, Resource.IOPS: 1}
    disks = [one for one in bench.limits if one.resource in costs]
    limit = min(disks, key=lambda one: one.rate / costs[one.resource])
    credit = (limit.burst or limit.rate) / limit.rate - 1
    bench.streams(
        peak=random.uniform(1.1, 1.7) + random.uniform(0.1, 0.4) * credit,
        rough=random.uniform(0.3, 1),
        sharp=random.uniform(1, 4),
    )


def _burst(bench: _Bench) -> None:
    """Runs that end before the bucket is empty, on different days."""
    random = bench.random
    limit, size = _target(bench, burst=True)
    lasts = limit.capacity / ((limit.burst or 0) - limit.rate) if limit.burst else _HOUR
    bench.add(
        greedy, limit, size, runs=int(random.integers(2, bench.days + 1)),
        seconds=random.uniform(0.55, 0.85) * lasts, burst=True,
    )  # fmt: skip


def _former(bench: _Bench) -> None:
    """Jobs at the former throughput limit: only throughput was raised in December 2019."""
    _for_hours(bench, *_target(bench, only=Resource.THROUGHPUT))


def _unknown(bench: _Bench) -> None:
    """A hidden cap, reached by jobs of a size that reaches it first, or by a daytime stream."""
    random, known, limit, size = bench.random, list(bench.limits), bench.limits[0], 0.0
    while limit.part != "unknown":
        resource = drawn(random, (Resource.THROUGHPUT, Resource.IOPS))
        bench.limits = [*known, hidden(random, bench.instance, bench.volume, known, resource)]
        limit, size = _target(bench)
    if limit.resource is Resource.IOPS and random.random() < 0.35:
        _by_day(bench)
    else:
        _for_hours(bench, limit, size)


def _cpu(bench: _Bench) -> None:
    random = bench.random
    bench.add(
        processor_bound, log_uniform(random, 4 * KiB, 64 * KiB), limits=bench.limits,
        share=random.uniform(0.05, 0.4), seconds=log_uniform(random, 0.7 * _HOUR, 6 * _HOUR),
    )  # fmt: skip


def _even(bench: _Bench, most: float = 0.65) -> None:
    """Jobs that use up to `most` of the limits together; some run at one worker's natural pace."""
    random = bench.random
    kinds = int(random.integers(1, 4))
    for _ in range(kinds):
        size = log_uniform(random, 4 * KiB, MiB)
        pace = random.uniform(0.1, most) / kinds * room(bench.limits, min(size, OPERATION))
        if random.random() < 0.35:
            pace = min(pace, alone(bench.disk, size))
        seconds = log_uniform(random, 600, 12 * _HOUR)
        bench.add(paced, size, pace=pace, seconds=seconds, even=0.02)


def _near(bench: _Bench) -> None:
    limit, size = _target(bench)
    _level(bench, limit, limit.rate * bench.random.uniform(0.90, 0.99), size, 0.995)


def _same(bench: _Bench) -> None:
    """The value of a ceiling that does not bind: there are credits, or it is a former one."""
    random = bench.random
    limit, size = _target(bench)
    peak = least(bench.limits, limit.resource, burst=True)
    top = peak.burst or peak.rate
    known = [one.value for one in ceilings(bench.instance, bench.volume)
             if one.resource is limit.resource and one.value < 0.9 * top]  # fmt: skip
    former = [one.value for one in ceilings(bench.instance, bench.volume)
              if one.kind is CeilingKind.FORMER and one.value in known]  # fmt: skip
    number = drawn(random, former or known or [0.5 * top])
    _level(bench, limit, number * random.uniform(0.98, 1.02), size, 0.5)


def _level(bench: _Bench, limit: Limit, level: float, size: float, quantile: float) -> None:
    """Jobs that raise the stream to a level, for no longer than half of the credits last."""
    random, cost = bench.random, 1.0
    if limit.resource is Resource.THROUGHPUT:
        cost = min(size, OPERATION)
    pace = (level - float(numpy().quantile(bench.used(limit), quantile))) / cost
    seconds = log_uniform(random, 0.7 * _HOUR, 12 * _HOUR)
    for one in bench.limits:
        spent = pace * (min(size, OPERATION) if one.resource is Resource.THROUGHPUT else 1)
        if one.burst and spent > one.rate:
            seconds = min(seconds, 0.5 * one.capacity / (spent - one.rate))
    bench.add(paced, size, pace=pace, seconds=seconds, even=0.004)


def _daily(bench: _Bench) -> None:
    bench.streams(peak=bench.random.uniform(0.4, 0.7), rough=0.5)


def _passing(bench: _Bench) -> None:
    """A short daily peak above the baseline that uses at most half of the credits."""
    np = numpy()
    random = bench.random
    bench.streams(peak=random.uniform(1.1, 1.5), sharp=random.uniform(6, 20))
    disks = [one for one in bench.limits if one.resource is not Resource.CPU]
    for _ in range(40):
        over = [np.maximum(bench.used(one) - one.rate, 0).sum() * STEP for one in disks]
        calm = all(bench.used(one).max() < 0.95 * (one.burst or one.rate) for one in disks)
        if calm and all(
            spent <= 0.5 * one.capacity * bench.days for spent, one in zip(over, disks, strict=True)
        ):
            break
        bench.stream = replace(bench.stream, arrivals=bench.stream.arrivals * 0.93)


_SETUPS: Final[Mapping[str, Callable[[_Bench], None]]] = {
    "idle, short pegs": _pegs, "sustained": _held, "burst": _burst, "volume": _held,
    "unknown": _unknown, "former": _former, "cpu": _cpu, "even": _even, "near baseline": _near,
    "daily": _daily, "passing": _passing, "same number": _same,
}  # fmt: skip
