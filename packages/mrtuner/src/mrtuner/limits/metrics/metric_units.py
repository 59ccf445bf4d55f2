"""Whether metrics are in CloudWatch's units, and throughput converted from others.

A file does not state its units. But bytes per operation and latencies are within known bounds on
every volume, which reveals megabytes, milliseconds and swapped columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mrtuner.errors import BadValue
from mrtuner.limits.metrics.series import UNITS, MetricSeries
from mrtuner.stats.plateaus import numpy

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Values

#: Factors to bytes per second.
THROUGHPUT_UNITS: Final[Mapping[str, float]] = {
    "B/s": 1, "kB/s": 1e3, "KiB/s": 1024, "MB/s": 1e6, "MiB/s": 1024**2,
}  # fmt: skip
_THROUGHPUTS: Final = tuple(name for name in UNITS if name.endswith("Throughput"))
_LATENCIES: Final = ("ReadLatency", "WriteLatency")
#: Bytes per operation on a volume: PostgreSQL's 8 kB, merged up to EBS's 256 KiB, with a margin.
_OPERATION: Final = (256.0, 4 * 1024.0**2)
#: Even an idle instance's peak exceeds this many bytes per second.
_BYTES_FROM: Final = 20_000.0
#: A median latency [s] that no volume reaches unless requests queue.
_SLOWEST: Final = 2.0
#: Operations in flight, by rate and latency, over the queue: milliseconds would give 1000.
_MOST_IN_FLIGHT: Final = 50


class WrongUnit(BadValue):
    """The throughput cannot be bytes per second; `unit` is what it looks like."""

    def __init__(self, unit: str) -> None:
        super().__init__(
            f"the throughput looks like {unit}, but CloudWatch uses bytes per second",
            f"Add --throughput-unit {unit}, or give bytes per second.",
        )
        self.unit = unit


def in_cloudwatch_units(series: MetricSeries, throughput_unit: str | None = None) -> MetricSeries:
    """Convert a series to CloudWatch's units; BadValue if the result is implausible."""
    metrics = dict(series.metrics)
    if throughput_unit is not None:
        if throughput_unit not in THROUGHPUT_UNITS:
            raise BadValue(
                f"unknown unit of throughput {throughput_unit!r}",
                f"Use one of {', '.join(THROUGHPUT_UNITS)}.",
            )
        for name in _THROUGHPUTS:
            if name in metrics:
                metrics[name] = metrics[name] * THROUGHPUT_UNITS[throughput_unit]
    changed = MetricSeries(
        start=series.start, step=series.step, metrics=metrics, notices=series.notices
    )  # fmt: skip
    unit = guessed_unit(changed)
    if unit is not None:
        raise WrongUnit(unit)
    _check_columns(changed)
    _check_latency(changed)
    return changed


def guessed_unit(series: MetricSeries) -> str | None:
    """The unit of throughput that would make sense of it, or None if bytes do."""
    np = numpy()
    total = series.total("ReadThroughput", "WriteThroughput")
    operations = series.total("ReadIOPS", "WriteIOPS")
    if total is None:
        return None
    if operations is None:
        busiest = float(np.nanmax(total)) if np.isfinite(total).any() else _BYTES_FROM
        return "MB/s" if 0 < busiest < _BYTES_FROM else None
    size = _operation_size(total, operations)
    if size is None or _OPERATION[0] <= size <= _OPERATION[1]:
        return None
    likely = (u for u in ("MB/s", "kB/s") if 2048 <= size * THROUGHPUT_UNITS[u] <= 512 * 1024)
    return next(likely, None)


def _check_columns(series: MetricSeries) -> None:
    """Refuse reads and writes that only make sense in different units: one column is wrong."""
    for way in ("Read", "Write"):
        carried = series.metrics.get(f"{way}Throughput")
        size = _operation_size(carried, series.metrics.get(f"{way}IOPS"))
        if size is not None and not _OPERATION[0] <= size <= _OPERATION[1]:
            raise BadValue(
                f"{way}Throughput over {way}IOPS is {size:.3g} bytes per operation, although "
                "reads and writes together make sense: one column has a different unit",
                "Give both throughputs in bytes per second and both IOPS in operations per second.",
            )


def _operation_size(carried: Values | None, operations: Values | None) -> float | None:
    """Median bytes per operation; None if too little is known."""
    np = numpy()
    if carried is None or operations is None:
        return None
    used = (operations > 1) & (carried > 0)
    return float(np.median(carried[used] / operations[used])) if used.sum() >= 20 else None


def _check_latency(series: MetricSeries) -> None:
    np = numpy()
    for name in _LATENCIES:
        if name not in series.metrics:
            continue
        values = series.metrics[name]
        values = values[np.isfinite(values) & (values > 0)]
        slow = len(values) and float(np.median(values)) > _SLOWEST
        if slow and not _queued(series, name):
            raise BadValue(
                f"{name} is {float(np.median(values)):.3g} at the median, which cannot be in "
                "seconds",
                "CloudWatch uses seconds: divide milliseconds by 1000. DiskQueueDepth would tell.",
            )


def _queued(series: MetricSeries, latency: str) -> bool:
    """Whether the queue is as long as the latency makes it, by Little's law: a saturated volume."""
    np = numpy()
    operations = series.metrics.get(latency.replace("Latency", "IOPS"))
    queue = series.metrics.get("DiskQueueDepth")
    if operations is None or queue is None:
        return False
    in_flight = operations * series.metrics[latency]
    known = np.isfinite(in_flight) & np.isfinite(queue) & (in_flight > 0)
    if not known.any():
        return False
    return float(np.median(in_flight[known] / (queue[known] + 1))) < _MOST_IN_FLIGHT
