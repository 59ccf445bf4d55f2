"""`apply --roles` and `undo --roles`: work_mem for the role that spills, on a real server."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from conftest import NewCluster

from command_line import run
from mrtuner.change.catalog_transaction import turned
from mrtuner.change.journal import Journal
from mrtuner.change.record import State
from servers import sql

MACHINE = ("--memory", "2GB", "--cpus", "2", "--storage", "ssd")
#: 200,000 rows of 1,006 bytes: some 200 MB of temporary files.
NIGHTLY = (
    "SELECT count(*) FROM (SELECT repeat('x', 1000) || n AS note "
    "FROM generate_series(100000, 299999) AS n ORDER BY 1 OFFSET 1) AS sorted"
)
ROLE = 'nightly "report"'


@pytest.fixture
def dsn(new_cluster: NewCluster) -> str:
    """A server on which one role's statement spilt, and that of another did not."""
    cluster = new_cluster(settings={"shared_preload_libraries": "pg_stat_statements"})
    sql(
        cluster.dsn(),
        "CREATE EXTENSION pg_stat_statements",
        'CREATE ROLE "nightly ""report""" LOGIN',
        "CREATE ROLE web LOGIN",
    )
    sql(theirs(cluster.dsn(), ROLE), NIGHTLY)
    sql(theirs(cluster.dsn(), "web"), "SELECT 1")
    return cluster.dsn()


def theirs(dsn: str, role: str) -> str:
    return dsn.replace("user=postgres", f"user='{role}'")


def work_mem(dsn: str, role: str) -> str:
    """What a new session of the role sees."""
    return str(sql(theirs(dsn, role), "SHOW work_mem")[0][0])


def test_the_role_that_spills_gets_its_work_mem_and_loses_it_again(
    dsn: str, tmp_path: Path
) -> None:
    """By hand: one merge pass of 200 MB takes the root of 200 MB * 272 kB, 7.3 MB; so 8 MB."""
    where = ("--journal", str(tmp_path), "--yes")
    done = run("apply", dsn, "--roles", *MACHINE, *where)
    assert (done.exit_code, done.stdout) == (0, "1 setting applied and verified\n")
    assert re.search(r'nightly "report" work_mem +unset +8MB +it wrote 1\d\d MB', done.stderr)
    assert f"to undo: mrtuner undo '{dsn}' --roles --journal" in done.stderr
    assert (work_mem(dsn, ROLE), work_mem(dsn, "web")) == ("8MB", "4MB")

    assert run("apply", dsn, "--roles", *MACHINE, *where).stdout == "nothing to change\n"
    told = run("tune", dsn, *MACHINE).stdout
    assert "ALTER ROLE" not in told
    assert "overrides the advised value" not in told

    undone = run("undo", dsn, "--roles", *where, "--json")
    assert json.loads(undone.stdout)["outcome"]["changed"] == [f"{ROLE} work_mem"]
    assert sql(dsn, "SELECT count(*) FROM pg_db_role_setting") == [(0,)]
    again = run("undo", dsn, "--roles", *where)
    assert again.exit_code == 2
    assert "no change of this server's roles" in again.stderr


def test_as_json_it_is_a_change_with_its_way_back(dsn: str, tmp_path: Path) -> None:
    done = run("apply", dsn, "--roles", *MACHINE, "--journal", str(tmp_path), "--yes", "--json")
    told = json.loads(done.stdout)
    (step,) = told["plan"]["steps"]
    assert (step["name"], step["before"], step["value"]) == (f"{ROLE} work_mem", "", "8MB")
    assert told["outcome"]["result"] == "applied"
    assert "--roles" in told["undo"]


def test_a_value_that_somebody_sets_later_stays(dsn: str, tmp_path: Path) -> None:
    where = ("--journal", str(tmp_path), "--yes")
    run("apply", dsn, "--roles", *MACHINE, *where)
    sql(dsn, 'ALTER ROLE "nightly ""report""" SET work_mem = \'16MB\'')
    done = run("undo", dsn, "--roles", *where)
    assert f"left alone: {ROLE} work_mem was changed since" in done.stdout
    assert work_mem(dsn, ROLE) == "16MB"


def test_another_process_is_noticed_from_another_database_too(dsn: str, tmp_path: Path) -> None:
    """Roles are shared by all databases of a server."""
    key = int.from_bytes(b"mrtuner")
    with psycopg.connect(dsn, dbname="template1") as other:
        other.execute("SELECT pg_advisory_lock(%s)", (key,))
        done = run("apply", dsn, "--roles", *MACHINE, "--journal", str(tmp_path), "--yes")
    assert done.exit_code != 0
    assert "another mrtuner" in done.stderr
    assert work_mem(dsn, ROLE) == "4MB"


def test_an_interrupted_undo_is_told_as_an_undo(dsn: str, tmp_path: Path) -> None:
    where = ("--journal", str(tmp_path), "--yes")
    run("apply", dsn, "--roles", *MACHINE, *where)
    with Journal(tmp_path) as journal:
        (change,) = journal.changes()
        begun = replace(change, id=0, entries=tuple(map(turned, change.entries)), undoes=change.id)
        journal.note(journal.begin(begun), State.WRITING, "killed here")
    sql(dsn, 'ALTER ROLE "nightly ""report""" RESET work_mem')
    told = json.loads(run("undo", dsn, "--roles", *where, "--json").stdout)
    assert told["schema"] == "mrtuner.undo/1"
    assert told["outcome"]["result"] == "finished"


def test_a_role_without_the_right_is_told_which_and_nothing_changes(
    dsn: str, tmp_path: Path
) -> None:
    sql(dsn, "GRANT pg_monitor TO web")
    done = run(
        "apply", theirs(dsn, "web"), "--roles", *MACHINE, "--journal", str(tmp_path), "--yes"
    )
    assert done.exit_code != 0
    assert "permission denied" in done.stderr
    assert "CREATEROLE and ADMIN OPTION" in done.stderr
    assert work_mem(dsn, ROLE) == "4MB"


def test_where_nobody_counts_what_roles_spill_nothing_is_taken_for_fine(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    """No pg_stat_statements: that no role needs more is not known."""
    done = run(
        "apply", new_cluster().dsn(), "--roles", *MACHINE, "--journal", str(tmp_path), "--yes"
    )
    assert done.exit_code == 1
    assert "error: what roles spill is not known: " in done.stderr
    assert "HINT: " in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("more", [("--restart", "true"), ("--from", "/etc/hostname")])
def test_roles_alone_are_changed(more: tuple[str, ...]) -> None:
    done = run("apply", "host=nowhere.invalid", "--roles", *more)
    assert done.exit_code == 2
    assert "--roles goes without" in done.stderr
