"""Cases with known truth, of every kind: bursts, credits, noise, gaps, restarts, even jobs.

`case(seed)` returns the same case for the same seed. It includes hard cases on purpose: jobs at
an even pace far from any limit, peaks as flat as a sine's, spikes shorter than a minute, ceilings
that no table lists, and metrics that were not collected.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from limits_truth import Case

from mrtuner.catalog.classes import InstanceClass, instance_classes
from mrtuner.catalog.volumes import Volume, before_december_2019, volume_of
from mrtuner.limits.ceilings import BURST_MINUTES, Resource
from mrtuner.limits.examples.simulate import PARTS, Cap, Demand, Limiter, Manner, simulate
from mrtuner.limits.metrics.series import MetricSeries
from mrtuner.stats.plateaus import numpy, runs
from mrtuner.units import KiB

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Values

_MBPS: Final = 125_000
_START: Final = datetime(2026, 3, 2, tzinfo=UTC)  # a Monday
_DAY: Final = 1440
#: A truth should be found from this many points at the ceiling on, and this many in a row.
WORTH_FINDING: Final = 30
IN_ONE_STRETCH: Final = 15
#: Reporting a shorter one of at least this many points is neither right nor wrong.
WORTH_A_WORD: Final = 6
KINDS: Final = ("calm", "even job", "sine", "near", "spikes", "pegged", "former", "unknown")
#: In half of the cases there is nothing to find.
_WEIGHTS: Final = (0.1, 0.1, 0.1, 0.1, 0.1, 0.3, 0.08, 0.12)


def case(seed: int, *, days: int = 4) -> Case:
    """Generate one case."""
    np = numpy()
    random = np.random.default_rng([2019, 12, seed])
    kind = str(random.choice(KINDS, p=_WEIGHTS))
    instance, volume = _machine(random, kind)
    caps = _caps(instance, volume, kind, random)
    demand = _demand(random, kind, caps, days * _DAY)
    simulated = simulate(demand, caps, random, _manner(random))
    step, metrics = _as_collected(simulated.metrics, random)
    long = [one for one in simulated.limiters if _worth_finding(one, step)]
    short = [
        one for one in simulated.limiters
        if one.minutes.sum() >= WORTH_A_WORD and not _worth_finding(one, step)
    ]  # fmt: skip
    return Case(
        seed=seed,
        kind=kind,
        instance=instance,
        volume=volume,
        series=MetricSeries(start=_START, step=step, metrics=metrics),
        truths=tuple(_in_points(one, step) for one in long),
        hints=tuple(_in_points(one, step) for one in short),
    )


def _manner(random: Any) -> Manner:
    return Manner(
        wobble=float(random.uniform(0.001, 0.008)),
        latency=float(random.choice([5e-4, 1e-3, 2e-3])),
        noise=float(random.uniform(0.05, 0.4)),
        sessions=float(random.choice([10, 30, 80, 200])),
    )


def _worth_finding(limiter: Limiter, step: int) -> bool:
    points = step // 60
    longest = max((end - start for start, end in runs(limiter.minutes)), default=0)
    return bool(
        limiter.minutes.sum() >= WORTH_FINDING * points and longest >= IN_ONE_STRETCH * points
    )


def _in_points(limiter: Limiter, step: int) -> Limiter:
    """The limiter at the points of the series, if it holds for half of each one's minutes."""
    return replace(limiter, minutes=limiter.minutes.reshape(-1, step // 60).mean(axis=1) >= 0.5)


@cache
def _classes() -> tuple[InstanceClass, ...]:
    return tuple(
        one for one in instance_classes().values() if one.ebs_baseline_mbps and one.ebs_max_iops
    )


def _machine(random: Any, kind: str) -> tuple[InstanceClass, Volume]:
    known = _classes()
    if kind == "former":
        known = tuple(one for one in known if any(before_december_2019(one.name)))
    instance = known[int(random.integers(len(known)))]
    gib = int(random.choice([50, 100, 200, 400, 500, 1000, 2000, 6000]))
    kinds = ["gp2", "gp3", "gp3", "io1"] if gib >= 100 else ["gp2", "gp3"]
    return instance, _volume(str(random.choice(kinds)), gib, random)


def _volume(kind: str, gib: int, random: Any) -> Volume:
    if kind == "io1":
        return volume_of("io1", gib, iops=int(min(gib * random.integers(10, 50), 19000)))
    if kind == "gp3" and gib >= 400:
        iops = int(random.choice([12000, 16000, 20000, 30000]))
        return volume_of("gp3", gib, iops=iops, throughput=int(random.choice([500, 750, 1000])))
    return volume_of(kind, gib)


def _caps(instance: InstanceClass, volume: Volume, kind: str, random: Any) -> list[Cap]:
    baseline, most = instance.ebs_baseline_mbps or 0, instance.ebs_max_mbps or 0
    if kind == "former":
        then = before_december_2019(instance.name)
        baseline, most = then[0] or baseline, then[1] or most
    caps = [
        _cap(Resource.THROUGHPUT, baseline * _MBPS, most * _MBPS),
        _cap(Resource.IOPS, instance.ebs_baseline_iops or 0, instance.ebs_max_iops or 0),
    ]
    if volume.iops is not None:
        bucket = 5_400_000.0 * volume.stripes
        caps.append(Cap(
            resource=Resource.IOPS, part="volume", sustained=volume.iops, burst=volume.burst_iops,
            bucket=bucket if volume.burst_iops else 0.0,
        ))  # fmt: skip
    if volume.throughput is not None:
        caps.append(
            Cap(resource=Resource.THROUGHPUT, part="volume", sustained=volume.throughput)
        )  # fmt: skip
    caps = [_off_nominal(cap, float(random.uniform(0.99, 1.013))) for cap in caps]
    if kind == "unknown":
        lowest = min(cap.sustained for cap in caps if cap.resource is Resource.THROUGHPUT)
        share = float(random.uniform(0.4, 0.9))
        caps.append(Cap(resource=Resource.THROUGHPUT, part="unknown", sustained=lowest * share))
    return caps


def _off_nominal(cap: Cap, by: float) -> Cap:
    """Shift a cap slightly off its published value, as measured ones are."""
    burst = None if cap.burst is None else cap.burst * by
    return replace(cap, sustained=cap.sustained * by, burst=burst)


def _cap(resource: Resource, baseline: float, most: float) -> Cap:
    if most <= baseline:
        return Cap(resource=resource, part="instance", sustained=baseline)
    return Cap(
        resource=resource, part="instance", sustained=baseline, burst=most,
        bucket=(most - baseline) * 60 * BURST_MINUTES,
    )  # fmt: skip


def _demand(random: Any, kind: str, caps: list[Cap], minutes: int) -> Demand:
    np = numpy()
    operation = _operation(random, kind, minutes)
    limit = min(
        cap.sustained * (1 if cap.resource is Resource.THROUGHPUT else float(np.median(operation)))
        for cap in caps
    )
    rough = float(random.uniform(0.03, 0.25))
    shape = _SHAPES.get(kind, _pegged)(random, minutes, rough)
    within = random.lognormal(0, 0.02 if kind == "even job" else rough, (minutes, PARTS))
    reads = np.clip(0.6 + 0.15 * _slow(random, minutes), 0.1, 0.95)
    if kind == "even job":
        within = np.where(shape[:, None] > 0.3, random.normal(1, 0.003, (minutes, PARTS)), within)
    return Demand(throughput=shape[:, None] * within * limit, operation=operation, reads=reads)


def _operation(random: Any, kind: str, minutes: int) -> Values:
    """Bytes per operation: from small pages to WAL and sequential reads."""
    np = numpy()
    base = float(np.exp(random.uniform(np.log(8), np.log(64)))) * KiB
    rough = 0.01 if kind == "even job" else float(random.uniform(0.01, 0.08))
    size: Values = base * np.exp(0.15 * _slow(random, minutes) + random.normal(0, rough, minutes))
    return size


def _slow(random: Any, minutes: int) -> Values:
    """Values between about -2 and 2 that change over hours."""
    np = numpy()
    knots = random.normal(0, 1, minutes // 120 + 2)
    smooth: Values = np.interp(np.arange(minutes), np.arange(len(knots)) * 120, knots)
    return smooth


def _day(minutes: int, peak: float = 14.0) -> Values:
    """A daily curve: 0 at night, 1 at the peak hour."""
    np = numpy()
    wave: Values = 0.5 + 0.5 * np.cos((np.arange(minutes) / 60 - peak) / 24 * 2 * np.pi)
    return wave


def _noise(random: Any, minutes: int, rough: float) -> Values:
    np = numpy()
    noise: Values = np.exp(rough * random.normal(0, 1, minutes) + 0.1 * _slow(random, minutes))
    return noise


def _calm(random: Any, minutes: int, rough: float) -> Values:
    shape: Values = (0.05 + random.uniform(0.2, 0.5) * _day(minutes)) * _noise(
        random, minutes, rough
    )  # fmt: skip
    return shape


def _even_job(random: Any, minutes: int, rough: float) -> Values:
    """A background load, and a job at an even pace for some hours a day."""
    np = numpy()
    shape = 0.4 * _calm(random, minutes, rough).clip(max=0.6)
    pace, hour, lasts = random.uniform(0.35, 0.8), random.integers(0, 20), random.integers(1, 4)
    clock = np.arange(minutes) / 60 % 24
    working: Values = np.where((clock >= hour) & (clock < hour + lasts), pace, shape)
    return working


def _sine(random: Any, minutes: int, _rough: float) -> Values:
    """Almost no noise: flat at the top, as every sine is."""
    peak = random.uniform(0.4, 0.9)
    shape: Values = peak * (0.3 + 0.7 * _day(minutes)) * random.lognormal(0, 0.008, minutes)
    return shape


def _near(random: Any, minutes: int, rough: float) -> Values:
    """Hours just below the limit, without touching it for long."""
    shape: Values = (0.3 + 0.45 * _day(minutes)) * random.lognormal(0, min(rough, 0.08), minutes)
    return shape


def _spikes(random: Any, minutes: int, rough: float) -> Values:
    """Calm, with bursts of a minute or two far above the limit."""
    shape = _calm(random, minutes, rough)
    for start in random.integers(0, minutes - 3, max(minutes // 400, 1)):
        shape[start : start + int(random.integers(1, 3))] = random.uniform(1.5, 4)
    return shape


def _pegged(random: Any, minutes: int, rough: float) -> Values:
    """Demand above the limit in some hours of most days."""
    np = numpy()
    shape = _calm(random, minutes, rough)
    height, hour, lasts = random.uniform(1.05, 3), random.integers(0, 20), random.integers(1, 8)
    clock = np.arange(minutes) / 60 % 24
    asked = (clock >= hour) & (clock < hour + lasts)
    above: Values = np.where(asked, height * _noise(random, minutes, rough), shape)
    return above


_SHAPES: Final = {
    "calm": _calm, "even job": _even_job, "sine": _sine, "near": _near, "spikes": _spikes,
}  # fmt: skip


def _as_collected(metrics: dict[str, Values], random: Any) -> tuple[int, dict[str, Values]]:
    """Add gaps and restarts; some at five-minute intervals, some without the queue's metrics."""
    np = numpy()
    minutes = len(metrics["ReadIOPS"])
    if random.random() < 0.1:
        for name in ("ReadLatency", "WriteLatency", "DiskQueueDepth"):
            del metrics[name]
    lost = np.zeros(minutes, dtype=bool)
    for start in random.integers(0, minutes, int(random.integers(0, 6))):
        lost[start : start + int(random.integers(1, 90))] = True
    lost |= random.random(minutes) < random.choice([0.0, 0.0, 0.002, 0.02])
    for start in random.integers(0, minutes, int(random.integers(0, 3))):
        lasts = int(random.integers(2, 10))
        for name in metrics.keys() - _BALANCES:
            metrics[name][start : start + lasts] = 0.0
    seen = {name: np.where(lost, np.nan, values) for name, values in metrics.items()}
    return (300, _averaged(seen)) if random.random() < 1 / 6 else (60, seen)


_BALANCES: Final = frozenset({"EBSByteBalance%", "EBSIOBalance%", "BurstBalance"})


def _averaged(metrics: dict[str, Values]) -> dict[str, Values]:
    """Average five minutes into one point; balances are at five minutes already."""
    np = numpy()
    tables = {name: values.reshape(-1, 5) for name, values in metrics.items()}
    return {
        name: table[:, 0] if name in _BALANCES else np.where(
            np.isnan(table).any(axis=1), np.nan, table.mean(axis=1)
        )
        for name, table in tables.items()
    }  # fmt: skip
