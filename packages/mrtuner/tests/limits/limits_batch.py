"""Cases with known truth by a third hand: batch jobs of a constant I/O size on working days.

`batch_case(seed)` counts sessions, not bytes: each of so many sessions has one operation in flight,
or pauses. So a limit and its queue follow from Little's law. Unlike in `limits_generate` and the
laboratory, a job's operations have one size to a few per mille, the sessions wander (an
autoregressive process with occasional jumps), days have a lunch break and weekends, and a limit's
level wobbles slowly. Truth is the limit that was the lowest while more was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from limits_truth import Case

from mrtuner.catalog.classes import InstanceClass, instance_classes
from mrtuner.catalog.volumes import Volume, volume_of
from mrtuner.limits.ceilings import BURST_MINUTES, Resource
from mrtuner.limits.examples.simulate import Limiter
from mrtuner.limits.metrics.series import MetricSeries
from mrtuner.stats.plateaus import numpy, runs
from mrtuner.units import KiB

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Values

_DAY: Final = 1440
_PARTS: Final = 6  # of a minute
_MBPS: Final = 125_000
KINDS: Final = ("office", "own pace", "batch", "short batch", "crowd", "neighbour", "pauses")
_WEIGHTS: Final = (0.13, 0.17, 0.15, 0.25, 0.1, 0.1, 0.1)


@dataclass(slots=True)
class Bucket:
    """A limit with credits; `full` is their number."""

    resource: Resource
    part: str
    rate: float
    burst: float = 0.0
    full: float = 0.0
    metric: str = ""
    left: float = 0.0

    def now(self) -> float:
        return self.burst if self.burst and self.left > 0 else self.rate

    def spend(self, used: float, seconds: float) -> None:
        if self.burst:
            self.left = min(max(self.left + (self.rate - used) * seconds, 0.0), self.full)


def batch_case(seed: int, *, days: int = 5) -> Case:
    """Generate one case; the same seed gives the same."""
    np = numpy()
    random = np.random.default_rng([77, 5, seed])
    kind = str(random.choice(KINDS, p=_WEIGHTS))
    instance, volume = _machine(random)
    limits = limits_of(random, kind, instance, volume)
    size = float(np.exp(random.uniform(np.log(8), np.log(96)))) * KiB
    least = min(
        each.rate / (size if each.resource is Resource.THROUGHPUT else 1) for each in limits
    )
    minutes = days * _DAY
    service = float(random.choice([0.0006, 0.001, 0.0025]))
    pace, own = _sessions(random, kind, minutes, least)
    metrics, truths = _run(random, limits, size, pace, own, service, _pauses(random, kind, minutes))
    long = [each for each in truths if holds(each, 30, 15)]
    return Case(
        seed=seed, kind=kind, instance=instance, volume=volume,
        series=MetricSeries(start=datetime(2026, 4, 6, tzinfo=UTC), step=60, metrics=metrics),
        truths=tuple(long), hints=tuple(each for each in truths if not holds(each, 30, 15)
                                        and each.minutes.sum() >= 6),
    )  # fmt: skip


def operations(limit: Bucket, rate: float, size: float) -> float:
    """A limit's rate in operations per second of so many bytes."""
    return rate / size if limit.resource is Resource.THROUGHPUT else rate


def holds(limiter: Limiter, total: int, row: int) -> bool:
    longest = max((end - start for start, end in runs(limiter.minutes)), default=0)
    return bool(limiter.minutes.sum() >= total and longest >= row)


def _machine(random: Any) -> tuple[InstanceClass, Volume]:
    known = [each for each in instance_classes().values() if each.ebs_baseline_mbps]
    instance = known[int(random.integers(len(known)))]
    match str(random.choice(["gp2", "gp3", "gp3+", "io1"])):
        case "gp2":
            return instance, volume_of("gp2", int(random.choice([60, 150, 300, 900, 3000])))
        case "gp3":
            return instance, volume_of("gp3", int(random.choice([100, 300, 390])))
        case "gp3+":
            more = int(random.choice([12000, 15000, 24000]))
            return instance, volume_of("gp3", 800, iops=more, throughput=500)
    return instance, volume_of("io1", 400, iops=int(random.choice([2000, 5000, 12000, 18000])))


