"""An instance and its volume under a given demand, minute by minute: series with known truth.

Every minute is divided into parts, since demand varies within it while CloudWatch shows its
average. Demand above a ceiling waits: throughput is cut off, the queue fills, operations take
longer. Burst limits apply while their bucket has credits; unused baseline refills it.

The tests' laboratory simulates the same in another way, on purpose: see `limits_truth.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mrtuner.limits.ceilings import Resource
from mrtuner.stats.plateaus import numpy

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Mask, Values

PARTS: Final = 6  # per minute
#: At a ceiling an operation takes at least this many times as long, however few sessions wait.
_JAMMED: Final = 1.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How an instance behaves apart from its limits."""

    wobble: float = 0.004  # relative noise of a minute's throughput
    latency: float = 1e-3  # seconds of an operation without a queue
    noise: float = 0.12  # relative noise of a minute's latency
    sessions: float = 80.0  # operations in flight when everything waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """One limit with an optional burst above it."""

    resource: Resource  # THROUGHPUT in bytes per second or IOPS
    part: str
    sustained: float
    burst: float | None = None
    bucket: float = 0.0  # bytes or operations above the sustained rate, when full


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What programs demand, by parts of minutes."""

    throughput: Values  # bytes per second; minutes x PARTS
    operation: Values  # bytes per operation; one value per minute
    reads: Values  # share of reads; one value per minute


@dataclass(frozen=True, slots=True, kw_only=True)
class Limiter:
    """The points at which one limit, at one level, held everything down."""

    resource: Resource
    part: str
    level: float
    minutes: Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Metrics as CloudWatch would show them, and the truth behind them."""

    metrics: dict[str, Values]
    limiters: tuple[Limiter, ...]


def simulate(
    demand: Demand, caps: Sequence[Cap], random: Any, manner: Manner = Manner()
) -> Simulated:
    """Serve the demand within the limits."""
    np = numpy()
    levels, balances = _levels(demand, caps)
    floors = np.stack([_as_bytes(cap, at, demand) for cap, at in zip(caps, levels, strict=True)])
    tightest = floors.argmin(axis=0)
    limit = floors.min(axis=0)
    served = np.minimum(demand.throughput, limit[:, None])
    full = (demand.throughput >= limit[:, None]).all(axis=1)
    metrics = _metrics(demand, served, limit, random, manner)
    for cap, balance in zip(caps, balances, strict=True):
        if cap.burst is not None:
            metrics[_BALANCE[cap.part, cap.resource]] = _five_minutes(balance)
    limiters = tuple(
        Limiter(
            resource=cap.resource, part=cap.part, level=float(value),
            minutes=full & (tightest == place) & (levels[place] == value),
        )
        for place, cap in enumerate(caps)
        for value in np.unique(levels[place])
    )  # fmt: skip
    return Simulated(metrics=metrics, limiters=limiters)


_BALANCE: Final = {
    ("instance", Resource.THROUGHPUT): "EBSByteBalance%",
    ("instance", Resource.IOPS): "EBSIOBalance%",
    ("volume", Resource.IOPS): "BurstBalance",
}


def _as_bytes(cap: Cap, level: Values, demand: Demand) -> Values:
    if cap.resource is Resource.THROUGHPUT:
        return level
    in_bytes: Values = level * demand.operation
    return in_bytes


def _levels(demand: Demand, caps: Sequence[Cap]) -> tuple[list[Values], list[Values]]:
    """What each cap allows in every minute, and the per cent left in its bucket."""
    np = numpy()
    minutes = len(demand.operation)
    steady = np.minimum.reduce(
        [_as_bytes(cap, np.full(minutes, cap.burst or cap.sustained), demand) for cap in caps]
    )
    served = np.minimum(demand.throughput, steady[:, None])
    pairs = [_bucket(cap, served, demand) for cap in caps]
    return [level for level, _ in pairs], [left for _, left in pairs]


def _bucket(cap: Cap, served: Values, demand: Demand) -> tuple[Values, Values]:
    """Simulate one bucket on its own; each minute depends on the one before, so this is a loop."""
    np = numpy()
    minutes = len(demand.operation)
    if cap.burst is None:
        return np.full(minutes, cap.sustained), np.full(minutes, 100.0)
    asked = served if cap.resource is Resource.THROUGHPUT else served / demand.operation[:, None]
    free = np.minimum(asked, cap.burst).mean(axis=1).tolist()
    held = np.minimum(asked, cap.sustained).mean(axis=1).tolist()
    level, left = np.empty(minutes), np.empty(minutes)
    credits, spent = cap.bucket, False
    for minute in range(minutes):
        spent = credits <= 0 or (spent and credits < 0.02 * cap.bucket)
        used = held[minute] if spent else free[minute]
        level[minute] = cap.sustained if spent else cap.burst
        credits = min(cap.bucket, credits + (cap.sustained - used) * 60)
        left[minute] = max(credits, 0) / cap.bucket * 100
    return level, left


def _metrics(
    demand: Demand, served: Values, limit: Values, random: Any, manner: Manner
) -> dict[str, Values]:
    np = numpy()
    minutes = len(limit)
    throughput = served.mean(axis=1) * random.normal(1, manner.wobble, minutes)
    operations = throughput / demand.operation
    waits = _waits(demand, served, limit, operations, manner)
    waits = waits * random.lognormal(0, manner.noise, minutes)
    reads = demand.reads
    # Writes carry more bytes than reads, like PostgreSQL's WAL compared with its 8 kB pages.
    heavy = np.clip(reads * 0.9, 0.01, 0.99)
    return {
        "ReadThroughput": throughput * heavy,
        "WriteThroughput": throughput * (1 - heavy),
        "ReadIOPS": operations * reads,
        "WriteIOPS": operations * (1 - reads),
        "ReadLatency": waits * 0.8,
        "WriteLatency": waits * (1 - 0.8 * reads) / (1 - reads),
        "DiskQueueDepth": operations * waits,
    }


def _waits(
    demand: Demand, served: Values, limit: Values, operations: Values, manner: Manner
) -> Values:
    """Seconds per operation: Little's law with every session waiting where there is a queue."""
    np = numpy()
    busy = np.clip(served / limit[:, None], 0, 0.97)
    calm = manner.latency * (1 + 0.15 * busy / (1 - busy)).clip(max=2.0)
    queued = manner.sessions / np.maximum(operations, 1.0)
    jammed = np.maximum(queued, _JAMMED * manner.latency)
    over = demand.throughput >= limit[:, None]
    waits: Values = np.where(over, jammed[:, None], calm).mean(axis=1)
    return waits


def _five_minutes(values: Values) -> Values:
    """Keep one value in five minutes, as CloudWatch does for balances."""
    np = numpy()
    shown: Values = np.full_like(values, np.nan)
    shown[::5] = values[::5]
    return shown
