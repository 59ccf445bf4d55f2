"""`mrtuner.tune(dsn)` on real servers: values in force, their origins, and what is left alone."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import mrtuner
from machine import needs
from mrtuner.errors import DoesNotFit, UsageError
from mrtuner.inputs import Workload
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.cumulative_statistics import watch
from mrtuner.postgres.read_server import read
from mrtuner.tuning import tune_server
from mrtuner.tuning.gather import Flags
from mrtuner.tuning.situation import Seen
from mrtuner.units import Bytes
from servers import sql, standby_of

pytestmark = pytest.mark.timed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import NewCluster

    from mrtuner.postgres.model import Server
    from mrtuner.tuning import Tuning

MIB, GIB = 2**20, 2**30
MEMINFO = Path("/proc/meminfo")
on_linux = needs("/proc")


def texts(tuning: Tuning) -> list[str]:
    return [notice.text for notice in tuning.notices]


def verdict(tuning: Tuning, name: str) -> str:
    return str(tuning[name].to_dict()["verdict"])


def changed(cluster: Cluster, *statements: str) -> None:
    """Run statements one by one, and wait until new sessions see the files as they are now."""
    loaded = sql(cluster.dsn(), "select pg_conf_load_time()")
    sql(cluster.dsn(), *statements, "select pg_reload_conf()")
    deadline = time.monotonic() + 20
    while sql(cluster.dsn(), "select pg_conf_load_time()") == loaded:
        assert time.monotonic() < deadline, "the server does not reload"
        time.sleep(0.02)


def server_of(cluster: Cluster, dbname: str = "postgres", user: str = "postgres") -> Server:
    with connect(cluster.dsn(dbname, user=user)) as connection:
        return read(connection)


def ram() -> int:
    """MemTotal in bytes, read by the test itself."""
    lines = MEMINFO.read_text().splitlines()
    return int(next(line for line in lines if line.startswith("MemTotal")).split()[1]) * 1024


# --- values in force, and where they come from


def test_what_somebody_tuned_before_shows_with_its_origin(new_cluster: NewCluster) -> None:
    """Peers compare with the defaults, or with postgresql.conf, which is not in force."""
    cluster = new_cluster(settings={"work_mem": "8MB", "checkpoint_timeout": "20min"})
    extra = cluster.data / "extra.conf"
    extra.write_text("jit = off\n")
    with (cluster.data / "postgresql.conf").open("a") as conf:
        conf.write("include 'extra.conf'\n")
    changed(cluster, "alter system set work_mem = '64MB'")
    tuning = mrtuner.tune(cluster.dsn(), memory="1GB")
    shown = {
        name: (tuning[name].current, tuning[name].origin)
        for name in ("work_mem", "checkpoint_timeout", "jit", "random_page_cost")
    }
    assert shown == {
        "work_mem": ("64MB", "postgresql.auto.conf"),
        "checkpoint_timeout": ("20min", "file"),
        "jit": ("off", "include"),
        "random_page_cost": ("4", "default"),
    }
    assert verdict(tuning, "checkpoint_timeout") == "keep"
    assert tuning["checkpoint_timeout"].reason.startswith("your choice; without it: 15min")
    assert tuning["jit"].reason.startswith("already set")
    # By hand: 100 sessions and 2 workers of 64 MB times 2 are 12.75 GB, in 1 GB.
    assert not tuning["work_mem"].changes
    assert any("can ask for" in notice.text for notice in tuning.dangers)
    lowered = mrtuner.tune(cluster.dsn(), memory="1GB", lower="work_mem")
    assert lowered["work_mem"].changes
    assert lowered.budget is not None
    assert lowered.budget.fits


def test_a_tuned_server_has_nothing_left_to_change(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    given: dict[str, Any] = {"memory": "1GB", "storage": "ssd", "workload": "oltp"}
    before = mrtuner.tune(cluster.dsn(), **given)
    assert len(before.changes) > 10
    with (cluster.data / "postgresql.conf").open("a") as conf:
        conf.write(before.as_conf())
    cluster.restart()
    assert mrtuner.tune(cluster.dsn(), **given).changes == []


def test_the_command_line_is_left_alone_and_said(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.stop()
    options = "-c shared_buffers=32MB -c jit=on"
    done = cluster.run(
        "pg_ctl", "-D", cluster.data, "-w", "-l", cluster.directory / "log", "-o", options, "start"
    )
    assert done.returncode == 0, done.stderr
    tuning = mrtuner.tune(cluster.dsn(), memory="1GB")
    for name, value in (("shared_buffers", "32MB"), ("jit", "on")):
        item = tuning[name]
        assert (item.value, item.origin, item.changes) == (value, "command line", False)
        assert item.reason == ("set on the server's command line: change it there")
    assert "shared_buffers" not in tuning.as_conf()


def test_roles_and_databases_that_go_their_own_way_are_said(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    sql(
        cluster.dsn(),
        "create role app login",
        "create database shop",
        "alter role app set work_mem = '1GB'",
        "alter role app in database shop set jit = on",
        "alter database shop set random_page_cost = 3",
    )
    said = texts(mrtuner.tune(cluster.dsn(), memory="1GB"))
    beats = "which overrides the advised value"
    assert f"role app sets work_mem = 1GB, {beats}" in said
    assert f"role app and database shop sets jit = on, {beats}" in said
    assert f"database shop sets random_page_cost = 3, {beats}" in said
    tuning = mrtuner.tune(cluster.dsn("shop"), memory="1GB")
    assert f"database shop sets random_page_cost = 3, {beats}" in texts(tuning)
    assert (tuning["random_page_cost"].current, tuning["random_page_cost"].origin) == (
        "4",  # the server's own, which the advice is about
        "default",
    )


def test_a_change_that_waits_for_a_restart_is_said(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    changed(cluster, "alter system set max_connections = 150")
    tuning = mrtuner.tune(cluster.dsn(), memory="1GB")
    assert "max_connections was changed and needs a restart to take effect" in texts(tuning)
    assert tuning["max_connections"].current == "100"


def test_a_broken_line_is_said_with_its_place(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    conf = cluster.data / "postgresql.conf"
    number = len(conf.read_text().splitlines()) + 1
    with conf.open("a") as file:
        file.write("work_mem = '12 parsecs'\n")
    said = texts(mrtuner.tune(cluster.dsn(), memory="1GB"))
    broken = [text for text in said if "cannot be used" in text]
    assert len(broken) == 1
    assert broken[0].startswith(f"{conf}:{number}: work_mem cannot be used: ")


@pytest.mark.parametrize(("megabytes", "expected"), [(244, "keep"), (243, "change")])
def test_nearly_enough_shared_buffers_do_not_call_for_a_restart(
    new_cluster: NewCluster, megabytes: int, expected: str
) -> None:
    """A quarter of 1 GB is 256 MB; 95 % of it is 243.2 MB."""
    cluster = new_cluster(settings={"shared_buffers": f"{megabytes}MB"})
    tuning = mrtuner.tune(cluster.dsn(), memory="1GB")
    assert verdict(tuning, "shared_buffers") == expected
    assert tuning["shared_buffers"].value == ("244MB" if expected == "keep" else "256MB")


# --- the build


def test_a_build_without_lz4_is_not_made_to_compress_with_pglz(embedded: Cluster) -> None:
    tuning = mrtuner.tune(embedded.dsn())
    assert tuning["wal_compression"].value == "off"
    assert "this build lacks lz4" in tuning["wal_compression"].reason
    assert tuning["default_toast_compression"].value == "pglz"


def test_a_build_with_lz4_gets_it_and_takes_it(new_cluster: NewCluster) -> None:
    cluster = new_cluster(15)
    taken = "select 'lz4' = any(enumvals) from pg_settings where name = 'wal_compression'"
    if sql(cluster.dsn(), taken) != [(True,)]:
        pytest.skip("this PostgreSQL 15 was built without lz4")
    tuning = mrtuner.tune(cluster.dsn())
    assert tuning["wal_compression"].value == "lz4"
    assert tuning["default_toast_compression"].value == "lz4"
    changed(cluster, *(line for line in tuning.as_sql().splitlines() if "compression" in line))
    assert sql(cluster.dsn(), "show wal_compression") == [("lz4",)]
    assert sql(cluster.dsn(), "show default_toast_compression") == [("lz4",)]


# --- where WAL lies, and how much can be in flight


@needs("/proc", "/dev/shm as a mount")
def test_pg_wal_of_a_real_server_on_its_own_mount_is_found_and_its_size_counts(
    new_cluster: NewCluster,
) -> None:
    """pg_wal moved to another file system, as people do it: stop, move, link, start."""
    cluster = new_cluster()
    cluster.stop()
    owner = cluster.data.stat()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        moved = Path(elsewhere) / "pg_wal"
        shutil.copytree(cluster.data / "pg_wal", moved)
        for path in (Path(elsewhere), moved, *moved.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        shutil.rmtree(cluster.data / "pg_wal")
        (cluster.data / "pg_wal").symlink_to(moved)
        cluster.start()
        # Half of the mount is less than a large machine would have.
        tuning = mrtuner.tune(cluster.dsn(), memory=ram(), cpus=1)
        shm = os.statvfs("/dev/shm")
        cluster.stop()
    (given,) = [item for item in tuning.given if item.name == "wal-disk"]
    assert "/dev/shm" in given.source
    assert tuning.situation.wal_disk is not None
    assert tuning.situation.wal_disk.size == shm.f_blocks * shm.f_frsize
    assert "own volume" in tuning["max_wal_size"].reason


def test_a_real_server_whose_volume_is_out_of_sight_keeps_what_somebody_set(
    new_cluster: NewCluster,
) -> None:
    """Read as from another host; with the volume given, 16 GB are usual for 16 GB of memory."""
    cluster = new_cluster(settings={"max_wal_size": "512MB"})
    server = replace(server_of(cluster), local_pid=None)
    item = tune_server(server, Flags(memory=Bytes(16 * GIB)))["max_wal_size"]
    assert (item.to_dict()["verdict"], item.value) == ("unknown", "512MB")
    assert item.reason == "needs --disk or --wal-disk"
    known = Flags(memory=Bytes(16 * GIB), disk=Bytes(1024 * GIB))
    assert tune_server(server, known)["max_wal_size"].value == "16GB"


def test_a_real_servers_vacuum_keeps_the_memory_that_somebody_gave_it(
    new_cluster: NewCluster,
) -> None:
    """With a 64th of 32 GB, a table with 150 million dead rows took another pass."""
    cluster = new_cluster(15, {"maintenance_work_mem": "2GB"})
    server = replace(server_of(cluster), local_pid=None)
    item = tune_server(server, Flags(memory=Bytes(32 * GIB)))["autovacuum_work_mem"]
    assert (item.changes, item.value) == (False, "-1")


def test_reads_ahead_end_where_a_real_server_of_18_does(new_cluster: NewCluster) -> None:
    """The server computes io_max_concurrency at start, and no more reads can be in flight."""
    cluster = new_cluster(18)
    ((shown,),) = sql(cluster.dsn(), "show io_max_concurrency")
    tuning = mrtuner.tune(cluster.dsn(), memory="1GB", cpus=1, storage="nvme")
    assert tuning["effective_io_concurrency"].target == int(shown)
    assert int(shown) <= 64


# --- what the server did


@pytest.fixture
def busy(new_cluster: NewCluster) -> Cluster:
    """Three checkpoints asked for by command, some WAL, and sorts that went to disk."""
    cluster = new_cluster(settings={"work_mem": "64kB", "max_wal_size": "64MB"})
    sql(cluster.dsn(), "create table t (n int, filler text)")
    for _ in range(4):
        sql(
            cluster.dsn(),
            "insert into t select n, repeat('x', 500) from generate_series(1, 30000) n",
            "select count(*) from (select * from t order by filler, n desc offset 1) s",
            "checkpoint",
        )
    sql(cluster.dsn(), "select pg_stat_force_next_flush()")
    return cluster


def test_a_moment_of_load_moves_nothing_and_says_so(busy: Cluster) -> None:
    """The rate is high, and three checkpoints were requested, but all within a minute."""
    tuning = mrtuner.tune(busy.dsn(), memory="1GB", disk="1TB")
    assert tuning.server is not None
    activity = tuning.server.activity
    assert activity.wal_bytes is not None
    assert activity.wal_bytes > 4 * 30_000 * 500, "every row is in the WAL at least once"
    assert activity.checkpoints_requested is not None
    assert activity.checkpoints_requested >= 3
    assert activity.temp_files is not None
    assert activity.temp_files >= 4
    assert tuning["max_wal_size"].basis == "convention"
    assert any("counters were not used" in text for text in texts(tuning))


def test_an_hour_with_some_checkpoints_leads_to_observed_advice(busy: Cluster) -> None:
    """By hand: 2 GiB in an hour are 0.57 MiB/s, at peak three times that. 15 min of it, 1536 MiB,
    are 96 segments; one more and times 1.9 are 184.3, so 185 segments, 2960 MB.
    """
    server = replace(server_of(busy), local_pid=None, relations=())
    hour = replace(
        server.activity, window=3600.0, wal_bytes=Bytes(2 * GIB),
        checkpoints_timed=30, checkpoints_requested=1,
    )  # fmt: skip
    said = Flags(memory=Bytes(GIB), disk=Bytes(1024 * GIB))
    item = tune_server(replace(server, activity=hour), said)["max_wal_size"]
    assert (item.value, item.basis) == ("2960MB", "observed")
    assert "1 of 31 checkpoints were requested in 60 min since statistics were reset" in item.reason


def test_rows_loaded_within_the_window_are_no_evidence(busy: Cluster) -> None:
    """120,000 rows were inserted and none changed: the counters are those of the load."""
    server = replace(server_of(busy), local_pid=None)
    hour = replace(server.activity, window=7200.0, checkpoints_timed=30, checkpoints_requested=9)
    tuning = tune_server(replace(server, activity=hour), Flags(memory=Bytes(GIB)))
    assert tuning["max_wal_size"].basis == "convention"
    assert any("public.t was loaded in the 2 h" in text for text in texts(tuning))


def test_large_temporary_files_raise_work_mem_and_small_ones_do_not(busy: Cluster) -> None:
    """The sorts here spill some megabytes; the same count of 16 GB files wants
    sqrt(16384 MB * 0.265625 MB) = 66 MB for one merge pass.
    """
    server = replace(server_of(busy), local_pid=None, relations=())
    seen = replace(server.activity, window=3600.0, checkpoints_timed=3, checkpoints_requested=0)
    server = replace(server, activity=seen)
    said = Flags(memory=256 * GIB, connections=50, workload=Workload.OLTP)  # type: ignore[arg-type]
    assert tune_server(server, said)["work_mem"].value == "8MB"
    files = server.activity.temp_files or 0
    large = replace(server.activity, temp_bytes=files * 16 * GIB)  # type: ignore[arg-type]
    item = tune_server(replace(server, activity=large), said)["work_mem"]
    assert item.value == "66MB"
    assert "temporary files of 16 GB" in item.reason


def test_a_load_that_is_watched_counts_as_the_peak(new_cluster: NewCluster) -> None:
    """No checkpoint happens during the watch, and its rate is believed all the same."""
    cluster = new_cluster(settings={"max_wal_size": "64MB"})
    sql(cluster.dsn(), "create table t (filler text)")

    def work(seconds: float) -> None:
        sql(cluster.dsn(), "insert into t select repeat('x', 1000) from generate_series(1, 50000)")

    with connect(cluster.dsn()) as connection:
        server = read(connection)
        activity = watch(connection, 1.0, sleep=work)
    assert activity.wal_bytes is not None
    assert activity.wal_bytes > 50_000 * 1000
    server = replace(server, activity=activity)
    averaged = tune_server(server, Flags())["max_wal_size"]
    watched = tune_server(server, Flags(seen=Seen.WATCHED))["max_wal_size"]
    assert (averaged.basis, watched.basis) == ("convention", "observed")


# --- the machine below


@on_linux
def test_a_local_servers_machine_is_read_by_its_process(embedded: Cluster) -> None:
    tuning = mrtuner.tune(embedded.dsn())
    assert tuning.server is not None
    assert tuning.server.local_pid == embedded.pid
    sources = {item.name: item.source for item in tuning.given}
    assert sources["memory"].startswith(("/proc/meminfo", "/sys/fs/cgroup"))
    assert str(embedded.data) in sources["disk"] or sources["disk"].startswith("/")
    assert tuning.situation.memory is not None
    assert tuning.situation.memory.size <= ram()
    assert tuning.situation.clock is not None


@on_linux
def test_more_memory_than_this_machine_has_is_refused(embedded: Cluster) -> None:
    with pytest.raises(UsageError, match=r"is more than the .* this host has") as caught:
        mrtuner.tune(embedded.dsn(), memory=2 * ram())
    assert caught.value.exit_code == 2
    assert caught.value.hint == "Give the memory that PostgreSQL can really use, or omit --memory."


def test_another_version_than_the_servers_is_refused(embedded: Cluster) -> None:
    with pytest.raises(UsageError, match=r"the server is PostgreSQL 18.*, not 17") as caught:
        mrtuner.tune(embedded.dsn(), postgres=17)
    assert caught.value.hint == "Omit --pg: the server reports its version."


def test_connections_that_do_not_fit_a_live_server_have_a_way_out(embedded: Cluster) -> None:
    with pytest.raises(DoesNotFit) as caught:
        mrtuner.tune(embedded.dsn(), memory="1GB", connections=4000)
    hint = caught.value.hint or ""
    fewer = int(hint.split("--connections to ")[1].split()[0])
    tuning = mrtuner.tune(embedded.dsn(), memory="1GB", connections=fewer)
    assert tuning["max_connections"].target == fewer + 3  # what the server reserves


def test_memory_that_cannot_be_known_from_here_is_asked_for(embedded: Cluster) -> None:
    """The same server as if it ran elsewhere: SQL does not tell the machine's memory."""
    elsewhere = replace(server_of(embedded), local_pid=None)
    tuning = tune_server(elsewhere)
    assert tuning.budget is None
    assert tuning.host is None
    for name in ("shared_buffers", "effective_cache_size", "work_mem", "maintenance_work_mem"):
        assert tuning[name].reason == "needs --memory"
        assert not tuning[name].changes
    gaps = {gap.name: gap.supply for gap in tuning.missing}
    assert gaps["memory"] == "--memory"
    assert gaps["cpus"] == "--cpus"
    assert gaps["storage"] == "--storage"
    assert tuning["checkpoint_timeout"].changes, "what needs no memory is advised all the same"


