"""The example's case over three days, with two remedies: more IOPS, in vain, then a larger class.

Monday and Tuesday as in `example`: by day reads and writes together stay at the old baseline of a
db.r5.2xlarge, at night jobs run at its old maximum. On Tuesday the volume's provisioned IOPS go
from 20,000 to 30,000, which changes nothing. In the night to Wednesday the class becomes
db.r5.4xlarge, and the same demand is served: latency and throughput as in the field notes of 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from mrtuner.limits.ceilings import Resource
from mrtuner.limits.examples.simulate import PARTS, Cap, Demand, Manner, simulate
from mrtuner.limits.examples.week import (
    IOPS,
    MOST,
    SEED,
    background,
    busy_hours,
    instance_caps,
    night_jobs,
    rest_of_instance,
)
from mrtuner.limits.metrics.series import MetricSeries
from mrtuner.stats.plateaus import numpy

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Mask, Values

CLASS_BEFORE: Final = "db.r5.2xlarge"
CLASS_AFTER: Final = "db.r5.4xlarge"
IOPS_BEFORE: Final = 20_000
IOPS_AFTER: Final = 30_000
START: Final = datetime(2026, 3, 2, tzinfo=UTC)  # a Monday
MORE_IOPS: Final = START + timedelta(days=1, hours=12)
LARGER_CLASS: Final = START + timedelta(days=2, hours=3, minutes=30)
#: How long the instance is away meanwhile [minutes].
AWAY: Final = 6
DAYS: Final = 3
_MINUTES: Final = DAYS * 1440
#: db.r5.4xlarge: 4,750 Mbps and 18,750 IOPS at any time. Source: the EC2 User Guide.
_LARGER: Final = 593.75e6
#: What programs ask for by day; the notes saw 325 MB/s once the ceiling was gone.
_ASKED: Final = 326e6
#: Bytes per operation: by day 7,600 operations a second at the ceiling, under 70 % of what the
#: class carries all day; jobs at night read in larger pieces.
_BY_DAY: Final = 28_000.0
_BY_NIGHT: Final = 56_000.0
#: Few of the operations are writes, and each is long: 5 ms and 100 ms at the ceiling, with a queue
#: of 50 and more, and 1 ms and 15 ms without.
_READS: Final = 0.985
_MANNER: Final = Manner(wobble=0.003, latency=0.85e-3, noise=0.08, sessions=52.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """The days, minute by minute."""

    series: MetricSeries  # of the instance, NaN while it is away
    served: Values  # the share of what programs asked for that they got
    working: Mask  # hours in which people work
    jobs: Mask  # minutes in which a job of the night runs


def simulated_upgrade() -> Upgrade:
    """Simulate the three days, always the same."""
    np = numpy()
    random = np.random.default_rng(SEED)
    before = int((LARGER_CLASS - START).total_seconds()) // 60
    larger = [
        Cap(resource=Resource.THROUGHPUT, part="instance", sustained=_LARGER),
        Cap(resource=Resource.IOPS, part="instance", sustained=IOPS),
    ]
    parts = []
    for minutes, caps, cpus in (
        (np.arange(before), instance_caps(), 8),
        (np.arange(before, _MINUTES), larger, 16),
    ):
        demand = _demand(random, minutes)
        told = simulate(demand, caps, random, _MANNER)
        rest = rest_of_instance(random, told.metrics)
        rest["CPUUtilization"] = rest["CPUUtilization"] * 8 / cpus
        rest["FreeableMemory"] = rest["FreeableMemory"] * cpus / 8
        parts.append((demand.throughput.mean(axis=1), {**told.metrics, **rest}))
    metrics = {
        name: np.concatenate([part.get(name, np.full(len(asked), np.nan)) for asked, part in parts])
        for name in parts[0][1]
    }
    for values in metrics.values():
        values[before : before + AWAY] = np.nan
    asked = np.concatenate([asked for asked, _ in parts])
    moved = metrics["ReadThroughput"] + metrics["WriteThroughput"]
    every = np.arange(_MINUTES)
    return Upgrade(
        series=MetricSeries(start=START, step=60, metrics=metrics),
        served=np.clip(moved / asked, 0, 1),
        working=busy_hours(every),
        jobs=night_jobs(every / 60 % 24),
    )


def _demand(random: Any, minutes: Values) -> Demand:
    np = numpy()
    clock, count = minutes / 60 % 24, len(minutes)
    jobs = night_jobs(clock)
    shape = np.where(busy_hours(minutes), _ASKED, background(clock))
    shape = np.where(jobs, 1.1 * MOST, shape)
    shape = shape * random.lognormal(0, 0.04, count)
    within = random.lognormal(0, 0.05, (count, PARTS))
    size = np.where(jobs, _BY_NIGHT, _BY_DAY) * random.lognormal(0, 0.03, count)
    return Demand(
        throughput=shape[:, None] * within, operation=size, reads=np.full(count, _READS)
    )  # fmt: skip
