"""Watch a server outside RDS: one point per second, also of its host if it runs on this one.

Every point is the rate over the last five seconds.
On this host the kernel's own counters are read, and SQL shows who waits. For another host there is
only SQL: what the server requested from its operating system, whose cache may have answered.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from mrtuner.counter_resets import was_reset
from mrtuner.errors import ConnectError
from mrtuner.host.tree import Tree
from mrtuner.limits.assess import Limits, on_host
from mrtuner.limits.ceilings import Ceiling, Resource, sustained
from mrtuner.limits.confirmation import WAITING
from mrtuner.limits.host_ceilings import HostCounters, WatchedHost, rates, read, watched_host
from mrtuner.limits.metrics.series import FEWEST, MetricSeries
from mrtuner.postgres.connect import connect, translated
from mrtuner.postgres.local import postmaster
from mrtuner.postgres.named_queries import rows_of
from mrtuner.postgres.reserved import OF_RDS, RESERVED
from mrtuner.stats.plateaus import numpy

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

    Row = Mapping[str, Any]

#: Called with the seconds that remain.
Tell = Callable[[float], None]
_STEP: Final = 1.0
#: Seconds that a rate covers: the kernel limits in slices, and sometimes schedules late.
_WINDOW: Final = 5
#: Readings closer together than this share of a second give no meaningful rate.
_SHORTEST: Final = 0.5


def watch(
    dsn: str, seconds: float = 0, *, tell: Tell = lambda _remaining: None, root: Path = Path("/")
) -> Limits:
    """Find the limit of the server at `dsn` by watching it for `seconds`, one point per second.

    Without `seconds` only the ceilings are reported. `root` contains this host's /proc and /sys; a
    server that does not run on it is observed by SQL alone. Only reads. An interruption
    (KeyboardInterrupt) ends the watch but still returns the answer. Raises ConnectError without a
    usable session.
    """
    with connect(dsn) as conn, translated():
        conn.execute("SET statement_timeout = '30s'")
        conn.execute("SET default_transaction_read_only = on")
        subject = _subject(conn, root)
        found = _Watch(conn, subject)
        if seconds:
            found.run(seconds, tell)
        answer = _judged(subject, found.series())
        return replace(answer, interrupted=found.interrupted, lost=found.lost)


def recorded(dsn: str, series: MetricSeries) -> Limits:
    """Find the limit of the server at `dsn` from the recorded metrics of its host.

    The ceilings are the present ones. Raises ConnectError without a usable session.
    """
    with connect(dsn) as conn, translated():
        subject = _subject(conn, Path("/"))
    return _judged(subject, replace(series, notices=(*subject.notices, *series.notices)))


def _judged(subject: _Subject, series: MetricSeries) -> Limits:
    known = (*(subject.host.ceilings if subject.host else ()), subject.connections)
    return on_host(series, known, name=subject.name, storage=subject.storage)


# What is watched.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    name: str
    host: WatchedHost | None  # None: the server runs on another machine
    connections: Ceiling
    notices: tuple[str, ...]

    @property
    def storage(self) -> str | None:
        device = self.host.device if self.host else None
        return None if device is None else device.name

    @property
    def by_sql(self) -> bool:
        """Whether the server's own statistics have to replace the disk's."""
        return self.storage is None


def _subject(conn: Connection, root: Path) -> _Subject:
    about = _row(conn, "limits_server", [[*RESERVED, *OF_RDS]])
    reserved = about["reserved"]
    backend = _row(conn, "backend")
    pid = postmaster(backend["pid"], backend["age"], root / "proc")
    host = None
    if pid is not None:
        given = about["data_directory"]
        host = watched_host(Tree(root, pid), None if given is None else PurePosixPath(given))
    return _Subject(
        name=f"{conn.info.host}:{conn.info.port}",
        host=host,
        connections=sustained(
            Resource.CONNECTIONS, "server", about["max_connections"] - reserved,
            "max_connections (pg_settings)", f"{reserved} more are reserved" if reserved else "",
        ),
        notices=(*_sight(about, host, conn.info.server_version),),
    )  # fmt: skip


def _sight(about: Row, host: WatchedHost | None, version_num: int) -> list[str]:
    """What can be seen from here, and what cannot."""
    said = list(host.notices) if host else []
    if host is None:
        said.append(
            "the server runs on another host, so its devices, cgroups, network, CPU and memory "
            "are not seen. Run this there or, for RDS, name the instance instead"
        )
    if host is None or host.device is None:
        source = "pg_stat_io" if version_num >= 160000 else "pg_stat_database, pg_stat_bgwriter"
        said.append(
            f"reads and writes come from {source}, so they include those served by the operating "
            "system's cache" + (", but not those of WAL" if version_num < 180000 else "")
        )
    if not about["sees_all"]:
        said.append(
            "the role may not see who waits for I/O, so unknown ceilings are hard to detect: "
            "GRANT pg_monitor to it"
        )
    return said


def _row(conn: Connection, name: str, values: Sequence[object] | None = None) -> Row:
    (row,) = rows_of(conn, name, conn.info.server_version, values)
    return row


# The watch.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    at: float  # seconds on the monotonic clock
    host: HostCounters | None
    now: Row
    asked: Row | None


class _Watch:
    """Samples taken at equal intervals, turned into rates."""

    def __init__(self, conn: Connection, subject: _Subject) -> None:
        self.conn, self.subject = conn, subject
        self.start = datetime.now(UTC)
        self.points: dict[int, dict[str, float]] = {}
        self.interrupted = self.lost = False
        self.notices = list(subject.notices)

    def run(self, seconds: float, tell: Tell) -> None:
        """Sample until the time is over, the user interrupts, or the session is lost.

        A late sample leaves a point out, so it goes on for as many as a ceiling needs.
        """
        try:
            self._sample(seconds, tell)
        except KeyboardInterrupt:
            self.interrupted = True
            self.notices.append(f"interrupted after {len(self.points)} of {seconds:.0f} s")
        except ConnectError as error:
            self.lost = True
            self.notices.append(f"{error.message}, which ended the watch")

    def _sample(self, seconds: float, tell: Tell) -> None:
        recent = deque([self._take()], maxlen=_WINDOW + 1)
        began = recent[0].at
        steps, due = int(seconds / _STEP), 0
        while due < steps or len(self.points) < min(steps, FEWEST):
            due += 1
            tell(max(seconds - (time.monotonic() - began), 0.0))
            time.sleep(max(began + due * _STEP - time.monotonic(), 0))
            after = self._take()
            if after.at - recent[-1].at < _SHORTEST:
                continue
            recent.append(after)
            self.points[round((after.at - began) / _STEP) - 1] = self._between(recent)
        tell(0.0)

    def _take(self) -> _Sample:
        host = self.subject.host
        with translated():
            return _Sample(
                at=time.monotonic(),
                host=read(host) if host else None,
                now=_row(self.conn, "limits_now"),
                asked=_row(self.conn, "limits_io") if self.subject.by_sql else None,
            )

    def _between(self, recent: Sequence[_Sample]) -> dict[str, float]:
        """Rates from the first sample to the last, and the average number of waiting sessions."""
        before, after = recent[0], recent[-1]
        seconds = after.at - before.at
        found = {"DatabaseConnections": float(after.now["sessions"])}
        waiting = [one.now["waiting"] for one in recent]
        if None not in waiting:
            found[WAITING] = sum(waiting[1:]) / (len(waiting) - 1)
        if self.subject.host and before.host and after.host:
            found |= rates(self.subject.host, before.host, after.host, seconds)
        if before.asked and after.asked:
            found |= self._asked(before.asked, after.asked, seconds)
        return found

    def _asked(self, before: Row, after: Row, seconds: float) -> dict[str, float]:
        """Rates from the server's statistics; a reset in between is a gap."""
        fell = was_reset([before[name] for name in _METRICS], [after[name] for name in _METRICS])
        if before["reset"] != after["reset"] or fell:
            self.notices.append("statistics were reset during the watch; that interval is left out")
            return {}
        return {metric: (after[name] - before[name]) / seconds for name, metric in _METRICS.items()}

    def series(self) -> MetricSeries:
        """The watched points on a grid of seconds; without points if there are too few."""
        np = numpy()
        long = max(self.points, default=-1) + 1
        notices = list(dict.fromkeys(self.notices))
        if 0 < len(self.points) < FEWEST:
            notices.append(
                f"{len(self.points)} points are too few to find a ceiling: watch for at least "
                f"{FEWEST} s"
            )
        metrics: dict[str, Any] = {}
        if len(self.points) >= FEWEST:
            for place, values in self.points.items():
                for name, value in values.items():
                    metrics.setdefault(name, np.full(long, np.nan))[place] = value
        return MetricSeries(
            start=self.start, step=int(_STEP), metrics=metrics, notices=tuple(notices), apart=True
        )  # fmt: skip


_METRICS: Final = {
    "reads": "ReadIOPS",
    "writes": "WriteIOPS",
    "read_bytes": "ReadThroughput",
    "written_bytes": "WriteThroughput",
}
