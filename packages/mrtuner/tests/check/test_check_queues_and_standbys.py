"""Queues behind a DDL, standbys, slots and subscriptions, and sessions that are refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from conftest import NewCluster
from psycopg.pq import PGconn
from standby_pair import standby_of

from mrtuner.answers import check
from mrtuner.checks.areas.storage import nearly_full
from mrtuner.checks.read import read
from mrtuner.checks.report import CheckReport, judged
from mrtuner.checks.state import SessionGroup, Standby
from mrtuner.cli import main
from mrtuner.findings import Finding
from mrtuner.postgres.cluster import Cluster
from mrtuner.tuning import gather
from mrtuner.units import Bytes
from mrtuner.vacuum.model import HorizonBlocker
from servers import sql
from waiting import until

pytestmark = pytest.mark.timed


def checked(dsn: str) -> CheckReport:
    return check(dsn, skip=["free-space"], memory="8GB", cpus=4, storage="ssd")


def found(dsn: str, name: str) -> list[Finding]:
    return [one for one in checked(dsn).findings if one.id == name]


@contextmanager
def working(cluster: Cluster, name: str, statement: str, number: int = 1) -> Iterator[list[int]]:
    """Sessions that all run a statement; their processes."""
    sessions = [PGconn.connect(f"{cluster.dsn()} application_name={name}".encode())
                for _ in range(number)]  # fmt: skip
    try:
        for one in sessions:
            one.send_query(statement.encode())
        yield [one.backend_pid for one in sessions]
    finally:
        sql(cluster.dsn(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            f"WHERE application_name = '{name}'")  # fmt: skip
        for one in sessions:
            one.finish()


def waits(cluster: Cluster, number: int) -> None:
    until(lambda: sql(cluster.dsn(), "SELECT count(*) FROM pg_stat_activity "
                      "WHERE wait_event_type = 'Lock'") == [(number,)])  # fmt: skip


def reads(cluster: Cluster, name: str, number: int) -> None:
    until(lambda: sql(cluster.dsn(), "SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity "
                      f"AS a USING (pid) WHERE a.application_name = '{name}' AND l.granted AND "
                      "l.relation = 't'::regclass") == [(number,)])  # fmt: skip


_SLOW = "SELECT count(*), pg_sleep(60) FROM t"
_FAST = "SELECT count(*) FROM t"
_DDL = "ALTER TABLE t ADD COLUMN b int"


def ran(cluster: Cluster, command: str) -> None:
    with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
        conn.execute(command.encode())


@pytest.mark.parametrize("number", [10, 1])
def test_readers_a_ddl_and_whoever_waits_behind_it_are_one_queue(
    number: int, new_cluster: NewCluster
) -> None:
    """What frees twelve readers at once is to cancel the DDL, whoever it waits for."""
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE TABLE t (a int)")
    with working(cluster, "report", _SLOW, number) as reports:
        reads(cluster, "report", number)
        with working(cluster, "migration", _DDL) as (ddl,):
            waits(cluster, 1)
            with working(cluster, "shop", _FAST, 12):
                waits(cluster, 13)
                (queue,) = found(cluster.dsn(), "lock-queue")
                assert queue.severity == "danger"
                text, _, _ = queue.text.rpartition(", the longest for ")
                ((pid, *others), each) = sorted(reports), ", ".join(map(str, sorted(reports)))
                if others:
                    assert text == (
                        "13 sessions of migration and shop wait for locks of 10 sessions of report"
                    )
                    assert queue.evidence[5] == "and 5 others that hold a lock"
                    cancel = f"SELECT pg_cancel_backend(pid) FROM unnest(ARRAY[{each}]) AS pid;"
                else:
                    assert text.startswith(
                        "13 sessions of migration and shop wait for a lock of report "
                        f"(process {pid}), active for "
                    )
                    cancel = f"SELECT pg_cancel_backend({pid});"
                assert "or migration gives up, for which the others wait" in queue.consequence
                assert queue.commands == (f"SELECT pg_cancel_backend({ddl});", cancel)
                ran(cluster, queue.commands[0])
                until(lambda: found(cluster.dsn(), "lock-queue") == [])
    assert sql(cluster.dsn(), "SELECT count(*) FROM pg_attribute WHERE attrelid = 't'::regclass "
               "AND attnum > 0") == [(1,)]  # fmt: skip


def test_all_roots_of_a_queue_are_cancelled_where_nobody_in_between_can_be(
    new_cluster: NewCluster,
) -> None:
    """Twelve that want all of a table to themselves wait for three readers and each other."""
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE TABLE t (a int)")
    with working(cluster, "report", _SLOW, 3) as reports:
        reads(cluster, "report", 3)
        with working(cluster, "shop", "BEGIN; LOCK TABLE t; COMMIT", 12):
            waits(cluster, 12)
            (queue,) = found(cluster.dsn(), "lock-queue")
            each = ", ".join(map(str, sorted(reports)))
            assert queue.text.startswith(
                "12 sessions of shop wait for locks of 3 sessions of report"
            )
            assert queue.consequence.startswith("they do nothing until all of these end, and")
            assert queue.remedy == (
                f"SELECT pg_cancel_backend(pid) FROM unnest(ARRAY[{each}]) AS pid;",
            )
            ran(cluster, queue.commands[0])
            until(lambda: found(cluster.dsn(), "lock-queue") == [])


def test_a_forgotten_transaction_is_ended_and_the_ddl_goes_on(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE TABLE t (a int)")
    with working(cluster, "forgotten", "BEGIN; SELECT * FROM t") as (idle,):
        reads(cluster, "forgotten", 1)
        with working(cluster, "migration", _DDL):
            waits(cluster, 1)
            with working(cluster, "shop", _FAST, 12):
                waits(cluster, 13)
                (queue,) = found(cluster.dsn(), "lock-queue")
                assert queue.remedy == (f"SELECT pg_terminate_backend({idle});",)
                ran(cluster, queue.commands[0])
                until(lambda: found(cluster.dsn(), "lock-queue") == [])
    assert sql(cluster.dsn(), "SELECT count(*) FROM pg_attribute WHERE attrelid = 't'::regclass "
               "AND attnum > 0") == [(2,)]  # fmt: skip


def test_who_is_not_tracked_is_named_without_a_time(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18, {"track_activities": "off"})
    sql(cluster.dsn(), "CREATE TABLE t (a int)")
    with psycopg.connect(cluster.dsn(), application_name="forgotten") as conn:
        conn.execute("LOCK TABLE t")
        pid = conn.info.backend_pid
        with working(cluster, "shop", _FAST, 10):
            waits(cluster, 10)
            report = checked(cluster.dsn())
    (queue,) = [one for one in report.findings if one.id == "lock-queue"]
    assert queue.text.startswith(
        f"10 sessions of shop wait for a lock of forgotten (process {pid}), whose state is not "
        "tracked (track_activities is off), the longest for "
    )
    assert "disabled for" not in str(queue)
    why = {one.name: one.why for one in report.unjudged}
    assert why["idle-in-transaction"] == "track_activities is off"
    old = checked(new_cluster(13, {"track_activities": "off"}).dsn())
    assert {one.name for one in old.unjudged} == {"idle-in-transaction", "lock-queue"}


# --- troubles of another database


@pytest.mark.parametrize("major", [14, pytest.param(18, marks=pytest.mark.slow)])
def test_a_subscription_of_another_database_is_told_with_it(
    major: int, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(major)
    nowhere = "CONNECTION 'host=127.0.0.1 port=9' PUBLICATION p WITH (connect = false)"
    sql(cluster.dsn(), "CREATE DATABASE shop", "CREATE ROLE plain LOGIN")
    sql(cluster.dsn("shop"), f"CREATE SUBSCRIPTION news {nowhere}")
    (one,) = found(cluster.dsn(), "subscription-stopped")
    assert one.text == "subscription news of database shop: is disabled"
    assert one.remedy == ("In database shop:", 'ALTER SUBSCRIPTION "news" ENABLE;')
    assert found(cluster.dsn(user="plain"), "subscription-stopped") == [one]
    (here,) = found(cluster.dsn("shop"), "subscription-stopped")
    assert here.text == "subscription news: is disabled"
    assert here.remedy == one.commands
    state = read(cluster.dsn("shop"), gather.flags(memory="8GB"))
    fails = replace(state.subscriptions[0], enabled=True, running=False, errors=3)
    (told,) = [
        each for each in judged("here", replace(state, subscriptions=(fails,))).findings
        if each.id == "subscription-stopped"
    ]  # fmt: skip
    assert told.text.endswith("news: has no worker, and counted 3 errors since the last reset")
    assert told.commands == ('ALTER SUBSCRIPTION "news" DISABLE;',)
    sql(cluster.dsn("shop"), "ALTER SUBSCRIPTION news SET (slot_name = NONE)")


def test_a_prepared_transaction_of_another_database_that_is_far_back_is_told(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(settings={"max_prepared_transactions": 2, "fsync": "off"})
    sql(cluster.dsn(), "CREATE DATABASE shop")
    sql(cluster.dsn("shop"), "CREATE TABLE t (a int)")
    gid = "E'pay\\n17'"
    sql(cluster.dsn("shop"), f"BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION {gid}")
    assert found(cluster.dsn(), "horizon-held") == []
    sql(cluster.dsn(), "SET synchronous_commit = off",
        "DO $$BEGIN FOR n IN 1..100010 LOOP PERFORM txid_current(); COMMIT; END LOOP; END$$"
    )  # fmt: skip
    (held,) = found(cluster.dsn(), "horizon-held")
    assert held.text.startswith(
        "prepared transaction keeps dead rows of another database: pay\n17 of postgres in shop "
        "(its database and shared catalogs), for "
    )
    assert "In database shop: ROLLBACK PREPARED E'pay\\u000a17';" in held.remedy[0]
    assert held.commands == ()
    told = CliRunner().invoke(main, ["check", cluster.dsn(), "--memory", "8GB"]).stdout
    assert told.count("pay\\n17") == 1
    sql(cluster.dsn("shop"), "ROLLBACK PREPARED E'pay\\u000a17'")
    assert found(cluster.dsn(), "horizon-held") == []


# --- sessions that are refused


@pytest.mark.parametrize("major", [pytest.param(13, marks=pytest.mark.slow), 18])
def test_a_database_or_a_role_that_is_full_is_not_taken_for_a_full_server(
    major: int, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(major)
    sql(
        cluster.dsn(),
        "CREATE ROLE app LOGIN",
        "CREATE ROLE r LOGIN CONNECTION LIMIT 0",
        "CREATE DATABASE ldb CONNECTION LIMIT 0",
    )
    for dsn, kind, name in (
        (cluster.dsn("ldb", user="app"), "database", "ldb"),
        (cluster.dsn(user="r"), "role", "r"),
    ):
        (one,) = checked(dsn).findings
        assert (one.id, one.severity) == ("unreachable", "danger")
        assert one.text.startswith(
            f"the server cannot be reached: the {kind} has reached its connection limit: "
        )
        assert one.text.endswith(f'too many connections for {kind} "{name}"')
        assert f"ALTER {kind.upper()} … CONNECTION LIMIT" in one.remedy[0]


@pytest.mark.parametrize("major", [13, 18])
def test_a_limit_that_is_reached_is_told_in_the_servers_words(
    major: int, new_cluster: NewCluster
) -> None:
    """Only max_connections says sorry."""
    cluster = new_cluster(major)
    sql(cluster.dsn(), 'CREATE DATABASE "l im" CONNECTION LIMIT 1', "CREATE ROLE app LOGIN")
    with psycopg.connect(cluster.dsn("l im", user="app")):
        (one,) = found(cluster.dsn(), "connections-near-limit")
    assert one.consequence == 'new sessions are refused: too many connections for database "l im"'


def test_what_rds_reserves_is_no_room_for_ordinary_roles(new_cluster: NewCluster) -> None:
    """79 less 3, 10 and 2 are 64: at 51 sessions 79.7 % are in use, at 52 81 %, at 64 all."""
    state = read(new_cluster().dsn(), gather.flags(memory="8GB"))
    known = dict(state.server.settings)
    given = {
        "max_connections": 79, "superuser_reserved_connections": 3, "reserved_connections": 0,
        "rds.rds_superuser_reserved_connections": 10, "rds.rds_reserved_connections": 2,
    }  # fmt: skip
    usual = known["superuser_reserved_connections"]
    known |= {name: replace(usual, name=name, setting=str(n)) for name, n in given.items()}
    server = replace(state.server, settings=known)
    group = SessionGroup(
        role="app", application="web", database="shop", sessions=0, active=0, in_transaction=0,
        addresses=1, hidden=0,
    )  # fmt: skip

    def told(sessions: int) -> list[tuple[str, float | None]]:
        groups = (replace(group, sessions=sessions),)
        report = judged("here", replace(state, server=server, groups=groups))
        return [(one.severity, one.harm_in) for one in report.findings
                if one.id == "connections-near-limit"]  # fmt: skip

    assert told(51) == []
    assert told(52) == [("to do", None)]
    assert told(64) == [("danger", 0.0)]


@pytest.mark.parametrize("major", [13, 18])
def test_what_is_locked_is_named_as_a_name_and_measured_without_its_lock(
    major: int, new_cluster: NewCluster
) -> None:
    """The check waits for no lock on it: nothing of it is in the server's log. 13 alone asks a
    superuser for nothing but patience, too.
    """
    cluster = new_cluster(major)
    sql(cluster.dsn(), 'CREATE TABLE "ignore; previous" (a int)',
        'INSERT INTO "ignore; previous" SELECT generate_series(1, 5000)')  # fmt: skip
    with psycopg.connect(cluster.dsn()) as holder:
        holder.execute('LOCK TABLE "ignore; previous"')
        with working(cluster, "reader", 'SELECT count(*) FROM "ignore; previous"'):
            waits(cluster, 1)
            time.sleep(5.1)
            report = checked(cluster.dsn())
    (queue,) = [one for one in report.findings if one.id == "lock-queue"]
    assert 'relation AccessShareLock on public."ignore; previous"' in " ".join(queue.evidence)
    assert queue.consequence.startswith("that session does nothing until it ends")
    for one in report.unjudged:
        assert (one.name, one.supply) == ("never-analyzed", "Ask again when the lock is gone.")
    assert "lock timeout" not in (cluster.directory / "log").read_text()


# --- standbys and slots


@pytest.mark.parametrize("major", [13, 18])
def test_commits_that_wait_for_a_standby_are_counted(major: int, new_cluster: NewCluster) -> None:
    """Two of them, and a damaged page that was noticed 60 s before."""
    cluster = new_cluster(major)
    sql(cluster.dsn(), "ALTER SYSTEM SET synchronous_standby_names = 'nobody'",
        "SELECT pg_reload_conf()")  # fmt: skip
    until(lambda: sql(cluster.dsn(), "SHOW synchronous_standby_names") == [("nobody",)])
    commit = "SELECT pg_logical_emit_message(true, 'x', 'y')"
    with working(cluster, "writer", commit, 2):
        count = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        until(lambda: sql(cluster.dsn(), count) == [(2,)])
        state = read(cluster.dsn(), gather.flags(memory="8GB"))
    first = replace(state.databases[0], checksum_failures=1, failed_at=state.at - 60.0)
    second = replace(first, checksum_failures=2, failed_at=0.0)
    report = judged("here", replace(state, databases=(first, second)))
    (missing,) = [one for one in report.findings if one.id == "synchronous-standby-missing"]
    assert missing.evidence == ("sessions whose commit waits now: 2",)
    one, more = [
        one for one in report.findings
        if one.id == "checksum-failures" and one.severity == "danger"
    ]  # fmt: skip
    assert (one.since, more.since) == (state.at - 60.0, None)
    assert more.evidence == ("the last one at 1970-01-01 00:00:00 UTC",)


@pytest.mark.parametrize("major", [13, 18])
def test_slots_and_senders_that_are_all_in_use(major: int, new_cluster: NewCluster) -> None:
    """One of two is left; then none."""
    cluster = new_cluster(major, {"max_replication_slots": 2, "max_wal_senders": 2})
    sql(cluster.dsn(), "SELECT pg_create_physical_replication_slot('one')")
    assert not found(cluster.dsn(), "replication-at-limit")
    sql(cluster.dsn(), "SELECT pg_create_physical_replication_slot('two')")
    state = read(cluster.dsn(), gather.flags(memory="8GB"))
    (slots,) = found(cluster.dsn(), "replication-at-limit")
    assert slots.text == "2 of 2 are in use: max_replication_slots"
    assert slots.commands[0].startswith("ALTER SYSTEM SET max_replication_slots = 4;")
    assert slots.severity == "to do"
    assert slots.consequence.endswith("and so is pg_basebackup, which makes a slot for itself")
    assert slots.remedy[0] == "Drop a slot that nobody uses, or raise the limit:"
    if major == 18:  # ours of 13 has no pg_basebackup
        copy = cluster.directory / "copy"
        done = cluster.run("pg_basebackup", "-D", copy, "-d", cluster.dsn())
        assert "all replication slots are in use" in done.stderr
    one = Standby(
        name="a", address=None, state="streaming", sync_state="async", behind=0, seconds=None,
        replays=True,
    )  # fmt: skip
    told = judged("here", replace(state, standbys=(one, one))).findings
    assert "2 of 2 are in use: max_wal_senders" in [each.text for each in told]


def test_a_small_volume_of_wal_may_have_less_than_a_gigabyte_free() -> None:
    """520 of 600 MB are most of it; 110 of 600 MB are 18 %, and less than a gigabyte."""
    mega = 10**6
    assert not [*nearly_full("free-space", "it", 520 * mega, 600 * mega, "here")]
    (one,) = nearly_full("free-space", "it", 110 * mega, 600 * mega, "here")
    assert one.severity == "danger"


def test_a_slot_without_a_consumer_tells_since_when(new_cluster: NewCluster) -> None:
    """17 and later know: 900 s before the check."""
    cluster = new_cluster(18)
    sql(cluster.dsn(), "SELECT pg_create_physical_replication_slot('berlin', true)")
    state = read(cluster.dsn(), gather.flags(memory="8GB"))
    (slot,) = state.server.slots
    for retained, name in ((slot.retained, "standby-gone"), (Bytes(2**40), "slot-keeps-wal")):
        idle = replace(slot, idle=900.0, retained=retained)
        server = replace(state.server, slots=(idle,))
        (one,) = [
            one for one in judged("here", replace(state, server=server)).findings
            if one.id == name
        ]  # fmt: skip
        assert one.since == state.at - 900.0


def test_the_idle_reader_that_holds_up_replay_is_listed(new_cluster: NewCluster) -> None:
    """TRUNCATE waits on the standby for whoever has read the table there, without end."""
    with standby_of(new_cluster(), max_standby_streaming_delay="-1") as (primary, standby):
        sql(primary.dsn(), "CREATE TABLE t (a int)")
        until(lambda: sql(standby.dsn(), "SELECT to_regclass('t') IS NOT NULL") == [(True,)])
        with psycopg.connect(standby.dsn(), application_name="forgotten") as reader:
            reader.execute("SELECT * FROM t")
            sql(primary.dsn(), "TRUNCATE t")
            until(lambda: sql(standby.dsn(), "SELECT count(*) FROM pg_locks "
                              "WHERE NOT granted") == [(1,)])  # fmt: skip
            state = read(primary.dsn(), gather.flags(memory="8GB"))
            late = tuple(replace(one, seconds=61.0) for one in state.standbys)
            (lag,) = [
                one for one in judged("here", replace(state, standbys=late)).findings
                if one.id == "replication-lag"
            ]  # fmt: skip
            oldest, paused = lag.commands
            rows = sql(standby.dsn(), oldest)
            assert (reader.info.backend_pid, "idle in transaction") in [row[:2] for row in rows]
            assert sql(standby.dsn(), paused) == [(False,)]
            sql(standby.dsn(), "SELECT pg_wal_replay_pause()")
            assert sql(standby.dsn(), paused) == [(True,)]
            sql(standby.dsn(), "SELECT pg_wal_replay_resume()")


@pytest.mark.parametrize("major", [18, 19])
def test_a_standby_below_its_primary_is_not_resumed_but_restarted(
    major: int, new_cluster: NewCluster
) -> None:
    """20 connections here and 60 there: replay pauses by itself, and the server stops if it is
    resumed. Raised and restarted, it follows. Only a superuser can be told which setting it is.
    """
    with standby_of(new_cluster(major, {"max_connections": 20})) as (primary, standby):
        sql(primary.dsn(), "CREATE ROLE monitor LOGIN IN ROLE pg_monitor")
        primary.configure({"max_connections": 60})
        primary.restart()
        until(lambda: sql(standby.dsn(), "SELECT pg_is_wal_replay_paused()") == [(True,)])
        (told,) = found(standby.dsn(), "standby-stale")
        assert told.text.endswith("max_connections is 20 here and 60 on the primary")
        assert told.commands[0].startswith("ALTER SYSTEM SET max_connections = 60;")
        assert "resume" not in " ".join(told.commands)
        (unsure,) = found(standby.dsn(user="monitor"), "standby-stale")
        assert not unsure.commands
        assert "insufficient parameter settings" in unsure.remedy[0]
        sql(standby.dsn(), told.commands[0], "ALTER SYSTEM SET max_logical_replication_workers = 5")
        (waits,) = found(standby.dsn(), "pending-restart")  # below 60, it would not start
        assert waits.remedy == (
            "Restart at a time of your own, or take max_logical_replication_workers back:",
            "ALTER SYSTEM RESET max_logical_replication_workers;",
        )
        sql(standby.dsn(), *waits.commands)
        (waits,) = found(standby.dsn(), "pending-restart")
        assert waits.remedy == ("Restart at a time of your own",)
        standby.restart()
        until(lambda: sql(primary.dsn(), "SELECT count(*) FROM pg_stat_replication") == [(1,)])
        assert not found(standby.dsn(), "standby-stale")


@pytest.mark.parametrize("major", [18, 19])
def test_a_standby_at_its_recovery_target_is_not_resumed(
    major: int, new_cluster: NewCluster
) -> None:
    """It pauses at the restore point x, as it does by default; resumed, it is a second primary."""
    with standby_of(new_cluster(major), recovery_target_name="x") as (primary, standby):
        sql(primary.dsn(), "CREATE ROLE monitor LOGIN IN ROLE pg_monitor")
        until(lambda: sql(standby.dsn(), "SELECT to_regrole('monitor') <> 0") == [(True,)])
        sql(primary.dsn(), "SELECT pg_create_restore_point('x')", "SELECT pg_switch_wal()")
        until(lambda: sql(standby.dsn(), "SELECT pg_is_wal_replay_paused()") == [(True,)])
        for user in ("postgres", "monitor"):
            (told,) = found(standby.dsn(user=user), "standby-stale")
            assert (told.severity, told.commands) == ("to know", ())
            assert told.text.endswith("it has a recovery target, recovery_target_name = x")
            assert told.consequence.endswith("resuming ends recovery and makes it a primary")
        sql(standby.dsn(), "SELECT pg_wal_replay_resume()")  # the proof
        until(lambda: sql(standby.dsn(), "SELECT pg_is_in_recovery()") == [(False,)])


def test_an_abandoned_slot_is_to_be_dropped_and_not_to_be_synchronized(
    new_cluster: NewCluster,
) -> None:
    with standby_of(new_cluster(settings={"wal_level": "logical"})) as (primary, _):
        sql(primary.dsn(), "SELECT pg_create_logical_replication_slot('news', 'pgoutput')")
        state = read(primary.dsn(), gather.flags(memory="8GB"))
    (slot,) = state.server.slots

    def told(**given: Any) -> set[str]:
        server = replace(state.server, slots=(replace(slot, **given),))
        report = judged("here", replace(state, server=server), frozenset({"free-space"}))
        return {one.id for one in report.findings}

    assert told(idle=299.0) == {"slot-not-synchronized"}
    assert told(idle=300.0) == {"consumer-gone"}
    assert told(idle=None, active=True) == {"slot-not-synchronized"}
    assert told(idle=9.0, status="lost") == {"slot-keeps-wal"}


# --- the order


def test_what_stops_somebody_now_comes_before_what_is_old(new_cluster: NewCluster) -> None:
    """13 is out of support since 2025-11-13. All of it is to do; the queue is one of 7 s."""
    cluster = new_cluster(13, {"wal_level": "logical"})
    sql(
        cluster.dsn(),
        "CREATE TABLE t (a int) WITH (autovacuum_enabled = off)",
        "INSERT INTO t SELECT generate_series(1, 100000)",
        "SELECT pg_create_logical_replication_slot('news', 'test_decoding')",
        "SELECT pg_create_physical_replication_slot('berlin', true)",
    )
    with working(cluster, "report", "BEGIN; LOCK TABLE t"):
        reads(cluster, "report", 1)
        with working(cluster, "shop", _FAST):
            waits(cluster, 1)
            sessions = read(cluster.dsn(), gather.flags(memory="8GB")).sessions
    state = read(cluster.dsn(), gather.flags(memory="8GB"))
    berlin, news = state.server.slots
    assert state.vacuum is not None
    blocker = HorizonBlocker(
        what="prepared transaction", name="x", age=3, seconds=300.0, remedy="", sql=None,
        serious=True,
    )  # fmt: skip
    report = judged(
        "here",
        replace(
            state,
            sessions=tuple(replace(one, state_seconds=7.0) for one in sessions),
            server=replace(state.server, slots=(berlin, replace(news, status="lost"))),
            vacuum=replace(
                state.vacuum, picture=replace(state.vacuum.picture, blockers=(blocker,))
            ),
        ),
        frozenset({"free-space", "checksum-failures"}),
    )
    assert [one.id for one in report.findings if one.severity == "to do"] == [
        "lock-queue", "slot-keeps-wal", "standby-gone", "horizon-held", "never-analyzed",
        "version-support",
    ]  # fmt: skip


# --- passwords that expire


@pytest.mark.parametrize("major", [pytest.param(13, marks=pytest.mark.slow), 18])
def test_a_password_that_expires_within_two_weeks_is_told_with_its_date(
    major: int, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(major)
    ((soon, told, later),) = sql(
        cluster.dsn(),
        "SELECT date_trunc('minute', now() + '13 days')::text, to_char(date_trunc('minute', "
        "now() + '13 days') AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'), (now() + '15 days')::text",
    )
    sql(
        cluster.dsn(),
        f"""CREATE ROLE "a ""role" LOGIN VALID UNTIL '{soon}'""",
        f"CREATE ROLE group_role VALID UNTIL '{soon}'",
        f"CREATE ROLE \"v-token-app-x1Y2-1700000000\" LOGIN VALID UNTIL '{soon}'",
        f"CREATE ROLE fine LOGIN VALID UNTIL '{later}'",
        "CREATE ROLE never LOGIN VALID UNTIL 'infinity'",
        "CREATE ROLE over LOGIN VALID UNTIL '4000-01-01 BC'",
        "CREATE ROLE plain LOGIN",
    )
    (one,) = found(cluster.dsn(), "password-expires")
    assert (one.severity, one.text) == (
        "to do", f'the password of role "a ""role" expires on {told} UTC',
    )  # fmt: skip
    assert one.harm_in == pytest.approx(13 * 86_400, abs=70)
    assert one.commands == ("""ALTER ROLE "a ""role" VALID UNTIL 'infinity';""",)
    (same,) = found(cluster.dsn(user="plain"), "password-expires")
    assert (same.text, same.commands) == (one.text, one.commands)
    ran(cluster, one.commands[0])
    assert "password-expires" in checked(cluster.dsn()).passed


def test_an_expired_password_is_told_while_sessions_that_needed_it_go_on(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE ROLE app LOGIN", "CREATE ROLE plain LOGIN")
    with psycopg.connect(cluster.dsn(user="app")):
        time.sleep(0.01)
        sql(cluster.dsn(), "DO $$BEGIN EXECUTE format('ALTER ROLE app VALID UNTIL %L', "
            "clock_timestamp()); END$$")  # fmt: skip
        (one,) = found(cluster.dsn(), "password-expires")
        assert one.text.startswith("the password of role app expired on ")
        assert (one.harm_in, one.evidence[0].rpartition(", ")[2]) == (0.0, "1 session now")
        (lack,) = [each for each in checked(cluster.dsn(user="plain")).unjudged
                   if each.name == "password-expires"]  # fmt: skip
        assert lack.why.startswith("it is hidden whether sessions of app needed")
        with psycopg.connect(cluster.dsn(user="app")):  # by trust: it needs none
            assert found(cluster.dsn(), "password-expires") == []
    until(lambda: sql(cluster.dsn(), "SELECT count(*) FROM pg_stat_activity "
                      "WHERE usename = 'app'") == [(0,)])  # fmt: skip
    assert "password-expires" in checked(cluster.dsn()).passed


def test_a_process_of_the_server_is_no_session_of_its_role(new_cluster: NewCluster) -> None:
    """The launcher of logical replication belongs to the first superuser."""
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE ROLE admin SUPERUSER LOGIN",
        "ALTER ROLE postgres VALID UNTIL '2020-01-01'")  # fmt: skip
    assert "password-expires" in checked(cluster.dsn(user="admin")).passed


def test_what_holds_an_advisory_lock_is_ended_since_cancelling_keeps_it(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster()
    holds = "SELECT pg_advisory_lock(7), pg_sleep(60)"
    with working(cluster, "first", holds) as (pid,), working(cluster, "next", holds, 10):
        waits(cluster, 10)
        (one,) = found(cluster.dsn(), "lock-queue")
        assert one.commands == (f"SELECT pg_terminate_backend({pid});",)
        ran(cluster, *one.commands)
        waits(cluster, 9)


def test_a_line_break_in_a_name_looks_the_same_everywhere(new_cluster: NewCluster) -> None:
    """In the sentence and in the evidence as it is, and in the command as its code point."""
    cluster = new_cluster(settings={"max_prepared_transactions": 2})
    sql(cluster.dsn(), "CREATE TABLE t (a int)")
    sql(cluster.dsn(), "BEGIN; LOCK TABLE t; PREPARE TRANSACTION E'pay\\n17'")
    with working(cluster, "shop", _FAST, 10):
        waits(cluster, 10)
        told = CliRunner().invoke(main, ["check", cluster.dsn(), "--memory", "8GB"]).stdout
        assert told.count('prepared transaction "pay\\n17"') == 2
        sql(cluster.dsn(), "ROLLBACK PREPARED E'pay\\u000a17'")
    assert "ROLLBACK PREPARED E'pay\\u000a17';\n" in told
