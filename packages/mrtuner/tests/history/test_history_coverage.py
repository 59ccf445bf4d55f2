"""What users of other monitoring expect to find recorded, each with the value of a real server."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import NewCluster
from history_data import MIDNIGHT, SECOND, batch, row, sample, sampled_rows

from machine import needs
from mrtuner.history.analysis.free_space import free_space
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import open_history
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Writer
from mrtuner.postgres.cluster import Cluster
from servers import counted, sql, standby_of
from waiting import until

Rows = list[dict[str, Any]]


def taken(cluster: Cluster, source: str, **keys: Any) -> Rows:
    """The rows of a source with these keys, by the names of their columns."""
    return [row for row in sampled_rows(cluster, source) if keys.items() <= row.items()]


def test_sessions_are_counted_by_database_role_and_state(
    new_cluster: NewCluster, each_major: int
) -> None:
    cluster = new_cluster(each_major)
    sql(cluster.dsn(), "CREATE ROLE app LOGIN")
    with (
        psycopg.connect(cluster.dsn(user="app"), autocommit=True),
        psycopg.connect(cluster.dsn(user="app"), autocommit=True),
        psycopg.connect(cluster.dsn(user="app")) as third,
    ):
        third.execute("SELECT 1")
        found = taken(cluster, "sessions_by_role", role="app")
    states = {row["state"]: row["sessions"] for row in found}
    assert states == {"idle": 2, "idle in transaction": 1}
    assert {row["database"] for row in found} == {"postgres"}


def test_locks_are_counted_by_mode_held_and_waited_for(
    new_cluster: NewCluster, each_major: int
) -> None:
    cluster = new_cluster(each_major)
    sql(cluster.dsn(), "CREATE TABLE t (id int)")
    mode = {"database": "postgres", "mode": "AccessExclusiveLock"}
    with psycopg.connect(cluster.dsn()) as holder, psycopg.connect(cluster.dsn()) as waiter:
        holder.execute("LOCK TABLE t")
        waiting = threading.Thread(target=waiter.execute, args=("LOCK TABLE t",))
        waiting.start()
        until(lambda: any(row["waiting"] for row in taken(cluster, "locks", **mode)))
        (found,) = taken(cluster, "locks", **mode)
        holder.rollback()
        waiting.join()
    assert (found["held"], found["waiting"]) == (1, 1)


def test_use_and_failed_builds_of_indexes_are_seen(
    new_cluster: NewCluster, each_major: int
) -> None:
    cluster = new_cluster(each_major)
    sql(cluster.dsn(), "CREATE TABLE t (id int, x int)", "INSERT INTO t SELECT n, 1 FROM "
        "generate_series(1, 5000) AS n", "CREATE INDEX used ON t (id)",
        "CREATE INDEX unused ON t (x)")  # fmt: skip
    with (
        psycopg.connect(cluster.dsn(), autocommit=True) as conn,
        pytest.raises(psycopg.errors.UniqueViolation),
    ):
        conn.execute("CREATE UNIQUE INDEX CONCURRENTLY failed ON t (x)")
    counted(cluster.dsn(), *["SET enable_seqscan = off; SELECT x FROM t WHERE id = 7"] * 3)
    found = {row["name"]: row for row in taken(cluster, "indexes")}
    assert set(found) == {"used", "unused", "failed"}
    assert {name: row["scans"] for name, row in found.items()} == {
        "used": 3, "unused": 0, "failed": 0,
    }  # fmt: skip
    assert {name: row["invalid"] for name, row in found.items()} == {
        "used": 0, "unused": 0, "failed": 1,
    }  # fmt: skip
    assert {row["table_name"] for row in found.values()} == {"t"}


def test_prepared_transactions_are_counted_with_their_age(
    new_cluster: NewCluster, each_major: int
) -> None:
    cluster = new_cluster(each_major, {"max_prepared_transactions": "4"})
    assert taken(cluster, "prepared") == [{"transactions": 0, "oldest": None, "age": None}]
    with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
        conn.execute("CREATE TABLE t (id int)")
        for name in "ab":
            conn.execute("BEGIN")
            conn.execute("INSERT INTO t VALUES (1)")
            conn.execute(f"PREPARE TRANSACTION '{name}'")
    (found,) = taken(cluster, "prepared")
    assert found["transactions"] == 2
    assert 0 <= found["oldest"] < 60
    assert found["age"] == 2  # the second one's transaction, and the next


def test_when_tables_were_vacuumed_and_analyzed_last_is_known(
    new_cluster: NewCluster, each_major: int
) -> None:
    cluster = new_cluster(each_major, {"autovacuum": "off"})
    sql(cluster.dsn(), "CREATE TABLE t (id int)")
    (before,) = taken(cluster, "tables", name="t")
    assert (before["last_vacuum"], before["last_analyze"]) == (None, None)
    counted(cluster.dsn(), "VACUUM t")
    (after,) = taken(cluster, "tables", name="t")
    assert abs(after["last_vacuum"] - time.time()) < 60
    assert after["last_analyze"] is None


def test_how_long_ago_a_file_was_archived_is_known(
    new_cluster: NewCluster, each_major: int
) -> None:
    cluster = new_cluster(each_major, {"archive_mode": "on", "archive_command": "true"})
    assert taken(cluster, "archiver")[0]["since_archived"] is None
    sql(cluster.dsn(), "CREATE TABLE t (id int)", "SELECT pg_switch_wal()")
    until(lambda: taken(cluster, "archiver")[0]["since_archived"] is not None)
    (found,) = taken(cluster, "archiver")
    assert 0 <= found["since_archived"] < 60
    assert found["archived"] == 1


def test_wrong_checksums_are_counted(new_cluster: NewCluster) -> None:
    """Bytes of a table's file are overwritten, and a session reads them."""
    cluster = new_cluster(18)
    sql(cluster.dsn(), "CREATE TABLE t AS SELECT generate_series(1, 1000) AS id", "CHECKPOINT")
    ((path,),) = sql(cluster.dsn(), "SELECT pg_relation_filepath('t')")
    cluster.stop()
    file = cluster.data / path
    contents = bytearray(file.read_bytes())
    contents[4000:4004] = b"oops"
    file.write_bytes(contents)
    cluster.start()
    assert taken(cluster, "databases", database="postgres")[0]["checksum_failures"] == 0
    with (
        psycopg.connect(cluster.dsn()) as conn,
        pytest.raises(psycopg.errors.DataCorrupted),
    ):
        conn.execute("SELECT count(*) FROM t")
    until(lambda: taken(cluster, "databases", database="postgres")[0]["checksum_failures"] == 1)


