"""Burst balances of EBS and CPU credits: which ceiling uses up which, and when one ran out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.volumes import cpu_baseline
from mrtuner.limits.ceilings import LIMITED, Ceiling, CeilingKind, Resource
from mrtuner.limits.metrics.series import MetricSeries
from mrtuner.stats.plateaus import numpy

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Mask

#: The balance that a burst limit uses up, by part and resource.
BALANCE_OF: Final = {
    ("instance", Resource.THROUGHPUT): "EBSByteBalance%",
    ("instance", Resource.IOPS): "EBSIOBalance%",
    ("volume", Resource.IOPS): "BurstBalance",
    ("instance", Resource.CPU): "CPUCreditBalance",
}
#: Every balance with its unit, the value that counts as used up, and the one that is plenty.
BALANCES: Final = (
    ("EBSByteBalance%", " %", 5.0, 20.0),
    ("EBSIOBalance%", " %", 5.0, 20.0),
    ("BurstBalance", " %", 5.0, 20.0),
    ("CPUCreditBalance", " credits", 1.0, 10.0),
)
SCALE: Final = {metric: (unit, empty, plenty) for metric, unit, empty, plenty in BALANCES}
#: CloudWatch shows balances every five minutes.
_BALANCE_SECONDS: Final = 300


def used_up(series: MetricSeries, ceiling: Ceiling) -> Mask | None:
    """The points at which the balance for this ceiling was used up; None if there is no balance."""
    metric = BALANCE_OF.get((ceiling.part, ceiling.resource))
    if metric is None or metric not in series.metrics or ceiling.kind is not CeilingKind.SUSTAINED:
        return None
    return _empty(series, metric)


def _empty(series: MetricSeries, metric: str) -> Mask:
    """The points at which a balance was used up; between two points of it, the earlier counts."""
    np = numpy()
    balance = series.metrics[metric]
    last = np.maximum.accumulate(np.where(np.isfinite(balance), np.arange(len(balance)), -1))
    fresh = np.arange(len(balance)) - last < max(_BALANCE_SECONDS // series.step, 1)
    empty: Mask = (last >= 0) & fresh & (balance[last] <= SCALE[metric][1])
    return empty


def is_unlimited(instance: InstanceClass) -> bool:
    """Whether a burstable class without credits goes on above its baseline, at a price."""
    return cpu_baseline(instance.name) is not None and instance.family not in LIMITED


def surplus(series: MetricSeries, instance: InstanceClass) -> float | None:
    """vCPU hours of surplus credits that a class in Unlimited mode used while it had none left.

    What it used below its baseline at other times may pay some of them back.
    None for other classes, and without both metrics. Source: EC2 User Guide, Unlimited mode.
    """
    np = numpy()
    baseline = cpu_baseline(instance.name)
    used, balance = series.metrics.get("CPUUtilization"), "CPUCreditBalance"
    if baseline is None or not is_unlimited(instance):
        return None
    if used is None or balance not in series.metrics:
        return None
    at = _empty(series, balance) & np.isfinite(used)
    above = float(np.maximum(used[at] - baseline, 0.0).sum()) / 100 * instance.vcpus
    return above * series.step / 3600


def burst_credits_used_up(series: MetricSeries) -> Iterator[tuple[str, str, float, float]]:
    """Each balance that ran out: metric, unit, the value that counts as used up, minutes."""
    np = numpy()
    for metric, unit, empty, _ in BALANCES:
        values = series.metrics.get(metric)
        if values is None or not np.isfinite(values).any():
            continue
        share = float(np.mean(values[np.isfinite(values)] <= empty))
        if share:
            yield metric, unit, empty, share * series.minutes(series.points)
