"""The facts that rules use, on real servers of every major: each is produced, then read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import NewCluster

from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.cumulative_statistics import watch
from mrtuner.postgres.model import Server
from mrtuner.postgres.read_server import WAITING_WAL, read
from servers import sql

pytestmark = pytest.mark.timed

MIB = 2**20
FILL = "INSERT INTO filled SELECT g, repeat('x', 500) FROM generate_series(1, 20000) AS g"


def server(cluster: Cluster, dbname: str = "postgres") -> Server:
    with connect(cluster.dsn(dbname)) as conn:
        return read(conn)


def until(cluster: Cluster, true: Callable[[Server], Any], what: str) -> Server:
    deadline = time.monotonic() + 20
    while not true(found := server(cluster)):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)
    return found


def test_backends_that_make_room_are_counted_since_16(
    each_major: int, new_cluster: NewCluster
) -> None:
    """10 MB of rows, all changed, in 1 MB of buffers: pages are evicted, and written to do so."""
    cluster = new_cluster(each_major, {"shared_buffers": "1MB", "autovacuum": "off"})
    sql(cluster.dsn(), "CREATE TABLE filled (id int, text text)", FILL,
        "UPDATE filled SET id = -id", "CHECKPOINT")  # fmt: skip
    found = until(cluster, lambda s: (s.activity.backend_writes or 0) > 100, "backend writes")
    counted = found.activity
    assert counted.background_writes is not None
    assert counted.background_writes > 0
    if each_major < 16:
        assert counted.evictions is None
    else:
        assert counted.evictions is not None
        assert counted.evictions > 100


def test_full_wal_buffers_are_counted_since_14(each_major: int, new_cluster: NewCluster) -> None:
    cluster = new_cluster(each_major, {"wal_buffers": "32kB"})
    sql(cluster.dsn(), "CREATE TABLE filled (id int, text text)", FILL)
    if each_major == 13:
        assert server(cluster).activity.wal_buffers_full is None
        return
    until(cluster, lambda s: (s.activity.wal_buffers_full or 0) > 10, "full WAL buffers")


def test_time_in_statements_is_counted_since_14(each_major: int, new_cluster: NewCluster) -> None:
    cluster = new_cluster(each_major)
    sql(cluster.dsn(), "SELECT pg_sleep(0.4)")
    if each_major == 13:
        assert server(cluster).activity.active_ms is None
        return
    until(cluster, lambda s: (s.activity.active_ms or 0) >= 400, "the time of a statement")


def test_parallel_workers_that_did_not_start_are_counted_since_18(
    each_major: int, new_cluster: NewCluster
) -> None:
    """A plan with two workers, of which the server lets one start.

    The one works for a second and more: otherwise it may end before the second is asked for.
    """
    cluster = new_cluster(each_major, {"max_parallel_workers": 1})
    sql(
        cluster.dsn(),
        "CREATE TABLE filled (id int, text text)", FILL, "ANALYZE filled",
        "SET min_parallel_table_scan_size = 0", "SET parallel_setup_cost = 0",
        "SET parallel_tuple_cost = 0", "SET max_parallel_workers_per_gather = 2",
        "SET max_parallel_workers = 1", "ALTER TABLE filled SET (parallel_workers = 2)",
        "SELECT count(*) FROM filled "
        "WHERE pg_sleep(CASE WHEN id % 200 = 0 THEN 0.02 ELSE 0 END) IS NOT NULL",
    )  # fmt: skip
    if each_major < 18:
        assert server(cluster).activity.parallel_planned is None
        return
    found = until(cluster, lambda s: s.activity.parallel_planned, "a parallel plan").activity
    assert (found.parallel_planned, found.parallel_launched) == (2, 1)


def test_caches_of_transaction_status_are_told_by_name(
    each_major: int, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(each_major)
    sql(cluster.dsn(), "CREATE TABLE filled (id int)", "INSERT INTO filled VALUES (1)")
    used = until(cluster, lambda s: any(each.hits for each in s.slrus), "a hit")
    found = {each.name: each for each in used.slrus}
    names = (
        {"commit_timestamp", "multixact_member", "multixact_offset", "notify", "serializable",
         "subtransaction", "transaction"}
        if each_major >= 17 else
        {"CommitTs", "MultiXactMember", "MultiXactOffset", "Notify", "Serial", "Subtrans", "Xact"}
    )  # fmt: skip
    assert set(found) == names
    assert min(each.seconds for each in found.values()) > 0


def test_wal_kept_for_a_slot_is_told(each_major: int, new_cluster: NewCluster) -> None:
    """10 MB of rows are written after the slot was made."""
    cluster = new_cluster(each_major)
    sql(cluster.dsn(), "SELECT pg_create_physical_replication_slot('gone', true)",
        "CREATE TABLE filled (id int, text text)", FILL)  # fmt: skip
    [slot] = server(cluster).slots
    assert (slot.name, slot.kind, slot.active, slot.status) == (
        "gone", "physical", False, "reserved",
    )  # fmt: skip
    assert slot.retained is not None
    assert 10_000_000 < slot.retained < 40_000_000


def test_an_archiver_that_fails_and_how_far_it_is_behind(
    each_major: int, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(each_major, {"archive_mode": "on", "archive_command": "true"})
    sql(cluster.dsn(), "CREATE TABLE filled (id int, text text)", "SELECT pg_switch_wal()")
    found = until(cluster, lambda s: s.archiver and s.archiver.archived, "an archived file")
    assert found.archiver is not None
    assert not found.archiver.failing
    assert found.archiver.behind is not None
    assert found.archiver.behind < 2 * 16 * MIB

    sql(cluster.dsn(), "ALTER SYSTEM SET archive_command = 'false'", "SELECT pg_reload_conf()")
    sql(cluster.dsn(), FILL, FILL, FILL, "SELECT pg_switch_wal()")
    found = until(cluster, lambda s: s.archiver and s.archiver.failing, "a failed try")
    assert found.archiver is not None
    assert found.archiver.behind is not None
    assert found.archiver.behind > 30_000_000


def test_an_archiver_that_has_archived_nothing_is_as_far_behind_as_files_wait(
    each_major: int, new_cluster: NewCluster
) -> None:
    """None at first; one of 16 MB once it is full."""
    cluster = new_cluster(each_major, {"archive_mode": "on", "archive_command": ""})
    fresh = server(cluster).archiver
    assert fresh is not None
    assert (fresh.behind, fresh.failing) == (0, False)
    sql(cluster.dsn(), "SELECT pg_logical_emit_message(true, 'x', 'y')", "SELECT pg_switch_wal()",
        "CREATE ROLE plain LOGIN")  # fmt: skip
    waits = server(cluster).archiver
    assert waits is not None
    assert waits.behind == 16 * MIB
    with connect(cluster.dsn(user="plain")) as conn:
        blind = read(conn)
    assert blind.archiver is not None
    assert blind.archiver.behind is None
    assert WAITING_WAL in {one.name for one in blind.missing}


def test_nothing_is_said_of_an_archiver_that_is_off(new_cluster: NewCluster) -> None:
    assert server(new_cluster()).archiver is None


def test_temporary_files_are_told_by_role(each_major: int, new_cluster: NewCluster) -> None:
    """The role Report sorts 10 MB in 64 kB twice, ours never; the extension has its own schema."""
    cluster = new_cluster(each_major, {"shared_preload_libraries": "pg_stat_statements"})
    sort = "SELECT count(*) FROM (SELECT text FROM filled ORDER BY text, id OFFSET 0) AS sorted"
    sql(
        cluster.dsn(),
        'CREATE ROLE "Report" IN ROLE pg_read_all_data'
        if each_major >= 14 else 'CREATE ROLE "Report" SUPERUSER',
        'CREATE SCHEMA "Some Place"',
        'CREATE EXTENSION pg_stat_statements SCHEMA "Some Place"',
        "CREATE TABLE filled (id int, text text)", FILL, "SET work_mem = '64kB'",
        'GRANT CREATE ON SCHEMA public TO "Report"', 'ALTER TABLE filled OWNER TO "Report"',
        'SET ROLE "Report"', sort, sort,
        # Its files are those of maintenance_work_mem.
        "SET maintenance_work_mem = '1MB'", "/* nightly */ CREATE INDEX ON filled (text)",
        "REINDEX TABLE filled",
    )  # fmt: skip
    written = 'SELECT count(*) FROM "Some Place".pg_stat_statements WHERE temp_blks_written > 0'
    assert sql(cluster.dsn(), written) == [(3,)]
    [spills] = server(cluster).role_spills
    assert (spills.role, spills.statements, spills.calls) == ("Report", 1, 2)
    assert spills.largest * 2 <= spills.size + 8192
    assert 9_000_000 < spills.largest < 90_000_000  # little memory: written several times


def test_the_time_of_compiling_statements_is_told_since_15(
    each_major: int, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(
        each_major, {"shared_preload_libraries": "pg_stat_statements", "jit_above_cost": 0}
    )
    if sql(cluster.dsn(), "SELECT pg_jit_available()") == [(False,)]:
        pytest.skip("this build has no JIT")
    sql(cluster.dsn(), "CREATE EXTENSION pg_stat_statements", "SET jit = on",
        "SELECT count(*) FROM pg_class WHERE relpages > 1")  # fmt: skip
    found = server(cluster).jit
    if each_major < 15:
        assert found is None
        return
    assert found is not None
    assert found.calls >= 1  # our own queries are compiled here, too
    assert found.compiling > 0
    assert found.running > 0


def test_an_extension_that_is_not_loaded_is_missing_and_no_error(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE EXTENSION pg_stat_statements")
    found = server(cluster)
    assert (found.jit, found.role_spills) == (None, ())
    assert {"jit", "role_spills"} <= {gap.name for gap in found.missing}


def test_hot_updates_and_storage_parameters_of_a_table_are_told(
    each_major: int, new_cluster: NewCluster
) -> None:
    """A page holds 15 rows of 500 bytes; all pages are full, so that no update finds room."""
    cluster = new_cluster(each_major, {"autovacuum": "off"})
    sql(cluster.dsn(), "CREATE TABLE filled (id int, text text) WITH (fillfactor = 100)", FILL,
        "UPDATE filled SET id = -id", "ANALYZE filled")  # fmt: skip
    [filled] = until(cluster, lambda s: s.relations and s.relations[0].updated, "updates").relations
    assert filled.options == ("fillfactor=100",)
    assert filled.rows == 20000
    assert filled.updated == 20000
    assert filled.hot_updated < 10000
    if each_major < 16:
        assert filled.newpage_updated is None
    else:
        assert filled.newpage_updated == 20000 - filled.hot_updated


def test_the_most_sessions_at_work_are_seen_while_watching(
    each_major: int, new_cluster: NewCluster
) -> None:
    """Three sessions, two of which work for as long as they are watched."""
    cluster = new_cluster(each_major)
    end = threading.Event()

    def work() -> None:
        with connect(cluster.dsn()) as busy:
            while not end.is_set():
                busy.execute("SELECT pg_sleep(0.3)")

    def both_at_work() -> bool:
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        return sql(cluster.dsn(), query) == [(2,)]

    def wait(_: float) -> None:
        deadline = time.monotonic() + 20
        while not both_at_work():
            assert time.monotonic() < deadline

    workers = [threading.Thread(target=work) for _ in range(2)]
    with connect(cluster.dsn()), connect(cluster.dsn()) as conn:
        for worker in workers:
            worker.start()
        seen = watch(conn, 3, every=0.5, sleep=wait)
        end.set()
        for worker in workers:
            worker.join()
    assert seen.peak_active == 2
    assert seen.peak_sessions is not None
    assert seen.peak_sessions >= 3
