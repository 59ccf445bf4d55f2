"""`vacuum` on real servers: rates, TOAST, resets, locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Literal

import pytest
from conftest import NewCluster

from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.vacuum import TableKind, TableReport, Thresholds, Vacuum, vacuum
from servers import binaries, counted, sql
from waiting import until

pytestmark = pytest.mark.timed

TEN_KB = "repeat('abcdefghij', 1024)"  # 10,240 bytes; STORAGE EXTERNAL: not compressed
SETTINGS = {"autovacuum": "off", "wal_level": "logical", "max_prepared_transactions": "2"}


@pytest.fixture(scope="module", params=[13, 16, 18], ids="pg{}".format)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A server for each variant of the queries, without autovacuum."""
    made = Cluster.create(binaries(request.param), scratch_directory(), SETTINGS)
    try:
        with made:
            yield made
    finally:
        made.remove()


def watch(cluster: Cluster, *statements: str) -> Vacuum:
    """Watch for one interval, in which the statements run and their counters are reported."""
    return vacuum(cluster.dsn(), watch=5, sleep=_running(cluster, *statements))


def _running(cluster: Cluster, *statements: str) -> Callable[[float], None]:
    def run(_seconds: float) -> None:
        counted(cluster.dsn(), *statements)

    return run


def report(found: Vacuum, name: str) -> TableReport:
    return next(one for one in found.tables if one.table.name == name)


def alter(found: Vacuum) -> list[str]:
    """The commands that set what is advised for tables."""
    return [text for text in found.as_sql().splitlines() if text.startswith("ALTER TABLE")]


def documents(cluster: Cluster) -> None:
    counted(
        cluster.dsn(),
        "DROP TABLE IF EXISTS doc",
        "CREATE TABLE doc (id int PRIMARY KEY, n int, body text)",
        "ALTER TABLE doc ALTER body SET STORAGE EXTERNAL",
        f"INSERT INTO doc SELECT i, 0, {TEN_KB} FROM generate_series(1, 200) AS i",
        "VACUUM ANALYZE doc",
    )


def test_a_10_kb_value_sent_again_leaves_seven_dead_tuples_for_each_updated_row(
    cluster: Cluster,
) -> None:
    """10,240 bytes in chunks of 1,996: five full ones and a rest, 6; and the row itself, 7."""
    documents(cluster)
    found = watch(cluster, f"UPDATE doc SET n = n + 1, body = {TEN_KB}")
    assert found.picture.chunk == 1996
    told = report(found, "doc").amplification
    assert told is not None
    assert told.per_update == pytest.approx(6)
    assert told.suspicion is not None
    assert "6 dead TOAST chunks" in told.suspicion
    assert "not whether they changed" in told.certainty


def test_updates_that_leave_the_large_value_alone_are_not_accused(cluster: Cluster) -> None:
    documents(cluster)
    told = report(watch(cluster, "UPDATE doc SET n = n + 1"), "doc").amplification
    assert told is not None
    assert told.per_update == 0
    assert told.suspicion is None


def test_statistics_reset_during_the_watch_are_a_gap(cluster: Cluster) -> None:
    documents(cluster)
    sql(cluster.dsn(), "UPDATE doc SET n = n + 1")
    one = report(watch(cluster, "SELECT pg_stat_reset()"), "doc")
    assert (one.rates.gaps, one.rates.seconds, one.rates.updates) == (1, 0, 0)
    assert one.kind is TableKind.UNKNOWN


def test_what_a_role_without_rights_cannot_see_is_said(cluster: Cluster) -> None:
    """It sees rates, because everyone may read counters, but not other roles' snapshots."""
    documents(cluster)
    sql(cluster.dsn(), "CREATE ROLE nobody LOGIN")
    try:
        found = vacuum(cluster.dsn().replace("user=postgres", "user=nobody"))
    finally:
        sql(cluster.dsn(), "DROP ROLE nobody")
    assert report(found, "doc").table.rows == 200
    (missing,) = found.picture.missing
    assert missing.name == "what holds back dead rows"
    assert "pg_monitor" in str(missing.supply)


