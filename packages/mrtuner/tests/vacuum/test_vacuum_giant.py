"""A partitioned giant: 10,000 tables take as long each as 1,000 do, and need no locks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

import pytest

from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.vacuum import vacuum
from servers import binaries, sql

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: Each with a TOAST table and its index.
LEAVES = (
    "DO $$ BEGIN "
    "CREATE TABLE part_{0} PARTITION OF giant FOR VALUES IN ({0}) PARTITION BY LIST (body); "
    "FOR leaf IN 1..100 LOOP "
    "EXECUTE format('CREATE TABLE part_{0}_%s PARTITION OF part_{0} FOR VALUES IN (%L)', "
    "leaf, leaf); END LOOP; END $$"
)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster.create(
        binaries(18),
        scratch_directory(),
        {"fsync": "off", "autovacuum": "off", "max_locks_per_transaction": 500},
    )
    try:
        with made:
            yield made
    finally:
        made.remove()


def grow(dsn: str, first: int, last: int) -> None:
    """Add partitions that have a hundred leaves each."""
    for number in range(first, last):
        sql(dsn, LEAVES.format(number))


def each(dsn: str, tables: int) -> float:
    """Seconds for each table, the middle of five reads."""
    took = []
    for _ in range(5):
        start = time.monotonic()
        found = vacuum(dsn)
        took.append((time.monotonic() - start) / tables)
        assert len(found.tables) == tables
    return median(took)


def test_ten_thousand_tables_take_ten_times_as_long_as_a_thousand_and_no_lock(
    cluster: Cluster,
) -> None:
    """With every table held in ACCESS EXCLUSIVE mode any lock would wait, and fail after 2 s."""
    import psycopg

    dsn = cluster.dsn()
    sql(dsn, "CREATE TABLE giant (id int, body text) PARTITION BY LIST (id)")
    grow(dsn, 0, 10)
    few = each(dsn, 1_000)
    grow(dsn, 10, 100)
    many = each(dsn, 10_000)
    with psycopg.connect(dsn) as conn:
        for number in range(100):
            conn.execute(f"LOCK TABLE part_{number} IN ACCESS EXCLUSIVE MODE".encode())
        assert len(vacuum(dsn).tables) == 10_000
    assert many < 3 * few
