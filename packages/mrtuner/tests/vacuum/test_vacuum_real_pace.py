"""The computed minimum time of a vacuum, compared with what a server takes."""

from __future__ import annotations

import time

import pytest
from conftest import NewCluster

from mrtuner.vacuum import vacuum
from mrtuner.vacuum.pace import cost, cost_settings
from servers import counted, sql

pytestmark = [pytest.mark.quiet, pytest.mark.timeout(300)]

STATE = (
    "SELECT n_dead_tup, autovacuum_count, total_autovacuum_time / 1000 "
    "FROM pg_stat_user_tables WHERE relname = 't'"
)
ON = (
    "ALTER TABLE t SET (autovacuum_enabled = true, autovacuum_vacuum_scale_factor = 0, "
    "autovacuum_vacuum_threshold = 100)"
)


def computed(dsn: str, dead: int) -> float:
    """Seconds computed for a vacuum of the table that removes `dead` rows."""
    found = vacuum(dsn)
    (table,) = (one.table for one in found.tables)
    prices = cost_settings(found.picture.settings, {})
    assert prices.speed is not None
    return cost(table, dead, prices) / prices.speed


def taken(dsn: str) -> float:
    """Seconds that the next autovacuum of the table takes, by the server's own count."""
    ((_, runs, before),) = sql(dsn, STATE)
    sql(dsn, ON)
    deadline = time.monotonic() + 120
    while True:
        time.sleep(0.5)
        ((_, now, after),) = sql(dsn, STATE)
        if now > runs:
            sql(dsn, "ALTER TABLE t SET (autovacuum_enabled = false)")
            return float(after - before)
        assert time.monotonic() < deadline


@pytest.mark.parametrize("cold", [True, False], ids=["cold", "warm"])
@pytest.mark.parametrize("updated", [2_000, 20_000, 100_000])
def test_a_server_takes_what_was_computed_at_least_and_seldom_four_times_as_long(
    new_cluster: NewCluster, updated: int, cold: bool
) -> None:
    """After a checkpoint every page is clean, so each page that vacuum changes has its cost. By the
    computed time a table may use a quarter of a worker's time, hence the factor four."""
    settings = {"autovacuum_naptime": "1s", "shared_buffers": "512MB", "fsync": "off"}
    cluster = new_cluster(18, settings)
    dsn = cluster.dsn()
    counted(
        dsn,
        "CREATE TABLE t (id int PRIMARY KEY, n int, pad text) WITH (autovacuum_enabled = false)",
        "CREATE INDEX ON t (n)",
        "INSERT INTO t SELECT i, i, repeat('x', 80) FROM generate_series(1, 500000) AS i",
        "VACUUM ANALYZE t",
        "UPDATE t SET n = n + 1 WHERE id IN (SELECT (random() * 499999)::int + 1 "
        f"FROM generate_series(1, {updated}))",
        "CHECKPOINT",
    )
    if cold:
        cluster.restart()
    ((dead, _, _),) = sql(dsn, STATE)
    least = computed(dsn, dead)
    assert 0.9 * least <= taken(dsn) <= 4 * least
