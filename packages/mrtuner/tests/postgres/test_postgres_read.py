"""Reading real servers: every major, every origin of a setting, every missing permission."""

from __future__ import annotations

import subprocess
import threading
import time
from typing import Any

import pytest
from conftest import NewCluster

from mrtuner.errors import ConnectError
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.cumulative_statistics import watch
from mrtuner.postgres.model import Override, Server
from mrtuner.postgres.named_queries import rows_of
from mrtuner.postgres.read_server import read
from mrtuner.postgres.sql import by_version, query
from servers import binaries, sql, standby_of
from waiting import until

pytestmark = pytest.mark.timed


def server(cluster: Cluster, **who: Any) -> Server:
    with connect(cluster.dsn(**who)) as conn:
        return read(conn)


def lacking(found: Server) -> set[str]:
    return {missing.name for missing in found.missing}


def test_every_major_can_be_read_in_full(every_major: int, new_cluster: NewCluster) -> None:
    cluster = new_cluster(every_major)
    sql(
        cluster.dsn(),
        "CREATE TABLE paid AS SELECT g AS id FROM generate_series(1, 1000) AS g",
        "UPDATE paid SET id = -id WHERE id <= 300",
        "CHECKPOINT",
    )
    until(lambda: server(cluster).relations[0].dead_rows == 300, "the counters of the update")

    found = server(cluster)
    assert found.major == every_major
    assert found.version == cluster.binaries.version
    assert found.superuser
    assert not found.standby
    assert (found.standbys, found.connections) == (0, 0)
    assert found.data_directory == str(cluster.data)
    assert found.local_pid == cluster.pid
    assert set(found.databases) == {"postgres", "template0", "template1"}
    assert found.extensions == ("plpgsql",)
    assert found.settings["shared_buffers"].unit == "8kB"
    assert found.settings["shared_buffers"].context == "postmaster"
    assert found.settings["wal_level"].enumvals == ("minimal", "replica", "logical")
    assert found.file_problems == ()
    expected = {"peak_connections"} | ({"activity: wal"} if every_major == 13 else set())
    assert lacking(found) == expected

    [paid] = found.relations
    assert (paid.schema, paid.name, paid.database) == ("public", "paid", "postgres")
    assert (paid.live_rows, paid.dead_rows, paid.written) == (1000, 300, 1300)
    assert paid.size >= 40 * 1024  # 1,300 rows of 28 bytes and a line pointer

    counted = found.activity
    assert counted.window > 0
    assert counted.checkpoints_requested == 1
    assert (counted.checkpoints_timed, counted.temp_files, counted.clean_stops) == (0, 0, 0)
    assert (counted.wal_bytes is None) == (every_major == 13)
    assert counted.backend_writes is not None


def test_watching_counts_only_what_happens_meanwhile(
    each_major: int, new_cluster: NewCluster
) -> None:
    """By hand: 5,000 rows inserted with 1,000 bytes each write 5 MB of WAL or more."""
    cluster = new_cluster(each_major)
    sql(
        cluster.dsn(),
        "CREATE TABLE filled (text text)",
        "ALTER TABLE filled ALTER text SET STORAGE PLAIN",
        "CHECKPOINT",
    )

    # Before 15, counters are up to half a second old (PGSTAT_STAT_INTERVAL).
    until(lambda: server(cluster).activity.checkpoints_requested == 1, "the checkpoint before")

    def work(seconds: float) -> None:
        sql(
            cluster.dsn(),
            "INSERT INTO filled SELECT repeat('x', 1000) FROM generate_series(1, 5000)",
            "SET work_mem = '64kB'",
            "SELECT count(*) FROM (SELECT text FROM filled ORDER BY text OFFSET 0) AS sorted",
            "CHECKPOINT",
        )
        time.sleep(seconds)

    with connect(cluster.dsn()) as conn:
        seen = watch(conn, 1.5, every=1.5, sleep=work)
    assert seen.window >= 1.5
    assert seen.wal_bytes is not None
    assert 5_000_000 < seen.wal_bytes < 20_000_000
    assert seen.checkpoints_requested == 1
    assert seen.temp_files is not None
    assert seen.temp_files >= 1


def test_a_counter_that_was_reset_meanwhile_is_unknown(new_cluster: NewCluster) -> None:
    cluster = new_cluster(17)
    sql(cluster.dsn(), "CHECKPOINT")

    def reset(seconds: float) -> None:
        sql(cluster.dsn(), "SELECT pg_stat_reset_shared('checkpointer')")

    with connect(cluster.dsn()) as conn:
        assert watch(conn, 0, sleep=reset).checkpoints_requested is None


