"""What went on during a run, once a second: /proc, pressure, wait events; and what that cost.

The collector is a thread of the runner and ends with it. Statistics of the server are taken as
differences by the names of their columns, whatever columns a version has.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.bench.engine.machine import cpu_of
from mrtuner.bench.server.session import counters
from mrtuner.errors import MrTunerError
from mrtuner.postgres.connect import connect, translated

if TYPE_CHECKING:
    from typing import LiteralString

    from mrtuner.postgres.connect import Connection

_PROC: Final = Path("/proc")
_CGROUP: Final = Path("/sys/fs/cgroup")
_SECTOR: Final = 512  # bytes, in /proc/diskstats whatever the device's own size
#: Counters of the machine, by our names; the values are rates a second.
Counters = dict[str, float]
Deltas = dict[str, dict[str, float]]
Switches = dict[int, tuple[int, int]]  # of each process: voluntary and forced
#: These are levels and not counters.
_LEVELS: Final = frozenset({"cgroup memory"})


@dataclass(frozen=True, slots=True)
class Collected:
    """A run, second by second."""

    series: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    waits: Mapping[str, int] = field(default_factory=dict)  # event: active sessions seen in it
    backends: tuple[tuple[str, int, int], ...] = ()  # kind, voluntary and forced switches of each
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
        self.kinds: dict[int, str] = {}  # what each of the server's processes is
        self.first: Switches = {}
        self.last: Switches = {}
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
        return Collected(series, dict(self.waits), tuple(self._backends()), round(self.cost, 4))

    def _backends(self) -> Iterator[tuple[str, int, int]]:
        """A process that was not there at first counts from its start, a lost one to its last."""
        for pid, kind in sorted(self.kinds.items(), key=lambda item: (item[1], item[0])):
            if pid in self.last:
                then, now = self.first.get(pid, (0, 0)), self.last[pid]
                yield kind, now[0] - then[0], now[1] - then[1]

    def _sample(self, session: Connection) -> None:
        import psycopg

        before, began = self._counters(session), time.monotonic()
        self.first, due = dict(self.last), began + 1
        while not self.over.wait(max(0.0, due - time.monotonic())):
            now, moment = self._counters(session), time.monotonic()
            self.rates.append(_rates(before, now, moment - began))
            before, began, due = now, moment, max(due + 1, moment)
            with suppress(psycopg.Error):
                self._look(session.execute(_SESSIONS).fetchall())

    def _look(self, sessions: Iterable[tuple[int, str, str | None]]) -> None:
        """What each of the server's processes is, and what those at work for a client wait for."""
        for pid, kind, wait in sessions:
            self.kinds[pid] = kind
            if wait is not None:
                self.waits[wait] += 1

    def _counters(self, session: Connection) -> Counters:
        found = dict(_stat()) | dict(_pressure()) | dict(_disk(self.data))
        with suppress(MrTunerError), translated():
            seen = counters(session)
            found |= {"wal bytes": seen.wal, "checkpoints": seen.timed + seen.requested}
        if self.postmaster is not None:
            self.last |= _switches(self.postmaster)
            found["server switches voluntary"] = sum(one for one, _ in self.last.values())
            found["server switches forced"] = sum(one for _, one in self.last.values())
            found |= dict(_cgroup(self.postmaster))
        return found


_SESSIONS: Final = """
SELECT pid, backend_type,
  CASE WHEN state = 'active' AND backend_type = 'client backend'
  THEN coalesce(wait_event_type || ':' || wait_event, 'running') END
FROM pg_stat_activity
WHERE backend_type IS NOT NULL AND application_name <> 'mrtuner'
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
        name: value if name in _LEVELS else max(0.0, value - before[name]) / seconds
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


def _switches(postmaster: int) -> Switches:
    """Of the server's processes alive now. Source: proc_pid_status(5)."""
    children = _read(_PROC / str(postmaster) / "task" / str(postmaster) / "children").split()
    return {
        int(child): (
            int(found["voluntary_ctxt_switches"]),
            int(found["nonvoluntary_ctxt_switches"]),
        )
        for child in children
        if (found := _fields(_read(_PROC / child / "status"), ":"))
    }


def _cgroup(pid: int, proc: Path = _PROC, root: Path = _CGROUP) -> Iterator[tuple[str, float]]:
    """What its group used, and how long a quota kept it waiting. Source: cgroup-v2.rst, v1's
    cpuacct.rst and sched-bwc.rst (times in nanoseconds), memory.rst."""
    for line in _read(proc / str(pid) / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            group = root / path.lstrip("/")
            stat = _fields(_read(group / "cpu.stat"))
            yield from _scaled("cgroup cpu", stat.get("usage_usec"), 1e6)
            yield from _scaled("cgroup throttled", stat.get("throttled_usec"), 1e6)
            yield from _scaled("cgroup memory", _read(group / "memory.current"))
            continue
        for controller in controllers.split(","):
            group = root / controller / path.lstrip("/")
            if controller == "cpu":
                stat = _fields(_read(group / "cpu.stat"))
                yield from _scaled("cgroup throttled", stat.get("throttled_time"), 1e9)
            elif controller == "cpuacct":
                yield from _scaled("cgroup cpu", _read(group / "cpuacct.usage"), 1e9)
            elif controller == "memory":
                yield from _scaled("cgroup memory", _read(group / "memory.usage_in_bytes"))


def _fields(text: str, separator: str | None = None) -> dict[str, str]:
    """Lines of a name and a value."""
    return {
        words[0].strip(): words[1].strip()
        for line in text.splitlines()
        if len(words := line.split(separator, 1)) == 2
    }


def _scaled(name: str, text: str | None, unit: float = 1) -> Iterator[tuple[str, float]]:
    if text is not None and text.strip().isdecimal():
        yield name, int(text) / unit


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
