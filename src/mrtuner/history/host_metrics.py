"""A recorded host with CloudWatch's names and units, on a grid of equal steps: for `limits`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from mrtuner.errors import UsageError
from mrtuner.history.analysis import CPU_ALL, CPU_USED, Period
from mrtuner.history.reading import History

#: Length of a step [s]: the interval at which the host is sampled.
STEP: Final = 15
#: A sample that covers more than so many steps has a gap before it, and is left out.
_LONGEST: Final = 2
#: Sessions that wait for I/O, their own or another's.
WAITING: Final = "SessionsWaitingForIO"

#: The rate or level of one sample. A CPU quota counts as all there is.
_METRICS: Final = {
    "ReadIOPS": "disk_reads / seconds",
    "WriteIOPS": "disk_writes / seconds",
    "ReadThroughput": "disk_read_bytes / seconds",
    "WriteThroughput": "disk_written_bytes / seconds",
    "ReadLatency": "disk_read_time / nullif(disk_reads, 0)",
    "WriteLatency": "disk_write_time / nullif(disk_writes, 0)",
    "DiskQueueDepth": "disk_queued_time / seconds",
    "NetworkReceiveThroughput": "received_bytes / seconds",
    "NetworkTransmitThroughput": "sent_bytes / seconds",
    "CPUUtilization": f"""CASE WHEN {CPU_ALL} / seconds > cpus + 0.5
        THEN 100 * group_cpu / seconds / cpus ELSE 100 * {CPU_USED} / {CPU_ALL} END""",
    "FreeableMemory": "memory_available",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMetrics:
    """Values by metric; None at a step where nothing was sampled."""

    begin: datetime  # of the first step, UTC
    values: Mapping[str, list[float | None]]


def host_metrics(history: History, about: Period) -> HostMetrics:
    """Return what a recorder on the server's host saw in a period.

    Raises:
        UsageError: the host was not sampled.
    """
    begin = int(about.begin.timestamp()) // STEP * STEP
    steps = (int(about.end.timestamp()) - begin) // STEP + 1
    found: dict[str, list[float | None]] = {}
    for name, at, value in (*_of_host(history, about), *_of_sessions(history, about)):
        place = (int(at.replace(tzinfo=UTC).timestamp()) - begin) // STEP
        found.setdefault(name, [None] * steps)[place] = float(value)
    if not found.keys() - {WAITING}:
        raise UsageError(
            f"the host of {about.instance} was not recorded",
            "Let mrtuner record run on the server's host.",
        )
    return HostMetrics(begin=datetime.fromtimestamp(begin, UTC), values=found)


def _of_host(history: History, about: Period) -> Iterator[tuple[str, datetime, Any]]:
    columns = ", ".join(f'{formula} AS "{name}"' for name, formula in _METRICS.items())
    rows = history.rows(
        f"""SELECT time, {columns} FROM host
            WHERE instance = $instance AND time >= $begin AND time < $end
              AND seconds > 0 AND seconds <= {_LONGEST * STEP}""",
        about.parameters,
    )
    for row in rows:
        yield from ((name, row["time"], row[name]) for name in _METRICS if row[name] is not None)


def _of_sessions(history: History, about: Period) -> Iterator[tuple[str, datetime, Any]]:
    """How many waited for I/O, on the average of a step's samples."""
    rows = history.rows(
        f"""SELECT b.step, coalesce(w.waiting, 0) / b.beats AS waiting FROM (
                SELECT time_bucket(INTERVAL {STEP} SECOND, time) AS step, count(*) AS beats
                FROM samples WHERE instance = $instance AND time >= $begin AND time < $end
                  AND source = 'sessions' GROUP BY 1) AS b
            LEFT JOIN (
                SELECT time_bucket(INTERVAL {STEP} SECOND, time) AS step, count(*) AS waiting
                FROM sessions WHERE instance = $instance AND time >= $begin AND time < $end
                  AND (wait_type = 'IO' OR wait_event IN ('WALWrite', 'BufferIO', 'BufferIo'))
                GROUP BY 1) AS w ON w.step = b.step""",
        about.parameters,
    )
    for row in rows:
        yield WAITING, row["step"], row["waiting"]
