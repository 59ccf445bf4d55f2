"""A recorded host with CloudWatch's names and units, on a grid of equal steps: for `limits`.

What the kernel counted, or CloudWatch itself told of an instance of RDS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from mrtuner.errors import UsageError
from mrtuner.history.analysis import CPU_ALL, CPU_USED, IN_PERIOD, Period
from mrtuner.history.reading import History, Rows
from mrtuner.history.store.layout import last_value

#: Length of a step [s]: the interval at which the host is sampled.
STEP: Final = 15
#: A sample that covers more than so many steps has a gap before it, and is left out.
_LONGEST: Final = 2
#: Sessions that wait for I/O, their own or another's.
WAITING: Final = "SessionsWaitingForIO"
CONNECTIONS: Final = "DatabaseConnections"
_MINUTE: Final = 60

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
    step: int = STEP  # seconds


def host_metrics(history: History, about: Period) -> HostMetrics:
    """Return what a recorder on the server's host saw in a period.

    Raises:
        UsageError: the host was not sampled.
    """
    steps = _Steps(about, STEP)
    of_host = _of_host(history, steps) if history.has("host") else {}
    if not of_host:
        raise UsageError(
            f"the host of {about.instance} was not recorded",
            "Let mrtuner record run on the server's host.",
        )
    more = _of_sessions(history, steps) | _of_connections(history, steps)
    return HostMetrics(begin=steps.at, values=of_host | more)


def cloudwatch_metrics(history: History, about: Period) -> HostMetrics:
    """Return what CloudWatch told of an instance of RDS in a period, a point a minute.

    Raises:
        UsageError: CloudWatch was not asked.
    """
    from mrtuner.history.managed import METRICS

    steps = _Steps(about, _MINUTE)
    found = steps.values(
        history, ", ".join(f'{column} AS "{metric}"' for column, metric in METRICS.items()),
        "cloudwatch",
    ) if history.has("cloudwatch") else {}  # fmt: skip
    if not found:
        raise UsageError(
            f"CloudWatch's metrics of {about.instance} were not recorded in this period",
            "Record it as rds:NAME.",
        )
    return HostMetrics(begin=steps.at, values=found, step=_MINUTE)


@dataclass(frozen=True, slots=True)
class _Steps:
    """Steps of equal length that cover a period."""

    about: Period
    length: int  # seconds

    @property
    def begin(self) -> int:
        return int(self.about.begin.timestamp()) // self.length * self.length

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.begin, UTC)

    def values(
        self, history: History, columns: str, view: str, where: str = "true"
    ) -> dict[str, list[float | None]]:
        """The columns of a view by step, without those that have no value."""
        names, rows = history.table(
            f"""SELECT (epoch_us(time) // 1000000 - {self.begin}) // {self.length}, {columns}
                FROM {view} WHERE {IN_PERIOD} AND ({where})""",
            self.about.parameters, inside=True,
        )  # fmt: skip
        return self.placed(names[1:], rows)

    def placed(
        self, names: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> dict[str, list[float | None]]:
        """Values by name, of rows that begin with the number of their step."""
        count = (int(self.about.end.timestamp()) - self.begin) // self.length + 1
        # Column by column: a day has some 60,000 values.
        numbers, *columns = zip(*rows, strict=True) if rows else ((),)
        found: dict[str, list[float | None]] = {}
        for name, column in zip(names, columns, strict=False):
            values: list[float | None] = [None] * count
            for step, value in zip(numbers, column, strict=True):
                values[step] = value
            found[name] = values
        return {
            name: values
            for name, values in found.items()
            if any(value is not None for value in values)
        }


def _of_host(history: History, steps: _Steps) -> dict[str, list[float | None]]:
    columns = ", ".join(f'{formula} AS "{name}"' for name, formula in _METRICS.items())
    return steps.values(history, columns, "host", f"seconds > 0 AND seconds <= {_LONGEST * STEP}")


def _of_connections(history: History, steps: _Steps) -> dict[str, list[float | None]]:
    """Sessions of clients."""
    if not history.has("connections"):
        return {}
    return steps.values(history, f'clients AS "{CONNECTIONS}"', "connections")


def _of_sessions(history: History, steps: _Steps) -> dict[str, list[float | None]]:
    """How many waited for I/O, on the average of a step's samples."""
    if not history.has("sessions"):
        return {}
    step = f"(epoch_us(time) // 1000000 - {steps.begin}) // {steps.length}"
    _, rows = history.table(
        f"""SELECT b.step, coalesce(w.waiting, 0) / b.beats FROM (
                SELECT {step} AS step, count(*) AS beats FROM samples
                WHERE {IN_PERIOD} AND source = 'sessions' GROUP BY 1) AS b
            LEFT JOIN (
                SELECT {step} AS step, count(*) AS waiting FROM sessions
                WHERE {IN_PERIOD}
                  AND (wait_type = 'IO' OR wait_event IN ('WALWrite', 'BufferIO', 'BufferIo'))
                GROUP BY 1) AS w ON w.step = b.step""",
        steps.about.parameters, inside=True,
    )  # fmt: skip
    return steps.placed([WAITING], rows)


# What limits a host.


def host_ceilings(history: History, about: Period) -> Rows:
    """The limits of the host as rows, as they were last recorded by the end of the period."""
    if not history.has("ceilings"):
        return []
    values = ", ".join(f"{last_value(name)} AS {name}" for name in ("value", "origin", "note"))
    return history.rows(
        f"""SELECT resource, part, {values} FROM ceilings
            WHERE instance = $instance AND time < $end
            GROUP BY resource, part ORDER BY resource, part""",
        {name: about.parameters[name] for name in ("instance", "end")},
    )


def ceilings_by_instance(history: History) -> dict[str, Rows]:
    """The same of all instances, as they were recorded last."""
    if not history.has("ceilings"):
        return {}
    return history.kept("ceilings", "by instance", lambda: _ceilings_by_instance(history))


def _ceilings_by_instance(history: History) -> dict[str, Rows]:
    names = ("value", "origin", "note")
    rows = history.latest(
        f"""SELECT instance, resource, part, {", ".join(map(last_value, names))} FROM ceilings
            WHERE time >= $begin AND time < $end GROUP BY instance, resource, part""",
        "ceilings", 3, instance=None, end=datetime.max,
    )  # fmt: skip
    found: dict[str, Rows] = {}
    for instance, *row in sorted(rows, key=lambda row: (row[0], str(row[1]), str(row[2]))):
        named = zip(("resource", "part", *names), row, strict=True)
        found.setdefault(instance, []).append(dict(named))
    return found


def ceiling_changes(history: History, about: Period) -> set[datetime]:
    """When a limit of the host became another one in a period, or came or went."""
    if not history.has("ceilings"):
        return set()
    rows = history.rows(
        """SELECT DISTINCT time FROM (
               SELECT time, value, lag(value) OVER w AS before, row_number() OVER w AS number
               FROM ceilings WHERE instance = $instance AND time < $end
               WINDOW w AS (PARTITION BY resource, part ORDER BY time)) AS c
           WHERE number > 1 AND time >= $begin AND value IS DISTINCT FROM before""",
        about.parameters,
    )
    return {row["time"].replace(tzinfo=UTC) for row in rows}


def device(history: History, about: Period) -> str | None:
    """The disk of the data directory."""
    found: str | None = history.row(
        f"SELECT any_value(device) AS device FROM host WHERE {IN_PERIOD}", about.parameters,
        inside=True,
    )["device"]  # fmt: skip
    return found


def max_connections(history: History, about: Period) -> tuple[int, str] | None:
    """The server's max_connections in the period, and that it was recorded."""
    if not history.has("connections"):
        return None
    most = history.row(
        f"SELECT max(maximum) AS maximum FROM connections WHERE {IN_PERIOD}", about.parameters,
        inside=True,
    )["maximum"]  # fmt: skip
    return None if most is None else (int(most), "max_connections, recorded")