# --- roles and standbys


def test_a_lesser_role_gets_advice_and_the_gaps_are_named(new_cluster: NewCluster) -> None:
    cluster = new_cluster(settings={"shared_preload_libraries": "pg_stat_statements"})
    sql(cluster.dsn(), "create role reader login")
    tuning = mrtuner.tune(cluster.dsn(user="reader"), memory="1GB")
    assert tuning["shared_buffers"].value == "256MB"
    assert tuning["work_mem"].changes
    libraries = tuning["shared_preload_libraries"]
    assert verdict(tuning, "shared_preload_libraries") == "unknown"
    assert (libraries.current, libraries.suggested) == ("", False)
    gaps = {gap.name: gap for gap in tuning.missing}
    assert "pg_read_all_settings" in (gaps["sourcefile"].supply or "")
    assert "file_problems" in gaps
    allowed = mrtuner.tune(cluster.dsn(), memory="1GB")["shared_preload_libraries"]
    assert allowed.reason == "pg_stat_statements is already loaded"


@pytest.fixture
def standby(new_cluster: NewCluster) -> Iterator[Cluster]:
    """A streaming standby of a primary with 60 connections, both running."""
    primary = new_cluster(settings={"max_connections": 60, "max_worker_processes": 9})
    with standby_of(primary) as copy:
        yield copy


