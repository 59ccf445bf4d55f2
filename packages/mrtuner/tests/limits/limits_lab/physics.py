"""A laboratory of disks: open-loop and closed-loop loads meeting limits in series.

Time advances in steps of ten seconds. A stream of independently arriving requests shares the device
with jobs, whose workers each have one request in flight and send the next when it is answered.
Where a limit gives less than is asked for, every request waits equally long, first come, first
served, and just long enough for the sum to fit. Little's law holds by construction: what is in
flight is the rate times the time of one operation.

Nothing here is random except the wobble of `observe`. Written without knowledge of the detector
and of `simulate.py`, so that it judges the detector independently; see `limits_truth.py`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from mrtuner.limits.ceilings import Resource
from mrtuner.stats.plateaus import numpy

if TYPE_CHECKING:
    from limits_lab.workload import Job, Stream
    from mrtuner.stats.plateaus import Values

STEP: Final = 10  # seconds
#: Seconds over which a stream catches up on postponed requests.
DRAIN: Final = 300
#: A limit that cuts off less than this share held nothing down visibly.
CUT: Final = 0.01
#: Codes of a step, in addition to the numbers of `levels`.
FREE: Final = -1
BETWEEN: Final = -2  # the remainder of a bucket: neither its burst nor its rate
GRAZED: Final = 1000  # added to a level's number if less than CUT was cut off

#: The position of each resource's amount in a step's sums.
_PLACE: Final[Mapping[Resource, int]] = {
    Resource.THROUGHPUT: 0, Resource.IOPS: 1, Resource.CPU: 2,
}  # fmt: skip
#: A bucket that gives only this much above its rate counts as empty.
_EMPTY: Final = 1.02
#: From this many quiet steps on, it pays to compute them together.
_AT_ONCE: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A rate that one part lets through; with `burst` and `capacity` a token bucket.

    The bucket starts full, is drained by what passes above `rate`, and filled by what is unused
    below it.
    """

    resource: Resource  # THROUGHPUT [bytes], IOPS [operations] or CPU [seconds of one vCPU]
    part: str  # instance, volume, unknown
    rate: float  # per second, permanently
    burst: float | None = None  # per second, while there are tokens
    capacity: float = 0.0
    metric: str = ""  # the name of its balance in CloudWatch
    unit: float = 1.0  # the resource's metric per unit of the rate: CPU is in per cent


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the device did, by step, per second."""

    operations: Values
    reads: Values  # operations
    bytes: Values
    read_bytes: Values
    busy: Values  # operations in flight
    read_busy: Values
    cpu: Values  # seconds
    wait: Values  # seconds that one operation waits at a limit of the disk
    code: Values  # a number of `levels`, or FREE, BETWEEN, GRAZED + number
    balances: tuple[Values | None, ...]  # fill share of every limit's bucket at the step's end
    ends: tuple[int | None, ...]  # the step after each job's last; None if it did not end


def levels(limits: Sequence[Limit]) -> list[tuple[Limit, float | None]]:
    """Every limit's rate and burst; a step's code is the index into this list."""
    return [(one, level) for one in limits for level in (one.rate, one.burst)]


def run(
    limits: Sequence[Limit],
    stream: Stream,
    jobs: Sequence[Job] = (),
    *,
    down: Values | None = None,
    noise: tuple[Values, Values] | None = None,
) -> Run:
    """Run the load against the limits.

    Nothing is requested where `down` is true. `noise` has the standard deviations of the jobs'
    pace and size by step.
    """
    device = _Device(limits, stream, down, noise)
    coming = sorted(range(len(jobs)), key=lambda at: jobs[at].start, reverse=True)
    started = [_Running(one) for one in jobs]
    at, steps = 0, len(stream.arrivals)
    while at < steps:
        while coming and jobs[coming[-1]].start <= at:
            device.jobs.append(started[coming.pop()])
        if not device.jobs and not device.put_off:
            next_job = jobs[coming[-1]].start if coming else steps
            quiet = min(device.quiet_until(at), next_job, steps)
            if quiet - at >= _AT_ONCE:
                device.rest(at, quiet)
                at = quiet
                continue
        device.step(at)
        at += 1
    return device.result(stream, started)


@dataclass(slots=True)
class _Running:
    job: Job
    left: float = field(init=False)
    begun: int = -1
    rates: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.left = self.job.work


@dataclass(slots=True)
class _Bucket:
    place: int
    rate: float
    burst: float
    capacity: float
    code: int
    tokens: float
    history: list[float]


class _Device:
    """The device, in plain lists: single numbers from numpy would take three times as long."""

    def __init__(
        self, limits: Sequence[Limit], stream: Stream, down: Values | None,
        noise: tuple[Values, Values] | None,
    ) -> None:  # fmt: skip
        np = numpy()
        steps = len(stream.arrivals)
        nothing = np.zeros(steps)
        pace, spread = (nothing, nothing) if noise is None else noise
        arrivals = stream.arrivals if down is None else np.where(down, 0.0, stream.arrivals)
        self.arrivals: list[float] = arrivals.tolist()
        self.sizes: list[float] = stream.size.tolist()
        self.down: list[bool] = [False] * steps if down is None else down.tolist()
        self.pace: list[float] = pace.tolist()
        self.spread: list[float] = spread.tolist()
        self.latency, self.sessions = stream.latency, stream.sessions
        self.patience, self.cpu = stream.patience, stream.cpu
        self.limits, self.put_off = limits, 0.0
        self.jobs: list[_Running] = []
        self.plain = [(_PLACE[one.resource], one.rate, 2 * at)
                      for at, one in enumerate(limits) if one.burst is None]  # fmt: skip
        self.buckets = [
            _Bucket(_PLACE[one.resource], one.rate, one.burst, one.capacity, 2 * at,
                    one.capacity, [one.capacity] * steps)
            for at, one in enumerate(limits) if one.burst is not None
        ]  # fmt: skip
        self.least = [min((one.rate for one in limits if _PLACE[one.resource] == place),
                          default=float("inf")) for place in range(3)]  # fmt: skip
        self.served, self.wait = list(self.arrivals), [0.0] * steps
        self.code = [FREE] * steps
        self.alone = (arrivals * stream.size, arrivals, arrivals * stream.cpu)
        loud = arrivals * stream.latency > stream.sessions
        for amount, least in zip(self.alone, self.least, strict=True):
            loud = loud | (amount > least)
        self.loud: list[int] = np.flatnonzero(loud).tolist()

    def quiet_until(self, at: int) -> int:
        """The first step from here on in which the stream alone meets a limit."""
        place = bisect_left(self.loud, at)
        return self.loud[place] if place < len(self.loud) else len(self.arrivals)

    def rest(self, at: int, until: int) -> None:
        """Compute steps in which nothing can bind: the buckets only fill."""
        np = numpy()
        for one in self.buckets:
            unused = np.cumsum(one.rate - self.alone[one.place][at:until]) * STEP
            filled = np.minimum(one.capacity, one.tokens + unused).tolist()
            one.history[at:until] = filled
            one.tokens = filled[-1]

    def step(self, at: int) -> None:
        """Compute one step: what is requested, how long it waits, what passes."""
        stopped = self.down[at]
        offered = 0.0 if stopped else self.arrivals[at] + self.put_off / DRAIN
        size, wait = self.sizes[at], 0.0
        served = min(offered, self.sessions / self.latency)
        sums = [served * size, served, served * self.cpu]
        flows = [] if stopped else self.flows(at, sums)
        least = self.least
        if sums[0] > least[0] or sums[1] > least[1] or sums[2] > least[2]:
            wait, code = self.binding(sums, offered, size, flows)
            if wait:
                served = min(offered, self.sessions / (self.latency + wait))
                self.code[at] = code
                # Waiting for a processor is not waiting for the disk.
                self.wait[at] = 0.0 if self.of_cpu(code) else wait
        sums = [served * size, served, served * self.cpu]
        self.work(at, flows, wait, sums)
        self.served[at] = served
        late = self.put_off + (self.arrivals[at] - served) * STEP
        self.put_off = min(late, self.patience) if late > 1 and self.patience else 0.0
        for one in self.buckets:
            tokens = one.tokens + (one.rate - sums[one.place]) * STEP
            one.tokens = min(max(tokens, 0.0), one.capacity)
            one.history[at] = one.tokens

    def flows(self, at: int, sums: list[float]) -> list[tuple[float, float, float, float]]:
        """Workers, seconds between requests, bytes and CPU of every job; adds to `sums`."""
        found = []
        for one in self.jobs:
            job = one.job
            cycle = (job.think + job.latency) * (1 + job.unevenness * self.pace[at])
            size = job.size * (1 + job.spread * self.spread[at])
            pace = job.workers / cycle
            sums[0] += pace * size
            sums[1] += pace
            sums[2] += pace * job.cpu
            found.append((job.workers, cycle, size, job.cpu))
        return found

    def work(
        self, at: int, flows: list[tuple[float, float, float, float]], wait: float,
        sums: list[float],
    ) -> None:  # fmt: skip
        """Do as much of the jobs' work as a step allows; adds to `sums`."""
        done = False
        for one, (workers, cycle, size, cpu) in zip(self.jobs, flows, strict=False):
            pace = min(workers / (cycle + wait), one.left / STEP)
            one.left -= pace * STEP
            done = done or one.left < 1e-6
            sums[0] += pace * size
            sums[1] += pace
            sums[2] += pace * cpu
            one.rates.append(pace)
        if not flows:  # the server is down
            for one in self.jobs:
                one.rates.append(0.0)
        for one in self.jobs:
            if one.begun < 0:
                one.begun = at
        if done:
            self.jobs = [one for one in self.jobs if one.left >= 1e-6]

    def binding(
        self, asked: list[float], offered: float, size: float,
        flows: list[tuple[float, float, float, float]],
    ) -> tuple[float, int]:  # fmt: skip
        """The longest wait that any limit requires, and its code."""
        wait, code = 0.0, FREE
        for place, most, number in self.exceeded(asked):
            own = (size, 1.0, self.cpu)[place]
            closed = [(workers, cycle, (each, 1.0, cpu)[place])
                      for workers, cycle, each, cpu in flows]  # fmt: skip
            room, needed = most - offered * own, -1.0
            if room > 0 and closed:
                needed = wait_for(room, closed)
            if needed < 0 or offered * (self.latency + needed) > self.sessions:
                needed = wait_for(most, [*closed, (self.sessions, self.latency, own)])
            if needed > wait:
                grazing = number >= 0 and asked[place] < most * (1 + CUT)
                wait, code = needed, number + GRAZED if grazing else number
        return wait, code

    def exceeded(self, asked: list[float]) -> Iterator[tuple[int, float, int]]:
        """Limits that give less than was requested in this step: position, most they give, code."""
        for place, rate, number in self.plain:
            if asked[place] > rate:
                yield place, rate, number
        for one in self.buckets:
            most = one.rate + one.tokens / STEP
            if asked[one.place] > min(most, one.burst):
                if most >= one.burst:
                    yield one.place, one.burst, one.code + 1
                else:
                    yield one.place, most, one.code if most <= one.rate * _EMPTY else BETWEEN

    def of_cpu(self, code: int) -> bool:
        """Whether a level belongs to the processors."""
        return code >= 0 and self.limits[code % GRAZED // 2].resource is Resource.CPU

    def result(self, stream: Stream, started: Sequence[_Running]) -> Run:
        """The result: sums over the stream and all jobs."""
        np = numpy()
        served, wait = np.array(self.served), np.array(self.wait)
        seconds = stream.latency + wait
        sums: dict[str, Any] = {
            "operations": served.copy(), "reads": served * stream.reads,
            "bytes": served * stream.size, "read_bytes": served * stream.reads * stream.size,
            "busy": served * seconds, "read_busy": served * stream.reads * seconds,
            "cpu": served * stream.cpu,
        }  # fmt: skip
        spread = np.array(self.spread)
        for one in started:
            job, at = one.job, slice(one.begun, one.begun + len(one.rates))
            pace = np.array(one.rates)
            size, seconds = job.size * (1 + job.spread * spread[at]), job.latency + wait[at]
            parts = (pace, pace * job.reads, pace * size, pace * job.reads * size,
                     pace * seconds, pace * job.reads * seconds, pace * job.cpu)  # fmt: skip
            if len(pace):
                for total, part in zip(sums.values(), parts, strict=True):
                    total[at] += part
        shares = {one.code: np.array(one.history) / one.capacity for one in self.buckets}
        return Run(
            **sums, wait=wait, code=np.array(self.code),
            balances=tuple(shares.get(2 * at) for at in range(len(self.limits))),
            ends=tuple(one.begun + len(one.rates) if one.left < 1e-6 else None
                       for one in started),
        )  # fmt: skip


def wait_for(most: float, flows: Sequence[tuple[float, float, float]]) -> float:
    """Seconds each request must wait so that closed loops need no more than `most` a second.

    A flow is workers, seconds between requests without waiting, and cost. Uses Newton's method on
    the inverse of the sum, which is a straight line for a single flow.
    """
    wait = max(0.0, *(workers * cost / most - cycle for workers, cycle, cost in flows))
    if len(flows) == 1:
        return wait
    for _ in range(60):
        total = slope = 0.0
        for workers, cycle, cost in flows:
            share = workers * cost / (cycle + wait)
            total += share
            slope += share / (cycle + wait)
        if total <= most * (1 + 1e-9):
            break
        wait += (total / most - 1) * total / slope
    return wait
