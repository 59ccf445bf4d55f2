"""Loads for the laboratory: a stream of small operations, and jobs of any size, drawn at random.

The ranges are our own, wide ones; only the unit of an operation comes from a source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from limits_lab.physics import STEP, Limit
from mrtuner.limits.ceilings import Resource
from mrtuner.stats.plateaus import numpy
from mrtuner.units import KiB

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Values

DAY: Final = 86_400
#: Longer requests count as several operations. Source: EC2 User Guide, EBS I/O
#: characteristics: 256 KiB for SSD volumes.
OPERATION: Final = 256 * KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Open-loop requests: they arrive whether or not earlier ones have been answered.

    At most `sessions` are in flight; of the others, `patience` operations come later.
    """

    arrivals: Values  # operations per second, by step
    size: Values  # bytes per operation, by step
    reads: Values  # share of them, by step
    latency: float  # seconds per operation without waiting
    sessions: float
    patience: float = 0.0
    cpu: float = 0.0  # seconds per operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A closed-loop amount of work: the slower the device, the longer it takes."""

    start: int  # step
    work: float  # operations
    workers: float  # operations in flight if there is no think time
    latency: float  # seconds per operation without waiting
    size: float  # bytes per operation
    think: float = 0.0  # seconds between an answer and the next request
    reads: float = 0.5  # share of the operations
    cpu: float = 0.0  # seconds per operation
    unevenness: float = 0.0  # variation of the pace from step to step, as a share
    spread: float = 0.0  # variation of the size likewise


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """How long a request takes without waiting: a base, plus its bytes at one request's rate."""

    base: float  # seconds
    single: float  # bytes per second of a single request

    def seconds(self, size: float) -> float:
        """Seconds for a request of `size` bytes."""
        return self.base + size / self.single


def disk(random: Any) -> Disk:
    """Draw a disk: 0.4 to 2 ms, 60 to 400 MB/s."""
    return Disk(base=random.uniform(0.4e-3, 2e-3), single=random.uniform(60e6, 400e6))


def log_uniform(random: Any, low: float, high: float) -> float:
    """Draw a number between two bounds, log-uniformly."""
    return math.exp(random.uniform(math.log(low), math.log(high)))


def room(limits: Sequence[Limit], size: float) -> float:
    """Operations of this size that all disk limits let through permanently."""
    costs = {Resource.THROUGHPUT: size, Resource.IOPS: 1.0}
    return min(one.rate / costs[one.resource] for one in limits if one.resource in costs)


def lumps(random: Any, steps: int, deviation: float, every: int) -> Values:
    """Noise that moves in straight lines from one value to the next, `every` steps later."""
    np = numpy()
    knots = np.arange(-every, steps + 2 * every, every) + random.uniform(0, every)
    values = deviation * random.standard_normal(len(knots))
    found: Values = np.interp(np.arange(steps), knots, values)
    return found


