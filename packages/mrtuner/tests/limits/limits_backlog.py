"""Cases with known truth by a fourth hand: work that is left over when a limit has served.

`backlog_case(seed)` keeps a queue. Statements arrive, a job keeps operations in flight, each limit
serves what it can in 15 seconds, and the rest waits: a limit held if something was left over
in the whole minute. Levels are off nominal and rough, queues and latencies are noisy and rounded,
minutes are missing, a sixth of the series has five-minute averages. The kinds aim at what was
missed before: short jobs, limits that hold for most of the time, two limits in turn, unknown ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from limits_batch import Bucket, holds, limits_of, operations
from limits_truth import Case

from mrtuner.catalog.classes import InstanceClass, instance_classes
from mrtuner.catalog.volumes import Volume, volume_of
from mrtuner.limits.ceilings import Resource
from mrtuner.limits.examples.simulate import Limiter
from mrtuner.limits.metrics.series import MetricSeries
from mrtuner.stats.plateaus import numpy
from mrtuner.units import KiB

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Mask, Values

_DAY: Final = 1440
_PARTS: Final = 4  # of a minute
KINDS: Final[Mapping[str, float]] = {
    "short": 0.26,  # one to three jobs of 15 to 59 minutes
    "long": 0.14,
    "saturated": 0.12,  # a job for 60 to 100 % of the time
    "two": 0.1,  # pages in one night, large operations in the next
    "neighbour": 0.1,  # a limit in no table
    "paced": 0.1,  # a job that runs at its own pace, at 50 to 99 % of a limit
    "bursts": 0.08,  # statements that exceed the baseline while credits last
    "calm": 0.1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What keeps `flight` operations of `size` bytes in flight, or runs at a pace."""

    start: int  # of a part
    end: int
    size: float
    flight: float
    pace: float | None = None  # operations per second