def limits_of(random: Any, kind: str, instance: InstanceClass, volume: Volume) -> list[Bucket]:
    def burst(rate: float, most: float, resource: Resource, metric: str) -> Bucket:
        full = (most - rate) * 60 * BURST_MINUTES
        if most <= rate:
            return Bucket(resource, "instance", rate)
        left = full * float(random.choice([1.0, 1.0, 0.3, 0.02]))
        return Bucket(resource, "instance", rate, most, full, metric, left)

    mbps, top = instance.ebs_baseline_mbps or 0, instance.ebs_max_mbps or 0
    iops, most = instance.ebs_baseline_iops or 0, instance.ebs_max_iops or 0
    found = [
        burst(mbps * _MBPS, top * _MBPS, Resource.THROUGHPUT, "EBSByteBalance%"),
        burst(iops, most, Resource.IOPS, "EBSIOBalance%"),
    ]
    if volume.iops and volume.burst_iops:
        full = 5_400_000.0 * volume.stripes
        left = full * float(random.uniform(0.05, 1))
        found.append(Bucket(Resource.IOPS, "volume", volume.iops, volume.burst_iops, full,
                             "BurstBalance", left))  # fmt: skip
    elif volume.iops:
        found.append(Bucket(Resource.IOPS, "volume", volume.iops))
    if volume.throughput:
        found.append(Bucket(Resource.THROUGHPUT, "volume", volume.throughput))
    if kind == "neighbour":
        lowest = min(each.rate for each in found if each.resource is Resource.THROUGHPUT)
        found.append(
            Bucket(Resource.THROUGHPUT, "unknown", lowest * float(random.uniform(0.35, 0.8)))
        )
    return found


