"""Where more work_mem pays and where it costs: sorts, hash aggregates and joins by size.

    python bench/work_mem.py                              # data and temporary files in memory
    python bench/work_mem.py --memory 1GB --iops 3000     # short memory on a small cloud volume
    python bench/work_mem.py --sessions 8 --memory 1GB --iops 3000
    python bench/work_mem.py --values 4MB,64MB --only aggregate

One server and one set of data, one session or more. Each value is the session's own and is tried
once in every block, in random order; hashes get work_mem times --multiplier. Printed: the
speed with each value as a ratio to the first, with a 95 % interval by the paired t on log ratios,
and the temporary bytes that were written. Parallel query and JIT are off, so that one process is
measured. Nothing here is a promise.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg

from mrtuner.bench.plan.order import blocks
from mrtuner.bench.server.instance import inside, limits, unified, volume
from mrtuner.postgres.binaries import find_binaries
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.stats.comparison import compare
from mrtuner.units import Bytes, parse_bytes, pretty_bytes

GIB = 2**30
#: Rows that are sorted, groups that are made, rows on the hashed side of a join.
SIZES = (20_000, 100_000, 400_000, 1_600_000)
#: `id` is in order, `key` is not, and a row takes about 100 bytes.
TABLE = """
CREATE TABLE facts AS
    SELECT id, (hashint4(id)::bigint & 2147483647) AS key,
           md5(id::text) AS item, repeat('y', 40) AS note
    FROM generate_series(1, {rows}) AS id;
VACUUM (FREEZE, ANALYZE) facts;
CHECKPOINT
"""
#: The queries compute everything and send hardly anything.
QUERIES = {
    "sort": "SELECT * FROM facts WHERE id <= {n} ORDER BY item OFFSET {n}",
    "sort-number": "SELECT key FROM facts WHERE id <= {n} ORDER BY key OFFSET {n}",
    "distinct": "SELECT count(*) FROM (SELECT DISTINCT item FROM facts WHERE id <= {n}) AS d",
    "aggregate": "SELECT count(*) FROM (SELECT key % {n} AS k, count(*), max(item) FROM facts"
    " GROUP BY 1) AS g",
    "join": "SELECT count(*) FROM facts AS a JOIN facts AS b ON a.key = b.key"
    " WHERE b.id <= {n} AND length(a.note) + length(b.item) > 0",
}
SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "autovacuum": "off",
}


def main() -> None:
    options = _options()
    with ExitStack() as stack:
        server = _server(options, stack)
        connections = [
            stack.enter_context(psycopg.connect(server.dsn(), autocommit=True))
            for _ in range(options.sessions)
        ]
        _say("making the table")
        for statement in TABLE.format(rows=options.rows or max(options.sizes)).split(";"):
            connections[0].execute(statement.encode())
        for connection in connections:
            connection.execute(f"SET hash_mem_multiplier = {options.multiplier}".encode())
        rows = list(_measure(connections, options))
    if options.output:
        Path(options.output).write_text(json.dumps({"options": vars(options), "runs": rows}))


def _server(options: argparse.Namespace, stack: ExitStack) -> Cluster:
    place, group = scratch_directory(), None
    if options.iops:
        disk = stack.enter_context(volume(Bytes(24 * GIB)))
        place = disk.place / "server"
        disk.throttle(options.iops, bandwidth=options.bandwidth)
    buffers = SETTINGS
    if options.memory:
        group = stack.enter_context(limits("work-mem", Bytes(options.memory), None, None))
        buffers = SETTINGS | {"shared_buffers": f"{options.memory // 4 // 2**20}MB"}
    cluster = Cluster.create(find_binaries(), place, buffers)
    stack.callback(cluster.remove)
    with inside(group):
        stack.enter_context(cluster)
    return cluster


def _measure(
    connections: list[psycopg.Connection[Any]], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    for kind in options.only:
        for size in options.sizes:
            sql = QUERIES[kind].format(n=size)
            found: dict[str, list[tuple[float, int, str]]] = {name: [] for name in options.values}
            for number, order in enumerate(
                blocks(options.values, options.blocks + options.warm_up, options.seed)
            ):
                for name in order:
                    seen = _once(connections, sql, name)
                    if number >= options.warm_up:
                        found[name].append(seen)
            _tell(kind, size, found)
            yield {"query": kind, "size": size, "found": found}


def _once(
    connections: list[psycopg.Connection[Any]], sql: str, work_mem: str
) -> tuple[float, int, str]:
    """Return seconds until all sessions are done, the temporary bytes of one, and its methods."""
    explain = f"EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, FORMAT JSON) {sql}".encode()
    for connection in connections:
        connection.execute(f"SET work_mem = '{work_mem}'".encode())
    with ThreadPoolExecutor(len(connections)) as pool:
        began = time.monotonic()
        rows = list(pool.map(lambda one: one.execute(explain).fetchone(), connections))
        took = time.monotonic() - began
    assert rows[0] is not None
    plan = rows[0][0][0]["Plan"]
    return took, plan["Temp Written Blocks"] * 8192, " ".join(_nodes(plan))


def _nodes(plan: dict[str, Any]) -> Iterator[str]:
    for key in ("Sort Method", "HashAgg Batches", "Planned Partitions", "Hash Batches"):
        if key in plan:
            yield f"{key}={plan[key]}"
    if plan["Node Type"] in {"Aggregate", "Sort", "Hash Join", "Merge Join", "Unique"}:
        yield plan["Node Type"] + plan.get("Strategy", "")
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _tell(kind: str, size: int, found: dict[str, list[tuple[float, int, str]]]) -> None:
    base = next(iter(found))
    for name, seen in found.items():
        pairs = [(b[0], o[0]) for b, o in zip(found[base], seen, strict=True)]
        took = sorted(item[0] for item in seen)[len(seen) // 2]
        ratio = ""
        if name != base:
            # Speed, not seconds: the base's time over this one's.
            said = compare([(o, b) for b, o in pairs])
            ratio = f"{said.ratio:.2f} ({said.low:.2f} to {said.high:.2f})"
        sys.stdout.write(
            f"{kind:12} {size:>9,} {name:>6} {took * 1000:8.0f} ms  "
            f"{ratio:22} {pretty_bytes(seen[-1][1]):>8}  {seen[-1][2]}\n"
        )
    sys.stdout.flush()


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--values", type=names, default=["4MB", "16MB", "64MB", "256MB"])
    parser.add_argument("--multiplier", default="2")
    parser.add_argument("--only", type=names, default=list(QUERIES))
    parser.add_argument("--sizes", type=lambda t: [int(n) for n in t.split(",")], default=SIZES)
    parser.add_argument("--rows", type=int, help="rows of the table; default: the largest size")
    parser.add_argument("--warm-up", type=int, default=1, help="blocks that are not counted")
    parser.add_argument("--memory", type=parse_bytes, help="limit of the server's cgroup")
    parser.add_argument("--iops", type=int, help="reads and writes a second of the volume, each")
    parser.add_argument("--sessions", type=int, default=1, help="so many run the query at once")
    parser.add_argument("--bandwidth", type=parse_bytes, default=0, help="its bytes a second")
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output")
    options = parser.parse_args()
    if options.iops and unified():
        parser.error("--iops needs cgroup v1 here")
    return options


if __name__ == "__main__":
    main()
