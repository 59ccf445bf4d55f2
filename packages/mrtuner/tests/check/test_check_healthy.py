"""Healthy servers: nothing is found, and what a role may not see is named exactly."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from click.testing import CliRunner
from conftest import NewCluster
from standby_pair import standby_of

from json_schemas import assert_valid
from mrtuner.answers import check
from mrtuner.bench.load.pgbench import find_pgbench
from mrtuner.checks.catalogue import checks
from mrtuner.checks.read import read
from mrtuner.checks.report import CheckReport, headline, judged
from mrtuner.checks.state import Session
from mrtuner.cli import main
from mrtuner.errors import BadValue
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.model import RoleSpills
from mrtuner.tuning import gather, tune_server
from mrtuner.units import Bytes
from mrtuner.vacuum.assess import judge
from servers import counted, sql
from waiting import until

pytestmark = pytest.mark.timed

GIVEN = {"memory": "8GB", "cpus": 4, "storage": "ssd"}
#: The disk of the machine that the tests run on may be nearly full.
OF_THE_MACHINE = ("free-space",)
#: Found by the calendar alone.
_BY_DATE = frozenset({"version-support"})


def checked(cluster: Cluster, user: str = "postgres") -> CheckReport:
    return check(cluster.dsn(user=user), skip=OF_THE_MACHINE, **GIVEN)  # type: ignore[arg-type]


#: Found where initdb leaves checksums off: before 18.
_BY_DEFAULT = frozenset({"checksum-failures"})


def ids(report: CheckReport) -> set[str]:
    left_out = _BY_DATE if (report.version or "") >= "18" else _BY_DATE | _BY_DEFAULT
    return {one.id for one in report.findings} - left_out


def test_a_fresh_server_of_every_major_has_no_finding(
    every_major: int, new_cluster: NewCluster
) -> None:
    report = checked(new_cluster(every_major))
    assert ids(report) == set()
    assert not report.unjudged
    by_default = [one.text for one in report.findings if one.id in _BY_DEFAULT]
    assert by_default == (["data checksums are off"] if every_major < 18 else [])
    assert {*report.passed, *report.skipped} | _BY_DATE | _BY_DEFAULT >= set(checks())
    assert {one for one in report.skipped if not one.startswith(("pods-", "rds-"))} == {
        "ceiling-reached", "free-space", "incident", "pools-exceed-limit", "volume-fills",
    }  # there is no history  # fmt: skip


def test_defaults_are_no_finding_however_little_memory_there_is(
    every_major: int, new_cluster: NewCluster
) -> None:
    """With 1 GB, 108 sorts and hashes of 4 MB, most of them doubled, are nearly all of it."""
    cluster = new_cluster(every_major)
    state = read(cluster.dsn(), gather.flags(memory="1GB"))
    elsewhere = replace(state.server, local_pid=None)  # so that it may have more than this machine
    for memory in ("1GB", "4GB", "16GB", "64GB"):
        tuning = tune_server(elsewhere, gather.flags(memory=memory, cpus=2, storage="ssd"))
        report = judged(
            "here", replace(state, server=elsewhere, tuning=tuning), frozenset(OF_THE_MACHINE)
        )
        assert ids(report) == set(), memory
        assert "memory-overcommitted" in report.passed
    sql(cluster.dsn(), "ALTER SYSTEM SET work_mem = '32MB'", "SELECT pg_reload_conf()")
    report = check(cluster.dsn(), skip=OF_THE_MACHINE, memory="1GB", cpus=2, storage="ssd")
    assert ids(report) == {"memory-overcommitted"}


@pytest.mark.parametrize("major", [13, 15, 18])
def test_a_restart_makes_no_pace(major: int, new_cluster: NewCluster) -> None:
    """Counters survive it, and so does the time that they were counted for; a crash ends both."""
    cluster = new_cluster(major)
    counted(
        cluster.dsn(),
        "CREATE TABLE t (a int, b text)",
        "INSERT INTO t SELECT n, n FROM generate_series(1, 999) AS n",
        "CREATE PROCEDURE work() LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..5000 LOOP "
        "UPDATE t SET b = i WHERE a = 1; COMMIT; END LOOP; END $$",
        "SET synchronous_commit = off", "CALL work()",
    )  # fmt: skip

    def since() -> tuple[float, int]:
        vacuum = read(cluster.dsn(), gather.flags(memory="8GB")).vacuum
        assert vacuum is not None
        moment = vacuum.picture.samples[-1].moment
        return moment.at - moment.counted_for, moment.transactions

    began, transactions = since()
    assert transactions >= 5000
    cluster.restart()
    after, kept = since()
    assert after == pytest.approx(began, abs=0.01)
    assert kept >= transactions
    report = checked(cluster)
    assert ids(report) == set()
    assert not report.unjudged
    cluster.stop("immediate")
    cluster.start()
    crashed, lost = since()
    assert crashed > began
    assert lost < transactions


@pytest.mark.parametrize("major", [13, 18])
def test_a_crash_that_the_postmaster_survives_ends_what_was_counted(
    major: int, new_cluster: NewCluster
) -> None:
    """Its start is not when they began; nor is a later reset of the background writer's alone."""
    cluster = new_cluster(major)
    start = "SELECT pg_postmaster_start_time()::text"
    ((started,),) = sql(cluster.dsn(), start)
    victim = psycopg.connect(cluster.dsn())
    ((before,),) = victim.execute("SELECT clock_timestamp()::text").fetchall()
    os.kill(victim.info.backend_pid, signal.SIGKILL)
    victim.close()

    def recovered() -> bool:
        with suppress(psycopg.OperationalError):
            later = f"SELECT stats_reset > '{before}' FROM pg_stat_archiver"
            return sql(cluster.dsn(), later) == [(True,)]
        return False

    until(recovered)
    sql(cluster.dsn(), "SELECT pg_stat_reset_shared('bgwriter')")
    assert sql(cluster.dsn(), start) == [(started,)]
    vacuum = read(cluster.dsn(), gather.flags(memory="8GB")).vacuum
    assert vacuum is not None
    ((crash,),) = sql(
        cluster.dsn(), "SELECT extract(epoch FROM stats_reset)::float8 FROM pg_stat_archiver"
    )
    assert vacuum.picture.samples[-1].moment.began_at == pytest.approx(crash, abs=0.01)