def test_each_origin_of_a_setting_is_told(each_major: int, new_cluster: NewCluster) -> None:
    cluster = new_cluster(each_major, {"work_mem": "5MB"})
    (cluster.data / "conf.d").mkdir(mode=0o755)
    extra = cluster.data / "conf.d" / "10-extra.conf"
    extra.write_text("random_page_cost = 1.5\njit = yes\n")
    extra.chmod(0o644)
    cluster.configure({"include_dir": "conf.d"})
    sql(
        cluster.dsn(),
        "ALTER SYSTEM SET maintenance_work_mem = '65MB'",
        "ALTER ROLE postgres SET temp_buffers = '9MB'",
        "ALTER DATABASE postgres SET jit = off",
    )
    cluster.run("pg_ctl", "restart", "-w", "-D", cluster.data, "-o", "-c effective_cache_size=1GB",
                "-l", cluster.directory / "log")  # fmt: skip

    settings = server(cluster).settings
    origins = {
        "work_mem": "file",
        "random_page_cost": "include",
        "maintenance_work_mem": "postgresql.auto.conf",
        "effective_cache_size": "command line",
        "temp_buffers": "default",
        "jit": "include",
        "application_name": "default",
        "deadlock_timeout": "default",
        "config_file": "computed",
    }
    assert {name: settings[name].origin for name in origins} == origins
    assert settings["random_page_cost"].sourcefile == str(extra)
    assert settings["random_page_cost"].sourceline == 1
    assert (settings["temp_buffers"].setting, settings["jit"].setting) == ("1024", "on")
    assert settings["jit"].sourceline == 2