def test_queries_that_replay_cancels_are_told_with_the_choice(standby: Cluster) -> None:
    """A standby without patience: its query still needs a row that the primary's vacuum removes."""
    ((text,),) = sql(standby.dsn(), "SHOW primary_conninfo")
    primary = f"host={standby_source(text)} user=postgres dbname=postgres"
    changed(standby, "alter system set max_standby_streaming_delay = 0")
    sql(primary, "CREATE TABLE t AS SELECT 1 AS n")
    waited(standby, "SELECT to_regclass('t') IS NOT NULL")
    with closing(connect(standby.dsn())) as reader:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT * FROM public.t")
        sql(primary, "DELETE FROM t", "VACUUM t")
        waited(
            standby, "SELECT count(*) > 0 FROM pg_stat_database_conflicts WHERE confl_snapshot > 0"
        )
    (told,) = [text for text in texts(mrtuner.tune(standby.dsn())) if "cancelled queries" in text]
    assert "1 for rows that vacuum removed on the primary" in told
    assert "hot_standby_feedback = on" in told


def standby_source(conninfo: str) -> str:
    """The directory of the primary's socket, from primary_conninfo."""
    return next(part.removeprefix("host=") for part in conninfo.split() if part.startswith("host="))


def waited(cluster: Cluster, question: str) -> None:
    """Wait until the answer is true."""
    deadline = time.monotonic() + 20
    while sql(cluster.dsn(), question) != [(True,)]:
        assert time.monotonic() < deadline, question
        time.sleep(0.05)


def test_a_standby_leaves_what_must_match_its_primary(standby: Cluster) -> None:
    assert sql(standby.dsn(), "select pg_is_in_recovery()") == [(True,)]
    tuning = mrtuner.tune(standby.dsn(), memory="1GB", cpus=16, connections=20)
    for name, value in (("max_connections", "60"), ("max_worker_processes", "9")):
        assert (tuning[name].value, tuning[name].changes) == (value, False)
        assert tuning[name].reason == (
            "must not be lower than on the primary: raise it here first, lower it there first"
        )
    assert "this is a standby: settings that must match the primary are left alone" in texts(tuning)
    assert tuning["shared_buffers"].value == "256MB", "the rest may differ"
    assert tuning["max_wal_size"].basis == "convention", "a standby writes no WAL of its own"