def test_a_subscription_is_known_with_its_workers_and_errors(
    new_cluster: NewCluster, each_major: int
) -> None:
    """A row arrives; then one that violates a key, which stops the subscription again and again."""
    publisher = new_cluster(each_major, {"wal_level": "logical"})
    subscriber = new_cluster(each_major)
    for one in (publisher, subscriber):
        sql(one.dsn(), "CREATE TABLE t (id int PRIMARY KEY)")
    sql(publisher.dsn(), "CREATE PUBLICATION p FOR TABLE t")
    sql(subscriber.dsn(), "INSERT INTO t VALUES (7)",
        f"CREATE SUBSCRIPTION s CONNECTION '{publisher.dsn()}' PUBLICATION p")  # fmt: skip
    until(lambda: taken(subscriber, "subscriptions")[0]["workers"] >= 1)
    (found,) = taken(subscriber, "subscriptions")
    assert found["name"] == "s"
    until(lambda: taken(subscriber, "subscriptions")[0]["silent"] is not None)
    assert 0 <= taken(subscriber, "subscriptions")[0]["silent"] < 60
    ready = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate = 'r'"
    until(lambda: sql(subscriber.dsn(), ready) == [(1,)])
    sql(publisher.dsn(), "INSERT INTO t VALUES (7)")
    if each_major >= 15:
        until(lambda: taken(subscriber, "subscriptions")[0]["apply_errors"] >= 1)
    else:
        assert taken(subscriber, "subscriptions")[0]["apply_errors"] is None
    sql(subscriber.dsn(), "ALTER SUBSCRIPTION s DISABLE")
    until(lambda: taken(subscriber, "subscriptions")[0]["workers"] == 0)
    sql(subscriber.dsn(), "ALTER SUBSCRIPTION s SET (slot_name = NONE)", "DROP SUBSCRIPTION s")


