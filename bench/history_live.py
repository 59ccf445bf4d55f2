"""Recording real servers: the size of a server's history, and the cost of recording many."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mrtuner.bench.engine.machine import cpu_of
from mrtuner.bench.load.pgbench import find_pgbench
from mrtuner.errors import MrTunerError
from mrtuner.history.moments import timestamp
from mrtuner.history.reading import History, open_history
from mrtuner.history.recording.recorder import Instance, RecordingLimits, record
from mrtuner.history.recording.source import Kind, Source, built_in
from mrtuner.history.store import compaction, opening, own_sources
from mrtuner.history.store.layout import DATABASE, HOUR, MICRO
from mrtuner.history.store.writer import Writer
from mrtuner.postgres.binaries import find_binaries
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.server_user import scratch_directory

Say = Callable[[str], None]
#: Interval at which `real` samples what is due each minute [s]: a day's samples in three minutes.
_MINUTE = 0.125
#: Fewest samples from which a day is estimated; with fewer, a file's fixed part weighs too much.
_ENOUGH = 100
#: How long to wait for the first sample of a further instance [s].
_PATIENCE = 300.0
#: Sources whose number of rows depends on the load or on changes, not on the number of samples.
_IRREGULAR = {"sessions", "settings"}


@contextmanager
def _server(connections: int) -> Iterator[Cluster]:
    """Run a server with pgbench's tables and pg_stat_statements, under load."""
    binaries = find_binaries(None)
    settings = {
        "shared_preload_libraries": "pg_stat_statements",
        "max_connections": str(connections),
        "max_wal_size": "1GB",
    }
    cluster = Cluster.create(binaries, scratch_directory(), settings)
    try:
        with cluster:
            with connect(cluster.dsn(), own_search_path=True) as session:
                session.execute("CREATE EXTENSION pg_stat_statements")
            program = str(find_pgbench(binaries))
            subprocess.run(
                [program, "-i", "-s", "10", "-q", cluster.dsn()], check=True, capture_output=True
            )
            with _load(program, cluster.dsn()):
                yield cluster
    finally:
        cluster.remove()


@contextmanager
def _load(program: str, dsn: str) -> Iterator[None]:
    """Let pgbench run: every few seconds another script, number of clients and rate."""
    over, chance = threading.Event(), random.Random(1)

    def run() -> None:
        while not over.is_set():
            subprocess.run(
                [program, "--no-vacuum", "-b",
                 chance.choice(("tpcb-like", "simple-update", "select-only")),
                 "-c", str(chance.choice((1, 2, 4))), "-T", str(chance.randint(3, 9)),
                 "-R", str(chance.choice((50, 200, 800))), dsn],
                check=True, capture_output=True,
            )  # fmt: skip

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# What a history of a real server takes.


def real(seconds: int, say: Say) -> None:
    """Record a server, minutely samples eight times a second instead, and measure the files."""
    sources = [
        replace(source, interval=max(_MINUTE, source.interval * _MINUTE / 60))
        for source in built_in().values()
    ]
    with TemporaryDirectory() as name, _server(50) as cluster:
        directory, stop = Path(name) / "history", threading.Event()
        timer = threading.Timer(seconds, stop.set)
        timer.start()
        with Writer(directory, sources) as writer:
            instance = Instance(name="shop", dsn=cluster.dsn())
            # With so large a budget it does not back off, although it samples so often.
            record(writer, [instance], stop, limits=RecordingLimits(budget=100.0), tell=say)
            compaction.move_to_parquet(writer, timestamp(), everything=True)
            sizes = {file.view: file.bytes for file in writer.files()}
        with open_history(directory) as history:
            _tell_real(history, [*sources, own_sources.SAMPLES], sizes, say)


def _tell_real(history: History, sources: list[Source], sizes: dict[str, int], say: Say) -> None:
    """Print the bytes of each view, and of a day if each sample takes as much as here."""
    samples = {
        row["source"]: row["samples"]
        for row in history.rows("SELECT source, count(*) AS samples FROM samples GROUP BY 1")
    }
    values = size = per_day = 0.0
    for source in sources:
        if source.name not in sizes:
            continue
        columns = [f'count("{column.name}")' for column in source.of(Kind.COUNTER, Kind.GAUGE)]
        found = history.row(
            f"SELECT count(*) AS rows, ({' + '.join(columns or ['0'])})::BIGINT AS numbers "
            f'FROM "{source.name}"'
        )
        taken = sizes[source.name]
        told = f"{source.name}: {found['rows']:,} rows, {taken / found['rows']:.1f} bytes each"
        if found["numbers"]:
            told += f"; {found['numbers']:,} values, {taken / found['numbers']:.2f} bytes each"
        if samples.get(source.name, 0) >= _ENOUGH and source.name not in _IRREGULAR:
            interval = built_in()[source.name].interval
            day = taken / samples[source.name] * 86_400 / interval
            told += f"; each {interval:g} s, {day / 1000:.0f} kB a day"
            per_day += day
        say(told)
        if source is not own_sources.SAMPLES:
            values += found["numbers"]
            size += taken
    say(f"a day of all these: {per_day / 1000:.0f} kB")
    say(
        f"counters and gauges, and their names, times and durations: {values:,.0f} values, "
        f"{size / values:.2f} bytes each"
    )


