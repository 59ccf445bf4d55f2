"""A server of our own, on real PostgreSQL of every major."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import PASSWORD, NewCluster

from machine import needs
from mrtuner.errors import ConnectError, MissingPart, UsageError
from mrtuner.postgres.binaries import find_binaries
from mrtuner.postgres.cluster import INITDB_CACHE, Cluster
from mrtuner.postgres.server_user import scratch_directory, server_user
from servers import binaries, running, sql

AS_ROOT = needs("root")


def test_every_major_starts_and_answers(each_major: int, new_cluster: NewCluster) -> None:
    cluster = new_cluster(each_major)
    [(number,)] = sql(cluster.dsn(), "SHOW server_version_num")
    assert int(number) // 10000 == each_major


def test_settings_reach_the_server_as_they_were_given(new_cluster: NewCluster) -> None:
    cluster = new_cluster(settings={"work_mem": "7MB", "cluster_name": r"it's a \ test"})
    assert sql(cluster.dsn(), "SHOW work_mem") == [("7MB",)]
    assert sql(cluster.dsn(), "SHOW cluster_name") == [(r"it's a \ test",)]


def test_only_the_servers_user_may_enter_its_directory(embedded: Cluster) -> None:
    assert stat.S_IMODE(embedded.directory.stat().st_mode) == 0o700


def test_without_listen_no_tcp_port_is_open(embedded: Cluster) -> None:
    assert sql(embedded.dsn(), "SHOW listen_addresses") == [("",)]


def test_over_tcp_the_password_is_asked_for(new_cluster: NewCluster) -> None:
    import psycopg

    dsn = new_cluster(listen=True).dsn(tcp=True)
    assert sql(f"{dsn} password='{PASSWORD}'", "SHOW password_encryption") == [("scram-sha-256",)]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        sql(f"{dsn} password=wrong", "SELECT 1")


def test_a_copy_of_a_data_directory_has_a_password_of_its_own(each_major: int) -> None:
    import psycopg

    assert INITDB_CACHE in os.environ
    awkward = """it's "one" \\n %s $$"""
    with (
        running(each_major, listen=True, password=awkward) as cluster,
        psycopg.connect(cluster.dsn(tcp=True), password=awkward) as conn,
    ):
        kept = conn.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'postgres'")
        assert kept.fetchall()[0][0].startswith("SCRAM-SHA-256$")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(cluster.dsn(tcp=True), password=PASSWORD)


