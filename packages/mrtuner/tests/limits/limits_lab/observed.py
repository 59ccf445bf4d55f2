"""What CloudWatch would show of a laboratory run, and the truth about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from limits_lab.physics import GRAZED, STEP, Limit, Run, levels
from limits_lab.workload import lumps
from mrtuner.catalog.classes import InstanceClass
from mrtuner.limits.ceilings import CeilingKind, Resource, ceilings
from mrtuner.stats.plateaus import numpy

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Mask, Values

#: CloudWatch shows balances every five minutes.
BALANCE: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The points at which one limit, at one level, held the load down."""

    resource: Resource
    part: str
    level: float  # in the unit of the resource's metric
    whole: Mask  # for every step of the point
    partly: Mask  # for at least half of the steps, grazing included


def held(ran: Run, limits: Sequence[Limit], step: int) -> tuple[Held, ...]:
    """Where each level of each limit held the load down, in points of `step` seconds."""
    found = []
    for number, (limit, level) in enumerate(levels(limits)):
        cut = points(ran.code == number, step)
        grazed = points(ran.code == number + GRAZED, step)
        if level is not None and (cut.any() or grazed.any()):
            found.append(
                Held(
                    resource=limit.resource,
                    part=limit.part,
                    level=level * limit.unit,
                    whole=cut.all(axis=1),
                    partly=(cut | grazed).mean(axis=1) >= 0.5,
                )
            )
    return tuple(found)


def observe(
    ran: Run, limits: Sequence[Limit], *, step: int, vcpus: int, random: Any,
    wobble: float = 0.0, jitter: float = 0.0,
) -> dict[str, Values]:  # fmt: skip
    """Metrics under CloudWatch's names, as averages over `step` seconds.

    `wobble` is the standard deviation, as a share, of the time that a point's counters ran, the
    same for all counters of the point; `jitter` that of the times and of what is in flight.
    """
    np = numpy()
    count = len(points(ran.operations, step))
    clock = 1 + wobble * random.standard_normal(count)
    time = np.exp(jitter * random.standard_normal(count))
    mean = {name: points(getattr(ran, name), step).mean(axis=1) for name in _USED}
    writes = np.maximum(mean["operations"] - mean["reads"], 0.0)
    found = {
        "ReadIOPS": mean["reads"] * clock,
        "WriteIOPS": writes * clock,
        "ReadThroughput": mean["read_bytes"] * clock,
        "WriteThroughput": np.maximum(mean["bytes"] - mean["read_bytes"], 0.0) * clock,
        "ReadLatency": _ratio(mean["read_busy"], mean["reads"]) * time,
        "WriteLatency": _ratio(mean["busy"] - mean["read_busy"], writes) * time,
        "DiskQueueDepth": mean["busy"] * time,
        "CPUUtilization": np.minimum(
            100 * mean["cpu"] / vcpus * (1 + wobble * random.standard_normal(count)), 100.0
        ),
    }
    for limit, share in zip(limits, ran.balances, strict=True):
        if share is not None and limit.metric:
            found[limit.metric] = _balance(share, step, count)
    return found


_USED: Final = ("operations", "reads", "bytes", "read_bytes", "busy", "read_busy", "cpu")


def points(values: Values, step: int) -> Any:
    """One row per point of `step` seconds; an incomplete last one is dropped."""
    each = step // STEP
    return values[: len(values) // each * each].reshape(-1, each)


def longest(mask: Mask) -> int:
    """The most points in a row."""
    np = numpy()
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(int), [0]))))
    return int((edges[1::2] - edges[::2]).max()) if len(edges) else 0


def _balance(share: Values, step: int, count: int) -> Values:
    """Per cent, at the first point of every five minutes."""
    np = numpy()
    found: Values = np.full(count, np.nan)
    means = 100 * points(share, BALANCE).mean(axis=1)
    found[: len(means) * (BALANCE // step) : BALANCE // step] = means
    return found


def _ratio(amount: Values, of: Values) -> Values:
    """The quotient, or zero where there is nothing, as in CloudWatch."""
    np = numpy()
    found: Values = np.divide(amount, of, out=np.zeros(len(of)), where=of > 1e-6)
    return found


def outages(random: Any, steps: int, step: int) -> tuple[Values, Mask]:
    """Steps in which the server is down; and missing points, including those."""
    np = numpy()
    down = np.zeros(steps, dtype=bool)
    missing = np.zeros(steps * STEP // step, dtype=bool)
    for _ in range(int(random.integers(1, 3)) if random.random() < 0.15 else 0):
        at = int(random.integers(steps))
        until = at + int(random.integers(12, 48))
        down[at:until] = True
        missing[at * STEP // step : -(-until * STEP // step)] = True
    for _ in range(int(random.integers(1, 4)) if random.random() < 0.25 else 0):
        at = int(random.integers(len(missing)))
        missing[at : at + max(1, int(random.uniform(120, 5400)) // step)] = True
    return down, missing


def others(
    random: Any, instance: InstanceClass, metrics: Mapping[str, Values]
) -> dict[str, Values]:
    """Other metrics, in some of the cases, none of them at its limit."""
    np = numpy()
    found: dict[str, Values] = {}
    operations = metrics["ReadIOPS"] + metrics["WriteIOPS"]
    count = len(operations)
    if random.random() < 0.6:
        free = instance.memory * random.uniform(0.15, 0.5)
        found["FreeableMemory"] = free * (1 + lumps(random, count, 0.06, 97))
        found["SwapUsage"] = np.zeros(count)
        connected = random.uniform(10, 300) * (1 + lumps(random, count, 0.1, 31))
        found["DatabaseConnections"] = np.round(np.maximum(connected, 1))
    most = [
        one.value
        for one in ceilings(instance, None)
        if one.resource is Resource.NETWORK_OUT and one.kind is CeilingKind.SUSTAINED
    ]
    if most and random.random() < 0.5:
        for name in ("NetworkReceiveThroughput", "NetworkTransmitThroughput"):
            scale = random.uniform(0.02, 0.25) * most[0] / operations.max()
            uneven = np.exp(0.1 * random.standard_normal(count) + lumps(random, count, 0.15, 40))
            found[name] = operations * scale * uneven
    return found


def shown(random: Any, metrics: Mapping[str, Values]) -> dict[str, Values]:
    """Leave out some metrics in some of the cases."""
    left_out = {name for names, often in _LEFT_OUT if random.random() < often for name in names}
    return {name: values for name, values in metrics.items() if name not in left_out}


_LEFT_OUT: Final = (
    (("DiskQueueDepth",), 0.08),
    (("ReadLatency", "WriteLatency"), 0.08),
    (("EBSByteBalance%", "EBSIOBalance%", "BurstBalance"), 0.12),
    (("CPUUtilization",), 0.08),
)