def backlog_case(seed: int, *, days: int = 3, kind: str | None = None, least: int = 30) -> Case:
    """Generate one case; its truths hold for `least` minutes, 15 of them in a row."""
    np = numpy()
    random = np.random.default_rng([4, 1848, seed])
    kind = kind or str(random.choice(list(KINDS), p=list(KINDS.values())))
    instance, volume = _hardware(random)
    limits = limits_of(random, kind, instance, volume)
    limits = [_off_nominal(each, float(random.uniform(0.985, 1.01))) for each in limits]
    service = float(np.exp(random.uniform(np.log(4e-4), np.log(2e-3))))
    asked = _statements(random, kind, limits, days * _DAY)
    jobs = _jobs(random, kind, limits, service, days * _DAY)
    rate, size, queue, truths, balances = _served(random, limits, asked, jobs, service)
    step = 300 if random.random() < 1 / 6 else 60
    metrics = _measured(random, rate, size, queue, blind=kind != "neighbour") | balances
    metrics = {name: _averaged(values, step, name in balances) for name, values in metrics.items()}
    known = np.isfinite(metrics["ReadIOPS"])
    whole = [_in_points(each, known, step, 1.0) for each in truths]
    long = [each for each in whole if holds(each, least * 60 // step, 900 // step)]
    partly = [_in_points(each, known, step, 0.5) for each in truths]
    return Case(
        seed=seed, kind=kind, instance=instance, volume=volume,
        series=MetricSeries(start=datetime(2026, 5, 4, tzinfo=UTC), step=step, metrics=metrics),
        truths=tuple(long),
        hints=tuple(each for each in partly if each.minutes.any()),
    )  # fmt: skip


def _hardware(random: Any) -> tuple[InstanceClass, Volume]:
    known = [each for each in instance_classes().values() if each.ebs_baseline_mbps]
    instance = known[int(random.integers(len(known)))]
    match int(random.integers(5)):
        case 0:
            return instance, volume_of("gp2", int(20 * 2 ** random.uniform(0, 7)))
        case 1:
            return instance, volume_of("gp3", int(random.integers(20, 399)))
        case 2:
            iops = int(random.integers(12, 30)) * 1000
            return instance, volume_of("gp3", 1200, iops=iops, throughput=iops // 24)
        case 3:
            return instance, volume_of("io2", 600, iops=int(random.integers(1, 30)) * 1000)
    return instance, volume_of("io1", 400, iops=int(random.integers(1, 19)) * 1000)


def _off_nominal(limit: Bucket, by: float) -> Bucket:
    return replace(limit, rate=limit.rate * by, burst=limit.burst * by)


def _capacity(limits: list[Bucket], size: float, *, burst: bool = False) -> float:
    """Operations per second of so many bytes that the limits allow."""
    return min(
        operations(each, max(each.rate, each.burst) if burst else each.rate, size)
        for each in limits
    )  # fmt: skip


def _statements(random: Any, kind: str, limits: list[Bucket], minutes: int) -> Values:
    """Pages per second that statements ask for, in each part of a minute."""
    np = numpy()
    parts = minutes * _PARTS
    hour = np.arange(parts) / (60 * _PARTS)
    wave = 0.3 + 0.7 * np.sin((hour / 24 - random.random()) * np.pi) ** 2
    peak = float(random.uniform(0.9, 1.6) if kind == "bursts" else random.uniform(0.02, 0.45))
    knots = np.arange(0, parts + 240, 240)
    slow = np.interp(np.arange(parts), knots, random.normal(0, 0.2, len(knots)))
    rough = random.lognormal(0, float(random.uniform(0.05, 0.3)), parts)
    asked: Values = _capacity(limits, 8 * KiB) * peak * wave * np.exp(slow) * rough
    return asked


def _jobs(random: Any, kind: str, limits: list[Bucket], service: float, minutes: int) -> list[_Job]:
    np = numpy()

    def job(start: float, lasts: float, size: float, over: float) -> _Job:
        most = _capacity(limits, size, burst=True)
        flight = max(over * most * service, 1.0)
        pace = over * _capacity(limits, size) if over < 1 else None
        begins, ends = int(start * _PARTS), int((start + lasts) * _PARTS)
        return _Job(start=begins, end=ends, size=size, flight=flight, pace=pace)

    size = float(np.exp(random.uniform(np.log(8), np.log(256)))) * KiB
    over = float(np.exp(random.uniform(np.log(1.6), np.log(12))))
    nights = [float(day * _DAY + random.uniform(0, 1000)) for day in range(minutes // _DAY)]
    match kind:
        case "short":
            count = int(random.integers(1, 4))
            lasts = float(random.uniform(16, 62)) / (count if random.random() < 0.3 else 1)
            return [job(night, lasts, size, over) for night in nights[:count]]
        case "long" | "neighbour":
            lasts = float(random.uniform(60, 400))
            return [job(night, lasts, size, over) for night in nights]
        case "saturated":
            lasts = float(random.uniform(0.6, 1.05)) * minutes
            return [job(float(random.uniform(0, minutes / 8)), lasts, size, over)]
        case "two":
            sizes = (8.0 * KiB, 256.0 * KiB)
            lasts = float(random.uniform(35, 240))
            return [job(night, lasts, sizes[place % 2], over) for place, night in enumerate(nights)]
        case "paced":
            lasts, share = float(random.uniform(40, 400)), float(random.uniform(0.5, 0.99))
            return [job(night, lasts, size, share) for night in nights]
    return []


def _served(
    random: Any, limits: list[Bucket], asked: Values, jobs: list[_Job], service: float
) -> tuple[Values, Values, Values, list[Limiter], dict[str, Values]]:
    """Operations, their bytes, those in flight and what held them, by minute; balances."""
    np = numpy()
    parts, seconds = len(asked), 60 / _PARTS
    rough = float(np.exp(random.uniform(np.log(0.001), np.log(0.015))))
    wobble = np.repeat(random.normal(1, rough, parts // _PARTS), _PARTS)
    sessions, left = float(random.choice([20, 60, 200])), 0.0
    done, carried, queue = np.zeros(parts), np.zeros(parts), np.zeros(parts)
    marks: dict[tuple[int, float], Any] = {}
    balances = {each.metric: np.full(parts // _PARTS, np.nan) for each in limits if each.metric}
    for part in range(parts):
        for each in limits:
            if each.metric and part % (5 * _PARTS) == 0:
                balances[each.metric][part // _PARTS] = 100 * each.left / each.full
        now = [each for each in jobs if each.start <= part < each.end]
        pages = asked[part] + left / seconds
        rates = [each.flight / service if each.pace is None else each.pace for each in now]
        want = pages + sum(rates)
        size = (
            8 * KiB * pages + sum(r * each.size for r, each in zip(rates, now, strict=True))
        ) / want
        ends = [operations(each, each.now(), size) * wobble[part] for each in limits]
        which = int(np.argmin(ends))
        share = min(1.0, ends[which] / want)
        left = min((1 - share) * pages * seconds, sessions)
        done[part], carried[part] = want * share, want * share * size
        waiting = sum(each.flight if each.pace is None else r * service
                      for r, each in zip(rates, now, strict=True))  # fmt: skip
        queue[part] = waiting + left + pages * share * service
        if share < 1:
            key = (which, limits[which].now())
            marks.setdefault(key, np.zeros(parts, dtype=bool))[part] = True
        for each in limits:
            each.spend(
                carried[part] if each.resource is Resource.THROUGHPUT else done[part], seconds
            )

    def by_minute(values: Values) -> Values:
        averages: Values = values.reshape(-1, _PARTS).mean(axis=1)
        return averages

    truths = [
        Limiter(resource=limits[which].resource, part=limits[which].part, level=level,
                minutes=mark)
        for (which, level), mark in marks.items()
    ]  # fmt: skip
    rate = by_minute(done)
    return rate, by_minute(carried) / rate, by_minute(queue), truths, balances


def _measured(
    random: Any, rate: Values, size: Values, queue: Values, *, blind: bool
) -> dict[str, Values]:
    """As CloudWatch shows them: noisy, rounded, with minutes and whole metrics missing."""
    np = numpy()
    minutes = len(rate)
    reads = np.clip(0.5 + np.cumsum(random.normal(0, 0.01, minutes)), 0.1, 0.9)
    noise = float(random.uniform(0.02, 0.2))
    latency = queue / rate * random.lognormal(0, noise, minutes)
    metrics = {
        "ReadIOPS": rate * reads, "WriteIOPS": rate * (1 - reads),
        "ReadThroughput": rate * reads * size, "WriteThroughput": rate * (1 - reads) * size,
        "ReadLatency": latency, "WriteLatency": latency * random.lognormal(0, noise, minutes),
        "DiskQueueDepth": queue * random.lognormal(0, noise, minutes),
    }  # fmt: skip
    if random.random() < 0.3:
        digits = {"Latency": 4, "Throughput": 0, "IOPS": 1, "QueueDepth": 1}
        metrics = {
            name: np.round(values, next(d for end, d in digits.items() if name.endswith(end)))
            for name, values in metrics.items()
        }
    without = [(), (), ("DiskQueueDepth",), ("ReadLatency", "WriteLatency")]
    gone = without[int(random.integers(4))]
    if blind and random.random() < 0.08:
        gone = ("DiskQueueDepth", "ReadLatency", "WriteLatency")
    lost = random.random(minutes) < random.choice([0.0, 0.003, 0.03])
    for start in random.integers(0, minutes, int(random.integers(0, 3))):
        lost[start : start + int(random.integers(5, 120))] = True
    return {
        name: np.where(lost, np.nan, values)
        for name, values in metrics.items() if name not in gone
    }  # fmt: skip


def _averaged(values: Values, step: int, balance: bool) -> Values:
    np = numpy()
    if step == 60:
        return values
    table = values.reshape(-1, step // 60)
    averaged: Values = table[:, 0] if balance else np.where(
        np.isnan(table).any(axis=1), np.nan, table.mean(axis=1)
    )  # fmt: skip
    return averaged


def _in_points(limiter: Limiter, known: Mask, step: int, share: float) -> Limiter:
    """The limiter at the points of the series that it held for this share."""
    points = step // 60 * _PARTS
    held = limiter.minutes.reshape(-1, points).mean(axis=1) >= share
    return replace(limiter, minutes=held & known)