def test_a_restart_brings_a_new_postmaster(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    before = cluster.pid
    cluster.restart()
    assert cluster.running()
    assert cluster.pid != before


def test_stopping_twice_is_no_error(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.stop()
    cluster.stop()
    assert cluster.pid is None


@AS_ROOT
def test_a_pid_file_that_names_another_program_is_of_no_server(new_cluster: NewCluster) -> None:
    """Left by a server that was killed long ago; this test and the other program must survive."""
    cluster = new_cluster()
    cluster.stop()
    with subprocess.Popen(["sleep", "600"]) as other:
        try:
            for pid in (other.pid, os.getpid()):
                (cluster.data / "postmaster.pid").write_text(f"{pid}\n")
                assert not cluster.running()
                cluster.stop("immediate")
            assert other.poll() is None
        finally:
            other.kill()


def test_a_server_has_ended_though_nobody_collects_its_exit_status(new_cluster: NewCluster) -> None:
    """As in a container whose first process collects none; here, for a child of this test."""
    cluster = new_cluster()
    cluster.stop()
    user = cluster.user.uid if cluster.user else None
    with subprocess.Popen(["true"], user=user) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        (cluster.data / "postmaster.pid").write_text(f"{ended.pid}\n")
        assert not cluster.running()


def test_a_server_that_was_killed_can_be_started_at_once(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    pid = cluster.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while cluster.running():
        time.sleep(0.001)
    cluster.start()
    assert sql(cluster.dsn(), "SELECT 1") == [(1,)]


def test_a_failing_start_tells_what_the_log_says(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.stop()
    cluster.configure({"wal_level": "minimal", "max_wal_senders": 5})
    with pytest.raises(ConnectError) as raised:
        cluster.start()
    assert 'FATAL: WAL streaming ("max_wal_senders" > 0) requires' in raised.value.message


def test_a_bad_value_is_named_when_the_start_fails(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.stop()
    cluster.configure({"shared_buffers": "plenty"})
    with pytest.raises(ConnectError, match='invalid value for parameter "shared_buffers"'):
        cluster.start()


def test_a_start_fails_for_its_own_reason_not_an_earlier_one(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.stop()
    cluster.configure({"shared_buffers": "plenty"})
    with pytest.raises(ConnectError):
        cluster.start()
    cluster.configure({"shared_buffers": "16MB", "max_connections": "none"})
    with pytest.raises(ConnectError) as raised:
        cluster.start()
    assert "max_connections" in raised.value.message
    assert "plenty" not in raised.value.message


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(UsageError, match="is not empty"):
        Cluster.create(binaries(18), tmp_path)
    assert (tmp_path / "mine").exists()


def test_a_path_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="too long for a socket"):
        Cluster.create(binaries(18), tmp_path / ("x" * 100))


def test_listening_without_a_password_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a password"):
        Cluster.create(binaries(18), tmp_path / "new", listen=True)


def test_a_directory_without_a_server_names_both_remedies(tmp_path: Path) -> None:
    with pytest.raises(MissingPart, match="no program postgres") as raised:
        find_binaries(tmp_path)
    assert raised.value.hint is not None
    assert "mrtuner[embedded]" in raised.value.hint
    assert "--server-bin" in raised.value.hint


def test_an_installation_may_be_named_by_its_bin_or_the_directory_above() -> None:
    found = binaries(18)
    assert find_binaries(found.directory) == find_binaries(found.directory.parent) == found


def test_a_server_before_13_is_refused(tmp_path: Path) -> None:
    for name in ("postgres", "initdb", "pg_ctl"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 9.6.24'\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(UsageError, match=r"9\.6\.24 .* is too old"):
        find_binaries(tmp_path)


def test_a_program_that_is_not_installed_is_named() -> None:
    with pytest.raises(MissingPart, match="has no pg_no_such_program"):
        binaries(18).program("pg_no_such_program")


@AS_ROOT
def test_as_root_the_server_runs_as_somebody_else(embedded: Cluster) -> None:
    user = server_user()
    assert user is not None
    assert embedded.pid is not None
    assert Path(f"/proc/{embedded.pid}").stat().st_uid == user.uid != 0


@AS_ROOT
def test_an_installation_out_of_reach_is_copied_once(tmp_path: Path) -> None:
    """Only root can enter pytest's directories, as with a checkout below root's home."""
    package = binaries(18).directory.parent.parent
    for source in (package, package.with_name(f"{package.name}.libs")):
        if source.exists():
            shutil.copytree(source, tmp_path / "site" / source.name, symlinks=True)
    hidden = find_binaries(tmp_path / "site" / package.name / "pginstall")
    copies = []
    for _ in range(2):
        cluster = Cluster.create(hidden, scratch_directory())
        try:
            with cluster:
                copies.append(cluster.binaries.directory)
                psql = cluster.run("psql", "-Atc", "SELECT 6 * 7", cluster.dsn())
                assert psql.stdout == "42\n", psql.stderr
        finally:
            cluster.remove()
    assert copies[0] == copies[1] != hidden.directory
    shutil.rmtree(copies[0].parents[2])


def test_a_server_does_not_outlive_the_program_that_started_it() -> None:
    code = (
        "from mrtuner.postgres.binaries import find_binaries\n"
        "from mrtuner.postgres.cluster import Cluster\n"
        "from mrtuner.postgres.server_user import scratch_directory\n"
        "cluster = Cluster.create(find_binaries(), scratch_directory())\n"
        "cluster.start(); print(cluster.directory)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    directory = Path(done.stdout.strip())
    assert (directory / "data").is_dir()
    assert not (directory / "data" / "postmaster.pid").exists()
    shutil.rmtree(directory)


def test_clusters_made_at_once_share_one_data_directory_and_are_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three threads find the cache empty, as instances of a lab may."""
    place = scratch_directory()
    (place / "cache").mkdir(mode=0o777)
    (place / "cache").chmod(0o1777)
    monkeypatch.setenv(INITDB_CACHE, str(place / "cache"))
    try:
        with ThreadPoolExecutor(3) as pool:
            made = list(pool.map(lambda n: Cluster.create(binaries(18), place / str(n)), range(3)))
        made.append(Cluster.create(binaries(18), place / "copy"))
        (kept,) = (place / "cache").iterdir()
        names = {path.name for path in kept.iterdir()}
        assert "PG_VERSION" in names
        for cluster in made:
            assert {path.name for path in cluster.data.iterdir()} == names
        with made[-1] as copy:
            assert sql(copy.dsn(), "SELECT 1") == [(1,)]
    finally:
        shutil.rmtree(place)