def test_an_index_that_nobody_scanned_may_be_new(new_cluster: NewCluster) -> None:
    """2,000 pages of 8 kB are 15.6 MB. A day before a month, nothing is said."""
    cluster = new_cluster()
    sql(
        cluster.dsn(),
        "CREATE TABLE t (a int)", "CREATE INDEX own ON t (a)",
        "UPDATE pg_class SET relpages = 2000 WHERE relname = 'own'",
    )  # fmt: skip
    state = read(cluster.dsn(), gather.flags(memory="8GB"))

    def told(days: int) -> CheckReport:
        assert state.vacuum is not None
        picture = state.vacuum.picture
        moment = replace(picture.samples[-1].moment, reset_at=0.0, at=days * 86_400.0)
        samples = (replace(picture.samples[-1], moment=moment),)
        vacuum = replace(state.vacuum, picture=replace(picture, samples=samples))
        return judged("here", replace(state, vacuum=vacuum))

    (found,) = [one for one in told(90).findings if one.id == "unused-index"]
    assert found.text == "1 index had no scan in 90 d, or since it was created, 15.6 MB in all"
    assert found.remedy[0].startswith("If it is older than a month")
    assert found.commands == ('DROP INDEX CONCURRENTLY "public"."own";',)
    (lack,) = [one for one in told(29).unjudged if one.name == "unused-index"]
    assert lack.why == "statistics of this database are 29 d old; 1 large index had no scan since"


def test_many_transactions_alone_are_no_wraparound(embedded: Cluster) -> None:
    """2e9 in 25 h are 22,222 a second. At age 250 million, 2,147,483,648 - 3 million - 250 million
    are left: 85,252 s, or 23.7 h.
    """
    state = read(embedded.dsn(), gather.flags(memory="8GB"))
    assert state.vacuum is not None
    picture = state.vacuum.picture
    (sample,) = picture.samples

    def told(age: int, hours: float) -> tuple[CheckReport, list[tuple[str, str]]]:
        moment = replace(
            sample.moment, reset_at=0.0, at=hours * 3600, transactions=round(2e9 * hours / 25)
        )
        aged = replace(
            picture, databases=(("shop", age, 0),), samples=(replace(sample, moment=moment),)
        )
        report = judged("here", replace(state, vacuum=judge(aged)))
        found = [one for one in report.findings if one.id == "wraparound"]
        return report, [(one.severity, one.text) for one in found]

    assert "wraparound" in told(10_000_000, 25)[0].passed
    assert "wraparound" in told(249_999_999, 25)[0].passed
    left = "1,894,483,648 transaction IDs are left in database shop"
    assert told(250_000_000, 25)[1] == [("danger", f"{left}, 23.7 h at this pace")]
    assert told(250_000_000, 23)[1] == [("to do", left)]
    assert told(1_600_000_000, 23)[1][0][0] == "danger"


