"""Undo after others had a hand in it: reset since, unknown now, set on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conftest import NewCluster

from mrtuner.cli import main
from mrtuner.postgres.cluster import Cluster
from servers import sql

pytestmark = pytest.mark.timed


def run(command: str, cluster: Cluster, place: Path, *more: str) -> Result:
    words = [command, cluster.dsn(), "--yes", "--journal", str(place / "journal"), *more]
    return CliRunner().invoke(main, words)


def applied(cluster: Cluster, place: Path, text: str) -> None:
    (place / "wanted.conf").write_text(text)
    done = run("apply", cluster, place, "--no-plans", "--from", str(place / "wanted.conf"))
    assert done.exit_code == 0, done.output


def entries(cluster: Cluster) -> list[str]:
    text = (cluster.data / "postgresql.auto.conf").read_text()
    return sorted(line for line in text.splitlines() if not line.startswith("#"))


def restarted_with(cluster: Cluster, options: str) -> None:
    cluster.stop()
    done = cluster.run(
        "pg_ctl", "start", "-w", "-D", cluster.data, "-l", cluster.directory / "log",
        "-o", options,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("running", [True, False])
def test_what_is_as_before_already_counts_as_undone(
    new_cluster: NewCluster, tmp_path: Path, running: bool
) -> None:
    """And the change before it can be undone."""
    cluster = new_cluster()
    applied(cluster, tmp_path, "random_page_cost = 2\n")
    applied(cluster, tmp_path, "work_mem = 8MB\njit = off\n")
    sql(cluster.dsn(), "ALTER SYSTEM RESET work_mem", "SELECT pg_reload_conf()")
    if not running:
        cluster.stop()
    for left in (["random_page_cost = '2'"], []):
        done = run("undo", cluster, tmp_path)
        assert done.exit_code == 0, done.output
        assert entries(cluster) == left


def test_what_somebody_set_to_another_value_is_still_refused(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster()
    applied(cluster, tmp_path, "work_mem = 8MB\njit = off\n")
    sql(cluster.dsn(), "ALTER SYSTEM RESET jit", "ALTER SYSTEM SET work_mem = '9MB'")
    done = run("undo", cluster, tmp_path)
    assert done.exit_code == 4
    assert "settings were changed since: work_mem (now 9MB, MrTuner set 8MB)" in done.stderr
    assert entries(cluster) == ["work_mem = '9MB'"]


@pytest.mark.parametrize("major", [pytest.param(13, marks=pytest.mark.slow), 16, 18])
def test_what_the_server_no_longer_knows_loses_its_entry_too(
    new_cluster: NewCluster, tmp_path: Path, major: int
) -> None:
    cluster = new_cluster(major, {"shared_preload_libraries": "auto_explain"})
    sql(cluster.dsn(), "ALTER SYSTEM SET auto_explain.log_timing = off")
    cluster.restart()
    applied(
        cluster, tmp_path,
        "auto_explain.log_min_duration = 5s\nauto_explain.log_timing = on\nwork_mem = 8MB\n",
    )  # fmt: skip
    cluster.configure({"shared_preload_libraries": ""})
    cluster.restart()
    done = run("undo", cluster, tmp_path)
    assert done.exit_code == 0, done.output
    assert done.stdout == "3 settings undone and verified\n"
    assert "auto_explain.log_timing: the server no longer knows it" in done.stderr
    assert entries(cluster) == ["auto_explain.log_timing = 'off'"]
    assert sql(cluster.dsn(), "SHOW work_mem") == [("4MB",)]


def test_what_the_command_line_sets_keeps_its_value_and_gets_its_entry_back(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster()
    sql(cluster.dsn(), "ALTER SYSTEM SET work_mem = '6MB'", "SELECT pg_reload_conf()")
    applied(cluster, tmp_path, "work_mem = 9MB\nmax_connections = 50\n")
    restarted_with(cluster, "-c work_mem=64MB -c max_connections=60")
    done = run("undo", cluster, tmp_path, "--restart", "false")
    assert done.exit_code == 0, done.output
    assert done.stdout == "2 settings undone and verified\n"  # and no restart, which would fail
    assert "work_mem: the command line sets it" in done.stderr
    assert entries(cluster) == ["work_mem = '6MB'"]
    assert sql(cluster.dsn(), "SHOW work_mem") == [("64MB",)]
