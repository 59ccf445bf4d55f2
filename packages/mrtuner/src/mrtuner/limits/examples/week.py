"""The case from the field notes as metrics: slow for hours, and nothing above 70 per cent.

A db.r5.2xlarge started before December 2019 (3,500 Mbps, baseline 1,700) with 30,000 IOPS of io1.
Jobs at night find burst credits and run at the old maximum; by day the load stays above the old
baseline. The measured levels are 1.3 and 0.2 per cent above nominal, as in the notes.
"""

from __future__ import annotations

import lzma
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.limits.ceilings import Resource
from mrtuner.limits.examples.simulate import PARTS, Cap, Demand, Manner, simulate
from mrtuner.limits.metrics.series import MetricSeries
from mrtuner.stats.plateaus import numpy

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Mask, Values

CLASS: Final = "db.r5.2xlarge"
STORAGE: Final = "io1:1000GB,30000iops"
DAYS: Final = 7
#: The measured 443 and 213 MB/s.
BASELINE: Final = 213e6
MOST: Final = 443e6
IOPS: Final = 18_750
_SIZE: Final = 28_000.0  # bytes per operation: some 15,000 IOPS at the maximum
#: Written by `python -m mrtuner.limits.examples.week`.
_EXAMPLE: Final = Path(__file__).with_name("week.csv.xz")
_START: Final = datetime(2026, 3, 2, tzinfo=UTC)
_MINUTES: Final = DAYS * 1440
#: Of everything that is random in an example.
SEED: Final = 2021
#: Jobs at night: starting hour, minutes they last.
_JOBS: Final = ((0.5, 20), (2.5, 20), (4.5, 15))


def simulated_week() -> MetricSeries:
    """Simulate a week of the case, always the same."""
    np = numpy()
    random = np.random.default_rng(SEED)
    told = simulate(_demand(random), instance_caps(), random, Manner(wobble=0.003))
    extra = rest_of_instance(random, told.metrics)
    return MetricSeries(start=_START, step=60, metrics={**told.metrics, **extra})


def example() -> str:
    """Return the week as CSV from a packaged file, so that printing it does not need numpy."""
    return lzma.decompress(_EXAMPLE.read_bytes()).decode()


def as_csv(series: MetricSeries) -> str:
    """Return the metrics as CSV, one point per line; balances only where they have a point."""
    np = numpy()
    names = list(series.metrics)
    lines = [",".join(["timestamp", *names])]
    for point in range(series.points):
        values = (float(series.metrics[name][point]) for name in names)
        cells = ("" if np.isnan(value) else f"{value:.4g}" for value in values)
        lines.append(",".join([f"{series.at(point):%Y-%m-%dT%H:%M:%SZ}", *cells]))
    return "\n".join(lines) + "\n"


def instance_caps() -> list[Cap]:
    """What held the instance down: an hour's credits for the old maximum, then the old baseline."""
    return [
        Cap(
            resource=Resource.THROUGHPUT, part="instance", sustained=BASELINE, burst=MOST,
            bucket=(MOST - BASELINE) * 60 * 60,
        ),
        Cap(resource=Resource.IOPS, part="instance", sustained=IOPS),
    ]  # fmt: skip


def _demand(random: Any) -> Demand:
    np = numpy()
    minute = np.arange(_MINUTES)
    clock = minute / 60 % 24
    shape = np.where(night_jobs(clock), 800e6, background(clock))
    shape = np.where(busy_hours(minute), 330e6, shape)
    shape = shape * random.lognormal(0, 0.12, _MINUTES)
    within = random.lognormal(0, 0.15, (_MINUTES, PARTS))
    size = _SIZE * random.lognormal(0, 0.06, _MINUTES)
    return Demand(
        throughput=shape[:, None] * within, operation=size, reads=np.full(_MINUTES, 0.7)
    )  # fmt: skip


def background(clock: Values) -> Values:
    """What the instance reads and writes at these hours of the day without any jobs [bytes/s]."""
    np = numpy()
    wave: Values = 55e6 * (1 + 0.3 * np.sin(clock / 24 * 2 * np.pi))
    return wave


def night_jobs(clock: Values) -> Mask:
    """Whether a job runs at these hours of the day."""
    np = numpy()
    running: Mask = np.zeros(len(clock), dtype=bool)
    for start, lasts in _JOBS:
        running |= (clock >= start) & (clock < start + lasts / 60)
    return running


def busy_hours(minute: Values) -> Mask:
    """Whether these minutes after Monday 0:00 are working time."""
    clock = minute / 60 % 24
    working: Mask = (clock >= 8) & (clock < 17.5) & (minute // 1440 < 5)
    return working


def rest_of_instance(random: Any, disk: Any) -> dict[str, Any]:
    """CPU, network, memory and connections, all under 70 per cent."""
    np = numpy()
    busy = (disk["ReadThroughput"] + disk["WriteThroughput"]) / MOST
    minutes = len(busy)
    return {
        "CPUUtilization": (18 + 35 * busy) * random.normal(1, 0.06, minutes),
        "NetworkReceiveThroughput": 12e6 * (0.3 + busy) * random.lognormal(0, 0.2, minutes),
        "NetworkTransmitThroughput": 30e6 * (0.3 + busy) * random.lognormal(0, 0.2, minutes),
        "FreeableMemory": np.full(minutes, 21e9) * random.normal(1, 0.02, minutes),
        "DatabaseConnections": np.round(180 + 60 * busy + random.normal(0, 6, minutes)),
    }


if __name__ == "__main__":
    _EXAMPLE.write_bytes(lzma.compress(as_csv(simulated_week()).encode(), preset=9))
