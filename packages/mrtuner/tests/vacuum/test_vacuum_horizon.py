"""What keeps dead rows, and what does not: a VACUUM proves every claim, on every major version."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from conftest import NewCluster
from vacuum_sessions import DEAD, die, end, kept, look, prepared, reading, session, writing

from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory
from mrtuner.vacuum import Thresholds, vacuum
from mrtuner.vacuum.model import HorizonBlocker
from servers import GRID, binaries, sql

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

pytestmark = pytest.mark.timed

SETTINGS = {"autovacuum": "off", "max_prepared_transactions": "2", "wal_level": "logical"}


@pytest.fixture(scope="module", params=GRID)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A server with a second database; nothing is vacuumed behind our back."""
    made = Cluster.create(binaries(request.param), scratch_directory(), SETTINGS)
    try:
        with made:
            sql(made.dsn(), "CREATE DATABASE elsewhere", "CREATE TABLE written (n int)")
            sql(made.dsn("elsewhere"), "CREATE TABLE written (n int)")
            yield made
    finally:
        made.remove()


#: Every age counts as long; a test cannot wait for five minutes.
YOUNG = Thresholds(long=0)


def named(cluster: Cluster, thresholds: Thresholds = YOUNG) -> tuple[HorizonBlocker, ...]:
    return vacuum(cluster.dsn(), thresholds=thresholds).picture.blockers


def of(conn: Connection, found: tuple[HorizonBlocker, ...]) -> HorizonBlocker:
    """The finding about this session."""
    pid = conn.info.backend_pid
    return next(one for one in found if one.name.startswith(f"process {pid} "))


def test_a_reader_here_keeps_rows_and_is_named(cluster: Cluster) -> None:
    with reading(cluster) as conn:
        die(cluster)
        assert kept(cluster) == DEAD
        (one,) = named(cluster)
        assert (one.what, one.serious) == ("session idle in transaction", True)
        end(cluster, one, conn)
        assert kept(cluster) == 0


def test_a_reader_of_another_database_keeps_no_row_and_is_not_named(cluster: Cluster) -> None:
    with reading(cluster, "elsewhere"):
        die(cluster)
        assert named(cluster) == ()
        assert kept(cluster) == 0


def test_a_reader_of_another_database_keeps_rows_of_shared_catalogs(cluster: Cluster) -> None:
    with reading(cluster, "elsewhere"):
        sql(cluster.dsn(), "CREATE ROLE passing", "DROP ROLE passing")
        assert kept(cluster, "pg_authid") == 1
    assert kept(cluster, "pg_authid") == 0


def test_a_writer_of_another_database_keeps_no_row_by_itself(cluster: Cluster) -> None:
    with writing(cluster, "elsewhere") as conn:
        die(cluster)
        (one,) = named(cluster)
        assert one == of(conn, (one,))
        assert one.name.endswith(" in database elsewhere (shared catalogs only)")
        assert (one.serious, one.sql) == (False, None)
        assert kept(cluster) == 0


def test_a_writer_of_another_database_keeps_rows_through_every_snapshot_that_is_taken_here(
    cluster: Cluster,
) -> None:
    """The reader takes its snapshots when the rows are already dead, so it needs none of them. As
    long as the writer is there, they are kept all the same, for the old snapshot and a new one;
    when it has ended, a new snapshot keeps nothing."""
    with writing(cluster, "elsewhere") as writer:
        die(cluster)
        with reading(cluster) as reader:
            assert kept(cluster) == DEAD
            look(reader)
            assert kept(cluster) == DEAD
            one = of(writer, named(cluster))
            assert one.name.endswith(" in database elsewhere (holds back snapshots here)")
            assert one.serious
            end(cluster, one, writer)
            assert kept(cluster) == DEAD  # the reader's snapshot is still the old one
            look(reader)
            assert kept(cluster) == 0


def test_a_short_reader_is_not_named_for_the_writer_it_reaches_back_to(
    cluster: Cluster,
) -> None:
    """Both horizons are at least one transaction back, which is far here; an hour would be long."""
    far = Thresholds(long=3_600, far=1)
    with writing(cluster, "postgres") as writer, reading(cluster) as reader:
        (one,) = named(cluster, far)
        assert one == of(writer, (one,))
        writer.rollback()
        (one,) = named(cluster, far)
        assert one == of(reader, (one,))


def test_a_prepared_transaction_counts_where_it_belongs(cluster: Cluster) -> None:
    with prepared(cluster, "postgres"):
        die(cluster)
        assert kept(cluster) == DEAD
        (one,) = named(cluster)
        assert (one.what, one.serious) == ("prepared transaction", True)
        assert one.sql == "ROLLBACK PREPARED 'lost';"
    assert kept(cluster) == 0