def test_the_pace_of_less_than_a_day_is_no_backlog(embedded: Cluster) -> None:
    state = read(embedded.dsn(), gather.flags(memory="8GB"))
    assert state.vacuum is not None
    (sample,) = state.vacuum.picture.samples

    def told(hours: float) -> CheckReport:
        moment = replace(sample.moment, reset_at=0.0, at=hours * 3600)
        assert state.vacuum is not None
        vacuum = replace(
            state.vacuum,
            picture=replace(state.vacuum.picture, samples=(replace(sample, moment=moment),)),
            capacity=replace(state.vacuum.capacity, used=3.0),
        )
        return judged("here", replace(state, vacuum=vacuum))

    (lack,) = [one for one in told(23).unjudged if one.name == "vacuum-behind"]
    assert lack.why == (
        "vacuum needs 3.0 times what its cost limit allows, at the pace of 23 h of statistics"
    )
    (found,) = [one for one in told(24).findings if one.id == "vacuum-behind"]
    assert found.text == "vacuum needs 3.0 times what its cost limit allows"


def test_a_server_at_work_has_no_finding(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    pgbench = find_pgbench(cluster.binaries)
    subprocess.run([pgbench, "-i", "-q", "-s", "2", cluster.dsn()], check=True, capture_output=True)
    load = subprocess.Popen(
        [pgbench, "-c", "8", "-T", "8", cluster.dsn()],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until(lambda: sql(cluster.dsn(), "SELECT count(*) > 7 FROM pg_stat_activity "
                      "WHERE application_name = 'pgbench'") == [(True,)])  # fmt: skip
    found = [ids(checked(cluster)) for _ in range(3)]
    load.terminate()
    load.wait()
    assert found == [set(), set(), set()]


#: It counts for them alone, or refuses what heals them elsewhere.
OF_THE_PRIMARY = {
    "checkpoints-forced", "sequence-exhausted", "key-exhausted", "invalid-index",
    "duplicate-index", "unused-index", "never-analyzed", "wraparound", "vacuum-behind",
    "horizon-held", "subscription-stopped", "extension-outdated", "override-undoes-advice",
    "replica-identity-missing",
    "password-expires", "multixact-members", "unlogged-tables", "constraint-disabled",
    "invalid-database", "foreign-key-unindexed",
}  # fmt: skip


@pytest.fixture
def pair(new_cluster: NewCluster) -> Iterator[tuple[Cluster, Cluster]]:
    with standby_of(new_cluster()) as found:
        yield found


def test_a_standby_that_follows_has_no_finding_and_one_that_is_paused_has(
    pair: tuple[Cluster, Cluster],
) -> None:
    primary, standby = pair
    report = checked(standby)
    assert ids(report) == set()
    assert not report.unjudged
    assert set(report.skipped) - set(checked(primary).skipped) == OF_THE_PRIMARY
    assert ids(checked(primary)) == set()
    sql(standby.dsn(), "SELECT pg_wal_replay_pause()")
    (first, *_) = checked(standby).findings
    assert first.id == "standby-stale"
    assert first.remedy == ("SELECT pg_wal_replay_resume();",)


def test_a_standby_tells_neither_what_only_its_primary_counts_nor_what_only_that_can_heal(
    pair: tuple[Cluster, Cluster],
) -> None:
    """An index that only the primary scans, a subscription that only the primary's worker serves:
    of what is told here, the commands say where they must be run.
    """
    primary, standby = pair
    sql(
        primary.dsn(),
        "CREATE TABLE t (id serial PRIMARY KEY, a int)", "CREATE INDEX ON t (a)",
        "CREATE INDEX again ON t (a)", "SELECT setval('t_id_seq', 2040109465)",
        "CREATE SUBSCRIPTION news CONNECTION 'host=nowhere' PUBLICATION p "
        "WITH (connect = false, slot_name = NONE)",
        "CREATE ROLE app LOGIN CONNECTION LIMIT 1",
        "SELECT pg_create_physical_replication_slot('x')",
    )  # fmt: skip
    until(lambda: sql(standby.dsn(), "SELECT 1 FROM pg_roles WHERE rolname = 'app'") == [(1,)])
    assert ids(checked(primary)) >= {
        "sequence-exhausted", "duplicate-index", "subscription-stopped",
    }  # fmt: skip
    with psycopg.connect(standby.dsn(user="app")):
        (found,) = checked(standby).findings
    assert found.id == "connections-near-limit"
    assert found.remedy[0].endswith("or, on the primary:")
    assert found.remedy[1] == 'ALTER ROLE "app" CONNECTION LIMIT 2;'


def test_a_role_without_pg_monitor_is_told_exactly_what_it_cannot_judge(
    new_cluster: NewCluster,
) -> None:
    """A managed service's role: nothing is taken for fine that it may not see."""
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE ROLE plain LOGIN", "CREATE ROLE monitor LOGIN IN ROLE pg_monitor")
    report = checked(cluster, "plain")
    assert ids(report) == set()
    assert {one.name for one in report.unjudged} == {
        "connections-near-limit", "idle-in-transaction", "lock-queue", "replication-lag",
        "synchronous-standby-missing", "standby-stale", "horizon-held", "configuration-errors",
        "override-undoes-advice", "next-start", "pending-restart", "dead-clients-stay",
        "replication-timeout-off", "slot-not-synchronized", "standby-gone",
        "synchronous-standby-single", "not-reloaded",
    }  # fmt: skip
    assert all(one.supply for one in report.unjudged)
    assert 'of which need: GRANT pg_monitor TO "plain", or connect' in headline([report])
    granted = checked(cluster, "monitor")
    assert ids(granted) == set()
    assert {one.name for one in granted.unjudged} == {
        "configuration-errors", "next-start", "not-reloaded", "pending-restart",
    }  # fmt: skip
    for one in granted.unjudged:
        told = re.findall(r'GRANT (?:SELECT|EXECUTE) ON [^"]+ TO "monitor"', one.supply or "")
        assert told
        sql(cluster.dsn(), *told)
    assert not checked(cluster, "monitor").unjudged


@pytest.mark.parametrize(
    "number", [500, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.quiet])]
)
def test_many_tables_are_checked_within_five_seconds(number: int, new_cluster: NewCluster) -> None:
    cluster = new_cluster(settings={"max_locks_per_transaction": 1000})
    for batch in range(number // 500):
        sql(
            cluster.dsn(),
            "DO $$ BEGIN FOR i IN 1..500 LOOP "
            f"EXECUTE format('CREATE TABLE t_{batch}_%s (id serial PRIMARY KEY, a text, "
            "own int UNIQUE)', i); "
            f"EXECUTE format('CREATE INDEX ON t_{batch}_%s (a, id)', i); END LOOP; END $$",
        )
    began = time.monotonic()
    report = checked(cluster)
    assert time.monotonic() - began < 5
    assert ids(report) == set()
    assert not report.unjudged


def test_keys_that_the_application_numbers_are_found_only_near_their_end(
    new_cluster: NewCluster,
) -> None:
    """Of int4, 70 % are 1,503,238,553. Hashes reach its end from the first row on."""
    cluster = new_cluster()
    sql(
        cluster.dsn(),
        "CREATE TABLE full_ (id int PRIMARY KEY)",
        "INSERT INTO full_ SELECT 1503230000 + n FROM generate_series(1, 9000) AS n",
        "CREATE TABLE half (id int PRIMARY KEY)",
        "INSERT INTO half SELECT 1400000000 + n FROM generate_series(1, 9000) AS n",
        "CREATE TABLE hash (id int PRIMARY KEY)",
        "INSERT INTO hash SELECT DISTINCT hashint4(n) FROM generate_series(1, 9000) AS n",
        "CREATE TABLE big (id bigint PRIMARY KEY)",
        "INSERT INTO big SELECT 1503230000 + n FROM generate_series(1, 9000) AS n",
        "CREATE TABLE counted (id serial PRIMARY KEY)",
        "INSERT INTO counted SELECT 1503230000 + n FROM generate_series(1, 9000) AS n",
        "ANALYZE",
        "CREATE ROLE monitor LOGIN IN ROLE pg_monitor",
    )
    (found,) = [one for one in checked(cluster).findings if one.id == "key-exhausted"]
    assert found.text == (
        "70% of public.full_.id (integer) is used: 644,244,647 numbers were left at the last "
        "ANALYZE"
    )
    assert found.severity == "to do"
    blind = checked(cluster, "monitor")
    assert "key-exhausted" not in {one.id for one in blind.findings}
    (lack,) = [one for one in blind.unjudged if one.name == "key-exhausted"]
    assert "public.full_, public.half, public.hash" in lack.why
    assert "GRANT SELECT" in (lack.supply or "")


def test_a_locked_table_delays_no_other_check(new_cluster: NewCluster) -> None:
    """Nothing that is read needs a lock on a user's table."""
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE TABLE t (a int PRIMARY KEY, b text)", "CREATE INDEX ON t (lower(b))")
    with psycopg.connect(cluster.dsn()) as holder:
        holder.execute("LOCK TABLE t")
        report = checked(cluster)
    (lack,) = report.unjudged  # nobody has counted its rows, and its size needs the lock
    assert (lack.name, lack.why.rpartition(": ")[2]) == ("never-analyzed", "public.t")


@pytest.mark.parametrize("major", [13, 18])
def test_an_index_is_not_invalid_while_its_table_is_reindexed(
    major: int, new_cluster: NewCluster
) -> None:
    """Of three new indexes, the view of the progress names one, and to a plain role none."""
    cluster = new_cluster(major)
    sql(
        cluster.dsn(),
        "CREATE TABLE t (a int PRIMARY KEY, b int, c int)", "CREATE INDEX ON t (b)",
        "CREATE INDEX ON t (c)", "CREATE ROLE plain LOGIN",
    )  # fmt: skip
    with psycopg.connect(cluster.dsn()) as writer, ThreadPoolExecutor() as pool:
        writer.execute("INSERT INTO t VALUES (1, 1, 1)")
        build = pool.submit(sql, cluster.dsn(), "REINDEX TABLE CONCURRENTLY t")
        until(lambda: sql(cluster.dsn(), _NEW_INDEXES) == [(3,)])
        reports = checked(cluster), checked(cluster, "plain")
        writer.rollback()
        build.result()
    for report in reports:
        assert {"invalid-index", "duplicate-index"} <= set(report.passed)


@pytest.mark.parametrize("major", [13, 18])
def test_an_index_that_is_being_dropped_is_not_rebuilt(major: int, new_cluster: NewCluster) -> None:
    """Its DROP waits for a reader. Of one that nothing maintains any more, the DROP was cut off."""
    cluster = new_cluster(major)
    sql(cluster.dsn(), "CREATE TABLE t (a int)", "CREATE INDEX going ON t (a)",
        "CREATE INDEX dead ON t (a)", "CREATE ROLE plain LOGIN")  # fmt: skip
    with psycopg.connect(cluster.dsn()) as reader, ThreadPoolExecutor() as pool:
        reader.execute("SELECT FROM t")
        drop = pool.submit(sql, cluster.dsn(), "DROP INDEX CONCURRENTLY going")
        until(lambda: sql(cluster.dsn(), _NEW_INDEXES) == [(1,)])
        for report in (checked(cluster), checked(cluster, "plain")):
            assert "invalid-index" in report.passed
        reader.rollback()
        drop.result()
    sql(cluster.dsn(), "UPDATE pg_index SET indisvalid = false, indisready = false, "
        "indislive = false WHERE indexrelid = 'dead'::regclass")  # fmt: skip
    (one,) = [each for each in checked(cluster).findings if each.id == "invalid-index"]
    assert one.commands == ('DROP INDEX CONCURRENTLY "public"."dead";',)
    sql(cluster.dsn(), one.commands[0])
    assert "invalid-index" in checked(cluster).passed


def test_checksum_failures_count_where_nobody_may_connect(new_cluster: NewCluster) -> None:
    """A base backup and autovacuum read such a database, too."""
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE DATABASE archive", "ALTER DATABASE archive ALLOW_CONNECTIONS false")
    state = read(cluster.dsn(), gather.flags(memory="8GB"))
    closed = {one.name: one for one in state.databases if one.name in {"archive", "template0"}}
    assert [one.collation for one in closed.values()] == [None, None]
    assert not any(one.sorted for one in closed.values())
    broken = replace(closed["archive"], checksum_failures=7)
    report = judged("here", replace(state, databases=(broken,)))
    (one,) = [each for each in report.findings if each.id == "checksum-failures"]
    assert one.severity == "danger"
    assert "archive" in one.text


def test_an_index_stays_invalid_while_another_one_is_built(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE TABLE t (a int, b int)", "INSERT INTO t VALUES (1, 1), (1, 2)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        sql(cluster.dsn(), "CREATE UNIQUE INDEX CONCURRENTLY failed ON t (a)")
    with psycopg.connect(cluster.dsn()) as writer, ThreadPoolExecutor() as pool:
        writer.execute("INSERT INTO t VALUES (1, 1)")
        build = pool.submit(sql, cluster.dsn(), "CREATE INDEX CONCURRENTLY built ON t (b)")
        until(lambda: sql(cluster.dsn(), _NEW_INDEXES) == [(2,)])
        texts = [one.text for one in checked(cluster).findings if one.id == "invalid-index"]
        writer.rollback()
        build.result()
    assert texts == ["index public.failed of public.t is invalid"]


#: Once the builder waits for the writer.
_NEW_INDEXES = (
    "SELECT count(*) FROM pg_index AS i, pg_stat_activity AS a "
    "WHERE NOT i.indisvalid AND a.wait_event_type = 'Lock'"
)


def test_13_hides_whether_a_partitioned_table_was_analyzed(new_cluster: NewCluster) -> None:
    cluster = new_cluster(13)
    sql(
        cluster.dsn(),
        "CREATE TABLE root (a int) PARTITION BY LIST (a)",
        "CREATE TABLE leaf PARTITION OF root DEFAULT",
        "INSERT INTO root SELECT generate_series(1, 10000)",
        "ANALYZE root",
        "CREATE ROLE monitor LOGIN IN ROLE pg_monitor",
    )
    assert "never-analyzed" in checked(cluster).passed
    why = {one.name: one.why for one in checked(cluster, "monitor").unjudged}
    assert why["never-analyzed"].endswith("cannot be seen: public.root")


@pytest.mark.parametrize("major", [14, 18])
def test_a_database_without_a_recorded_version_of_its_collation_is_not_judged(
    major: int, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(major)
    sql(
        cluster.dsn(),
        "CREATE DATABASE shop",
        "UPDATE pg_database SET datcollate = 'en_US.UTF-8' WHERE datname = 'shop'",
    )
    (lack,) = checked(cluster).unjudged
    assert (lack.name, lack.why) == (
        "collation-changed", "no version of the library is recorded for database shop",
    )  # fmt: skip


def test_temporary_files_are_not_judged_without_the_memory(embedded: Cluster) -> None:
    state = read(embedded.dsn(), gather.flags(memory="8GB"))
    spills = RoleSpills(
        role="app", statements=1, calls=9, size=Bytes(9 << 30), largest=Bytes(1 << 30), sessions=1
    )
    server = replace(state.server, local_pid=None, role_spills=(spills,))
    tuning = tune_server(server, gather.flags())
    missing = {**state.missing, **{one.name: one for one in tuning.missing}}
    report = judged("here", replace(state, server=server, tuning=tuning, missing=missing))
    (lack,) = [one for one in report.unjudged if one.name == "temporary-files"]
    assert "--memory" in (lack.supply or "")


def test_what_is_idle_for_five_minutes_is_told_and_what_is_not_is_not(embedded: Cluster) -> None:
    """On what a real server told, with a session that is older than a test can wait."""
    state = read(embedded.dsn(), gather.flags(memory="8GB"))
    idle = Session(
        pid=77, role="app", database="shop", application="web", client="10.0.0.1",
        state="idle in transaction", backend_type="client backend", waits_for=None, blocked_by=(),
        state_seconds=299, statement="SELECT ?",
    )  # fmt: skip
    young = judged("here", replace(state, sessions=(idle,)))
    assert "idle-in-transaction" in young.passed
    old = judged("here", replace(state, sessions=(replace(idle, state_seconds=300),)))
    (found,) = [one for one in old.findings if one.id == "idle-in-transaction"]
    assert found.text == "web (process 77) has been idle in a transaction for 5 min"
    assert found.since == pytest.approx(state.at - 300)
    assert found.remedy[0] == "SELECT pg_terminate_backend(77);"


def test_the_root_of_a_queue_is_blamed_and_not_who_waits_in_between(embedded: Cluster) -> None:
    state = read(embedded.dsn(), gather.flags(memory="8GB"))

    def session(pid: int, *blocked_by: int, application: str = "web") -> Session:
        return Session(
            pid=pid, role="app", database="shop", application=application, client=None,
            state="active", backend_type="client backend",
            waits_for="relation AccessShareLock" if blocked_by else None, blocked_by=blocked_by,
            state_seconds=70, statement="SELECT ?",
        )  # fmt: skip

    queue = (session(1, application="report"), session(2, 1, application="migration"),
             session(3, 2, 1), session(4, 2))  # fmt: skip
    (found,) = [
        one for one in judged("here", replace(state, sessions=queue)).findings
        if one.id == "lock-queue"
    ]  # fmt: skip
    assert found.severity == "danger"
    assert found.text.startswith(
        "3 sessions of migration and web wait for a lock of report (process 1), active for"
    )


@contextmanager
def waiting(dsn: str, statement: str) -> Iterator[None]:
    """A session, migration, that waits for a lock."""

    def run() -> None:
        with (
            suppress(psycopg.Error),
            psycopg.connect(dsn, application_name="migration", autocommit=True) as conn,
        ):
            conn.execute(statement.encode())

    thread = Thread(target=run)
    thread.start()
    try:
        until(lambda: sql(dsn, "SELECT count(*) FROM pg_stat_activity WHERE application_name = "
                          "'migration' AND wait_event_type = 'Lock'") == [(1,)])  # fmt: skip
        yield
    finally:
        sql(dsn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'migration'")  # fmt: skip
        thread.join()


@pytest.mark.parametrize(
    ("holds", "waits", "kind"),
    [
        ("SELECT pg_advisory_lock(1)", "SELECT pg_advisory_lock(1)", "advisory ExclusiveLock"),
        ("SELECT 1 FROM pg_class", "CREATE INDEX CONCURRENTLY ON t (a)", "virtualxid ShareLock"),
    ],
)
def test_a_wait_that_is_meant_is_no_danger_however_long(
    holds: str, waits: str, kind: str, new_cluster: NewCluster
) -> None:
    """The leader that others want to succeed; a dump, which an index is built beside."""
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE TABLE t (a int)")
    with psycopg.connect(cluster.dsn(), application_name="leader") as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute(holds.encode())
        with waiting(cluster.dsn(), waits):
            state = read(cluster.dsn(), gather.flags(memory="8GB"))
        pid = holder.info.backend_pid
    long = tuple(replace(one, state_seconds=900.0) if one.blocked_by else one
                 for one in state.sessions)  # fmt: skip
    (found,) = [
        one for one in judged("here", replace(state, sessions=long)).findings
        if one.id == "lock-queue"
    ]  # fmt: skip
    assert found.severity == "to know"
    assert f"waits for a lock of leader (process {pid})" in found.text
    assert any(f"waits for {kind}" in one for one in found.evidence)
    assert found.remedy == (
        "Let it end, if it is meant so; if not:", f"SELECT pg_terminate_backend({pid});",
    )  # fmt: skip


# --- the command


def test_the_command_says_it_in_its_exit_code_and_in_json(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster(settings={"autovacuum": "off"})
    page = tmp_path / "check.html"
    run = CliRunner()
    options = ["--memory", "8GB", "--storage", "ssd", "--skip"]
    done = run.invoke(
        main, ["check", cluster.dsn(), *options, "free-space", "--json", "--html", str(page)]
    )
    assert done.exit_code == 3, done.output
    told = json.loads(done.stdout)
    assert_valid(told, "mrtuner.check/1")
    assert told["headline"].startswith("1 danger; ")
    assert told["servers"][0]["findings"][0]["id"] == "autovacuum-off"
    assert "autovacuum is off" in page.read_text()
    without = run.invoke(main, ["check", cluster.dsn(), *options, "free-space,autovacuum-off"])
    assert without.exit_code == 0, without.output
    assert without.stdout.startswith("nothing found; ")
    text = run.invoke(main, ["check", cluster.dsn(), *options, "free-space"]).stdout
    assert "danger  autovacuum is off\n" in text


def test_several_servers_make_one_list_and_an_unreachable_one_is_not_judged(
    embedded: Cluster, new_cluster: NewCluster, tmp_path: Path
) -> None:
    other = new_cluster(settings={"autovacuum": "off", "work_mem": "256MB"})
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(
        f'[instances]\nshop = "{embedded.dsn()}"\ncrm = "{other.dsn()}"\n'
        'away = "host=127.0.0.1 port=9 dbname=x password=hunter2"\n'
    )
    done = CliRunner().invoke(main, ["check", "--config", str(fleet), "--fail-on", "danger"])
    assert done.exit_code == 3
    assert "danger  crm: autovacuum is off" in done.stdout
    assert "not judged: away: every check" in done.stdout
    dangers = [line for line in done.stdout.splitlines() if line.startswith("danger")]
    assert "danger  away: the server cannot be reached: nothing is listening there" in dangers[0]
    assert "hunter2" not in done.stdout
    fleet.write_text(f'[instances.crm]\ndsn = "{other.dsn()}"\nmemory = "8GB"\n')
    small = CliRunner().invoke(main, ["check", "--config", str(fleet), "--json"])
    told = {one["id"]: one["text"] for one in json.loads(small.stdout)["servers"][0]["findings"]}
    assert "the 8 GB of memory" in told["memory-overcommitted"]
    twice = CliRunner().invoke(main, ["check", "host=db", "host=db user=other"])
    assert twice.exit_code == 2
    assert "two servers have the same name" in twice.stderr


def test_a_server_without_a_free_connection_is_a_danger_and_a_wrong_database_is_an_error(
    new_cluster: NewCluster,
) -> None:
    """Of ten connections, superusers keep three for themselves."""
    cluster = new_cluster(settings={"max_connections": 10, "superuser_reserved_connections": 3})
    sql(cluster.dsn(), "CREATE ROLE app LOGIN")
    with ExitStack() as stack:
        for _ in range(7):
            stack.enter_context(psycopg.connect(cluster.dsn(user="app")))
        done = CliRunner().invoke(main, ["check", cluster.dsn(user="app"), "--fail-on", "danger"])
        above = checked(cluster)
    assert done.exit_code == 3
    assert (
        "danger  the server cannot be reached: the server has no free connection: " in done.stdout
    )
    assert "not judged: every check: " in done.stdout
    (found,) = [one for one in above.findings if one.id == "connections-near-limit"]
    assert found.text == "7 of 7 connections of the server are in use"
    wrong = CliRunner().invoke(main, ["check", f"{cluster.dsn()} dbname=nothing"])
    assert wrong.exit_code == 1
    assert "there is no such database" in wrong.stderr


def test_the_time_limits_are_ours_and_not_the_role_s(new_cluster: NewCluster) -> None:
    """From its first query on: a role may have a limit of a millisecond."""
    cluster = new_cluster(settings={"log_statement": "all"})
    read(cluster.dsn(), gather.flags(memory="8GB"))
    first, _, _ = cluster.log(10_000).partition("FROM pg_catalog")
    assert "set_config('statement_timeout', $2, false)" in first
    assert "$1 = '200ms', $2 = '2s'" in first


def test_what_a_role_may_not_see_of_a_holder_is_not_told_as_nothing(embedded: Cluster) -> None:
    state = read(embedded.dsn(), gather.flags(memory="8GB"))
    hidden = Session(
        pid=9, role="etl", database="shop", application="", client=None, state=None,
        backend_type=None, waits_for=None, blocked_by=(),
        state_seconds=None, statement="",
    )  # fmt: skip
    mine = replace(hidden, pid=10, role="app", state="active", blocked_by=(9,), state_seconds=7.0)
    (found,) = [
        one for one in judged("here", replace(state, sessions=(hidden, mine))).findings
        if one.id == "lock-queue"
    ]  # fmt: skip
    assert found.text == (
        "1 session of app waits for a lock of etl (process 9), of which this role may not see "
        "more, the longest for 7 s"
    )
    assert found.evidence[0] == "etl (process 9), role etl, database shop: hidden"


def test_an_unknown_check_is_refused_before_anything_is_read() -> None:
    with pytest.raises(BadValue, match="there is no check 'lock-cue'") as refused:
        check("host=nowhere", skip=["lock-cue"])
    assert refused.value.hint


def test_checkpoints_that_somebody_asked_for_are_not_forced_by_wal(
    each_major: int, new_cluster: NewCluster
) -> None:
    """Twelve within seconds, with hardly any WAL between them; 13 does not count WAL."""
    cluster = new_cluster(each_major)
    counted(cluster.dsn(), *["CREATE TABLE t (a int)", "DROP TABLE t", "CHECKPOINT"] * 12)
    found = ids(checked(cluster)).intersection({"checkpoints-forced"})
    assert found == ({"checkpoints-forced"} if each_major == 13 else set())


def test_an_extension_older_than_its_server_says_how_it_is_updated(
    new_cluster: NewCluster,
) -> None:
    """As after pg_upgrade: 1.4 had neither plans nor stats_since."""
    cluster = new_cluster(18, {"shared_preload_libraries": "pg_stat_statements"})
    sql(cluster.dsn(), "CREATE EXTENSION pg_stat_statements VERSION '1.4'")
    why = {one.name: one.supply or "" for one in checked(cluster).unjudged}
    assert "ALTER EXTENSION pg_stat_statements UPDATE;" in why["temporary-files"]
