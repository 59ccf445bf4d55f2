"""Instances of Amazon RDS as CloudWatch and RDS itself see them: metrics and events.

One thread serves all of them, since one call gets the metrics of many instances and one the events
of a region. CloudWatch counts each metric that is requested: 19 metrics every five minutes are some
164,000 a month for an instance.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from queue import Queue
from typing import TYPE_CHECKING, Any, Final

from mrtuner.aws import cloudwatch, rds
from mrtuner.aws.session import Account, client
from mrtuner.errors import MrTunerError
from mrtuner.history.moments import whole_second
from mrtuner.history.recording.machine import rows_of_instance
from mrtuner.history.recording.outlet import Outlet, Tell
from mrtuner.history.recording.sampler import Row, SourceSample, Values
from mrtuner.history.recording.source import Source, built_in, parse
from mrtuner.history.store.layout import MICRO
from mrtuner.history.store.writer import Batch
from mrtuner.postgres.sql import OLDEST

if TYPE_CHECKING:
    from collections.abc import Callable

#: Between two calls [s].
_INTERVAL: Final = 300.0
#: CloudWatch publishes a point of RDS some two minutes after its minute.
_LATE: Final = timedelta(minutes=2)
#: How far back the first call looks if nothing was recorded yet, and at most otherwise.
_FIRST: Final = timedelta(minutes=15)
_CAUGHT_UP: Final = timedelta(hours=24)
_STEP: Final = timedelta(minutes=1)
#: Interval at which the class and the volume of an instance are read.
_LOOK: Final = timedelta(hours=1)

_COLUMNS: Final[Mapping[str, tuple[str, str, str]]] = {
    "cpu": ("CPUUtilization", "%", "CPU used"),
    "credits": ("CPUCreditBalance", "", "CPU credits left"),
    "free_memory": ("FreeableMemory", "bytes", "memory available"),
    "swap": ("SwapUsage", "bytes", "swap used"),
    "free_storage": ("FreeStorageSpace", "bytes", "free space on the volume"),
    "connections": ("DatabaseConnections", "", "sessions"),
    "read_iops": ("ReadIOPS", "1/s", "reads per second"),
    "write_iops": ("WriteIOPS", "1/s", "writes per second"),
    "read_throughput": ("ReadThroughput", "bytes/s", "bytes read per second"),
    "write_throughput": ("WriteThroughput", "bytes/s", "bytes written per second"),
    "read_latency": ("ReadLatency", "s", "time per read"),
    "write_latency": ("WriteLatency", "s", "time per write"),
    "queue_depth": ("DiskQueueDepth", "", "requests that wait for the volume"),
    "burst_balance": ("BurstBalance", "%", "I/O credits left on a gp2 volume"),
    "iops_balance": ("EBSIOBalance%", "%", "operations left in the instance's burst balance"),
    "throughput_balance": ("EBSByteBalance%", "%", "bytes left in the instance's burst balance"),
    "received": ("NetworkReceiveThroughput", "bytes/s", "bytes received per second"),
    "sent": ("NetworkTransmitThroughput", "bytes/s", "bytes sent per second"),
    "replica_lag": ("ReplicaLag", "s", "how far a replica lags behind"),
}

#: CloudWatch's metrics by our columns.
METRICS: Final[Mapping[str, str]] = {column: metric for column, (metric, _, _) in _COLUMNS.items()}


def _declaration() -> Iterator[str]:
    yield '/*\nhelp = "CloudWatch metrics of an RDS instance, one point per minute"'
    yield 'interval = "5min"\n\n[gauges]'
    for column, (metric, unit, about) in _COLUMNS.items():
        unit_of_it = f'unit = "{unit}", ' if unit else ""
        yield f'{column} = {{type = "float", {unit_of_it}help = "{about} ({metric})"}}'
    yield "*/\n"


#: Not sampled at a connection: it has neither queries nor a program.
CLOUDWATCH: Final[Source] = parse("cloudwatch", {OLDEST: "\n".join(_declaration())})


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedInstance:
    """An RDS instance to record."""

    name: str  # in the store
    identifier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedFleet:
    """Existing RDS instances of one account and region, and the AWS clients to query them."""

    instances: Sequence[ManagedInstance]
    watch: Any
    service: Any


def managed_fleet(instances: Sequence[ManagedInstance], account: Account) -> ManagedFleet:
    """Check that these instances exist, before anything is created to record them.

    Raises:
        AwsError: there is no access to AWS, no region, or one of the instances does not exist.
    """
    fleet = ManagedFleet(
        instances=instances, watch=client("cloudwatch", account), service=client("rds", account)
    )
    for one in instances:
        rds.instance(fleet.service, one.identifier)
    return fleet


class CloudWatchThread:
    """Queries CloudWatch and RDS for all instances, until told to stop."""

    def __init__(
        self, fleet: ManagedFleet, queue: Queue[Batch], stop: threading.Event,
        tell: Tell, *, since: Mapping[str, int | None],
        clock: Callable[[], datetime] | None = None,
    ) -> None:  # fmt: skip
        """`since`: when an instance was last recorded, by its name [µs since 1970]."""
        self.fleet, self.stop, self.tell = fleet, stop, tell
        self.outlets = {one.identifier: Outlet(one.name, queue) for one in fleet.instances}
        self.clock = clock or partial(datetime.now, UTC)
        self.since = {one.identifier: self._first(since[one.name]) for one in fleet.instances}
        self.events_since = max(self.since.values())
        self.looked: datetime | None = None

    def run(self) -> None:
        """Ask now and then every five minutes; report a failure once, and keep trying."""
        failed = False
        while True:
            try:
                self.ask()
            except MrTunerError as error:
                if not failed:
                    self.tell(f"AWS: {error.message}; trying again")
                failed = True
            else:
                if failed:
                    self.tell("AWS responds again")
                failed = False
            if self.stop.wait(_INTERVAL):
                return

    def _first(self, last: int | None) -> datetime:
        """Return from when to ask: after the last point, but at most `_CAUGHT_UP` back."""
        earliest = self.clock() - (_FIRST if last is None else _CAUGHT_UP)
        return (
            earliest
            if last is None
            else max(earliest, datetime.fromtimestamp(last // MICRO, UTC) + _STEP)
        )

    def ask(self) -> None:
        """Get the points and events since the last call, and hand them over."""
        until = self.clock() - _LATE
        if until > min(self.since.values()):
            self._points(until)
        if until > self.events_since:
            self._events(until)
        if self.looked is None or until >= self.looked + _LOOK:
            self._machines()
            self.looked = until

    def _machines(self) -> None:
        """Record the class and volume of each instance, on which its limits depend."""
        for name, outlet in self.outlets.items():
            found = rds.instance(self.fleet.service, name)
            rows = (tuple(row.values()) for row in rows_of_instance(found))
            outlet.send([_sample(built_in()["machine"], self.clock(), rows)])

    def _points(self, until: datetime) -> None:
        metrics = {metric: column for column, metric in METRICS.items()}
        wanted = [
            cloudwatch.Wanted(instance=name, metric=metric)
            for name in self.outlets
            for metric in metrics
        ]
        start = min(self.since.values())
        found = cloudwatch.metric_data(self.fleet.watch, wanted, start, until)
        for name, outlet in self.outlets.items():
            rows: dict[datetime, dict[str, float]] = {}
            for metric, column in metrics.items():
                points = found[cloudwatch.Wanted(instance=name, metric=metric)]
                for at, value in zip(points.times, points.values, strict=True):
                    rows.setdefault(at.astimezone(UTC), {})[column] = value
            fresh = [
                (at, tuple(map(row.get, _COLUMNS))) for at, row in sorted(rows.items())
                if at >= self.since[name]
            ]  # fmt: skip
            if fresh and outlet.send([_sample(CLOUDWATCH, at, [row]) for at, row in fresh]):
                self.since[name] = fresh[-1][0] + _STEP

    def _events(self, until: datetime) -> None:
        """Record the events of these instances, from one call for the region."""
        told = rds.events(
            self.fleet.service, source_type="db-instance", since=self.events_since, until=until
        )
        for event in told:
            outlet = self.outlets.get(event.source)
            if outlet is not None and self.events_since <= event.at < until:
                outlet.note("rds", event.message, whole_second(event.at))
        self.events_since = until
        for outlet in self.outlets.values():
            outlet.send()


def _sample(source: Source, at: datetime, rows: Iterable[Values]) -> SourceSample:
    return SourceSample(
        source=source, at=whole_second(at), monotonic=at.timestamp(), cost=0.0,
        rows=tuple(Row(values=values, reset=None) for values in rows),
    )  # fmt: skip