def test_a_prepared_transaction_of_another_database_counts_through_snapshots_only(
    cluster: Cluster,
) -> None:
    with prepared(cluster, "elsewhere"):
        die(cluster)
        (one,) = named(cluster)
        assert one.name == "lost of postgres in elsewhere (shared catalogs only)"
        assert (one.serious, one.sql) == (False, None)
        assert kept(cluster) == 0
        die(cluster)
        with reading(cluster):
            one = next(one for one in named(cluster) if one.what == "prepared transaction")
            assert (one.serious, one.sql) == (True, None)
            assert kept(cluster) == DEAD


def test_a_logical_slot_of_another_database_keeps_rows_of_system_catalogs_only(
    cluster: Cluster,
) -> None:
    make = "SELECT pg_create_logical_replication_slot('forgotten', 'pgoutput')"
    sql(cluster.dsn("elsewhere"), make)
    die(cluster)  # and a row of pg_class, for the table dropped before
    (one,) = named(cluster)
    assert one.name == "forgotten (system catalogs only)"
    assert (kept(cluster), kept(cluster, "pg_class") > 0) == (0, True)
    drop = "SELECT pg_drop_replication_slot('forgotten');"
    assert one.sql == (drop if cluster.binaries.major >= 17 else None)  # since when is not known
    sql(cluster.dsn(), drop)
    assert kept(cluster, "pg_class") == 0


def test_a_slot_that_has_lost_its_wal_keeps_no_rows(cluster: Cluster) -> None:
    make = "SELECT pg_create_logical_replication_slot('lost', 'pgoutput')"
    sql(cluster.dsn(), make, "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'",
        "SELECT pg_reload_conf()")  # fmt: skip
    for _ in range(3):
        sql(cluster.dsn(), "INSERT INTO written VALUES (1)", "SELECT pg_switch_wal()", "CHECKPOINT")
    lost = "SELECT wal_status, catalog_xmin IS NULL FROM pg_replication_slots"
    assert sql(cluster.dsn(), lost) == [("lost", False)]
    die(cluster)
    assert (named(cluster), kept(cluster, "pg_class")) == ((), 0)
    sql(cluster.dsn(), "SELECT pg_drop_replication_slot('lost')",
        "ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")  # fmt: skip


def test_a_running_vacuum_is_not_in_the_way(cluster: Cluster) -> None:
    import psycopg

    dsn = cluster.dsn()
    sql(
        dsn,
        "DROP TABLE IF EXISTS large",
        "CREATE TABLE large AS SELECT generate_series(1, 100000) AS n",
        "DELETE FROM large",
    )
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("SET vacuum_cost_delay = 100")
        conn.execute("SET vacuum_cost_limit = 1")
        worker = threading.Thread(target=_until_cancelled, args=(conn,))
        worker.start()
        try:
            while not sql(dsn, "SELECT 1 FROM pg_stat_progress_vacuum WHERE heap_blks_scanned > 0"):
                time.sleep(0.05)
            held = "SELECT backend_xmin IS NOT NULL FROM pg_stat_activity WHERE pid = "
            assert sql(dsn, held + str(conn.info.backend_pid)) == [(True,)]
            die(cluster)
            assert named(cluster) == ()
            assert kept(cluster) == 0
        finally:
            conn.cancel()
            worker.join(30)


def _until_cancelled(conn: Connection) -> None:
    from psycopg import errors

    with pytest.raises(errors.QueryCanceled):
        conn.execute("VACUUM large")


def test_a_subscriber_that_copies_is_a_session_not_a_standby(cluster: Cluster) -> None:
    """Its walsender has a database, and a snapshot there for as long as the copy takes."""
    import psycopg

    with psycopg.connect(f"{cluster.dsn()} replication=database") as conn:
        for statement in (b"BEGIN ISOLATION LEVEL REPEATABLE READ", b"SELECT 1"):
            conn.pgconn.exec_(statement)
        die(cluster)
        (one,) = named(cluster)
        assert one == of(conn, (one,))
        assert (one.what, one.serious) == ("session idle in transaction", True)
        assert kept(cluster) == DEAD


@pytest.mark.parametrize(("feedback", "number"), [("on", 2), ("off", 0)])
def test_a_standby_counts_the_sessions_of_all_databases_if_it_tells_its_primary(
    new_cluster: NewCluster, feedback: str, number: int
) -> None:
    """In recovery, horizons do not distinguish databases: ComputeXidHorizons."""
    standby = new_cluster(settings={"hot_standby_feedback": feedback})
    sql(standby.dsn(), "CREATE DATABASE elsewhere")
    standby.stop()
    (standby.data / "standby.signal").touch()
    standby.start()
    with reading(standby), reading(standby, "elsewhere"):
        assert len(named(standby)) == number


def test_who_spans_the_whole_watch_is_named_however_young(
    cluster: Cluster,
) -> None:
    """One session lasts for the whole watch; another takes its snapshot after the beginning."""
    with reading(cluster) as conn, session(cluster) as late:

        def pause(_seconds: float) -> None:
            look(late)
            die(cluster)

        (one,) = vacuum(cluster.dsn(), watch=5, sleep=pause).picture.blockers
        assert one == of(conn, (one,))
    assert (one.throughout, one.serious, one.sql) == (True, False, None)
