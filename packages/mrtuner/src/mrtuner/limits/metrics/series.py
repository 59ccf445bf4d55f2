"""Metrics of one instance on a common time grid, with CloudWatch's names and units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Values

#: CloudWatch's unit for every metric we use. Source: RDS User Guide, Amazon RDS metrics.
UNITS: Final[Mapping[str, str]] = {
    "ReadThroughput": "B/s",
    "WriteThroughput": "B/s",
    "ReadIOPS": "1/s",
    "WriteIOPS": "1/s",
    "ReadLatency": "s",
    "WriteLatency": "s",
    "DiskQueueDepth": "",
    "NetworkReceiveThroughput": "B/s",
    "NetworkTransmitThroughput": "B/s",
    "CPUUtilization": "%",
    "CPUCreditBalance": "",
    "BurstBalance": "%",
    "EBSIOBalance%": "%",
    "EBSByteBalance%": "%",
    "FreeableMemory": "B",
    "SwapUsage": "B",
    "DatabaseConnections": "",
}
#: Points with a value that a level needs. Fewer show none that lasts.
FEWEST: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSeries:
    """Equal steps from `start` (UTC); NaN where a metric has no point."""

    start: datetime
    step: int  # seconds
    metrics: Mapping[str, Values]
    notices: tuple[str, ...] = ()
    apart: bool = False  # of a host, which may limit reads and writes separately

    @property
    def points(self) -> int:
        return max((len(values) for values in self.metrics.values()), default=0)

    @property
    def end(self) -> datetime:
        return self.at(self.points)

    def at(self, point: int) -> datetime:
        return self.start + timedelta(seconds=point * self.step)

    def minutes(self, points: int) -> float:
        """Return the duration of this many steps."""
        return points * self.step / 60

    def total(self, *names: str) -> Values | None:
        """The sum of metrics, such as read and write together; None unless all exist."""
        if not all(name in self.metrics for name in names):
            return None
        first, *rest = (self.metrics[name] for name in names)
        return sum(rest, start=first)
