"""All databases of a server are found and sampled, one after the other over one more connection."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from conftest import NewCluster
from history_recorder import WAIT, rows, samples

from mrtuner.history.recording.recorder import Instance, RecordingLimits, record
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.status import status
from mrtuner.history.store.writer import Writer
from mrtuner.postgres.cluster import Cluster
from servers import counted, sql
from waiting import until

NAMES = "SELECT DISTINCT database, name FROM tables WHERE name LIKE 't%' ORDER BY 1"


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    """Three databases that can be sampled, one that a role may not enter, one that nobody may."""
    cluster = new_cluster()
    sql(cluster.dsn(), *[f"CREATE DATABASE {name}" for name in ("first", "second", "shut", "no")],
        "CREATE ROLE monitor LOGIN IN ROLE pg_monitor",
        "REVOKE CONNECT ON DATABASE shut FROM PUBLIC",
        "ALTER DATABASE no ALLOW_CONNECTIONS false")  # fmt: skip
    for name in ("first", "second", "shut"):
        sql(cluster.dsn(name), f"CREATE TABLE t_{name} (id int PRIMARY KEY)")
    return cluster


@contextmanager
def recording(directory: Path, cluster: Cluster) -> Iterator[None]:
    """Record all databases in a thread, every half a second."""
    sources = [
        built_in()["sessions"],
        *(replace(built_in()[name], interval=0.5) for name in ("tables", "indexes")),
    ]
    stop = threading.Event()

    def run() -> None:
        instance = Instance(name="db", dsn=cluster.dsn(user="monitor"))
        with Writer(directory, sources) as writer:
            # Half a second is far more often than the budget allows.
            limits = RecordingLimits(all_databases=True, budget=1.0)
            record(writer, [instance], stop, limits=limits)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: samples(directory, "indexes") > 1)
        yield
    finally:
        stop.set()
        thread.join(WAIT)


def open_connections(user: str) -> int:
    """Count this process's own: the server shows one for a while after its client has closed it."""
    ours = [one for one in gc.get_objects() if isinstance(one, psycopg.Connection)]
    return sum(not one.closed and one.pgconn.user == user.encode() for one in ours)


def test_every_database_is_sampled_and_what_cannot_be_is_named(
    cluster: Cluster, tmp_path: Path
) -> None:
    most = 0
    with recording(tmp_path, cluster):
        counted(cluster.dsn("second"), "INSERT INTO t_second SELECT generate_series(1, 70)")
        for _ in range(30):
            most = max(most, open_connections("monitor"))
            time.sleep(0.02)
        total = "SELECT sum(inserted) FROM tables WHERE database = 'second' AND name = 't_second'"
        until(lambda: rows(tmp_path, total) == [(70,)])
        until(lambda: any(one.source == "database shut" for one in status(tmp_path, 0.0).sources))
        lacks = {one.source: one.why for one in status(tmp_path, 0.0).sources if one.why}
    assert rows(tmp_path, NAMES) == [("first", "t_first"), ("second", "t_second")]
    assert rows(tmp_path, "SELECT DISTINCT database, name FROM indexes ORDER BY 1") == [
        ("first", "t_first_pkey"), ("second", "t_second_pkey"),
    ]  # fmt: skip
    assert "permission denied for database" in str(lacks["database shut"])
    assert 1 <= most <= 2


def test_a_database_that_cannot_be_read_for_a_while_is_not_gone_and_a_dropped_one_is(
    cluster: Cluster, tmp_path: Path
) -> None:
    """No row with nulls is stored for a table that is still there."""
    gone = "SELECT DISTINCT name FROM tables WHERE live IS NULL"
    with recording(tmp_path, cluster):
        sql(cluster.dsn(), "REVOKE CONNECT ON DATABASE first FROM PUBLIC")
        until(lambda: any(one.source == "database first" for one in status(tmp_path, 0.0).sources))
        before = samples(tmp_path, "tables")
        until(lambda: samples(tmp_path, "tables") > before + 1)
        assert rows(tmp_path, gone) == []
        sql(cluster.dsn(), "DROP DATABASE second WITH (FORCE)")
        until(lambda: rows(tmp_path, gone) == [("t_second",)])
