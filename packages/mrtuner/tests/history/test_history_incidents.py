"""Events that a recording tells: crashes, resets, evictions, a clock that jumps, a full disk."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import NewCluster
from history_data import QUEUE, SECOND, batch, queue, row, sample
from history_recorder import rows

from mrtuner.answers import history
from mrtuner.errors import ConnectError
from mrtuner.history.analysis.period import period
from mrtuner.history.reading import open_history
from mrtuner.history.recording.events import change_of
from mrtuner.history.recording.sampler import Identity, Sampler
from mrtuner.history.recording.source import Source, built_in, parse
from mrtuner.history.store import compaction
from mrtuner.history.store.writer import Writer
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.sql import OLDEST
from servers import counted, sql
from waiting import until

EVENTS = "SELECT kind, detail FROM events ORDER BY time"


def sampled(writer: Writer, dsn: str, *sources: str) -> None:
    """Store a sample of each source, at a connection of its own."""
    with connect(dsn) as conn:
        sampler = Sampler(conn)
        identity = sampler.prepare()
        for name in sources:
            found = sampler.sample(built_in()[name])
            assert found is not None, sampler.missing
            writer.commit([batch(found, identity=identity)])


def checkpointer(cluster: Cluster) -> Any:
    """When the checkpointer started; None as long as no session can be had."""
    query = "SELECT backend_start FROM pg_stat_activity WHERE backend_type = 'checkpointer'"
    try:
        return sql(cluster.dsn(), query)
    except (ConnectError, psycopg.OperationalError):
        return None


def started(cluster: Cluster) -> Any:
    return sql(cluster.dsn(), "SELECT pg_postmaster_start_time()")[0][0]


@pytest.fixture
def writer(tmp_path: Path) -> Any:
    with Writer(tmp_path / "store", built_in().values()) as found:
        yield found


def kinds(writer: Writer) -> list[str]:
    return [kind for kind, _ in rows(writer.directory, EVENTS)]


@pytest.mark.timed
def test_a_lock_of_a_table_makes_a_queue_and_an_advisory_lock_or_a_snapshot_none(
    new_cluster: NewCluster, each_major: int, tmp_path: Path
) -> None:
    """For seven seconds one session waits for each of the three; REINDEX waits for the snapshot."""
    cluster = new_cluster(each_major)
    dsn = cluster.dsn()
    sql(dsn, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int)")
    with (
        Writer(tmp_path, built_in().values()) as writer,
        psycopg.connect(dsn, application_name="my import") as table,
        psycopg.connect(dsn, application_name="leader") as leader,
        psycopg.connect(dsn, application_name="dump") as dump,
        ThreadPoolExecutor() as pool,
    ):
        table.execute("LOCK TABLE u")
        leader.execute("SELECT pg_advisory_xact_lock(7)")
        dump.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        dump.execute("SELECT count(*) FROM t")
        waiting = [
            pool.submit(sql, dsn, "SELECT * FROM u"),
            pool.submit(sql, dsn, "SELECT pg_advisory_lock(7)"),
            pool.submit(sql, dsn, "REINDEX TABLE CONCURRENTLY t"),
        ]
        until(lambda: sql(dsn, WAITING) == [("advisory",), ("relation",), ("virtualxid",)])
        for _ in range(8):
            sampled(writer, dsn, "sessions")
            time.sleep(1.0)
        for holder in (table, leader, dump):
            holder.rollback()
        for one in waiting:
            one.result()
    (told,) = history(tmp_path).incidents
    assert re.fullmatch(
        r'1 session of \S+ waited for a lock of public\.u that "my import" \(process \d+, idle in '
        r"transaction.*\) held for at least [\d.]+ s",
        told.text,
    )


WAITING = "SELECT wait_event FROM pg_stat_activity WHERE wait_event_type = 'Lock' ORDER BY 1"


def test_a_crash_is_told_apart_from_a_restart_and_when_it_was(
    new_cluster: NewCluster, each_major: int, writer: Writer
) -> None:
    """A killed session, a server that was not shut down, one that was."""
    cluster = new_cluster(each_major)
    sampled(writer, cluster.dsn(), "databases")
    before = checkpointer(cluster)
    with psycopg.connect(cluster.dsn()) as victim:
        os.kill(victim.info.backend_pid, signal.SIGKILL)
    until(lambda: checkpointer(cluster) not in (None, [], before))
    sampled(writer, cluster.dsn(), "databases")
    ((crashed,),) = checkpointer(cluster)
    cluster.stop("immediate")
    cluster.start()
    sampled(writer, cluster.dsn(), "databases")
    again = started(cluster)
    cluster.restart()
    sampled(writer, cluster.dsn(), "databases")
    found = rows(writer.directory, "SELECT kind, time, detail FROM events ORDER BY time")
    last = started(cluster)
    assert [(kind, time.replace(tzinfo=UTC)) for kind, time, _ in found] == [
        ("crash", crashed), ("crash", again), ("restart", last),
    ]  # fmt: skip
    clocks = [f"{one.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" for one in (crashed, again, last)]
    assert [detail for *_, detail in found] == [
        f"a process crashed, so all sessions ended; recovery began at {clocks[0]}",
        f"it had not been shut down; started at {clocks[1]} and recovered",
        f"started at {clocks[2]}",
    ]


def test_a_standby_that_is_restarted_has_not_crashed(
    new_cluster: NewCluster, each_major: int, writer: Writer
) -> None:
    """Before 15, a standby begins its statistics anew at each start."""
    cluster = new_cluster(each_major)
    cluster.stop()
    (cluster.data / "standby.signal").touch()
    cluster.start()
    sampled(writer, cluster.dsn(), "databases")
    cluster.restart()
    sampled(writer, cluster.dsn(), "databases")
    assert kinds(writer) == ["restart"]


def test_a_role_that_sees_less_or_more_is_no_other_server(writer: Writer) -> None:
    known = Identity(version_num=180000, started="10:00", system="1", standby=False,
                     checkpointer="10:01")  # fmt: skip
    for identity in (known, replace(known, system=None, checkpointer=None), known):
        writer.commit([batch(identity=identity)])
    assert kinds(writer) == []


def test_a_store_of_an_earlier_version_takes_the_new_identity(tmp_path: Path) -> None:
    with Writer(tmp_path, [queue()]) as writer:
        writer.db.execute("ALTER TABLE last_identity DROP COLUMN checkpointer")
        writer.db.execute("INSERT INTO last_identity VALUES ('db:5432', 180000, '10:00', '1', 0)")
    with open_history(tmp_path) as history:
        assert history.spans() == {}
    now = Identity(version_num=180000, started="10:00", system="1", standby=False,
                   checkpointer="10:01")  # fmt: skip
    with Writer(tmp_path, [queue()]) as writer:
        writer.commit([batch(identity=now)])
        assert kinds(writer) == []
        writer.commit([batch(identity=replace(now, checkpointer="11:00"))])
        assert kinds(writer) == ["crash"]


def test_a_reset_of_a_database_of_a_table_and_of_the_statements_is_told(
    new_cluster: NewCluster, writer: Writer
) -> None:
    cluster = new_cluster(18, {"shared_preload_libraries": "pg_stat_statements"})
    dsn = cluster.dsn()
    sql(dsn, "CREATE EXTENSION pg_stat_statements", "CREATE TABLE t (id int)",
        "CREATE TABLE u (id int)")  # fmt: skip
    fill = [f"INSERT INTO {name} SELECT generate_series(1, 9)" for name in "tu"]
    counted(dsn, *fill, *[f"SELECT * FROM {name}" for name in "tu"])
    names = ("databases", "tables", "statements_info", "statements")
    sampled(writer, dsn, *names)
    assert kinds(writer) == []
    counted(dsn, "SELECT pg_stat_reset_single_table_counters('t'::regclass)")
    sampled(writer, dsn, *names)
    assert rows(writer.directory, EVENTS) == [
        ("reset", "statistics of tables were reset: postgres.public.t")
    ]
    counted(dsn, "SELECT pg_stat_reset()", "SELECT pg_stat_statements_reset()")
    sampled(writer, dsn, *names)
    assert [detail for _, detail in rows(writer.directory, EVENTS)[1:]] == [
        "statistics of databases were reset: postgres",
        "statistics of tables were reset: postgres.public.u",
        "statistics of statements_info were reset",
    ]


def test_what_is_renamed_goes_on_and_has_not_grown_from_zero(
    new_cluster: NewCluster, each_major: int, writer: Writer
) -> None:
    """2 rows after 1,000, 1 scan after 3, and few transactions, each under another name."""
    cluster = new_cluster(each_major)
    dsn = cluster.dsn()
    sql(dsn, "CREATE DATABASE shop", "CREATE DATABASE next", "CREATE TABLE t (id int)",
        "CREATE INDEX i ON t (id)")  # fmt: skip
    scan = "SET enable_seqscan = off; SELECT * FROM t WHERE id = 7"
    counted(dsn, "INSERT INTO t SELECT generate_series(1, 1000)", scan, scan, scan)
    counted(cluster.dsn("shop"), *["SELECT 1"] * 300)
    names = ("tables", "indexes", "databases")
    sampled(writer, dsn, *names)
    sql(dsn, "ALTER TABLE t RENAME TO old", "REINDEX INDEX CONCURRENTLY i",
        "ALTER DATABASE shop RENAME TO shop_old",
        "ALTER DATABASE next RENAME TO shop")  # fmt: skip
    counted(dsn, "INSERT INTO old VALUES (1), (2)", scan.replace("t WHERE", "old WHERE"))
    sampled(writer, dsn, *names)
    directory = writer.directory
    assert rows(directory, "SELECT inserted FROM tables WHERE name = 'old'") == [(2,)]
    assert rows(directory, "SELECT max(scans) FROM indexes WHERE name = 'i'") == [(1,)]
    of = "SELECT coalesce(max(commits), 0) < 100 FROM databases WHERE database = '{}'"
    assert [rows(directory, of.format(name)) for name in ("shop_old", "shop")] == [[(True,)]] * 2


def test_a_standby_that_is_promoted_is_another_server_to_its_session(
    new_cluster: NewCluster, each_major: int
) -> None:
    cluster = new_cluster(each_major)
    cluster.stop()
    (cluster.data / "standby.signal").touch()
    cluster.start()
    with connect(cluster.dsn()) as conn:
        sampler = Sampler(conn)
        before = sampler.prepare()
        sql(cluster.dsn(), "SELECT pg_promote()")
        change = change_of(before, sampler.identity(), None)
    assert change is not None
    assert (change.kind, change.detail) == ("failover", "it was promoted")


def test_a_dropped_index_is_no_reset(new_cluster: NewCluster, writer: Writer) -> None:
    cluster = new_cluster()
    dsn = cluster.dsn()
    sql(dsn, "CREATE TABLE t (id int)", "CREATE INDEX i ON t (id)")
    counted(dsn, "INSERT INTO t SELECT generate_series(1, 1000)", "SELECT * FROM t",
            "SET enable_seqscan = off; SELECT * FROM t WHERE id = 7")  # fmt: skip
    sampled(writer, dsn, "tables")
    assert rows(writer.directory, "SELECT count(*) FROM tables WHERE name = 't'") == [(1,)]
    sql(dsn, "DROP INDEX i")
    sampled(writer, dsn, "tables")
    assert kinds(writer) == []


def test_evictions_are_counted_and_told_once_an_hour(
    new_cluster: NewCluster, writer: Writer
) -> None:
    """Room for 100 statements, which is the least, and 400 different ones twice."""
    cluster = new_cluster(
        18, {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.max": "100"}
    )
    dsn = cluster.dsn()
    sql(dsn, "CREATE EXTENSION pg_stat_statements")
    sampled(writer, dsn, "statements_info")
    many = [f"SELECT {', '.join(['1'] * n)}" for n in range(1, 401)]
    before = sql(dsn, "SELECT dealloc FROM pg_stat_statements_info")[0][0]
    for _ in range(2):
        sql(dsn, *many)
        sampled(writer, dsn, "statements_info")
    evicted = sql(dsn, "SELECT dealloc FROM pg_stat_statements_info")[0][0] - before
    assert evicted > 0
    assert rows(writer.directory, "SELECT sum(evictions) FROM statements_info") == [(evicted,)]
    (event,) = rows(writer.directory, EVENTS)
    assert event[0] == "eviction"
    assert re.fullmatch(r"pg_stat_statements evicted statements \d+ times", event[1])


def named(*names: str) -> Sequence[Source]:
    return [parse(name, {OLDEST: QUEUE}) for name in names]


def test_a_jump_of_the_clock_is_one_event_whichever_source_notices_it(tmp_path: Path) -> None:
    """An hour ahead after a minute, and back after two: every source is sampled each minute."""
    sources = named("first", "second", "third")
    with Writer(tmp_path, sources) as writer:
        for minute, jump in enumerate((0, 3600, 3600, 0, 0)):
            writer.commit([
                batch(sample(one, 60 * minute + jump, row("mail", minute, 1.0, 3),
                             monotonic=60.0 * minute))
                for one in sources
            ])  # fmt: skip
        assert rows(tmp_path, EVENTS) == [
            ("clock", "the recorder's clock jumped by -3600.0 s"),
            ("clock", "the recorder's clock jumped by +3600.0 s"),
        ]


@pytest.mark.parametrize("sealed", [False, True])
def test_a_clock_that_was_ahead_does_not_end_the_history_in_the_future(
    tmp_path: Path, sealed: bool
) -> None:
    """Ten, nine and eight minutes ago; in between, the clock was two days ahead."""
    now = time.time_ns() // 1000
    days = 2 * 86_400 * SECOND
    times = [now - 600 * SECOND, now + days, now - 480 * SECOND]
    source = built_in()["sessions"]
    with Writer(tmp_path, [source]) as writer:
        for number, at in enumerate(times):
            writer.commit([batch(replace(sample(source, 0, monotonic=60.0 * number), at=at))])
        if sealed:
            compaction.move_to_parquet(writer, now, everything=True)
    with open_history(tmp_path) as history:
        end = period(history, None, since=3600.0).end
        assert abs(end.timestamp() * SECOND - times[-1]) < SECOND
        (span,) = history.spans().values()
        assert span[1].timestamp() <= now / SECOND + 86_400  # of the hour, in any time zone
