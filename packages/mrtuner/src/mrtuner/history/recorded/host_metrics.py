"""A recorded host with CloudWatch's names and units, on a grid of equal steps: for `limits`.

The values come from the kernel's counters or, for an RDS instance, from CloudWatch itself.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from mrtuner.errors import UsageError
from mrtuner.history.analysis.host_work import CPU_ALL, CPU_USED
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod
from mrtuner.history.reading import History, Rows
from mrtuner.history.store.layout import MICRO, last_value
from mrtuner.history.unchanged import RowsOf, changed_since, rows_of, while_same

#: Length of a step [s]: the interval at which the host is sampled.
STEP: Final = 15
#: A sample that covers more than this many steps follows a gap, and is left out.
_LONGEST: Final = 2
#: Sessions that wait for I/O, their own or another's.
WAITING: Final = "SessionsWaitingForIO"
CONNECTIONS: Final = "DatabaseConnections"
_MINUTE: Final = 60
_DAY: Final = 86_400
#: Columns that are queried along with the metrics.
_DEVICE: Final = "device"
_ORDINARY: Final = "ordinary"

#: SQL of each metric's rate or level in one sample. A CPU quota counts as 100 %.
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
    device: str | None = None  # the disk of the data directory


def host_metrics(history: History, about: HistoryPeriod) -> HostMetrics:
    """Return what a recorder on the server's host measured in a period.

    Raises:
        UsageError: the host was not sampled.
    """
    steps = _Steps(about, STEP)
    of_host = _of_host(history, steps) if history.has("host") else {}
    devices: list[str | None] = of_host.pop(_DEVICE, [])
    if not of_host:
        raise UsageError(
            f"the host of {about.instance} was not recorded",
            "Run mrtuner record on the server's host.",
        )
    more = _of_sessions(history, steps) | _of_connections(history, steps)
    more.pop(_ORDINARY, None)
    return HostMetrics(
        begin=steps.at, values=of_host | more,
        device=next((name for name in reversed(devices) if name is not None), None),
    )  # fmt: skip


def cloudwatch_metrics(history: History, about: HistoryPeriod) -> HostMetrics:
    """Return CloudWatch's metrics of an RDS instance in a period, one point per minute.

    Raises:
        UsageError: they were not recorded in this period.
    """
    from mrtuner.history.recording.managed import METRICS

    steps = _Steps(about, _MINUTE)
    columns = ", ".join(f'{column} AS "{metric}"' for column, metric in METRICS.items())
    found = steps.values(
        history, f"SELECT {steps.number}, {columns} FROM cloudwatch WHERE {IN_PERIOD}",
        "cloudwatch",
    ) if history.has("cloudwatch") else {}  # fmt: skip
    if not found:
        raise UsageError(
            f"CloudWatch's metrics of {about.instance} were not recorded in this period",
            "Record it as rds:NAME.",
        )
    return HostMetrics(begin=steps.at, values=found, step=_MINUTE)


#: By metric, a value for each step.
_Values = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class _Steps:
    """Steps of equal length that cover a period."""

    about: HistoryPeriod
    length: int  # seconds

    @property
    def first(self) -> int:
        """The number of the first step, counted since 1970."""
        return int(self.about.begin.timestamp()) // self.length

    @property
    def last(self) -> int:
        """The number of the last step, which may be incomplete."""
        return int(self.about.end.timestamp()) // self.length

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.first * self.length, UTC)

    @property
    def number(self) -> str:
        """SQL for the number of a row's step."""
        return f"epoch_us(time) // {self.length * MICRO}"

    def values(self, history: History, sql: str, *sources: str) -> _Values:
        """The columns of a query by step, without those that have no value.

        Args:
            history: The store.
            sql: A query over `IN_PERIOD` whose rows begin with the number of their step.
            sources: The sources whose rows it reads.
        """
        return dict(history.once(
            ("steps", sql, self.about), lambda: self._values(history, sql, sources)
        ))  # fmt: skip

    def _values(self, history: History, sql: str, sources: Sequence[str]) -> _Values:
        """Return the steps that were read before, and read only those since."""
        key = ("steps", sql, self.about.instance)
        before = history.work.known.get(key, _NOTHING_READ)
        fresh = self.first
        if before.begin <= self.first:
            fresh = max(self.first, min(before.end, self.last, self._changed(history, before)))
        begin = datetime.fromtimestamp(fresh * self.length, UTC).replace(tzinfo=None)
        names, rows = history.table(sql, self.about.parameters | {"begin": begin}, inside=True)
        found = {
            name: before.of_steps(name, self.first, fresh) + values
            for name, values in _placed(names[1:], rows, fresh, self.last + 1).items()
        }
        rows_read = {source: rows_of(history, source) for source in sources}
        history.work.known[key] = _Read.of(found, self.first, self.last, self.length, rows_read)
        return {
            name: values
            for name, values in found.items()
            if any(value is not None for value in values)
        }

    def _changed(self, history: History, before: _Read) -> int:
        """Return the first step whose rows have changed since they were read."""
        time = changed_since(history, before.rows, self.about.instance)
        return self.last if time is None else time // (self.length * MICRO)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Values that were read before, of the completed steps of at most a day."""

    begin: int  # the number of the first step, counted since 1970
    end: int
    values: _Values
    rows: Mapping[str, RowsOf]  # of each source at that time

    @classmethod
    def of(
        cls, values: _Values, first: int, last: int, length: int, rows: Mapping[str, RowsOf]
    ) -> _Read:
        """Return the values to keep; the last step is not complete and is left out."""
        begin = max(first, last - _DAY // length)
        kept = {name: some[begin - first : last - first] for name, some in values.items()}
        return cls(begin=begin, end=last, values=kept, rows=rows)

    def of_steps(self, name: str, begin: int, end: int) -> list[Any]:
        """Return the values of a range of steps, all of which must be known."""
        return self.values[name][begin - self.begin : end - self.begin] if end > begin else []


#: Has no values: it begins after every step.
_NOTHING_READ: Final = _Read(begin=sys.maxsize, end=sys.maxsize, values={}, rows={})


def _placed(names: Sequence[str], rows: Sequence[Sequence[Any]], begin: int, end: int) -> _Values:
    """Return values by name and step, from rows that begin with the number of their step."""
    # Column by column: a day has some 60,000 values.
    numbers, *columns = zip(*rows, strict=True) if rows else ((), *([()] * len(names)))
    found: _Values = {}
    for name, column in zip(names, columns, strict=True):
        values: list[Any] = [None] * (end - begin)
        for step, value in zip(numbers, column, strict=True):
            values[step - begin] = value
        found[name] = values
    return found


def _of_host(history: History, steps: _Steps) -> _Values:
    columns = ", ".join(f'{formula} AS "{name}"' for name, formula in _METRICS.items())
    return steps.values(
        history,
        f"""SELECT {steps.number}, {columns}, device AS {_DEVICE} FROM host
            WHERE {IN_PERIOD} AND seconds > 0 AND seconds <= {_LONGEST * STEP}""",
        "host",
    )


def _of_connections(history: History, steps: _Steps) -> _Values:
    """Return the number of client sessions, and what ordinary roles may open, by step."""
    if not history.has("connections"):
        return {}
    return steps.values(
        history,
        f"""SELECT {steps.number}, arg_max(clients, time) AS "{CONNECTIONS}",
                   max(ordinary) AS {_ORDINARY} FROM connections WHERE {IN_PERIOD} GROUP BY 1""",
        "connections",
    )


def _of_sessions(history: History, steps: _Steps) -> _Values:
    """Return how many sessions waited for I/O, on average over each step's samples."""
    if not history.has("sessions"):
        return {}
    return steps.values(
        history,
        f"""SELECT b.step, coalesce(w.waiting, 0) / b.beats AS "{WAITING}" FROM (
                SELECT {steps.number} AS step, count(*) AS beats FROM samples
                WHERE {IN_PERIOD} AND source = 'sessions' GROUP BY 1) AS b
            LEFT JOIN (
                SELECT {steps.number} AS step, count(*) AS waiting FROM sessions
                WHERE {IN_PERIOD}
                  AND (wait_type = 'IO' OR wait_event IN ('WALWrite', 'BufferIO', 'BufferIo'))
                GROUP BY 1) AS w ON w.step = b.step""",
        "sessions", "samples",
    )  # fmt: skip


# What limits a host.


def host_ceilings(history: History, about: HistoryPeriod) -> Rows:
    """Return the limits of the host as last recorded before the end of the period."""
    if not history.has("ceilings"):
        return []
    values = ", ".join(f"{last_value(name)} AS {name}" for name in ("value", "origin", "note"))
    given = {name: about.parameters[name] for name in ("instance", "end")}
    return while_same(
        history, "ceilings", ("ceilings", about.instance), lambda: history.rows(
            f"""SELECT resource, part, {values} FROM ceilings
                WHERE instance = $instance AND time < $end
                GROUP BY resource, part ORDER BY resource, part""",
            given,
        ), until=given["end"],
    )  # fmt: skip


def ceilings_by_instance(history: History) -> dict[str, Rows]:
    """Return the limits of each instance's host as last recorded."""
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


def ceiling_changes(history: History, about: HistoryPeriod) -> set[datetime]:
    """Return when a limit of the host changed, disappeared or came back in a period."""
    if not history.has("ceilings"):
        return set()
    rows = while_same(
        history, "ceilings", ("ceiling changes", about.instance), lambda: history.rows(
            """SELECT DISTINCT time FROM (
                   SELECT time, value, lag(value) OVER w AS before, row_number() OVER w AS number
                   FROM ceilings WHERE instance = $instance
                   WINDOW w AS (PARTITION BY resource, part ORDER BY time)) AS c
               WHERE number > 1 AND value IS DISTINCT FROM before""",
            {"instance": about.instance},
        ),
    )  # fmt: skip
    found = {row["time"].replace(tzinfo=UTC) for row in rows}
    return {at for at in found if about.begin <= at < about.end}


def ordinary_connections(history: History, about: HistoryPeriod) -> int | None:
    """Return what max_connections left to ordinary roles at most; None if unknown."""
    known = (one for one in _of_connections(history, _Steps(about, STEP)).get(_ORDINARY, ()) if one)
    return max(map(int, known), default=None)