@needs("/proc")
def test_the_file_systems_of_the_machine_are_measured(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    """As statvfs says; others may write meanwhile, so the free space may differ a little."""
    cluster = new_cluster()
    (found,) = taken(cluster, "filesystems", data_directory=True)
    of = os.statvfs(cluster.data)
    assert found["size"] == of.f_blocks * of.f_frsize
    assert abs(found["free"] - of.f_bavail * of.f_frsize) < 2**30
    assert cluster.data.is_relative_to(found["mount"])
    everywhere = taken(cluster, "filesystems")
    assert len({row["mount"] for row in everywhere}) == len(everywhere)
    assert all(0 <= row["free"] <= row["size"] for row in everywhere)


@pytest.fixture
def standby(new_cluster: NewCluster) -> Iterator[tuple[Cluster, Cluster]]:
    """A primary, and a standby that lets no query delay its replay."""
    primary = new_cluster(settings={"autovacuum": "off"})
    sql(primary.dsn(), "CREATE TABLE t AS SELECT generate_series(1, 1000) AS id")
    with standby_of(primary, max_standby_streaming_delay=0) as found:
        yield primary, found


def test_a_standby_tells_what_it_receives_and_which_queries_replay_cancelled(
    standby: tuple[Cluster, Cluster],
) -> None:
    primary, replica = standby
    until(lambda: taken(replica, "receiver")[0]["streaming"] == 1)
    (found,) = taken(replica, "receiver")
    assert found["status"] == "streaming"
    assert found["host"] == str(primary.directory)
    assert 0 <= found["not_replayed"] < 2**24
    assert 0 <= found["silent"] < 60
    with psycopg.connect(replica.dsn()) as conn:
        conn.execute("SET default_transaction_isolation = 'repeatable read'")
        conn.commit()
        conn.execute("SELECT count(*) FROM t")
        sql(primary.dsn(), "DELETE FROM t", "VACUUM t")
        until(lambda: conn.info.transaction_status.name == "UNKNOWN" or _cancelled(conn))
    until(lambda: taken(replica, "conflicts", database="postgres")[0]["snapshot"] == 1)
    (causes,) = taken(replica, "conflicts", database="postgres")
    assert (causes["lock"], causes["deadlock"], causes["tablespace"]) == (0, 0, 0)
    assert taken(primary, "receiver") == []
    assert taken(primary, "conflicts") == []
    primary.stop("immediate")
    until(lambda: taken(replica, "receiver")[0]["streaming"] == 0)


def _cancelled(conn: psycopg.Connection[Any]) -> bool:
    try:
        conn.execute("SELECT 1")
    except psycopg.OperationalError:
        return True
    return False


def test_a_file_system_that_shrinks_has_a_time_when_it_is_full(tmp_path: Path) -> None:
    """From 12 to 10 GB in two hours: a GB an hour, so the other ten take ten hours."""
    source = built_in()["filesystems"]
    gb = 1_000_000_000
    with Writer(tmp_path, [source]) as writer:
        for minute in range(0, 121, 10):
            used = 12 * gb - minute * gb // 60
            shrinks = row("/data", 100 * gb, used, 0.9, "/dev/sda", True)
            stays = row("/", 50 * gb, 20 * gb, 0.6, "/dev/sdb", False)
            writer.commit([batch(sample(source, 60 * minute, shrinks, stays))])
    with open_history(tmp_path) as history:
        begin = datetime.fromtimestamp(MIDNIGHT / SECOND, UTC)
        about = HistoryPeriod(instance="db:5432", begin=begin, end=begin + timedelta(hours=3))
        first, second = free_space(history, about)
        short = replace(about, end=begin + timedelta(minutes=9))
        assert [one.full_in for one in free_space(history, short)] == [None, None]
    assert (first.mount, first.size, first.free) == ("/data", 100 * gb, 10 * gb)
    assert first.full_in == pytest.approx(36_000, rel=1e-6)
    assert second.mount == "/"
    assert second.full_in is None or second.full_in > 10**9


def test_a_file_system_that_stays_as_it_is_was_seen_all_the_time(tmp_path: Path) -> None:
    """One falls from 40 to 30 GB in ten minutes and stays; one never changes; one is unmounted.

    Of the 3,601 samples, one a minute, the first ten have 10, 9 … 1 GB more than the others. Their
    covariance with the time [min] is (9 * 10 * 11 / 6 - 55 * 1800) / 3601 = -27.447, and the
    variance of the time (3601² - 1) / 12 = 1,080,600. So it loses 2.53995e-5 GB a minute, and
    30 GB last 1.18113e6 minutes. In the last ten hours nothing changes.
    """
    source = built_in()["filesystems"]
    gb = 1_000_000_000
    with Writer(tmp_path, [source]) as writer:
        samples = []
        for minute in range(3601):
            rows = [
                row("/data", 100 * gb, (40 - min(minute, 10)) * gb, 0.6, "/dev/sda", True),
                row("/", 50 * gb, 20 * gb, 0.6, "/dev/sdb", False),
            ]
            if minute < 3000:
                rows.append(row("/mnt", gb, gb - minute, 0.6, "/dev/sdc", False))
            samples.append(sample(source, 60 * minute, *rows))
        writer.commit([batch(*samples)])
    begin = datetime.fromtimestamp(MIDNIGHT / SECOND, UTC)
    end = begin + timedelta(minutes=3600, seconds=1)
    with open_history(tmp_path) as history:
        first, second = free_space(history, HistoryPeriod(instance="db:5432", begin=begin, end=end))
        hours = HistoryPeriod(instance="db:5432", begin=end - timedelta(seconds=36_001), end=end)
        later = free_space(history, hours)
    assert (first.mount, first.free, first.seen) == ("/data", 30 * gb, 216_000)
    assert first.full_in == pytest.approx(1.18113e6 * 60, rel=1e-5)
    assert (second.mount, second.full_in, second.seen) == ("/", None, 216_000)
    assert [
        (one.mount, one.device, one.size, one.free, one.full_in, one.seen) for one in later
    ] == [
        ("/", "/dev/sdb", 50 * gb, 20 * gb, None, 36_000),
        ("/data", "/dev/sda", 100 * gb, 30 * gb, None, 36_000),
    ]