def test_costs_of_our_own_session_are_not_taken_for_autovacuum_s(cluster: Cluster) -> None:
    """A role for manual vacuums, fifty times as fast: no worker logs in as it."""
    sql(cluster.dsn(), "CREATE ROLE janitor LOGIN IN ROLE pg_monitor",
        "ALTER ROLE janitor SET vacuum_cost_limit = 10000")  # fmt: skip
    as_janitor = cluster.dsn().replace("user=postgres", "user=janitor")
    found = vacuum(as_janitor)
    sql(cluster.dsn(), "ALTER SYSTEM SET autovacuum_vacuum_cost_limit = 300",
        "SELECT pg_reload_conf()")  # fmt: skip
    known = vacuum(as_janitor)
    sql(cluster.dsn(), "ALTER SYSTEM RESET autovacuum_vacuum_cost_limit",
        "SELECT pg_reload_conf()", "DROP ROLE janitor")  # fmt: skip
    (missing,) = found.unjudged
    assert missing.name == "cost of a vacuum"
    assert missing.why.startswith("vacuum_cost_limit: set for this session only")
    assert found.capacity.used is None
    assert [one.name for one in found.settings] == ["autovacuum"]  # which this server has off
    assert (known.unjudged, known.capacity.used, known.capacity.limit) == ((), 0, 300)


def test_a_standby_is_told_to_know_no_rates(new_cluster: NewCluster) -> None:
    standby = new_cluster()
    standby.stop()
    (standby.data / "standby.signal").touch()
    standby.start()
    (missing,) = vacuum(standby.dsn()).picture.missing
    assert (missing.name, missing.supply) == ("rates", "Connect to the primary.")


def test_what_stands_in_the_way_is_named_with_a_remedy_that_works(
    cluster: Cluster,
) -> None:
    """A test cannot wait for five minutes, so every age counts as long."""
    import psycopg

    young = Thresholds(long=0)
    dsn = cluster.dsn()
    sql(
        dsn,
        "CREATE TABLE held (n int)",
        "SELECT pg_create_logical_replication_slot('left_behind', 'pgoutput')",
        "BEGIN; INSERT INTO held VALUES (1); PREPARE TRANSACTION 'it''s lost'",
    )
    with psycopg.connect(dsn) as conn:
        conn.execute("INSERT INTO held VALUES (2)")
        found = {one.what: one for one in vacuum(dsn, thresholds=young).picture.blockers}
        assert set(found) == {
            "session idle in transaction",
            "logical replication slot, inactive",
            "prepared transaction",
        }
        commands = [one.sql for one in found.values() if one.sql]
        sql(dsn, *commands)
        with pytest.raises(psycopg.OperationalError):
            conn.execute("SELECT 1")
    if len(commands) == 2:  # before 17, a consumer may be away for a moment
        assert cluster.binaries.major < 17
        sql(dsn, "SELECT pg_drop_replication_slot('left_behind')")
    assert vacuum(dsn, thresholds=young).picture.blockers == ()
    sql(dsn, "DROP TABLE held")


LOAD = "INSERT INTO staging SELECT generate_series(1, 1000)"


@pytest.mark.parametrize(
    "reload", [("TRUNCATE staging", LOAD), (f"BEGIN; TRUNCATE staging; {LOAD}; COMMIT",)]
)
def test_a_table_that_is_truncated_and_reloaded_is_not_append_only(
    cluster: Cluster, reload: tuple[str, ...]
) -> None:
    """In two transactions and in one; with two, the server counts live rows wrong (2,000)."""
    counted(cluster.dsn(), "DROP TABLE IF EXISTS staging", "CREATE TABLE staging (n int)", LOAD)
    one = report(watch(cluster, *reload), "staging")
    assert (one.kind, one.advice) == (TableKind.RELOADED, ())
    assert (one.rates.events, one.rates.deletes) == (1_000, 0)  # as many came, none was deleted
    (hint,) = (text for text in one.hints if "load" in text)
    assert "VACUUM (ANALYZE)" in hint
    counted(cluster.dsn(), *reload, "ANALYZE staging")
    assert (
        report(vacuum(cluster.dsn()), "staging").kind is TableKind.RELOADED
    )  # also without a watch, from counters since the reset


@pytest.mark.parametrize("rewrite", ["VACUUM FULL log", "CLUSTER log USING log_pkey"])
def test_a_table_that_is_written_anew_was_not_truncated(cluster: Cluster, rewrite: str) -> None:
    load = "INSERT INTO log (note) SELECT 'x' FROM generate_series(1, 1000)"
    table = "CREATE TABLE log (n int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text)"
    counted(cluster.dsn(), "DROP TABLE IF EXISTS log", table, load)
    assert report(watch(cluster, load, rewrite, load), "log").kind is TableKind.APPEND_ONLY