# What a recorder of many instances takes.


def recorder(numbers: list[int], seconds: int, say: Say) -> None:
    """Run `mrtuner record` on one server under many names, each with a connection of its own."""
    for number in numbers:
        with TemporaryDirectory() as name, _server(number + 50) as cluster:
            _record_many(number, seconds, cluster, Path(name), say)


def _record_many(number: int, seconds: int, cluster: Cluster, scratch: Path, say: Say) -> None:
    config = scratch / "fleet.toml"
    lines = [f"server-{n:03} = {cluster.dsn()!r}" for n in range(number)]
    config.write_text("\n".join(["[instances]", *lines]) + "\n")
    directory = scratch / "history"
    command = [
        sys.executable, "-c", "from mrtuner.cli import main; main()", "record",
        "--config", str(config), "--dir", str(directory),
    ]  # fmt: skip
    told: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            begin = time.perf_counter()
            _await_all(directory, number)
            ready = time.perf_counter() - begin
            time.sleep(seconds)
            middle, cpu = _memory(process.pid), cpu_of(process.pid)
            time.sleep(seconds)
            cpu = (cpu_of(process.pid) - cpu) / seconds
            peak, late = _memory(process.pid), _memory(process.pid, "VmRSS")
        finally:
            process.terminate()
            told = (process.communicate()[1] or "").splitlines()
    with open_history(directory) as history:
        kept = _kept_up(history, number, seconds)
    say(
        f"{number} instances, all sampled after {ready:.0f} s: {peak / 1e6:.0f} MB at most "
        f"(after half of the time {middle / 1e6:.0f} MB; at the end {late / 1e6:.0f} MB), "
        f"{cpu:.0%} of a CPU; {kept}"
    )
    for line in told[1:4]:
        say(f"  it told: {line}")
    rows = _repeated(directory, HOUR // (round(ready + 2 * seconds) * MICRO))
    took, peak = _compacted(directory)
    say(
        f"{number} instances, an hour of them ({rows:,} rows) moved into files: "
        f"{took:.1f} s, {peak / 1e6:.0f} MB at most"
    )


def _await_all(directory: Path, number: int) -> None:
    """Wait until each instance was sampled once."""
    found, last = 0, time.monotonic()
    while found < number:
        time.sleep(1)
        with suppress(sqlite3.Error, MrTunerError), closing(opening.for_reading(directory)) as db:
            now = db.execute("SELECT count(DISTINCT instance) FROM last_sample").fetchone()[0]
            found, last = now, last if now == found else time.monotonic()
        if time.monotonic() - last > _PATIENCE:
            raise SystemExit(
                f"{found} of {number} instances were sampled, and none more in {_PATIENCE:.0f} s"
            )


def _repeated(directory: Path, times: int) -> int:
    """Repeat what was recorded until it fills an hour; return the number of rows.

    First samples are not repeated: they hold what later comes only with changes, such as settings.
    """
    total = 0
    with closing(sqlite3.connect(directory / DATABASE)) as db:
        tables = [
            name
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE name LIKE 'recent_%'")
        ]
        for table in tables:
            names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            rest = ", ".join(f'"{name}"' for name in names if name != "time")
            db.execute(
                f"""WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n + 1 < ?)
                    INSERT INTO {table} ("time", {rest})
                    SELECT "time" - n * ?, {rest} FROM {table}, n WHERE seconds IS NOT NULL""",
                (times, HOUR // times),
            )
            total += db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        db.commit()
    return int(total)


def _compacted(directory: Path) -> tuple[float, int]:
    """Return the seconds and the peak memory of a process that moves all rows into files."""
    command = [
        sys.executable, "-c", "from mrtuner.cli import main; main()", "history", "compact", "--all",
        "--dir", str(directory),
    ]  # fmt: skip
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit("mrtuner history compact failed")
    return time.perf_counter() - begin, usage.ru_maxrss * 1024


def _memory(pid: int, name: str = "VmHWM") -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _kept_up(history: History, number: int, seconds: int) -> str:
    """Describe how many of the samples that were due in the second half were taken."""
    since = f"time >= (SELECT max(time) - to_seconds({seconds}) FROM samples)"
    came = history.row(
        "SELECT count(*) AS samples, count(DISTINCT instance) AS instances FROM samples "
        f"WHERE source = 'sessions' AND {since}"
    )
    slow = history.row(
        "SELECT coalesce(quantile_cont(seconds, 0.99), 'inf') AS apart FROM samples "
        f"WHERE source = 'connections' AND {since}"
    )
    return (
        f"{came['samples'] / (number * seconds):.0%} of the samples that were due each second, of "
        f"{came['instances']} instances; of those each 10 s, 99 % within {slow['apart']:.1f} s of "
        "the one before"
    )
