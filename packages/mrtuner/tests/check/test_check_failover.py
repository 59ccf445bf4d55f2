"""What a server tells of the hour when it, its standby or a client goes away."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import Any

import psycopg
import pytest
from conftest import NewCluster
from psycopg.pq import ExecStatus, PGconn
from standby_pair import standby_of

from mrtuner.answers import check
from mrtuner.checks.read import read
from mrtuner.checks.report import CheckReport, judged
from mrtuner.checks.state import Session
from mrtuner.findings import Finding
from mrtuner.postgres.cluster import Cluster
from mrtuner.tuning import gather
from mrtuner.units import Bytes
from servers import debian_binaries, sql
from waiting import until

pytestmark = pytest.mark.timed


def checked(cluster: Cluster, user: str = "postgres") -> CheckReport:
    return check(cluster.dsn(user=user), skip=["free-space"], memory="8GB", cpus=4, storage="ssd")


def found(cluster: Cluster, name: str) -> list[Finding]:
    return [one for one in checked(cluster).findings if one.id == name]


def configured(cluster: Cluster, name: str, value: str) -> None:
    sql(cluster.dsn(), "SET synchronous_commit = local", f"ALTER SYSTEM SET {name} = '{value}'",
        "SELECT pg_reload_conf()")  # fmt: skip
    until(lambda: sql(cluster.dsn(), f"SHOW {name}") == [(value,)])


def test_commits_that_wait_for_more_standbys_than_there_are(new_cluster: NewCluster) -> None:
    """One standby, `a`: it is enough for one, not for two, and nobody waits without a list."""
    with standby_of(new_cluster(), "a") as (primary, _):
        configured(primary, "synchronous_standby_names", "FIRST 1 (a, b)")
        until(lambda: sql(primary.dsn(), "SELECT sync_state FROM pg_stat_replication")
              == [("sync",)])  # fmt: skip
        (single,) = found(primary, "synchronous-standby-single")
        assert single.severity == "to know"
        assert single.text == "each commit waits for 1 standby, and no more are attached: a"
        assert found(primary, "synchronous-standby-missing") == []
        for names in ("FIRST 2 (a, b)", "2 (a, b)", "ANY 2 (a, b)"):
            configured(primary, "synchronous_standby_names", names)
            (missing,) = found(primary, "synchronous-standby-missing")
            assert missing.severity == "danger"
            assert missing.text == (
                "only 1 of 2 synchronous standbys is attached, but synchronous_standby_names is "
                f"{names!r}"
            )
            assert found(primary, "synchronous-standby-single") == []
        configured(primary, "synchronous_standby_names", "b, a")
        assert [one.id for one in checked(primary).findings] == ["synchronous-standby-single"]


def test_what_the_role_that_asks_has_set_for_itself_is_not_the_servers(
    new_cluster: NewCluster,
) -> None:
    with standby_of(new_cluster(), "a") as (primary, _):
        sql(primary.dsn(), "CREATE ROLE monitor LOGIN", "GRANT pg_monitor TO monitor",
            "ALTER ROLE monitor SET synchronous_commit = local",
            "ALTER ROLE monitor SET wal_sender_timeout = 0")  # fmt: skip
        configured(primary, "synchronous_standby_names", "FIRST 2 (a, b)")
        until(lambda: sql(primary.dsn(), "SELECT sync_state FROM pg_stat_replication")
              == [("sync",)])  # fmt: skip
        for user in ("postgres", "monitor"):
            told = {one.id: one.text for one in checked(primary, user).findings}
            assert told["synchronous-standby-missing"].startswith("only 1 of 2 synchronous")
            assert "replication-timeout-off" not in told
        configured(primary, "synchronous_standby_names", "a")
        ids = [one.id for one in checked(primary, "monitor").findings]
        assert "synchronous-standby-single" in ids


def test_what_a_role_may_not_see_of_replication_is_no_danger(new_cluster: NewCluster) -> None:
    """All is well; of others' rows, it sees only that they are there. The primary is idle for long.
    That there is no receiver at all, every role sees.
    """
    with standby_of(new_cluster(), "a") as (primary, standby):
        sql(primary.dsn(), "CREATE ROLE plain LOGIN")
        configured(primary, "synchronous_standby_names", "a")
        until(lambda: sql(primary.dsn(), "SELECT sync_state FROM pg_stat_replication")
              == [("sync",)])  # fmt: skip
        until(lambda: sql(standby.dsn(), "SELECT to_regrole('plain') <> 0") == [(True,)])

        def told(user: str) -> tuple[bool | None, list[str]]:
            state = read(standby.dsn(user=user), gather.flags(memory="8GB"))
            assert state.receiver is not None
            idle = replace(state, receiver=replace(state.receiver, idle_seconds=300.0))
            findings = judged("here", idle).findings
            return state.receiver.streaming, [
                one.severity for one in findings if one.id == "standby-stale"
            ]

        report = checked(primary, "plain")
        assert report.findings == ()
        assert {"synchronous-standby-missing", "synchronous-standby-single"} <= {
            one.name for one in report.unjudged
        }
        assert told("postgres") == (True, [])
        assert told("plain") == (None, [])
        primary.stop()
        until(lambda: sql(standby.dsn(), "SELECT count(*) FROM pg_stat_wal_receiver") == [(0,)])
        assert told("plain") == (False, ["danger"])


@contextmanager
def _stored(dsn: str, slot: str, place: Path) -> Iterator[None]:
    """A pg_receivewal that reports what it has stored, as Barman's does."""
    program = debian_binaries(18).program("pg_receivewal")
    with subprocess.Popen(
        [program, "--synchronous", "--slot", slot, "-D", place, "-d", dsn],
        stderr=subprocess.DEVNULL,
    ) as receiver:
        try:
            yield
        finally:
            receiver.terminate()