def test_a_table_that_grows_stays_append_only(cluster: Cluster) -> None:
    load = "INSERT INTO log SELECT generate_series(1, 1000)"
    counted(cluster.dsn(), "DROP TABLE IF EXISTS log", "CREATE TABLE log (n int)", load)
    assert report(watch(cluster, load, "ANALYZE log", load), "log").kind is TableKind.APPEND_ONLY
    sql(cluster.dsn(), "DROP TABLE log")


def test_todays_partition_is_judged_by_a_watch_alone(cluster: Cluster) -> None:
    """A thousand transactions lie between two partitions with as many rows."""
    dsn, rows = cluster.dsn(), "generate_series(1, 1000) AS i"
    idle = "FOR n IN 1..1000 LOOP PERFORM txid_current(); COMMIT; END LOOP;"
    counted(
        dsn,
        "SET synchronous_commit = off",
        "CREATE TABLE event (day int, n int) PARTITION BY LIST (day)",
        "CREATE TABLE event_1 PARTITION OF event FOR VALUES IN (1)",
        f"INSERT INTO event SELECT 1, i FROM {rows}",
        f"DO $$BEGIN {idle} END$$",
        "CREATE TABLE event_2 PARTITION OF event FOR VALUES IN (2)",
        f"INSERT INTO event SELECT 2, i FROM {rows}",
    )
    once = vacuum(dsn)
    kinds = {name: report(once, name).kind for name in ("event_1", "event_2")}
    assert kinds == {"event_1": TableKind.APPEND_ONLY, "event_2": TableKind.UNKNOWN}
    found = report(watch(cluster, f"INSERT INTO event SELECT 2, i FROM {rows}"), "event_2")
    assert (found.kind, found.table.parent) == (TableKind.APPEND_ONLY, "public.event")
    sql(dsn, "DROP TABLE event")


def test_what_a_toast_table_inherits_is_kept_with_its_first_parameter(cluster: Cluster) -> None:
    """1,000 values of six chunks: 1,250 dead ones start a vacuum, or 110 with a hundredth."""
    kept = "autovacuum_freeze_max_age=100000000,log_autovacuum_min_duration=0"
    counted(
        cluster.dsn(),
        "DROP TABLE IF EXISTS doc",
        "CREATE TABLE doc (id int PRIMARY KEY, body text) "
        f"WITH (fillfactor=90, autovacuum_analyze_threshold=7, {kept})",
        "ALTER TABLE doc ALTER body SET STORAGE EXTERNAL",
        f"INSERT INTO doc SELECT i, {TEN_KB} FROM generate_series(1, 1000) AS i",
    )
    counted(cluster.dsn(), "VACUUM ANALYZE doc")
    update = f"UPDATE doc SET body = {TEN_KB}"
    found = watch(cluster, update)
    sql(cluster.dsn(), *alter(found))
    query = "SELECT reloptions FROM pg_class WHERE oid = 'doc'::regclass"
    toast = query.replace("'doc'::regclass", f"({query.replace('reloptions', 'reltoastrelid')})")
    assert sorted(sql(cluster.dsn(), toast)[0][0]) == sorted(
        ["autovacuum_vacuum_scale_factor=0.01", "autovacuum_vacuum_threshold=50", *kept.split(",")]
    )
    assert report(watch(cluster, update), "doc").advice == ()
    sql(cluster.dsn(), "DROP TABLE doc")


