"""Sample /proc, pressure and wait events once a second during a run, and what sampling costs.

The collector is a thread of the runner and ends with it. Server statistics are subtracted column
by column, by name, so that every version's columns work.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from mrtuner.bench.engine.machine import cpu_of
from mrtuner.bench.server.session import counters
from mrtuner.errors import MrTunerError
from mrtuner.host.counters import (
    OwnGroups,
    context_switches,
    cpu_times,
    group_usage,
    own_groups,
    pressure,
)
from mrtuner.host.devices import Device, counted, layers
from mrtuner.host.tree import Tree
from mrtuner.postgres.connect import connect, translated

if TYPE_CHECKING:
    from typing import LiteralString

    from mrtuner.postgres.connect import Connection

#: Counters by our names, or their rates per second.
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
        self.dsn, self.tree = dsn, Tree(pid=postmaster)
        below = () if data is None else layers(Tree(), PurePosixPath(data.absolute()))
        self.device = next(iter(below), None)
        self.groups = own_groups(self.tree)
        self.over = threading.Event()
        self.rates: list[Counters] = []
        self.waits: Counter[str] = Counter()
        self.kinds: dict[int, str] = {}  # what each of the server's processes is
        self.first: Switches = {}
        self.last: Switches = {}
        self.cost = 0.0

    def run(self) -> None:
        with suppress(MrTunerError), connect(self.dsn) as session:
            self._sample(session)
            self.cost = time.thread_time() + cpu_of(session.info.backend_pid)

    def finish(self) -> Collected:
        """Stop and return what was sampled: nothing if the collector was never started."""
        self.over.set()
        if self.ident is not None:
            self.join(timeout=5)
        names = sorted({name for rate in self.rates for name in rate})
        series = {
            name: tuple(round(rate.get(name, 0.0), 3) for rate in self.rates) for name in names
        }
        return Collected(series, dict(self.waits), tuple(self._backends()), round(self.cost, 4))

    def _backends(self) -> Iterator[tuple[str, int, int]]:
        """Yield switches of each process: from its start if new, to its last sample if ended."""
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
        """Note the kind of each server process, and the waits of active client backends."""
        for pid, kind, wait in sessions:
            self.kinds[pid] = kind
            if wait is not None:
                self.waits[wait] += 1

    def _counters(self, session: Connection) -> Counters:
        found = dict(_machine(self.tree)) | dict(_disk(self.tree, self.device))
        with suppress(MrTunerError), translated():
            seen = counters(session)
            found |= {"wal bytes": seen.wal, "checkpoints": seen.timed + seen.requested}
        if self.tree.pid is not None:
            self.last |= _switches(self.tree)
            found["server switches voluntary"] = sum(one for one, _ in self.last.values())
            found["server switches forced"] = sum(one for _, one in self.last.values())
            found |= dict(_group(self.tree, self.groups))
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
    """Return how much each counter grew; unchanged ones are left out."""
    return {
        view: {
            name: moved
            for name, value in columns.items()
            if (moved := round(value - before.get(view, {}).get(name, 0), 3))
        }
        for view, columns in after.items()
    }


def _sums(session: Connection, query: LiteralString) -> dict[str, float]:
    """Sum every numeric column over the rows, except keys and sizes."""
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
        # A process that ended takes its count along; that must not give a negative rate.
        name: value if name in _LEVELS else max(0.0, value - before[name]) / seconds
        for name, value in now.items()
        if name in before
    }


def _machine(tree: Tree) -> Iterator[tuple[str, float]]:
    """CPU times in seconds of all CPUs together, and shares of the time in which a task waited."""
    times, switched = cpu_times(tree), context_switches(tree)
    if times is not None:
        yield "cpu user", times.user
        yield "cpu system", times.system + times.interrupts
        yield "cpu iowait", times.iowait
        yield "cpu steal", times.steal
    if switched is not None:
        yield "context switches", switched
    for name, waited in pressure(tree).items():
        yield f"pressure {name}", waited


def _disk(tree: Tree, device: Device | None) -> Iterator[tuple[str, float]]:
    found = None if device is None else counted(tree, device)
    if found is not None:
        yield "disk reads", found.reads
        yield "disk read bytes", found.read_bytes
        yield "disk writes", found.writes
        yield "disk written bytes", found.written_bytes


def _group(tree: Tree, groups: OwnGroups) -> Iterator[tuple[str, float]]:
    for name, value in asdict(group_usage(tree, groups)).items():
        if value is not None:
            yield f"cgroup {name}", value


def _switches(tree: Tree) -> Switches:
    """Context switches of the server's living processes. Source: proc_pid_status(5)."""
    children = (tree.peek(f"{tree.process}/task/{tree.pid}/children") or "").split()
    return {
        int(child): (
            int(found["voluntary_ctxt_switches"]),
            int(found["nonvoluntary_ctxt_switches"]),
        )
        for child in children
        if (found := _fields(tree.peek(f"/proc/{child}/status") or ""))
    }


def _fields(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
