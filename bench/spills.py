"""Which sorts and hashes spill to disk: the default's, the peers' and our settings.

    python bench/spills.py                     # 16 GB, 4 CPUs, 100 connections
    python bench/spills.py --memory 4GB        # 4 GB, 2 CPUs

One server on one set of data, 200 bytes a row; each setting is tried as a session's own, in turn,
in every block. Printed: bytes written to temporary files, and how long each query took as a ratio
to the default (median over blocks; nothing here is a promise).
PgTune's figures are those of its formulas of July 2026, for the same machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

import psycopg

import mrtuner
from mrtuner.postgres.cluster import Cluster, find_binaries, scratch_directory
from mrtuner.units import parse_bytes, pretty_bytes

ROWS = 400_000
TABLES = f"""
CREATE TABLE customers AS
    SELECT id, md5(id::text) AS name, repeat('x', 60) AS address
    FROM generate_series(1, {ROWS // 4}) AS id;
CREATE TABLE orders AS
    SELECT id, (hashint4(id) & 2147483647) % {ROWS // 4} + 1 AS customer,
           md5(id::text) AS item, repeat('y', 120) AS note
    FROM generate_series(1, {ROWS}) AS id;
ANALYZE;
"""
QUERIES = {
    "a page of 2,000 rows, sorted": "SELECT * FROM orders WHERE id <= 2000 ORDER BY item",
    "50,000 rows, sorted": "SELECT * FROM orders WHERE id <= 50000 ORDER BY item",
    "100,000 rows, sorted": "SELECT * FROM orders WHERE id <= 100000 ORDER BY item",
    "orders of 100,000 customers, joined": "SELECT o.id, c.* FROM orders o JOIN customers c"
    " ON c.id = o.customer",
    "100,000 groups": "SELECT customer, count(*), max(item) FROM orders GROUP BY customer",
    "400,000 distinct values": "SELECT DISTINCT item FROM orders",
}
#: CPUs by memory, and what others give as work_mem there for web, 100 connections, 17, SSD: their
#: rule code, run in the versions that docs/comparison.md names. None of them sets
#: hash_mem_multiplier, so that the server's own 2 holds.
MACHINES = {
    "16GB": (4, {"pgtune": "39MB", "timescaledb-tune": "32MB", "pgconfig": "41MB"}),
    "4GB": (2, {"pgtune": "9728kB", "timescaledb-tune": "16MB", "pgconfig": "10MB"}),
}
MEMORY = ("work_mem", "hash_mem_multiplier")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--memory", choices=MACHINES, default="16GB")
    parser.add_argument("--blocks", type=int, default=3)
    options = parser.parse_args()
    arms = _arms(options.memory)
    server = Cluster.create(find_binaries(), scratch_directory(), {"shared_buffers": "512MB"})
    try:
        with server, psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(TABLES.encode())
            tried = {
                text: _tried(connection, sql, arms, options.blocks) for text, sql in QUERIES.items()
            }
        _tell(arms, tried)
    finally:
        server.remove()


def _arms(memory: str) -> dict[str, dict[str, str]]:
    cpus, peers = MACHINES[memory]
    tuning = mrtuner.tune(
        memory=parse_bytes(memory), cpus=cpus, storage="ssd", workload="web", connections=100,
        postgres=17,
    )  # fmt: skip
    ours = {item.name: item.value for item in tuning.changes if item.name in MEMORY}
    return {"default": {}, "mrtuner": ours} | {
        name: {"work_mem": value} for name, value in peers.items()
    }


def _tried(
    connection: psycopg.Connection[Any], sql: str, arms: dict[str, dict[str, str]], blocks: int
) -> dict[str, tuple[int, float]]:
    """Temporary bytes, and the median of seconds, of a query under each setting."""
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    written = {}
    for _ in range(blocks):
        for name, settings in arms.items():
            connection.execute(b"RESET ALL")
            for key, value in settings.items():
                connection.execute(f"SET {key} = '{value}'".encode())
            began = time.monotonic()
            plan = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}".encode())
            row = plan.fetchone()
            seconds[name].append(time.monotonic() - began)
            assert row is not None
            written[name] = row[0][0]["Plan"]["Temp Written Blocks"] * 8192
    return {name: (written[name], statistics.median(seconds[name])) for name in arms}


def _tell(arms: dict[str, dict[str, str]], found: dict[str, dict[str, tuple[int, float]]]) -> None:
    sys.stdout.write(json.dumps(arms) + "\n")
    for text, by_arm in found.items():
        _, base = by_arm["default"]
        cells = [
            f"{name} {pretty_bytes(size) if size else 'nothing'}, {took / base:.2f} of the time"
            for name, (size, took) in by_arm.items()
        ]
        sys.stdout.write(f"{text}: {'; '.join(cells)}\n")


if __name__ == "__main__":
    main()