def test_a_role_that_may_not_read_the_files_gets_its_sessions_values(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE ROLE app LOGIN", "ALTER ROLE app SET temp_buffers = '9MB'")
    with connect(f"{cluster.dsn()} user=app") as conn:
        setting = read(conn).settings["temp_buffers"]
    assert (setting.setting, setting.origin) == ("1152", "role")


def test_overrides_of_roles_and_databases_are_listed(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    sql(
        cluster.dsn(),
        "CREATE ROLE app",
        "ALTER ROLE ALL SET work_mem = '6MB'",
        "ALTER ROLE app SET search_path = 'a', 'b=c'",
        "ALTER DATABASE postgres SET jit = off",
        "ALTER ROLE app IN DATABASE postgres SET work_mem = '8MB'",
    )
    assert set(server(cluster).overrides) == {
        Override(role=None, database=None, name="work_mem", value="6MB"),
        Override(role="app", database=None, name="search_path", value='a, "b=c"'),
        Override(role=None, database="postgres", name="jit", value="off"),
        Override(role="app", database="postgres", name="work_mem", value="8MB"),
    }


def test_a_change_that_waits_for_a_restart_is_pending_and_no_problem(
    each_major: int, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(each_major)
    sql(cluster.dsn(), "ALTER SYSTEM SET max_connections = 77", "SELECT pg_reload_conf()")
    until(lambda: server(cluster).settings["max_connections"].pending_restart, "the reload")
    found = server(cluster)
    assert found.settings["max_connections"].setting == "100"
    assert found.file_problems == ()


def test_a_line_the_server_cannot_use_is_a_problem(
    each_major: int, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(each_major)
    cluster.configure({"work_mem": "plenty", "shared_buffers": "none", "max_connections": 77})
    problems = {problem.name: problem for problem in server(cluster).file_problems}
    assert set(problems) == {"work_mem", "shared_buffers"}
    assert problems["work_mem"].sourcefile == str(cluster.data / "postgresql.conf")

    cluster.configure({"no_such_setting": 1})
    [unknown] = server(cluster).file_problems  # the server stops at names it does not know
    assert (unknown.name, unknown.error) == (
        "no_such_setting",
        "unrecognized configuration parameter",
    )


def test_an_ordinary_role_is_told_what_it_may_not_see(
    each_major: int, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(each_major, {"work_mem": "5MB"})
    sql(
        cluster.dsn(),
        "CREATE ROLE app LOGIN",
        "CREATE DATABASE secret",
        "REVOKE CONNECT ON DATABASE secret FROM PUBLIC",
    )
    found = server(cluster, user="app")
    assert not found.superuser
    assert found.data_directory is None
    assert found.settings["work_mem"].origin == "file"
    assert found.settings["work_mem"].sourcefile is None
    assert set(found.databases) == {"postgres", "template0", "template1"}
    assert {"sourcefile", "data_directory", "file_problems", "databases"} <= lacking(found)
    [size] = [missing for missing in found.missing if missing.name == "databases"]
    assert "secret" in size.why
    assert "pg_monitor" in str(size.supply)


def test_the_monitoring_role_sees_all_but_the_files(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE ROLE watcher LOGIN IN ROLE pg_monitor")
    found = server(cluster, user="watcher")
    assert lacking(found) == {"file_problems", "peak_connections"}
    assert found.settings["port"].sourcefile == str(cluster.data / "postgresql.conf")


def test_connections_of_others_are_counted_by_every_role(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    sql(cluster.dsn(), "CREATE ROLE app LOGIN")
    with connect(cluster.dsn()), connect(cluster.dsn()):
        until(lambda: server(cluster).connections == 2, "two connections")
        until(lambda: server(cluster, user="app").connections == 2, "two connections")


def test_counters_of_rows_are_unknown_without_track_counts(new_cluster: NewCluster) -> None:
    found = server(new_cluster(settings={"track_counts": "off"}))
    assert "activity: rows" in lacking(found)


def test_a_locked_table_is_not_waited_for(new_cluster: NewCluster) -> None:
    """It has one page of 8 kB, as ANALYZE left it."""
    cluster = new_cluster()
    with connect(cluster.dsn()) as holder, holder.transaction():
        holder.execute("CREATE TABLE public.held ()")
        sql(cluster.dsn(), "CREATE TABLE busy (id int)", "INSERT INTO busy VALUES (1)",
            "ANALYZE busy")  # fmt: skip
        holder.execute("LOCK TABLE public.busy")
        begun = time.monotonic()
        found = server(cluster)
    assert [(one.name, one.size) for one in found.relations] == [("busy", 8192)]
    assert "relations" not in lacking(found)
    assert "lock timeout" not in (cluster.directory / "log").read_text()
    assert time.monotonic() - begun < 10


def test_a_server_that_stops_while_it_is_read_asks_to_run_again(new_cluster: NewCluster) -> None:
    """A lock holds the reading up until the server is gone."""
    cluster = new_cluster()
    holder = connect(cluster.dsn())
    holder.execute("BEGIN")
    holder.execute("LOCK TABLE pg_catalog.pg_extension")

    def stop_once_it_waits() -> None:
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        until(lambda: bool(holder.execute(waiting.encode()).fetchall()), "the reader to wait")
        cluster.stop("immediate")

    with connect(cluster.dsn()) as conn:
        stopper = threading.Thread(target=stop_once_it_waits)
        stopper.start()
        with pytest.raises(ConnectError, match="was lost") as raised:
            read(conn)
        stopper.join()
    holder.close()
    assert "run again" in str(raised.value.hint)


def test_a_standby_says_so_and_its_primary_counts_it(
    new_cluster: NewCluster,
) -> None:
    primary = new_cluster(18)
    with standby_of(primary) as standby:
        found = server(standby)
        assert found.standby
        counted = found.activity
        assert counted.wal_bytes is None
        assert counted.checkpoints_timed is counted.checkpoints_requested is None
        assert {"activity: wal", "activity: checkpoints"} <= lacking(found)
        assert found.local_pid == standby.pid
        until(lambda: server(primary).standbys == 1, "the standby to attach")
        assert not server(primary).standby


def test_a_standby_of_every_major_can_be_read(each_major: int, new_cluster: NewCluster) -> None:
    """A server in recovery without a primary: enough to refuse what a standby refuses."""
    cluster = new_cluster(each_major)
    cluster.stop()
    (cluster.data / "standby.signal").touch()
    cluster.start()
    found = server(cluster)
    assert found.standby
    assert found.activity.checkpoints_requested is None
    with connect(cluster.dsn()) as conn:
        assert watch(conn, 0).wal_bytes is None


def test_a_logical_subscriber_is_no_standby(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18, {"wal_level": "logical"})
    sql(cluster.dsn(), "SELECT pg_create_logical_replication_slot('events', 'test_decoding')")
    command = [str(binaries(18).program("pg_recvlogical")), "-d", cluster.dsn()]
    receiver = subprocess.Popen([*command, "--slot", "events", "--start", "-f", "-"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        attached = "SELECT 1 FROM pg_replication_slots WHERE active"
        until(lambda: bool(sql(cluster.dsn(), attached)), "the receiver to attach")
        assert server(cluster).standbys == 0
    finally:
        receiver.terminate()
        receiver.wait(10)


@pytest.mark.parametrize("major", [13, 15, 18])
def test_counters_of_databases_that_nobody_reset_are_as_old_as_the_cluster(
    major: int, new_cluster: NewCluster
) -> None:
    """Whatever else is reset, and however often the server starts."""
    cluster = new_cluster(major)
    ((slru,),) = sql(cluster.dsn(), "SELECT extract(epoch FROM min(stats_reset)) FROM pg_stat_slru")
    sql(cluster.dsn(), "SELECT pg_stat_reset_shared('bgwriter'), pg_stat_reset_shared('archiver')")
    cluster.restart()
    with connect(cluster.dsn()) as conn:
        rows = rows_of(conn, "database_counters", conn.info.server_version)
    ((now,),) = sql(cluster.dsn(), "SELECT extract(epoch FROM clock_timestamp())")
    oldest = max(row["seconds"] for row in rows)
    assert float(now) - oldest == pytest.approx(float(slru), abs=2)


def test_views_reset_at_different_times_are_brought_to_one_window(
    new_cluster: NewCluster,
) -> None:
    """The arithmetic alone: waiting for real windows to differ would take minutes."""
    from mrtuner.postgres.cumulative_statistics import _brought_to, _Counts

    half_an_hour = _Counts(1800.0, {"temp_files": 30, "temp_bytes": None})
    assert _brought_to(half_an_hour, 3600.0).counts == {"temp_files": 60, "temp_bytes": None}
    assert _brought_to(half_an_hour, 1805.0).counts == half_an_hour.counts
    assert _brought_to(_Counts(None, {"temp_files": 30}), 3600.0).counts == {"temp_files": 30}


def test_checkpoints_since_a_reset_are_those_that_came_since(new_cluster: NewCluster) -> None:
    """They are not scaled to the longer time for which WAL was counted."""
    cluster = new_cluster(18)
    time.sleep(11)  # from ten seconds on, windows differ
    sql(cluster.dsn(), "SELECT pg_stat_reset_shared('checkpointer')")
    for number in range(3):
        sql(cluster.dsn(), f"CREATE TABLE t{number} (a int)", "CHECKPOINT")
    with connect(cluster.dsn()) as conn:
        seen = read(conn).activity
    assert seen.checkpoints_requested == 3
    assert seen.window < 10


@pytest.mark.parametrize(
    ("version", "view"),
    [
        (130023, b"buffers_backend"),
        (150018, b"buffers_backend"),
        (160000, b"sum(writes)"),
        (170011, b"sum(writes)"),
        (180006, b"sum(write_bytes)"),
        (190000, b"sum(write_bytes)"),
    ],
)
def test_the_nearest_lower_variant_of_a_query_is_taken(version: int, view: bytes) -> None:
    assert view in query("backend_writes", version)


def test_a_line_with_bounds_is_for_these_versions_only() -> None:
    text = """SELECT a,
       0 AS b, -- before 16
       b, -- since 16
       c -- since 14, before 18
FROM t -- the comment since 15 bounds nothing
"""
    end = "\nFROM t -- the comment since 15 bounds nothing"
    assert by_version({130000: text, 170000: "SELECT 17", 180000: "SELECT a -- before 19"}) == {
        130000: "SELECT a,\n       0 AS b," + end,
        140000: "SELECT a,\n       0 AS b,\n       c" + end,
        160000: "SELECT a,\n       b,\n       c" + end,
        170000: "SELECT 17",
        180000: "SELECT a",
        190000: "",
    }


def test_sessions_that_run_a_statement_are_seen_and_their_time_is_counted(
    each_major: int, new_cluster: NewCluster
) -> None:
    """The time that statements take is counted since 14."""
    cluster = new_cluster(each_major)
    sleeper = threading.Thread(target=sql, args=(cluster.dsn(), "SELECT pg_sleep(1.5)"))
    sleeper.start()
    until(lambda: server(cluster).active == 1, "a session at work")
    sleeper.join()
    until(lambda: server(cluster).active == 0, "its end")
    if each_major < 14:
        assert server(cluster).activity.active_ms is None
        return
    until(lambda: (server(cluster).activity.active_ms or 0) >= 1500, "its time to be counted")


def test_active_time_is_missing_where_activities_are_not_tracked(new_cluster: NewCluster) -> None:
    cluster = new_cluster(18)
    sql(cluster.dsn(), "ALTER SYSTEM SET track_activities = off", "SELECT pg_reload_conf()")
    until(lambda: server(cluster).settings["track_activities"].setting == "off", "the reload")
    found = server(cluster)
    assert found.activity.active_ms is None
    assert "activity: sessions" in lacking(found)