def _pauses(random: Any, kind: str, minutes: int) -> Values:
    """The share of each minute in which a job does something else, as long as a day lasts."""
    np = numpy()
    share = float(random.uniform(0.04, 0.11))
    pausing = kind == "pauses" and random.random(minutes // _DAY) < 0.5
    shares: Values = np.repeat(np.where(pausing, share, 0.0) * np.ones(minutes // _DAY), _DAY)
    return shares


def _wandering(random: Any, minutes: int, rough: float) -> Values:
    """An autoregressive process around 1 with jumps, positive."""
    np = numpy()
    steps = random.standard_t(4, minutes) * rough * 0.45
    jumps = np.where(random.random(minutes) < 0.004, random.normal(0, 3 * rough, minutes), 0)
    values = np.empty(minutes)
    at = 0.0
    for minute in range(minutes):
        at = 0.85 * at + steps[minute] + jumps[minute]
        values[minute] = at
    wandered: Values = np.exp(np.clip(values, -1.5, 1.2))
    return wandered


def _sessions(random: Any, kind: str, minutes: int, least: float) -> tuple[Values, Values]:
    """Operations per second that are asked for, and whether a job asks for them."""
    np = numpy()
    clock, day = np.arange(minutes) / 60 % 24, np.arange(minutes) // _DAY
    office = np.exp(-(((clock - 10.5) / 2.2) ** 2)) + 0.9 * np.exp(-(((clock - 15) / 2.5) ** 2))
    office = np.where(day % 7 >= 5, 0.15 * office, office)
    high = 0.75 if kind in ("office",) else 0.35
    asked = (
        least
        * (0.03 + high * office)
        * _wandering(random, minutes, float(random.uniform(0.05, 0.2)))
    )
    job = np.zeros(minutes, dtype=bool)
    if kind == "crowd":
        asked = asked * 3.5
        return asked, job
    if kind == "office":
        return asked, job
    nights = list(range(0, minutes // _DAY, int(random.integers(1, 3))))
    once = kind == "short batch"
    nights = nights[: 1 if once and random.random() < 0.6 else None]
    lasts = int(random.integers(32, 60)) // (len(nights) if once and random.random() < 0.4 else 1)
    lasts = max(lasts, 18) if once else int(random.integers(60, 400))
    begins = int(random.integers(0, 4 * 60)) + int(random.choice([0, 18 * 60]))
    for night in nights:
        start = night * _DAY + begins + int(random.integers(0, 20))
        job[start : start + lasts] = True
    pace = (
        float(random.uniform(0.45, 0.97)) if kind == "own pace" else float(random.uniform(1.2, 4))
    )
    even = (
        random.normal(1, 0.004, minutes)
        if kind == "own pace"
        else _wandering(random, minutes, 0.04)
    )
    return np.where(job, asked * 0.2 + least * pace * even, asked), job


def _run(
    random: Any, limits: list[Bucket], size: float, asked: Values, job: Values, service: float,
    pauses: Values,
) -> tuple[dict[str, Values], list[Limiter]]:  # fmt: skip
    np = numpy()
    minutes = len(asked)
    seconds = 60 / _PARTS
    noise = random.normal(0, float(random.uniform(0.001, 0.006)), (minutes, _PARTS))
    knots = np.arange(0, minutes + 300, 300)
    drift = 0.003 * np.interp(np.arange(minutes), knots, random.normal(0, 1, len(knots)))
    within = random.lognormal(0, np.where(job, 0.01, 0.12)[:, None], (minutes, _PARTS))
    sizes = size * np.where(
        job, random.normal(1, 0.003, minutes), random.lognormal(0, 0.08, minutes)
    )
    done = np.zeros((minutes, _PARTS))
    waits = np.zeros((minutes, _PARTS))
    level: dict[tuple[int, float], Any] = {}
    balances = {each.metric: np.full(minutes, np.nan) for each in limits if each.metric}
    for minute in range(minutes):
        for each in limits:
            if each.metric and minute % 5 == 0:
                balances[each.metric][minute] = 100 * each.left / each.full
        for part in range(_PARTS):
            want = asked[minute] * within[minute, part]
            ends = [operations(each, each.now(), sizes[minute]) for each in limits]
            which = int(np.argmin(ends))
            most = ends[which] * (1 + noise[minute, part] + drift[minute])
            rate = min(want, most)
            if job[minute] and part == 0:
                rate *= 1 - _PARTS * pauses[minute]
            if want > most and not (job[minute] and pauses[minute]):
                key = (which, limits[which].now())
                mark = level.setdefault(key, np.zeros((minutes, _PARTS), dtype=bool))
                mark[minute, part] = True
            # Sessions that would do `want` without waiting are in flight all the time at a limit.
            thinking = 0.2 if job[minute] else 3.0
            taken = service * ((1 + thinking) * want / rate - thinking)
            waits[minute, part] = max(taken, service)
            done[minute, part] = rate
            for each in limits:
                used = rate * (sizes[minute] if each.resource is Resource.THROUGHPUT else 1)
                each.spend(used, seconds)
    rate, latency = done.mean(axis=1), (waits * done).sum(axis=1) / done.sum(axis=1)
    latency = latency * random.lognormal(0, 0.06, minutes)
    reads = np.clip(0.5 + 0.2 * np.sin(np.arange(minutes) / 400), 0.05, 0.95)
    metrics = {
        "ReadIOPS": rate * reads, "WriteIOPS": rate * (1 - reads),
        "ReadThroughput": rate * reads * sizes, "WriteThroughput": rate * (1 - reads) * sizes,
        "ReadLatency": latency, "WriteLatency": latency * random.lognormal(0, 0.03, minutes),
        "DiskQueueDepth": rate * latency * random.lognormal(0, 0.08, minutes), **balances,
    }  # fmt: skip
    lost = random.random(minutes) < 0.002
    metrics = {name: np.where(lost, np.nan, values) for name, values in metrics.items()}
    truths = [
        Limiter(resource=limits[which].resource, part=limits[which].part, level=at,
                minutes=mark.mean(axis=1) >= 0.99)
        for (which, at), mark in level.items()
    ]  # fmt: skip
    return metrics, truths