def rhythm(random: Any, start: datetime, steps: int, *, sharp: float | None = None) -> Values:
    """Days and weeks, with 1 at the peak of a working day."""
    np = numpy()
    hours = seconds_of_day(start) / 3600 + np.arange(steps) * STEP / 3600
    wave = 0.5 + 0.5 * np.cos(2 * np.pi * (hours - random.uniform(0, 24)) / 24)
    floor = random.uniform(0.05, 0.6)
    shape = floor + (1 - floor) * wave ** (sharp or random.uniform(1, 3))
    weekend = (start.weekday() + hours // 24) % 7 >= 5
    found: Values = np.where(weekend, shape * random.uniform(0.3, 1), shape)
    return found


def stream(
    random: Any, device: Disk, limits: Sequence[Limit], shape: Values, *, vcpus: int,
    peak: float, rough: float = 1.0,
) -> Stream:  # fmt: skip
    """Operations of 8 to 16 KiB; `peak` is a share of the permanent limits.

    `rough` multiplies the noise, which is 3 to 15 % in ten minutes and 3 to 20 % in a step.
    """
    np = numpy()
    steps = len(shape)
    size = random.uniform(8, 16) * KiB
    noise = lumps(random, steps, rough * random.uniform(0.03, 0.15), 60)
    noise += rough * random.uniform(0.03, 0.2) * random.standard_normal(steps)
    arrivals = peak * room(limits, size) * shape * np.exp(noise)
    latency, most = device.seconds(size), float(arrivals.max())
    return Stream(
        arrivals=arrivals,
        size=size * np.exp(lumps(random, steps, 0.06, 180)),
        reads=np.clip(random.uniform(0.2, 0.8) + lumps(random, steps, 0.08, 360), 0.02, 0.98),
        latency=latency,
        # More than the calm load ever needs: they only bound the queue.
        sessions=max(float(random.integers(20, 400)), 3 * most * latency),
        patience=float(random.choice((0, 1, 1))) * random.uniform(60, 1800) * arrivals.mean(),
        cpu=random.uniform(0.05, 0.5) * vcpus / most,
    )


def greedy(
    random: Any, device: Disk, limit: Limit, size: float, *, start: int, seconds: float,
    vcpus: int, burst: bool = False,
) -> Job:  # fmt: skip
    """A job that demands more than a limit gives, with work for `seconds` at its final level.

    With `burst` the work is for `seconds` at the burst level instead.
    """
    count, each, latency = _operations(device, size)
    cost = each if limit.resource is Resource.THROUGHPUT else 1.0
    top = limit.burst or limit.rate
    low, high = (1.2, 4) if burst else (0.8, 3) if limit.burst else (1.3, 6)
    think = float(random.choice((0, 0, 1))) * random.uniform(0, 2) * latency
    wanted = log_uniform(random, low, high) * top / cost
    workers = math.ceil(wanted * (think + latency) / count) * count
    fast = min(workers / (think + latency) * cost, top)
    amount = fast * seconds
    if not burst:
        spent = max(fast - limit.rate, 0.05 * limit.rate)  # tokens per second
        drained = limit.capacity * fast / spent if limit.burst else 0.0
        amount = drained + limit.rate * seconds
    return Job(
        start=start, work=amount / cost, workers=workers, latency=latency, size=each, think=think,
        reads=_share(random), cpu=random.uniform(0.01, 0.12) * vcpus * cost / top,
        unevenness=random.uniform(0.003, 0.03), spread=random.uniform(0.002, 0.03),
    )  # fmt: skip


def paced(
    random: Any, device: Disk, size: float, *, start: int, pace: float, seconds: float,
    vcpus: int, even: float = 0.01,
) -> Job:  # fmt: skip
    """A job that its application keeps at `pace` operations per second by thinking or computing.

    `even` is the most that the pace may vary from step to step, as a share.
    """
    count, each, latency = _operations(device, size)
    workers = math.ceil(pace * latency / count) + int(random.choice((0, 0, 0, 1, 4)))
    think = workers * count / pace - latency
    computing = random.random() < 0.4 and workers <= 0.4 * vcpus
    return Job(
        start=start, work=pace * seconds, workers=workers * count, latency=latency, size=each,
        think=think, reads=_share(random),
        cpu=think / count if computing else random.uniform(0, 0.1) * vcpus / pace,
        unevenness=random.uniform(0.002, even), spread=random.uniform(0.001, even),
    )  # fmt: skip


def alone(device: Disk, size: float) -> float:
    """Operations per second of a single worker that never thinks."""
    count, _, latency = _operations(device, size)
    return count / latency


def processor_bound(
    random: Any, device: Disk, size: float, *, start: int, share: float, seconds: float,
    limits: Sequence[Limit], vcpus: int,
) -> Job:  # fmt: skip
    """A job that demands more processors than there are; the disk is used to `share`."""
    _, each, latency = _operations(device, size)
    pace = share * room(limits, each)
    cpu = vcpus / pace
    workers = math.ceil(random.uniform(1.4, 4) * vcpus * (cpu + latency) / cpu)
    return Job(
        start=start, work=pace * seconds, workers=workers, latency=latency, size=each, think=cpu,
        reads=_share(random), cpu=cpu, unevenness=0.02, spread=0.01,
    )  # fmt: skip


def starts(random: Any, start: datetime, days: int, *, runs: int | None = None) -> list[int]:
    """Steps at one hour of the day: every day, weekly, once, or on `runs` days."""
    np = numpy()
    first = (random.uniform(0, DAY) - seconds_of_day(start)) % DAY
    chosen = list(range(days))
    if runs is not None:
        chosen = sorted(random.choice(days, size=min(runs, days), replace=False).tolist())
    elif (manner := random.integers(3)) == 1:
        chosen = list(range(int(random.integers(min(days, 7))), days, 7))
    elif manner == 2:
        chosen = [int(random.integers(days))]
    times = first + np.array(chosen) * DAY + random.uniform(0, 600, len(chosen))
    found: list[int] = [int(time // STEP) for time in times if time < days * DAY]
    return found


def seconds_of_day(at: datetime) -> int:
    """Seconds since midnight UTC."""
    return at.hour * 3600 + at.minute * 60 + at.second


def _operations(device: Disk, size: float) -> tuple[float, float, float]:
    """Operations per request, bytes per operation, and the seconds they take."""
    count = max(1.0, size / OPERATION)
    return count, size / count, device.seconds(size)


def _share(random: Any) -> float:
    """Share of reads of a job: some only read, some only write."""
    return float(random.choice((1.0, 0.0, random.uniform(0.1, 0.9))))