def test_a_standby_cannot_stand_in_for_a_program_before_it_on_the_list(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    """Commits wait for what is first, which stores WAL and never replays it."""
    with standby_of(new_cluster(), "a") as (primary, _):
        sql(primary.dsn(), "CREATE TABLE t (a int)",
            "SELECT pg_create_physical_replication_slot('barman', true)")  # fmt: skip
        with _stored(f"{primary.dsn()} application_name=barman_receive_wal", "barman", tmp_path):
            configured(primary, "synchronous_standby_names", "FIRST 1 (barman_receive_wal, a)")
            until(lambda: sql(primary.dsn(), "SELECT application_name, sync_state "
                              "FROM pg_stat_replication ORDER BY 1")
                  == [("a", "potential"), ("barman_receive_wal", "sync")])  # fmt: skip
            assert found(primary, "synchronous-standby-missing") == []
            configured(primary, "synchronous_commit", "remote_apply")
            with psycopg.connect(primary.dsn(), autocommit=True) as session:
                pid = session.info.backend_pid
                hung = Thread(target=session.execute, args=("INSERT INTO t VALUES (1)",))
                hung.start()
                waits = f"SELECT wait_event FROM pg_stat_activity WHERE pid = {pid}"
                until(lambda: sql(primary.dsn(), waits) == [("SyncRep",)])
                (missing,) = found(primary, "synchronous-standby-missing")
                configured(primary, "synchronous_standby_names", "ANY 1 (barman_receive_wal, a)")
                hung.join()
            assert missing.text == (
                "no synchronous standby is of use, but synchronous_standby_names is "
                "'FIRST 1 (barman_receive_wal, a)'"
            )
            assert found(primary, "synchronous-standby-missing") == []


@pytest.mark.parametrize("major", [13, 18])
def test_commits_may_wait_for_a_program_that_only_stores_wal(
    major: int, new_cluster: NewCluster, tmp_path: Path
) -> None:
    """As Barman does. It is no standby: none follows, and one has left its slot."""
    primary = new_cluster(major)
    for name in ("barman", "berlin"):
        sql(primary.dsn(), f"SELECT pg_create_physical_replication_slot('{name}', true)")
    configured(primary, "synchronous_standby_names", "barman_receive_wal")
    assert len(found(primary, "synchronous-standby-missing")) == 1
    with _stored(f"{primary.dsn()} application_name=barman_receive_wal", "barman", tmp_path):
        until(lambda: sql(primary.dsn(), "SELECT sync_state, state FROM pg_stat_replication")
              == [("sync", "streaming")])  # fmt: skip
        told = {one.id: one.text for one in checked(primary).findings}
        assert told["synchronous-standby-single"].endswith("attached: barman_receive_wal")
        assert told["standby-gone"] == (
            "no standby is attached, although there is a slot for one: berlin"
        )
        assert not {"synchronous-standby-missing", "replication-lag"} & told.keys()
        configured(primary, "synchronous_commit", "remote_apply")
        (missing,) = found(primary, "synchronous-standby-missing")
        assert missing.evidence == (
            "barman_receive_wal is attached, but replays nothing, and synchronous_commit is "
            "remote_apply",
        )


@pytest.mark.parametrize("major", [13, 18])
def test_commits_hang_while_the_only_standby_catches_up(
    major: int, new_cluster: NewCluster
) -> None:
    """One that takes nothing of 60 MB stays where it is."""
    primary = new_cluster(major)
    sql(primary.dsn(), "SELECT pg_create_physical_replication_slot('late', true)",
        "SELECT count(pg_logical_emit_message(false, 'x', repeat('y', 1000000))) "
        "FROM generate_series(1, 60)")  # fmt: skip
    ((lsn, number),) = sql(primary.dsn(), "SELECT restart_lsn, (restart_lsn - '0/0')::bigint "
                           "FROM pg_replication_slots")  # fmt: skip
    configured(primary, "synchronous_standby_names", "late")
    raw = PGconn.connect(f"{primary.dsn()} replication=true application_name=late".encode())
    raw.send_query(f"START_REPLICATION SLOT late PHYSICAL {lsn}".encode())
    assert (raw.get_result() or raw).status == ExecStatus.COPY_BOTH
    raw.put_copy_data(b"r" + struct.pack("!4qB", number, number, number, 0, 0))
    raw.flush()
    until(lambda: sql(primary.dsn(), "SELECT state, sync_state FROM pg_stat_replication")
          == [("catchup", "potential")])  # fmt: skip
    (missing,) = found(primary, "synchronous-standby-missing")
    raw.finish()
    assert missing.severity == "danger"
    assert missing.text == (
        "no synchronous standby is of use, but synchronous_standby_names is 'late'"
    )
    assert missing.evidence == ("late is attached, but not ready yet (catchup)",)


@pytest.mark.parametrize("major", [18, 19])
def test_a_standby_whose_replay_a_query_holds_up_is_stale_though_it_streams(
    major: int, new_cluster: NewCluster
) -> None:
    made = new_cluster(major)
    with standby_of(made, max_standby_streaming_delay="-1") as (primary, standby):
        sql(primary.dsn(), "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
        until(lambda: sql(standby.dsn(), "SELECT count(*) FROM pg_class WHERE relname = 't'")
              == [(1,)])  # fmt: skip
        with psycopg.connect(standby.dsn()) as reader:
            reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            reader.execute("SELECT count(*) FROM t")
            sql(primary.dsn(), "DELETE FROM t", "VACUUM t",
                "SELECT pg_logical_emit_message(true, 'x', 'y')")  # fmt: skip
            until(lambda: sql(standby.dsn(), "SELECT count(*) FROM pg_stat_activity WHERE "
                              "wait_event = 'RecoveryConflictSnapshot'") == [(1,)])  # fmt: skip
            state = read(standby.dsn(), gather.flags(memory="8GB"))

    def told(idle: float | None, held: bool = True, waiting: int = 4096, delay: int = 0) -> Any:
        assert state.receiver is not None
        receiver = replace(state.receiver, idle_seconds=idle, held=held, waiting=waiting)
        settings = dict(state.server.settings)
        name = "recovery_min_apply_delay"
        settings[name] = replace(settings[name], setting=str(1000 * delay))
        server = replace(state.server, settings=settings)
        report = judged("here", replace(state, receiver=receiver, server=server))
        return [(one.severity, one.text) for one in report.findings if one.id == "standby-stale"]

    assert state.receiver is not None
    assert state.receiver.streaming
    assert state.receiver.held
    assert state.receiver.waiting
    stale = (
        "this standby is stale: the last transaction that it replayed is 5 min old, and {} of WAL "
        "wait for replay"
    )
    assert told(299) == []
    assert told(300) == [("to do", stale.format("4 kB"))]
    assert told(300, held=False) == []  # on its way
    assert told(300, held=False, waiting=16 << 20) == [("to do", stale.format("16 MB"))]
    assert told(3_899, delay=3_600) == []  # as wanted
    # After a lull, the last commit is older, and what waits is the delay's.
    assert told(4_200, held=False, waiting=1 << 30, delay=3_600) == []
    assert told(None, held=False, waiting=16 << 20) == []  # it has just begun


def test_a_standby_of_an_archive_may_have_an_idle_primary(new_cluster: NewCluster) -> None:
    for archive, severity in (("false", "to know"), ("", "danger")):
        standby = new_cluster()
        standby.stop()
        (standby.data / "standby.signal").touch()
        standby.configure({"restore_command": archive})
        standby.start()
        state = read(standby.dsn(), gather.flags(memory="8GB"))
        assert state.receiver is not None
        assert (state.receiver.streaming, state.receiver.waiting) == (False, None)
        for idle, told in ((299.0, []), (300.0, [severity]), (None, [severity])):
            receiver = replace(state.receiver, idle_seconds=idle)
            report = judged("here", replace(state, receiver=receiver))
            stale = [one.severity for one in report.findings if one.id == "standby-stale"]
            assert stale == told


def test_replay_that_holds_a_lock_is_not_to_be_terminated(new_cluster: NewCluster) -> None:
    """It holds the lock until the primary's transaction ends."""
    with standby_of(new_cluster()) as (primary, standby):
        sql(primary.dsn(), "CREATE TABLE t (a int)")
        reader = PGconn.connect(f"{standby.dsn()} application_name=shop".encode())
        with psycopg.connect(primary.dsn()) as migration:
            migration.execute("LOCK TABLE t")
            sql(primary.dsn(), "SELECT pg_logical_emit_message(true, 'x', 'y')")  # flushes it
            until(lambda: sql(standby.dsn(), "SELECT count(*) FROM pg_locks WHERE mode = "
                              "'AccessExclusiveLock'") == [(1,)])  # fmt: skip
            reader.send_query(b"SELECT count(*) FROM t")
            until(lambda: sql(standby.dsn(), "SELECT count(*) FROM pg_stat_activity WHERE "
                              "wait_event_type = 'Lock'") == [(1,)])  # fmt: skip
            state = read(standby.dsn(), gather.flags(memory="8GB"))
        reader.finish()
    late = tuple(replace(one, state_seconds=9.0) if one.blocked_by else one
                 for one in state.sessions)  # fmt: skip
    (queue,) = [
        one for one in judged("here", replace(state, sessions=late)).findings
        if one.id == "lock-queue"
    ]  # fmt: skip
    (replay,) = [one.pid for one in state.sessions if one.backend_type == "startup"]
    assert queue.severity == "to do"
    assert queue.text == (
        f"1 session of shop waits for a lock of replay (process {replay}), the longest for 9 s"
    )
    assert queue.remedy[0].startswith("End the transaction on the primary that has locked")
    assert queue.evidence[0] == f"startup (process {replay}): startup"


def test_a_logical_slot_that_no_standby_keeps_is_lost_in_a_failover(
    new_cluster: NewCluster,
) -> None:
    with standby_of(new_cluster(settings={"wal_level": "logical"})) as (primary, standby):
        slot = "SELECT pg_create_logical_replication_slot('{}', 'pgoutput', false, false, {})"
        sql(primary.dsn(), slot.format("news", "false"), slot.format("kept", "true"))
        (lost,) = found(primary, "slot-not-synchronized")
        assert lost.severity == "to do"
        assert lost.text == "1 logical slot would be lost in a failover: news"
        assert "hot_standby_feedback" in lost.remedy[0]
        assert found(standby, "slot-not-synchronized") == []
        sql(primary.dsn(), "CREATE PUBLICATION p", "CREATE DATABASE shop")
        sql(
            primary.dsn("shop"),
            f"CREATE SUBSCRIPTION news CONNECTION '{primary.dsn()}' PUBLICATION p "
            "WITH (create_slot = false, enabled = false)",
        )
        with psycopg.connect(primary.dsn("shop"), autocommit=True) as subscriber:
            for text in lost.commands[:-1]:
                subscriber.execute(text.encode())
        assert lost.commands[-1] == 'ALTER SUBSCRIPTION "news" ENABLE;'
        assert found(primary, "slot-not-synchronized") == []
        sql(primary.dsn("shop"), "DROP SUBSCRIPTION news")  # and its slot


@pytest.mark.parametrize("major", [16, 18])
def test_a_table_that_a_subscription_copies_has_its_consumer(
    major: int, new_cluster: NewCluster
) -> None:
    """Its slot is released while the copy lasts, here for a minute for each row."""
    primary, subscriber = new_cluster(major, {"wal_level": "logical"}), new_cluster(major)
    sql(primary.dsn(), "CREATE TABLE t (a int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)",
        "CREATE PUBLICATION p FOR TABLE t", "CREATE UNLOGGED TABLE u (a int)",
        "INSERT INTO u VALUES (1)")  # fmt: skip
    sql(
        subscriber.dsn(), "CREATE TABLE t (a int PRIMARY KEY)",
        "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_catalog.pg_sleep(60); RETURN NEW; END'",
        "CREATE TRIGGER late BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION late()",
        "ALTER TABLE t ENABLE ALWAYS TRIGGER late",
        f"CREATE SUBSCRIPTION s CONNECTION '{primary.dsn()}' PUBLICATION p",
    )  # fmt: skip
    copying = "SELECT active FROM pg_replication_slots WHERE slot_name LIKE 'pg_%_sync_%'"
    until(lambda: sql(primary.dsn(), copying) == [(False,)])
    state = read(primary.dsn(), gather.flags(memory="8GB"))
    (slot,) = [one for one in state.server.slots if one.name.startswith("pg_")]
    assert slot.active
    assert state.server.standbys == 0
    assert not [one.name for one in state.standbys if one.replays]
    report = judged("here", state)
    wrong = {"consumer-gone", "replication-lag", "slot-not-synchronized", "horizon-held"}
    assert not wrong & {one.id for one in report.findings}


def test_before_17_and_without_a_standby_a_logical_slot_is_nothing_to_do(
    new_cluster: NewCluster,
) -> None:
    for major in (16, 18):
        cluster = new_cluster(major, {"wal_level": "logical"})
        sql(cluster.dsn(), "SELECT pg_create_logical_replication_slot('news', 'pgoutput')")
        assert "slot-not-synchronized" in checked(cluster).passed


def test_a_backup_that_a_role_cannot_tell_from_a_standby_is_not_judged(
    new_cluster: NewCluster,
) -> None:
    """The base backup waits until its client reads; whoever may not see its state is told so."""
    primary = new_cluster(settings={"wal_level": "logical", "wal_sender_timeout": 0})
    slot = "SELECT pg_create_logical_replication_slot('news', 'pgoutput')"
    sql(primary.dsn(), slot, "CREATE ROLE plain LOGIN")
    ids = {"slot-not-synchronized", "replication-timeout-off"}
    backup = PGconn.connect(f"{primary.dsn()} replication=true application_name=b".encode())
    backup.send_query(b"BASE_BACKUP (CHECKPOINT 'fast', MAX_RATE 32)")
    until(lambda: sql(primary.dsn(), "SELECT state FROM pg_stat_replication") == [("backup",)])
    report, of_all = checked(primary, "plain"), checked(primary)
    backup.finish()
    assert not ids & {one.id for one in report.findings}
    hints = {one.name: one.hint for one in report.unjudged}
    assert {hints[one] for one in ids} == {
        'GRANT pg_monitor TO "plain", or connect as a superuser.'
    }  # fmt: skip
    assert ids <= set(of_all.passed)


def test_replication_that_waits_for_ever_is_told_on_the_side_that_waits(
    new_cluster: NewCluster,
) -> None:
    with standby_of(new_cluster(), wal_receiver_timeout="0") as (primary, standby):
        assert found(primary, "replication-timeout-off") == []
        (told,) = found(standby, "replication-timeout-off")
        assert told.text == "wal_receiver_timeout is 0, so the primary that vanishes is not noticed"
        primary.configure({"wal_sender_timeout": 0})  # in the file that ALTER SYSTEM overrides
        sql(primary.dsn(), "SELECT pg_reload_conf()")
        until(lambda: sql(primary.dsn(), "SHOW wal_sender_timeout") == [("0",)])
        (told,) = found(primary, "replication-timeout-off")
        assert told.text == "wal_sender_timeout is 0, so a standby that vanishes is not noticed"
        with psycopg.connect(primary.dsn(), autocommit=True) as conn:
            for each in told.commands:
                conn.execute(each.encode())
        until(lambda: found(primary, "replication-timeout-off") == [])


def test_a_primary_whose_standby_is_away_has_nothing_to_fail_over_to(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster()
    sql(cluster.dsn(), "SELECT pg_create_physical_replication_slot('never_used')")
    assert "standby-gone" in checked(cluster).passed  # nobody has ever followed
    sql(cluster.dsn(), "SELECT pg_create_physical_replication_slot('berlin', true)")
    (gone,) = found(cluster, "standby-gone")
    assert gone.severity == "to do"
    assert gone.text == "no standby is attached, although there is a slot for one: berlin"
    sql(cluster.dsn(), gone.remedy[1].rstrip(";"))
    assert found(cluster, "standby-gone") == []


@pytest.mark.parametrize("major", [16, 18])
def test_a_slot_whose_consumer_is_gone_is_told_with_the_time_where_it_is_known(
    major: int, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(major, {"wal_level": "logical"})
    sql(cluster.dsn(), "SELECT pg_create_logical_replication_slot('news', 'pgoutput')")
    state = read(cluster.dsn(), gather.flags(memory="8GB"))
    (slot,) = state.server.slots

    def told(**given: Any) -> list[tuple[str, str]]:
        server = replace(state.server, slots=(replace(slot, **given),))
        report = judged("here", replace(state, server=server))
        return [(one.severity, one.text) for one in report.findings if one.id == "consumer-gone"]

    if major == 16:
        assert told() == [("to know", "logical slot news has no consumer")]
        return
    assert told() == []
    assert told(idle=299.0) == []
    assert told(idle=300.0) == [("to do", "logical slot news has no consumer for 5 min")]
    assert told(idle=300.0, active=True) == []


def test_a_slot_is_told_once(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18, {"wal_level": "logical"})
    sql(
        cluster.dsn(),
        "SELECT pg_create_physical_replication_slot('berlin', true)",
        "SELECT pg_create_logical_replication_slot('news', 'pgoutput')",
    )
    state = read(cluster.dsn(), gather.flags(memory="8GB"))
    slots = tuple(replace(one, retained=Bytes(64 << 30), idle=300.0) for one in state.server.slots)
    server = replace(state.server, slots=slots)
    found = judged("here", replace(state, server=server)).findings
    about = {one.text: (one.id, one.consequence) for one in found if "slot" in one.text}
    grows = "it grows until the disk is full"
    assert about == {
        "replication slot berlin is not in use and keeps 64 GB of WAL": (
            "slot-keeps-wal", f"if this server goes away, nothing can take over; {grows}",
        ),
        "replication slot news is not in use and keeps 64 GB of WAL": ("slot-keeps-wal", grows),
    }  # fmt: skip


def test_a_client_that_may_be_gone_is_told_with_the_time_until_the_server_notices(
    embedded: Cluster,
) -> None:
    """Linux asks after 7,200 s, nine times, every 75 s: 7,875 s. Ours: 60 + 6 * 10 = 120 s."""
    state = read(embedded.dsn(), gather.flags(memory="8GB"))
    away = Session(
        pid=77, role="app", database="shop", application="web", client="10.0.0.1",
        state="idle in transaction", backend_type="client backend", waits_for=None, blocked_by=(),
        state_seconds=300, statement="SELECT ?",
    )  # fmt: skip

    def told(*sessions: Session, user_timeout: str = "0", **keepalive: str) -> list[str]:
        values = {f"tcp_keepalives_{part}": value for part, value in keepalive.items()}
        values["tcp_user_timeout"] = user_timeout
        settings = {
            **state.server.settings,
            **{
                name: replace(state.server.settings[name], reset_val=value)
                for name, value in values.items()
            },
        }
        server = replace(state.server, settings=MappingProxyType(settings))
        report = judged("here", replace(state, server=server, sessions=sessions))
        return [one.text for one in report.findings if one.id == "dead-clients-stay"]

    assert told(away) == [
        "if web (process 77) from 10.0.0.1 is gone, the server notices only after 2.19 h"
    ]
    assert told(away, idle="60", interval="10", count="6") == []
    assert told(away, idle="60") == [
        "if web (process 77) from 10.0.0.1 is gone, the server notices only after 12.2 min"
    ]  # 60 + 9 * 75 = 735 s
    assert told(away, idle="60", user_timeout="30000") == []  # 60 + 75 = 135 s
    assert told(away, user_timeout="30000") == [
        "if web (process 77) from 10.0.0.1 is gone, the server notices only after 2.02 h"
    ]  # 7,200 + 75 s
    assert told(replace(away, client=None)) == []
    assert told(replace(away, client="127.0.0.1")) == []
    assert told(replace(away, state_seconds=299)) == []


def test_a_timeout_ends_a_client_that_is_gone(new_cluster: NewCluster) -> None:
    """The server's is 10 min, for role app 5 min in all databases but shop, where there is none."""
    cluster = new_cluster(18, {"idle_in_transaction_session_timeout": "10min"})
    alter = "ALTER ROLE app {} SET idle_in_transaction_session_timeout = {}"
    sql(cluster.dsn(), "CREATE ROLE app", "CREATE DATABASE shop", alter.format("", "'5min'"),
        alter.format("IN DATABASE shop", "0"))  # fmt: skip
    state = read(cluster.dsn(), gather.flags(memory="8GB"))

    def told(role: str, database: str) -> list[str]:
        away = Session(
            pid=77, role=role, database=database, application="web", client="10.0.0.1",
            state="idle in transaction", backend_type="client backend", waits_for=None,
            blocked_by=(), state_seconds=300, statement="SELECT ?",
        )  # fmt: skip
        report = judged("here", replace(state, sessions=(away,)))
        return [one.text for one in report.findings if one.id == "dead-clients-stay"]

    gone = "if web (process 77) from 10.0.0.1 is gone, the server {} only after {}"
    assert told("other", "shop") == [gone.format("ends it", "10 min")]
    assert told("app", "postgres") == []
    assert told("app", "shop") == [gone.format("notices", "2.19 h")]
    sql(cluster.dsn(), "ALTER SYSTEM SET transaction_timeout = '5min'", "SELECT pg_reload_conf()")
    until(lambda: sql(cluster.dsn(), "SHOW transaction_timeout") == [("5min",)])
    state = read(cluster.dsn(), gather.flags(memory="8GB"))
    assert told("other", "shop") == told("app", "shop") == []


@pytest.mark.parametrize("major", [18, 19])
def test_a_cursor_that_holds_up_replay_is_found(major: int, new_cluster: NewCluster) -> None:
    """Its snapshot needs none of the rows that VACUUM removes, but it is on their page."""
    with standby_of(new_cluster(major), max_standby_streaming_delay="-1") as (primary, standby):
        sql(primary.dsn(), "CREATE TABLE t (a int) WITH (autovacuum_enabled = off)",
            "INSERT INTO t SELECT generate_series(1, 9)", "DELETE FROM t WHERE a > 5")  # fmt: skip
        until(lambda: sql(standby.dsn(), "SELECT to_regclass('t') IS NOT NULL") == [(True,)])
        until(lambda: sql(standby.dsn(), "SELECT count(*) FROM t") == [(5,)])
        with psycopg.connect(standby.dsn()) as reader:
            reader.execute("DECLARE c CURSOR FOR SELECT * FROM t")
            reader.execute("FETCH 1 FROM c")
            sql(primary.dsn(), "VACUUM t", "SELECT pg_logical_emit_message(true, 'x', 'y')")

            def held() -> bool:
                state = read(standby.dsn(), gather.flags(memory="8GB"))
                return state.receiver is not None and state.receiver.held

            until(held)
        until(lambda: not held())


@pytest.mark.parametrize("mode", ["on", "always"])
def test_a_standby_does_not_archive_what_it_did_not_as_a_primary(
    mode: str, new_cluster: NewCluster
) -> None:
    """Counters survive a switchover. With `always`, it goes on to archive, and to fail."""
    cluster = new_cluster(18, {"archive_mode": mode, "archive_command": "false"})
    sql(cluster.dsn(), "SELECT pg_logical_emit_message(true, 'x', 'y')", "SELECT pg_switch_wal()")
    failed = "SELECT failed_count > 0 FROM pg_stat_archiver"
    until(lambda: sql(cluster.dsn(), failed) == [(True,)])
    assert len(found(cluster, "archiving-fails")) == 1
    cluster.stop()
    (cluster.data / "standby.signal").touch()
    cluster.start()
    assert sql(cluster.dsn(), failed) == [(True,)]
    assert len(found(cluster, "archiving-fails")) == (mode == "always")


def test_a_synchronized_slot_is_told_by_the_primary_alone(new_cluster: NewCluster) -> None:
    """The standby could not drop it."""
    with standby_of(new_cluster(settings={"wal_level": "logical"})) as (primary, standby):
        sql(primary.dsn(), "SELECT pg_create_physical_replication_slot('berlin', true)",
            "SELECT pg_create_logical_replication_slot('news', 'pgoutput', false, false, true)"
        )  # fmt: skip
        sql(
            standby.dsn(),
            "ALTER SYSTEM SET primary_slot_name = 'berlin'",
            "ALTER SYSTEM SET hot_standby_feedback = on",
            f"ALTER SYSTEM SET primary_conninfo = '{primary.dsn()}'",
            "SELECT pg_reload_conf()",
        )
        until(lambda: sql(primary.dsn(), "SELECT active, xmin IS NOT NULL FROM "
                          "pg_replication_slots WHERE slot_name = 'berlin'")
              == [(True, True)])  # fmt: skip
        synced = "SELECT count(*) FROM pg_replication_slots WHERE synced AND NOT temporary"

        def synchronized() -> bool:
            sql(primary.dsn(), "SELECT pg_log_standby_snapshot()",
                "SELECT pg_replication_slot_advance('news', pg_current_wal_lsn())")  # fmt: skip
            with suppress(psycopg.Error):  # it has not received as much yet
                sql(standby.dsn(), "SELECT pg_sync_replication_slots()")
            return sql(standby.dsn(), synced) == [(1,)]

        until(synchronized)
        for cluster, told in ((primary, 1), (standby, 0)):
            state = read(cluster.dsn(), gather.flags(memory="8GB"))
            behind = tuple(
                replace(one, retained=Bytes(64 << 30)) for one in state.server.slots
                if one.name == "news"
            )  # fmt: skip
            server = replace(state.server, slots=behind)
            report = judged("here", replace(state, server=server))
            assert len([one for one in report.findings if one.id == "slot-keeps-wal"]) == told


def test_attempts_of_a_standby_at_restartpoints_are_not_told_as_checkpoints(
    new_cluster: NewCluster,
) -> None:
    """Past max_wal_size, each of 20 WAL segments counts as requested, and none is made."""
    with standby_of(new_cluster(), max_wal_size="32MB", min_wal_size="32MB") as (primary, standby):
        sql(primary.dsn(), "CREATE TABLE t (a int)")
        for _ in range(20):
            sql(primary.dsn(), "INSERT INTO t VALUES (1)", "SELECT pg_switch_wal()")
        attempts = "SELECT restartpoints_req >= 10, restartpoints_done FROM pg_stat_checkpointer"
        until(lambda: sql(standby.dsn(), attempts) == [(True, 0)])
        report = checked(standby)
    assert [one for one in report.findings if one.id == "checkpoints-forced"] == []
    assert "checkpoints-forced" not in report.passed
