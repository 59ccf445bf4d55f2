"""The workloads of the field notes' table, once under the defaults and once under our settings.

Both run at the same time on one server, each in its own schema, so a busy machine affects both
alike. `PYTHONPATH=tests python packages/mrtuner/tests/vacuum/vacuum_load.py > docs/vacuum.json`
runs it in full.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mrtuner.vacuum import TableReport, Vacuum, vacuum
from servers import sql

PLAIN, OURS = "defaults", "ours"
SCHEMAS = (PLAIN, OURS)
ROUND = 0.1  # [s]
_DEAD = (
    "SELECT schemaname::text, relname::text, n_dead_tup, autovacuum_count FROM pg_stat_user_tables"
)
#: Of each table: schema and name, dead rows, and how often autovacuum has been there.
Dead = dict[tuple[str, str], tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Rows of each table, and rows written to each in a round; sessions live over 15 min."""

    account: int  # long-lived, every one updated again and again
    session: int  # short-lived: inserted, then deleted
    job: int  # a queue
    each: int

    def life(self, name: str) -> float:
        """How long a row lives, or until it is updated [s]."""
        rows: int = getattr(self, name)
        return rows / self.each * ROUND


def build(dsn: str, sizes: Sizes) -> None:
    """Create the three tables in both schemas."""
    for schema in SCHEMAS:
        sql(
            dsn,
            f"CREATE SCHEMA {schema}",
            f"CREATE TABLE {schema}.account (id int PRIMARY KEY, n int)",
            f"CREATE INDEX ON {schema}.account (n)",  # no update is HOT
            f"CREATE TABLE {schema}.session (id int PRIMARY KEY, n int)",
            f"CREATE TABLE {schema}.job (id int PRIMARY KEY, n int)",
        )
        for name in ("account", "session", "job"):
            rows = f"SELECT i, i FROM generate_series(1, {getattr(sizes, name)}) AS i"
            sql(dsn, f"INSERT INTO {schema}.{name} {rows}", f"VACUUM ANALYZE {schema}.{name}")


@contextmanager
def load(dsn: str, sizes: Sizes) -> Iterator[None]:
    """Write to both schemas at the same pace until the block ends."""
    done = threading.Event()
    workers = [threading.Thread(target=_write, args=(dsn, one, sizes, done)) for one in SCHEMAS]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        done.set()
        for worker in workers:
            worker.join(60)


def _write(dsn: str, schema: str, sizes: Sizes, done: threading.Event) -> None:
    import psycopg

    each = sizes.each
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(f"SET search_path = {schema}".encode())
        for number in _rounds(done):
            first = number * each % (sizes.account - each) + 1
            update = "UPDATE account SET n = n + 1 WHERE id BETWEEN %s AND %s"
            conn.execute(update, (first, first + each - 1))
            for name, rows in (("session", sizes.session), ("job", sizes.job)):
                old = number * each
                insert = f"INSERT INTO {name} SELECT i, i FROM generate_series(%s::int, %s) AS i"
                conn.execute(insert.encode(), (rows + old + 1, rows + old + each))
                delete = f"DELETE FROM {name} WHERE id BETWEEN %s AND %s"
                conn.execute(delete.encode(), (old + 1, old + each))


def _rounds(done: threading.Event) -> Iterator[int]:
    """Yield a number every ROUND seconds, or more slowly on a machine that cannot keep up."""
    number, due = 0, time.monotonic()
    while not done.wait(max(0.0, due - time.monotonic())):
        yield number
        number, due = number + 1, max(due, time.monotonic() - ROUND) + ROUND


def advised(dsn: str, watch: float) -> Vacuum:
    """Our advice under the load, applied in one of the schemas."""
    found = vacuum(dsn, watch=watch)
    altered = f'ALTER TABLE "{OURS}".'
    lines = [text for text in found.as_sql().splitlines() if text.startswith(altered)]
    sql(dsn, *lines)
    return found


def report(found: Vacuum, name: str) -> TableReport:
    """The report on our schema's table of this name."""
    return next(one for one in found.tables if (one.table.schema, one.table.name) == (OURS, name))


def dead(dsn: str) -> Dead:
    """Dead rows and vacuums now."""
    return {(schema, name): (rows, runs) for schema, name, rows, runs in sql(dsn, _DEAD)}


def watch(dsn: str, until: Callable[[float, Dead], bool], every: float) -> list[tuple[float, Dead]]:
    """Dead rows over time, until `until` returns true."""
    start, seen = time.monotonic(), []
    while True:
        at = time.monotonic() - start
        seen.append((at, dead(dsn)))
        if until(*seen[-1]):
            return seen
        time.sleep(every)


def most(seen: list[tuple[float, Dead]]) -> Mapping[tuple[str, str], int]:
    """The most dead rows of each table."""
    return {key: max(now[key][0] for _, now in seen) for key in seen[0][1]}


def vacuums(seen: list[tuple[float, Dead]]) -> Mapping[tuple[str, str], int]:
    """How often autovacuum ran on each table meanwhile."""
    (_, first), (_, last) = seen[0], seen[-1]
    return {key: last[key][1] - first[key][1] for key in first}


#: The experiment in full: at the default settings a table waits 200 s for 200,000 dead rows.
FULL = Sizes(account=1_000_000, session=1_000_000, job=300_000, each=100)
NAP, SECONDS, EVERY = 10, 720.0, 2.0


def experiment(dsn: str, seconds: float = SECONDS) -> dict[str, Any]:
    """Build, load, advise, then watch; the record is plain data for the documentation."""
    build(dsn, FULL)
    with load(dsn, FULL):
        found = advised(dsn, 30)
        seen = watch(dsn, lambda at, _: at >= seconds, EVERY)
    names = ("account", "session", "job")
    return {
        "version_num": found.picture.version_num,
        "naptime": NAP,
        "tables": [
            {
                "name": name,
                "kind": str(report(found, name).kind),
                "rows": getattr(FULL, name),
                "dead_a_second": round(report(found, name).rates.dead),
                "advice": {one.name: one.value for one in report(found, name).advice},
                "series": {schema: [now[schema, name][0] for _, now in seen] for schema in SCHEMAS},
                "vacuums": {schema: vacuums(seen)[schema, name] for schema in SCHEMAS},
            }
            for name in names
        ],
        "at": [round(at, 1) for at, _ in seen],
    }


def main() -> None:
    """Write the experiment's record to stdout."""
    import json
    import sys

    from mrtuner.postgres.cluster import Cluster
    from mrtuner.postgres.server_user import scratch_directory
    from servers import binaries

    cluster = Cluster.create(
        binaries(18), scratch_directory(), {"autovacuum_naptime": f"{NAP}s", "fsync": "off"}
    )
    try:
        with cluster:
            json.dump(experiment(cluster.dsn()), sys.stdout, separators=(",", ":"))
    finally:
        cluster.remove()


if __name__ == "__main__":
    main()
