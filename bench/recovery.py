"""How fast a crashed server replays its WAL: the price of long checkpoint intervals.

    python bench/recovery.py              # fast storage
    python bench/recovery.py --iops 3000  # a capped volume, 2 GiB of memory (as root, cgroup v1)

Loads pgbench, writes for a while behind one CHECKPOINT, stops the server as a crash would, and
times the next start. Prints the WAL replayed and bytes a second; nothing here is a promise.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg
from worth import SCENARIOS, advised

from mrtuner.bench.load.pgbench import Load, initialise, run
from mrtuner.bench.server.instance import inside, limits, volume
from mrtuner.postgres.binaries import find_binaries
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.units import Bytes, pretty_bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iops", type=int)
    parser.add_argument("--scale", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=90)
    options = parser.parse_args()
    scenario = SCENARIOS["small" if options.iops else "memory"]
    binaries = find_binaries()
    pgbench = binaries.program("pgbench")
    with ExitStack() as stack:
        disk, place, group = None, scratch_directory() / "pg", None
        if options.iops:
            disk = stack.enter_context(volume(Bytes(24 * 2**30)))
            place = disk.place / "pg"
            group = stack.enter_context(limits("recovery", Bytes(scenario.memory), None, None))
        cluster = Cluster.create(binaries, place, advised(scenario))
        stack.callback(cluster.stop, "immediate")
        with inside(group):
            cluster.start()
        _sql(cluster, "CREATE DATABASE bench", "postgres")
        initialise(cluster.dsn("bench"), options.scale, program=pgbench)
        _sql(cluster, "VACUUM")
        _sql(cluster, "CHECKPOINT")
        if disk:
            disk.throttle(options.iops)
        load = Load(scale=options.scale, clients=8, threads=1, seconds=options.seconds)
        done, _ = run(cluster.dsn("bench"), load, ["--builtin=tpcb-like"], program=pgbench)
        redo = "pg_wal_lsn_diff(pg_current_wal_lsn(), redo_lsn) FROM pg_control_checkpoint()"
        wal = int(_sql(cluster, f"SELECT {redo}"))
        cluster.stop("immediate")
        subprocess.run(["sync"], check=True)
        Path("/proc/sys/vm/drop_caches").write_text("3")
        began = time.monotonic()
        with inside(group):
            cluster.start()
        _sql(cluster, "SELECT 1")
        seconds = time.monotonic() - began
        sys.stdout.write(
            f"{pretty_bytes(wal)} of WAL ({done.transactions} transactions) replayed and up in "
            f"{seconds:.1f} s: {pretty_bytes(int(wal / seconds))}/s, "
            f"{done.transactions / seconds:.0f} transactions a second of replay\n"
        )


def _sql(cluster: Cluster, statement: str, database: str = "bench") -> str:
    with psycopg.connect(cluster.dsn(database), autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return str(cursor.fetchone()[0]) if cursor.description else ""  # type: ignore[index]


if __name__ == "__main__":
    main()
