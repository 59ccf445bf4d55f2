"""An hour of one instance that anybody can check by hand.

02:00 to 03:00 on 2026-11-23. Two sessions run on CPUs all the time; from 02:30 to 02:40 eight more
wait for WAL to be written. One statement runs 10 times a second for 1 ms; from 02:30 on another
runs once a second for 500 ms. At 02:30 somebody changed max_wal_size. Nobody recorded from 02:50
to 02:55. A checkpoint by time each 5 minutes; between 02:30 and 02:40 also one by WAL each minute.
WAL: 1 MB a second, in the busy minutes 16 MB a second. The host has four CPUs, of which 1.2 are
busy, in the busy minutes 3.2; its disk reads 100 times a second for 1 ms each and writes 50 times
for 2 ms, in the busy minutes 500 times for 9 ms; 8 GB of memory are available, then 2 GB.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from history_data import MIDNIGHT, SECOND

from mrtuner.history.reading import History, open_history
from mrtuner.history.recording.sampler import Row, SourceSample
from mrtuner.history.recording.source import Source, built_in
from mrtuner.history.store import compaction
from mrtuner.history.store.writer import Batch, Writer

INSTANCE = "db:5432"
BEGIN = 2 * 3600
BUSY = range(BEGIN + 1800, BEGIN + 2400)
SILENT = range(BEGIN + 3000, BEGIN + 3300)
CHEAP, DEAR = 11, 22
TEXTS = {CHEAP: "SELECT * FROM account WHERE id = $1", DEAR: "SELECT count(*) FROM orders"}
MB = 1_000_000


def story(directory: Path) -> None:
    """Record that hour."""
    recorded = [second for second in range(BEGIN, BEGIN + 3600) if second not in SILENT]
    samples = [one for second in recorded for one in _samples(second - BEGIN, second)]
    with Writer(directory, built_in().values()) as writer:
        writer.commit([Batch(instance=INSTANCE, samples=tuple(samples), texts=TEXTS)])


@contextmanager
def opened_story(directory: Path, where: str) -> Iterator[History]:
    """That hour, open for reading, with its rows still "in SQLite" or already "in files"."""
    story(directory)
    if where == "in files":
        with Writer(directory, built_in().values()) as writer:
            compaction.move_to_parquet(writer, MIDNIGHT + 86_400 * 3 * SECOND)
    with open_history(directory) as history:
        yield history


def _samples(passed: int, second: int) -> Iterator[SourceSample]:
    yield sample("sessions", second, *_sessions(second))
    if passed % 60 == 0:
        dear = max(0, passed - 1800)
        yield sample(
            "statements", second,
            of_source("statements", database="app", role="web", query_id=CHEAP, toplevel=True,
                 calls=10 * passed, exec_ms=10.0 * passed, rows=10 * passed),
            of_source("statements", database="app", role="web", query_id=DEAR, toplevel=True,
                 calls=dear, exec_ms=500.0 * dear, rows=dear),
        )  # fmt: skip
        busy = min(600, max(0, passed - 1800))
        yield sample("wal", second, of_source("wal", bytes=MB * passed + 15 * MB * busy))
        yield sample(
            "checkpoints", second,
            of_source("checkpoints", timed=passed // 300, requested=busy // 60,
                      write_ms=100.0 * passed),
        )  # fmt: skip
        yield sample("host", second, _host(passed, busy))
        size = "1024" if passed < 1800 else "4096"
        yield sample(
            "settings", second,
            of_source("settings", name="max_wal_size", value=size, unit="MB", origin="file",
                 pending=False),
        )  # fmt: skip
        yield sample(
            "connections",
            second,
            of_source("connections", clients=20, active=2, maximum=100, ordinary=97),
        )


def _host(passed: int, busy: int) -> Row:
    """Totals after `passed` seconds, of which `busy` were in the busy minutes."""
    return of_source(
        "host", cpu_user=1.0 * passed + 2.0 * busy, cpu_system=0.2 * passed, cpu_steal=0.0,
        cpu_iowait=0.2 * passed, cpu_idle=2.6 * passed - 2.0 * busy, cpus=4,
        disk_reads=100 * passed, disk_read_time=0.1 * passed,
        disk_writes=50 * passed + 450 * busy, disk_write_time=0.1 * passed + 4.4 * busy,
        memory_available=(2 if 0 < busy < 600 else 8) * 2**30,
    )  # fmt: skip


def _sessions(second: int) -> Iterator[Row]:
    common = {"database": "app", "role": "web", "backend_type": "client backend", "state": "active"}
    for pid in (101, 102):
        yield of_source("sessions", pid=pid, query_id=CHEAP, **common)
    if second in BUSY:
        for pid in range(201, 209):
            yield of_source("sessions", pid=pid, query_id=DEAR, wait_type="IO",
                            wait_event="WALSync", **common)  # fmt: skip
    yield of_source("sessions", pid=301, **(common | {"state": "idle in transaction"}))


def of_source(source: str, **given: object) -> Row:
    """A row of a built-in source; columns not given are null, of statements and checkpoints 0."""
    names = [column.name for column in built_in()[source].columns]
    assert given.keys() <= set(names)
    zero = dict.fromkeys(names, 0) if source in {"statements", "checkpoints"} else {}
    return Row(values=tuple({**zero, **given}.get(name) for name in names), reset=None)


def sample(name: str, second: int, *rows: Row) -> SourceSample:
    """Rows of a built-in source at that second."""
    source: Source = built_in()[name]
    return SourceSample(
        source=source, at=MIDNIGHT + second * SECOND, monotonic=float(second), rows=rows, cost=0.001
    )
