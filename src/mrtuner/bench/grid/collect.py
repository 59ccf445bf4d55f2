"""What went on during a run, once a second: /proc, pressure, wait events; and what that cost.

The collector is a thread of the runner and ends with it. Statistics of the server are taken as
differences by the names of their columns, whatever columns a version has.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.bench.machine import cpu_of
from mrtuner.bench.server import counters
from mrtuner.errors import MrTunerError
from mrtuner.postgres.connect import connect, translated

if TYPE_CHECKING:
    from typing import LiteralString

    from mrtuner.postgres.connect import Connection

_PROC: Final = Path("/proc")
_SECTOR: Final = 512  # bytes, in /proc/diskstats whatever the device's own size
#: Counters of the machine, by our names; the values are rates a second.
Counters = dict[str, float]
Deltas = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Collected:
    """A run, second by second."""

    series: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    waits: Mapping[str, int] = field(default_factory=dict)  # event: active sessions seen in it
    cost: float = 0.0  # CPU seconds of the collector and of its session


class Collector(threading.Thread):
    """Sample once a second from `start` to `finish`.

    `postmaster` and `data` are None where the server's processes and files are not here.
    """

    def __init__(self, dsn: str, postmaster: int | None, data: Path | None) -> None:
        super().__init__(name="mrtuner-collector", daemon=True)
        self.dsn, self.postmaster, self.data = dsn, postmaster, data
        self.over = threading.Event()
        self.rates: list[Counters] = []
        self.waits: Counter[str] = Counter()
        self.cost = 0.0

    def run(self) -> None:
        """Look, wait for the next second, look again; a lost session ends the waits only."""
        with suppress(MrTunerError), connect(self.dsn) as session:
            self._sample(session)
            self.cost = time.thread_time() + cpu_of(session.info.backend_pid)

    def finish(self) -> Collected:
        """Stop, and hand over what was seen: nothing, if it was never started."""
        self.over.set()
        if self.ident is not None:
            self.join(timeout=5)
        names = sorted({name for rate in self.rates for name in rate})
        series = {
            name: tuple(round(rate.get(name, 0.0), 3) for rate in self.rates) for name in names
        }
        return Collected(series, dict(self.waits), round(self.cost, 4))

    def _sample(self, session: Connection) -> None:
        import psycopg

        before, began = self._counters(session), time.monotonic()
        due = began + 1
        while not self.over.wait(max(0.0, due - time.monotonic())):
            now, moment = self._counters(session), time.monotonic()
            self.rates.append(_rates(before, now, moment - began))
            before, began, due = now, moment, max(due + 1, moment)
            with suppress(psycopg.Error):
                self.waits.update(dict(session.execute(_WAITS).fetchall()))

    def _counters(self, session: Connection) -> Counters:
        found = dict(_stat()) | dict(_pressure()) | dict(_disk(self.data))
        with suppress(MrTunerError), translated():
            seen = counters(session)
            found |= {"wal bytes": seen.wal, "checkpoints": seen.timed + seen.requested}
        if self.postmaster is not None:
            found |= dict(_switches(self.postmaster))
        return found


_WAITS: Final = """
SELECT coalesce(wait_event_type || ':' || wait_event, 'running'), count(*)::int
FROM pg_stat_activity
WHERE state = 'active' AND backend_type = 'client backend' AND application_name <> 'mrtuner'
GROUP BY 1
"""


def statistics(session: Connection) -> Deltas:
    """The counters of this database and of the whole server, by view and column."""
    version = session.info.server_version
    views: dict[str, LiteralString] = {
        "pg_stat_database": "SELECT * FROM pg_stat_database WHERE datname = current_database()",
        "pg_stat_bgwriter": "SELECT * FROM pg_stat_bgwriter",
    }
    if version >= 140000:
        views["pg_stat_wal"] = "SELECT * FROM pg_stat_wal"
    if version >= 160000:
        views["pg_stat_io"] = "SELECT * FROM pg_stat_io"
    if version >= 170000:
        views["pg_stat_checkpointer"] = "SELECT * FROM pg_stat_checkpointer"
    return {view: _sums(session, query) for view, query in views.items()}


def differences(before: Deltas, after: Deltas) -> Deltas:
    """What was counted in between; what did not move is left out."""
    return {
        view: {
            name: moved
            for name, value in columns.items()
            if (moved := round(value - before.get(view, {}).get(name, 0), 3))
        }
        for view, columns in after.items()
    }


def _sums(session: Connection, query: LiteralString) -> dict[str, float]:
    """Every column of numbers added up over the rows; keys and sizes are no counters."""
    from decimal import Decimal

    cursor = session.execute(query)
    names = [column.name for column in cursor.description or ()]
    sums: dict[str, float] = {}
    for row in cursor.fetchall():
        for name, value in zip(names, row, strict=True):
            if isinstance(value, (int, float, Decimal)) and name not in _NO_COUNTERS:
                sums[name] = sums.get(name, 0) + float(value)
    return sums


_NO_COUNTERS: Final = frozenset({"datid", "op_bytes", "numbackends"})


def _rates(before: Counters, now: Counters, seconds: float) -> Counters:
    return {
        # A process that ended takes its count along: that is no negative rate.
        name: max(0.0, value - before[name]) / seconds
        for name, value in now.items()
        if name in before
    }


def _stat() -> Iterator[tuple[str, float]]:
    """Source: proc_stat(5); CPU times in seconds of all CPUs together."""
    text = _read(_PROC / "stat")
    ticks = os.sysconf("SC_CLK_TCK")
    for line in text.splitlines():
        words = line.split()
        if words[0] == "cpu":
            user, nice, system, _, iowait, irq, softirq, steal = map(int, words[1:9])
            yield "cpu user", (user + nice) / ticks
            yield "cpu system", (system + irq + softirq) / ticks
            yield "cpu iowait", iowait / ticks
            yield "cpu steal", steal / ticks
        elif words[0] == "ctxt":
            yield "context switches", int(words[1])


def _pressure() -> Iterator[tuple[str, float]]:
    """Share of the time in which some task waited. Source: psi.rst, the field total [µs]."""
    for name in ("cpu", "io", "memory"):
        for line in _read(_PROC / "pressure" / name).splitlines():
            if line.startswith("some "):
                yield f"pressure {name}", int(line.rpartition("total=")[2]) / 1e6


def _disk(data: Path | None) -> Iterator[tuple[str, float]]:
    """The device below the data directory. Source: iostats.rst."""
    if data is None:
        return
    number = data.stat().st_dev
    for line in _read(_PROC / "diskstats").splitlines():
        words = line.split()
        if (int(words[0]), int(words[1])) == (os.major(number), os.minor(number)):
            yield "disk reads", int(words[3])
            yield "disk read bytes", int(words[5]) * _SECTOR
            yield "disk writes", int(words[7])
            yield "disk written bytes", int(words[9]) * _SECTOR


def _switches(postmaster: int) -> Iterator[tuple[str, float]]:
    """Of the server's processes alive now. Source: proc_pid_status(5)."""
    voluntary = forced = 0
    children = _read(_PROC / str(postmaster) / "task" / str(postmaster) / "children").split()
    for child in children:
        for line in _read(_PROC / child / "status").splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                voluntary += int(line.split()[1])
            elif line.startswith("nonvoluntary_ctxt_switches"):
                forced += int(line.split()[1])
    yield "server switches voluntary", voluntary
    yield "server switches forced", forced


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
