"""Whether a server runs here: from small trees of /proc, and from the real one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.local import postmaster, postmaster_of, uncollected
from servers import sql

pytestmark = pytest.mark.timed


def process(proc: Path, pid: int, name: str, parent: int, started: float) -> None:
    """/proc/PID/stat as proc(5) has it; field 22 counts hundredths of a second after boot."""
    (proc / str(pid)).mkdir()
    rest = " ".join(["0"] * 17)
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} {rest} {started * 100:.0f} 0")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "uptime").write_text("1000.00 1900.00\n")
    process(tmp_path, 100, "postgres", 1, 500)
    process(tmp_path, 200, "postgres", 100, 990)
    process(tmp_path, 300, "a ) b", 1, 990)
    process(tmp_path, 301, "postgres", 300, 990)
    return tmp_path


def test_a_backend_of_the_right_age_leads_to_its_postmaster(proc: Path) -> None:
    assert postmaster(200, 10.0, proc) == 100


def test_a_process_of_another_age_is_not_our_backend(proc: Path) -> None:
    assert postmaster(200, 400.0, proc) is None


def test_a_process_that_is_not_there_or_not_postgresql_is_not_ours(proc: Path) -> None:
    assert postmaster(999, 10.0, proc) is None
    assert postmaster(300, 10.0, proc) is None


def test_a_backend_whose_parent_is_not_postgresql_is_not_ours(proc: Path) -> None:
    assert postmaster(301, 10.0, proc) is None


def test_where_there_is_no_proc_nothing_is_known(tmp_path: Path) -> None:
    assert postmaster(200, 10.0, tmp_path) is None


def test_a_process_that_ended_is_told_from_one_that_runs_though_nobody_collects_it() -> None:
    assert not uncollected(os.getpid())
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert uncollected(ended.pid)
    with pytest.raises(FileNotFoundError):
        uncollected(ended.pid)


def test_a_real_backend_of_this_machine_is_found(embedded: Cluster) -> None:
    import psycopg

    with psycopg.connect(embedded.dsn()) as conn:
        assert postmaster_of(conn) == postmaster(conn.info.backend_pid, 0.0) == embedded.pid
    assert sql(embedded.dsn(), "SELECT 1") == [(1,)]
