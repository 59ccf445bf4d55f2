"""What a history is worth to `tune`: `make bench-bursts`, or shorter:

    python bench/bursts.py --minutes 60

A server is busy for two minutes and idle for the rest. `tune` then advises max_wal_size twice: from
the server's own counters, which are averages since their reset, and from the history that
`mrtuner record` made meanwhile. Last, the same two minutes run again under either value, and the
checkpoints that WAL forced are counted. Figures of WAL and checkpoints, none of time, so other
programs may run beside it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from mrtuner.bench.server.session import counters
from mrtuner.postgres.binaries import find_binaries
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.units import pretty_bytes

ROWS = 2_000_000
MACHINE = ("--memory", "8GB", "--cpus", "2", "--disk", "500GB", "--storage", "ssd")


def main(arguments: Sequence[str]) -> None:
    given = _options().parse_args(arguments)
    cluster = Cluster.create(find_binaries(None), scratch_directory(), {})
    try:
        with cluster, TemporaryDirectory(prefix="mrtuner-bursts-") as name:
            history = Path(name) / "history"
            _fill(cluster)
            recorder = _mrtuner("record", cluster.dsn(), "--dir", str(history))
            with recorder:
                time.sleep(60)
                _say("busy", *_burst(cluster, given.busy))
                time.sleep(max(0.0, 60 * given.minutes - given.busy - 60))
                recorder.terminate()
            sizes = {
                "averages": _advised(cluster),
                "history": _advised(cluster, "--history", str(history)),
            }
            for of, size in sizes.items():
                sys.stdout.write(f"max_wal_size by {of}: {size}\n")
                with connect(cluster.dsn()) as session:
                    session.execute(f"ALTER SYSTEM SET max_wal_size = '{size}'".encode())
                    session.execute("SELECT pg_reload_conf()")
                    session.execute("CHECKPOINT")
                _say(f"busy again with {size}", *_burst(cluster, given.busy))
    finally:
        cluster.remove()


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--minutes", type=int, default=180, help="of recording")
    parser.add_argument("--busy", type=float, default=120.0, help="seconds of load")
    return parser


def _fill(cluster: Cluster) -> None:
    with connect(cluster.dsn(), own_search_path=True) as session:
        session.execute(
            "CREATE TABLE account AS SELECT n AS id, 0 AS balance, repeat('x', 100) AS filler "
            f"FROM generate_series(1, {ROWS}) AS n".encode()
        )
        session.execute("ALTER TABLE account ADD PRIMARY KEY (id)")
        session.execute("CHECKPOINT")
        session.execute("SELECT pg_stat_reset_shared('wal')")
        session.execute("SELECT pg_stat_reset_shared('checkpointer')")
        session.execute("SELECT pg_stat_reset_shared('bgwriter')")


def _burst(cluster: Cluster, seconds: float) -> tuple[int, int]:
    """Update random rows for so long; return the bytes of WAL and the checkpoints it forced."""
    with connect(cluster.dsn(), own_search_path=True) as session:
        before = counters(session)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            session.execute(
                "UPDATE account SET balance = balance + 1 WHERE id IN "
                f"(SELECT (random() * {ROWS})::int FROM generate_series(1, 2000))".encode()
            )
        session.execute("SELECT pg_stat_force_next_flush()")
        after = counters(session)
    return after.wal - before.wal, after.requested - before.requested


def _say(what: str, wal: int, forced: int) -> None:
    sys.stdout.write(f"{what}: {pretty_bytes(wal)} of WAL, {forced} checkpoints forced by it\n")
    sys.stdout.flush()


def _mrtuner(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from mrtuner.cli import main; main()", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _advised(cluster: Cluster, *more: str) -> str:
    """max_wal_size as `tune` advises it."""
    with _mrtuner("tune", cluster.dsn(), *MACHINE, "--json", *more) as process:
        told = json.loads(process.communicate()[0])
    (found,) = (one["value"] for one in told["advice"] if one["name"] == "max_wal_size")
    return str(found)


if __name__ == "__main__":
    main(sys.argv[1:])