def test_a_toast_table_with_a_parameter_of_its_own_inherits_none(new_cluster: NewCluster) -> None:
    """400 values of six chunks: 50 and a fifth of 2,400 are 530 dead ones, and 360 die."""
    settings = {"autovacuum_naptime": "1s", "autovacuum_vacuum_insert_threshold": "-1"}
    dsn = new_cluster(18, settings).dsn()
    options = "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100"
    alone = f"{options}, toast.autovacuum_vacuum_cost_delay = 0"
    for name, own in (("inherits", options), ("alone", alone)):
        sql(
            dsn,
            f"CREATE TABLE {name} (id int, body text) WITH ({own})",
            f"ALTER TABLE {name} ALTER body SET STORAGE EXTERNAL",
            f"INSERT INTO {name} SELECT i, {TEN_KB} FROM generate_series(1, 400) AS i",
        )
        counted(dsn, f"VACUUM ANALYZE {name}")  # in a session that has not inserted
    for name in ("alone", "inherits"):
        counted(dsn, f"UPDATE {name} SET body = {TEN_KB} WHERE id <= 60")

    def vacuums(name: str) -> Any:
        query = "SELECT pg_stat_get_autovacuum_count(reltoastrelid) FROM pg_class WHERE relname = "
        return sql(dsn, f"{query}'{name}'")[0][0]

    until(lambda: vacuums("inherits"), "an autovacuum of the TOAST table")
    assert vacuums("alone") == 0
    found = vacuum(dsn)
    works = {one: report(found, one).toast_now for one in ("inherits", "alone")}
    assert {name: work and work.trigger for name, work in works.items()} == {
        "inherits": 100, "alone": 530,
    }  # fmt: skip


def test_a_table_that_grows_gets_its_threshold_once(cluster: Cluster) -> None:
    """An hour's inserts are ten million at most; at first, no number of them starts a vacuum."""
    load = "INSERT INTO log SELECT generate_series(1, 20000)"
    never = "CREATE TABLE log (n int) WITH (autovacuum_vacuum_insert_threshold = -1)"
    counted(cluster.dsn(), "DROP TABLE IF EXISTS log", never, load, "VACUUM (FREEZE) log")
    found = watch(cluster, load)
    one = report(found, "log")
    assert one.table.frozen_pages == (one.table.pages if cluster.binaries.major >= 18 else None)
    assert [(item.name, item.value) for item in one.advice] == [
        ("autovacuum_vacuum_insert_scale_factor", "0"),
        ("autovacuum_vacuum_insert_threshold", "10000000"),
        ("autovacuum_freeze_min_age", "0"),
    ]
    sql(cluster.dsn(), *alter(found))
    assert report(watch(cluster, load), "log").advice == ()
    sql(cluster.dsn(), "DROP TABLE log")


@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_a_restart_ends_the_watch_with_what_was_seen(
    new_cluster: NewCluster, how: Literal["fast", "immediate"]
) -> None:
    """Ten seconds are two intervals: the server stops in the second one and does not return."""
    server = new_cluster()
    sql(
        server.dsn(),
        "CREATE TABLE doc (id int PRIMARY KEY, body text)",
        "ALTER TABLE doc ALTER body SET STORAGE EXTERNAL",
        f"INSERT INTO doc SELECT i, {TEN_KB} FROM generate_series(1, 200) AS i",
    )
    update, intervals = _running(server, "UPDATE doc SET id = id + 1000"), count()

    def pause(seconds: float) -> None:
        if next(intervals) == 0:
            update(seconds)
        else:
            server.stop(how)

    found = vacuum(server.dsn(), watch=10, sample=["doc"], sleep=pause)
    assert len(found.picture.samples) == 2
    assert report(found, "doc").rates.updates * (found.watched or 0) == pytest.approx(200)
    (missing,) = found.picture.missing
    assert missing.name == "the rest of the watch"
    (proof,) = found.proofs
    assert "lost before the rows were read again" in str(proof.why)


def test_a_table_locked_against_everybody_does_not_hold_it_up(cluster: Cluster) -> None:
    import psycopg

    documents(cluster)
    with psycopg.connect(cluster.dsn()) as conn:
        conn.execute("LOCK TABLE doc IN ACCESS EXCLUSIVE MODE")
        assert report(vacuum(cluster.dsn()), "doc").table.rows == 200


def test_the_commands_are_taken_by_the_server_and_leave_nothing_to_say(cluster: Cluster) -> None:
    counted(
        cluster.dsn(),
        "CREATE TABLE account (id int PRIMARY KEY, n int)",
        "CREATE INDEX ON account (n)",
        "INSERT INTO account SELECT i, i FROM generate_series(1, 20000) AS i",
        "VACUUM ANALYZE account",
    )
    work = "UPDATE account SET n = n + 1"
    found = watch(cluster, work)
    one = report(found, "account")
    assert one.kind is TableKind.LONG_LIVED
    assert [(item.name, item.value) for item in one.advice] == [
        ("autovacuum_vacuum_scale_factor", "0.01"),
        ("autovacuum_vacuum_threshold", "50"),
    ]
    sql(cluster.dsn(), *alter(found))
    assert report(watch(cluster, work), "account").advice == ()
