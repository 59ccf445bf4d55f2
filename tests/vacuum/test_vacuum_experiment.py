"""Under load, dead rows stay few with our settings and pile up with the defaults."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from conftest import NewCluster
from mrtuner.vacuum import Kind, vacuum
from servers import sql

pytestmark = pytest.mark.slow

ROWS = {"account": 200_000, "session": 1_000_000}
#: Of a round; a round takes 50 ms and the time of its statements.
UPDATED, REPLACED, PASSED_ON = 200, 50, 20
DEAD = (
    "SELECT relname::text, n_dead_tup FROM pg_stat_user_tables "
    "WHERE relname IN ('account', 'session', 'job')"
)


def tables(dsn: str) -> None:
    sql(
        dsn,
        "CREATE TABLE account (id int PRIMARY KEY, n int)",
        "CREATE INDEX ON account (n)",  # no update is HOT
        f"INSERT INTO account SELECT i, i FROM generate_series(1, {ROWS['account']}) AS i",
        "CREATE TABLE session (id bigserial PRIMARY KEY, n int)",
        f"INSERT INTO session (n) SELECT i FROM generate_series(1, {ROWS['session']}) AS i",
        "CREATE TABLE job (id bigserial PRIMARY KEY, n int)",
    )
    sql(dsn, "VACUUM ANALYZE account", "VACUUM ANALYZE session", "VACUUM ANALYZE job")


@contextmanager
def load(dsn: str) -> Iterator[None]:
    """Long-lived rows updated, short-lived ones replaced, jobs passed on, until the block ends."""
    import psycopg

    done = threading.Event()

    def run() -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            first = 1
            while not done.is_set():
                conn.execute(
                    "UPDATE account SET n = n + 1 WHERE id BETWEEN %s AND %s",
                    (first, first + UPDATED - 1),
                )
                first = first % (ROWS["account"] - UPDATED) + UPDATED
                for table, count in (("session", REPLACED), ("job", PASSED_ON)):
                    conn.execute(
                        f"INSERT INTO {table} (n) SELECT i FROM generate_series(1, {count}) AS i"
                    )
                    conn.execute(
                        f"DELETE FROM {table} WHERE id IN "
                        f"(SELECT id FROM {table} ORDER BY id LIMIT {count})"
                    )
                time.sleep(0.05)

    worker = threading.Thread(target=run)
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join(30)


def most_dead(dsn: str, seconds: float) -> dict[str, int]:
    """The most dead rows of each table seen in that time."""
    most: dict[str, int] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, dead in sql(dsn, DEAD):
            most[name] = max(most.get(name, 0), dead)
        time.sleep(0.5)
    return most


@pytest.mark.timeout(600)
def test_our_settings_keep_dead_rows_few_where_the_defaults_do_not(
    new_cluster: NewCluster,
) -> None:
    """By default 40,050 dead accounts start a vacuum, and 200,050 dead sessions; with ours 2,050
    and 5,000. A second's nap and the vacuum's own time come on top."""
    dsn = new_cluster(18, {"autovacuum_naptime": "1s"}).dsn()
    tables(dsn)
    with load(dsn):
        plain = most_dead(dsn, 40)
        found = vacuum(dsn, watch=10)
    kinds = {one.table.name: one.kind for one in found.tables}
    assert kinds == {
        "account": Kind.LONG_LIVED,
        "session": Kind.SHORT_LIVED,
        "job": Kind.QUEUE,
    }
    sql(dsn, *(line for line in found.as_sql().splitlines() if line.startswith("ALTER TABLE")))
    sql(dsn, "VACUUM account", "VACUUM session", "VACUUM job")
    with load(dsn):
        ours = most_dead(dsn, 40)
    assert plain["account"] >= 40_000
    assert plain["session"] >= 20_000
    assert ours["account"] <= 20_000
    assert ours["session"] <= 12_000
    assert ours["job"] <= 5_000
