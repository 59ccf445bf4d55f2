"""Beside a load of pgbench, killed and started again, a history adds up to the server's counters.

The load runs in a database of its own, where nobody else commits. WAL is that of the whole server,
so nothing else may write any: no autovacuum, no snapshots of running transactions.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import NewCluster
from history_recorder import WAIT, recorder, rows, samples

from mrtuner.postgres.cluster import Cluster
from servers import sql
from waiting import until

QUIET: dict[str, str | int | float] = {
    "shared_preload_libraries": "pg_stat_statements",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": 0,
    "checkpoint_timeout": "1d",
    "max_wal_size": "10GB",
}
COUNTERS = """
    SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = 'bench'),
           pg_current_wal_lsn() - '0/0'::pg_lsn, (SELECT wal_records FROM pg_stat_wal)"""
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'bench'"
CALLS = """
    SELECT queryid, sum(calls)::bigint FROM pg_stat_statements(false)
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = 'bench') GROUP BY 1"""
#: Sources that are sampled whenever a recorder starts.
SOURCES = ("databases", "wal", "statements")


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    cluster = new_cluster(18, QUIET)
    sql(cluster.dsn(), "CREATE EXTENSION pg_stat_statements", "CREATE DATABASE bench")
    made = cluster.run("pgbench", "-i", "-q", "-s", "2", cluster.dsn("bench"))
    assert made.returncode == 0, made.stderr
    return cluster


@contextmanager
def load(cluster: Cluster) -> Iterator[None]:
    """Two clients of pgbench, until the block ends."""
    pgbench = str(cluster.binaries.program("pgbench"))
    command = [pgbench, "-n", "-c", "2", "-T", "3600", "--max-tries", "10", cluster.dsn("bench")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        assert process.poll() is None, "the load ended by itself"
    finally:
        process.terminate()
        process.wait(WAIT)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The server's own counters."""

    commits: int
    wal: int
    records: int
    calls: dict[int, int]


def ledger(cluster: Cluster) -> Ledger:
    """Read the counters when the load's sessions have ended: only then have they reported all."""
    until(lambda: sql(cluster.dsn(), SESSIONS) == [(0,)])
    commits, wal, records = sql(cluster.dsn(), COUNTERS)[0]
    return Ledger(commits, int(wal), records, dict(sql(cluster.dsn(), CALLS)))


def sampled(cluster: Cluster, store: Path) -> Ledger | None:
    """Let a recorder sample between two readings of the counters, and return the counters.

    Return None if they differ, because the server still wrote something it had put off.
    """
    before = ledger(cluster)
    record_until_sampled(cluster, store, signal.SIGTERM)
    return before if ledger(cluster) == before else None


def record_until_sampled(
    cluster: Cluster, store: Path, end: signal.Signals, seconds: float = 0.0
) -> None:
    """Start a recorder; after its first sample of each source and so many seconds, end it."""
    already = {source: samples(store, source) for source in SOURCES}
    with recorder(store, cluster.dsn()) as process:
        until(lambda: all(samples(store, source) > count for source, count in already.items()))
        time.sleep(seconds)
        process.send_signal(end)
        assert process.wait(WAIT) == (0 if end is signal.SIGTERM else -end)


def wait_for_more(cluster: Cluster) -> None:
    """Let the load run unrecorded until its counters have grown."""
    so_far = sql(cluster.dsn(), COUNTERS)
    until(lambda: sql(cluster.dsn(), COUNTERS) > so_far)


def check(cluster: Cluster, directory: Path, phases: int, seconds: float) -> None:
    """Record a load in `phases`, each ended by SIGKILL, with gaps between; compare the totals."""
    stores = (directory / str(number) for number in range(10))
    store, before = next((one, found) for one in stores if (found := sampled(cluster, one)))
    with load(cluster):
        for _ in range(phases):
            record_until_sampled(cluster, store, signal.SIGKILL, seconds)
            wait_for_more(cluster)
    after = next(found for _ in range(10) if (found := sampled(cluster, store)))
    assert after.commits - before.commits > 100
    assert rows(store, "SELECT sum(commits) FROM databases WHERE database = 'bench'") == [
        (after.commits - before.commits,)
    ]
    assert rows(store, "SELECT sum(bytes), sum(records) FROM wal") == [
        (after.wal - before.wal, after.records - before.records)
    ]
    calls = {key: calls - before.calls.get(key, 0) for key, calls in after.calls.items()}
    recorded = rows(
        store, "SELECT query_id, sum(calls) FROM statements WHERE database = 'bench' GROUP BY 1"
    )
    assert {key: count for key, count in recorded if count} == {
        key: count for key, count in calls.items() if count
    }
    assert sum(1 for count in calls.values() if count > 10) >= 5  # what pgbench runs
    assert rows(store, "SELECT count(*) FROM events WHERE kind = 'restart'") == [(0,)]


def test_beside_a_load_its_totals_are_those_of_the_server(cluster: Cluster, tmp_path: Path) -> None:
    check(cluster, tmp_path, phases=2, seconds=2.0)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_beside_minutes_of_load_its_totals_are_those_of_the_server(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Phases are longer than a source's interval, so that most samples are regular ones."""
    check(cluster, tmp_path, phases=3, seconds=90.0)
