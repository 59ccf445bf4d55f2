"""Changes that wait for a restart: ours are no error, and other people's are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from conftest import NewCluster

from command_line import run
from mrtuner.change.journal import Journal
from mrtuner.change.settings.apply import Wanted, apply, checked, plan
from mrtuner.errors import Refused
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.read_server import read
from servers import pg_ctl, sql
from waiting import until

pytestmark = pytest.mark.timed

#: initdb sets neither in postgresql.conf, so after an undo nothing sets them.
WANTED = "max_worker_processes = 12\nwork_mem = 16MB\n"
DEFAULTS = {"max_worker_processes": "8", "work_mem": "4MB"}


class Owner:
    """A server's owner, with a journal and a file of settings."""

    def __init__(self, cluster: Cluster, place: Path) -> None:
        self.cluster, self.dsn = cluster, cluster.dsn()
        self.settings, self.journal = place / "wanted.conf", place / "journal"
        self.settings.write_text(WANTED)

    def run(self, command: str, *more: str, restart: bool = False) -> Result:
        words = [command, self.dsn, "--yes", "--journal", str(self.journal), *more]
        words += ["--from", str(self.settings)] if command == "apply" else []
        words += ["--restart", pg_ctl(self.cluster, "restart")] if restart else []
        return run(*words)

    def in_force(self) -> dict[str, str]:
        return {name: str(sql(self.dsn, f"SHOW {name}")[0][0]) for name in DEFAULTS}

    def reload(self, *statements: str) -> None:
        """Make somebody else's change, and wait until new sessions see it."""
        before = sql(self.dsn, "SELECT pg_conf_load_time()")
        sql(self.dsn, *statements, "SELECT pg_reload_conf()")
        until(lambda: sql(self.dsn, "SELECT pg_conf_load_time()") != before)


@pytest.mark.parametrize("major", [13, pytest.param(15, marks=pytest.mark.slow), 18])
def test_a_parameter_that_waits_to_be_unset_does_not_bar_apply_or_undo(
    new_cluster: NewCluster, tmp_path: Path, major: int
) -> None:
    """Apply with a restart, undo without one, and both again without; by SQL alone."""
    owner = Owner(new_cluster(major), tmp_path)
    assert owner.run("apply", restart=True).exit_code == 0
    undone = owner.run("undo")
    assert undone.exit_code == 0, undone.output
    assert "takes effect at the next restart: max_worker_processes" in undone.stderr
    assert sql(
        owner.dsn, "SELECT count(*) FROM pg_file_settings WHERE name IS NULL AND error <> ''"
    ) == [(1,)], "the server calls it an error"
    assert owner.in_force() == {"max_worker_processes": "12", "work_mem": "4MB"}

    again = owner.run("apply", "--json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["plan"]["pending"] == []  # it is part of the plan
    assert owner.in_force() == {"max_worker_processes": "12", "work_mem": "16MB"}
    assert owner.run("undo").exit_code == 0
    other = owner.run("undo")
    assert (other.exit_code, "nothing to undo" in other.stderr) == (2, True)
    assert owner.in_force() == {"max_worker_processes": "12", "work_mem": "4MB"}
    owner.cluster.restart()
    assert owner.in_force() == DEFAULTS


def test_nor_does_it_bar_a_change_of_something_else_with_a_restart(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    owner = Owner(new_cluster(), tmp_path)
    owner.run("apply", restart=True)
    owner.run("undo")
    owner.settings.write_text("work_mem = 32MB\nmax_wal_senders = 7\n")
    done = owner.run("apply", "--json", restart=True)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["plan"]["pending"] == [
        {"name": "max_worker_processes", "before": "12", "value": "8 (its default)"}
    ]
    assert owner.in_force() == {"max_worker_processes": "8", "work_mem": "32MB"}
    assert owner.run("undo", restart=True).exit_code == 0
    assert owner.in_force() == DEFAULTS


def test_what_somebody_else_has_made_wait_is_named_before_anything_is_agreed_to(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    owner = Owner(new_cluster(), tmp_path)
    owner.reload("ALTER SYSTEM SET max_connections = 77")
    asked = run("apply", owner.dsn, "--from", owner.settings, "--journal", owner.journal)
    assert asked.exit_code == 4  # nobody is there to agree
    lines = asked.stderr.splitlines()
    title = lines.index("not part of this plan: takes effect at the next restart")
    assert lines[title + 1].split() == ["max_connections:", "100", "becomes", "77"]


def test_what_a_reload_puts_into_force_as_well_is_named_and_nothing_is_measured_with_it(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    owner = Owner(new_cluster(), tmp_path)
    sql(
        owner.dsn, "ALTER SYSTEM SET statement_timeout = '5s'",
        "ALTER SYSTEM SET archive_command = 'true'",  # shown as (disabled), whatever it is
        "ALTER SYSTEM SET ssl_passphrase_command = 'echo hunter2'",
    )  # fmt: skip
    asked = run("apply", owner.dsn, "--from", owner.settings, "--journal", owner.journal)
    lines = asked.stderr.splitlines()
    title = lines.index("not part of this plan: takes effect with a reload")
    named = sorted(line.strip() for line in lines[title + 1 : title + 3])
    assert named == [
        "ssl_passphrase_command: (not shown) becomes (not shown)",
        "statement_timeout: 0 becomes 5s",
    ]
    assert "archive_command" not in asked.stderr
    measured = run("prove", owner.dsn, "--yes", "--journal", owner.journal)
    assert measured.exit_code == 4
    assert "changed and not reloaded: " in measured.stderr
    assert "statement_timeout = 5s" in measured.stderr
    assert "hunter2" not in asked.output + measured.output
    sql(owner.dsn, "ALTER SYSTEM RESET statement_timeout")
    owner.reload()
    sql(owner.dsn, "ALTER SYSTEM RESET ssl_passphrase_command")
    done = json.loads(owner.run("apply", "--json").stdout)
    assert [one["name"] for one in done["plan"]["reloaded"]] == ["ssl_passphrase_command"]
    sql(owner.dsn, "ALTER SYSTEM SET work_mem = '1MB'", "ALTER SYSTEM SET jit = off")
    undone = owner.run("undo", "--force")
    assert "jit: on becomes off" in undone.stderr
    assert "work_mem: 16MB becomes" not in undone.stderr


def test_an_undo_that_restarts_names_it_too(new_cluster: NewCluster, tmp_path: Path) -> None:
    owner = Owner(new_cluster(), tmp_path)
    owner.run("apply", restart=True)
    owner.reload("ALTER SYSTEM SET max_connections = 77")
    undone = owner.run("undo", restart=True)
    assert undone.exit_code == 0, undone.output
    lines = undone.stderr.splitlines()
    title = lines.index("not part of this plan: takes effect at the next restart")
    assert lines[title + 1].split() == ["max_connections:", "100", "becomes", "77"]
    assert lines[title + 2].split()[:1] != ["max_worker_processes:"]
    assert sql(owner.dsn, "SHOW max_connections") == [("77",)]


def test_what_does_not_wait_any_more_is_not_named(new_cluster: NewCluster, tmp_path: Path) -> None:
    """The server keeps pending_restart after the line that caused it is gone."""
    owner = Owner(new_cluster(), tmp_path)
    owner.reload("ALTER SYSTEM SET max_wal_senders = 7")
    owner.reload("ALTER SYSTEM RESET max_wal_senders")
    flagged = "SELECT name FROM pg_settings WHERE pending_restart"
    assert sql(owner.dsn, flagged) == [("max_wal_senders",)]
    done = owner.run("apply", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["plan"]["pending"] == []


def test_a_value_that_would_stop_the_restart_is_refused_before_it(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    owner = Owner(new_cluster(), tmp_path)
    owner.cluster.configure({"max_wal_senders": "none"})
    refused = owner.run("apply", restart=True)
    assert refused.exit_code == 4
    where = f"{owner.cluster.data}/postgresql.conf line "
    assert f"error: the configuration files contain an error: {where}" in refused.stderr
    assert owner.in_force() == DEFAULTS
    assert owner.cluster.running()


def test_what_somebody_has_written_but_not_put_into_force_is_shown_and_not_lost(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    owner = Owner(new_cluster(), tmp_path)
    sql(
        owner.dsn,
        "ALTER SYSTEM SET max_worker_processes = 10",
        "ALTER SYSTEM SET work_mem = '32MB'",
    )
    asked = run("apply", owner.dsn, "--from", owner.settings, "--journal", owner.journal)
    assert asked.exit_code == 4  # nobody is there to agree
    shown = " ".join(asked.stderr.split())
    for value in ("10", "32MB"):
        assert f"replaces {value}, which the files set but is not in force yet" in shown
    done = owner.run("apply", "--json")
    assert done.exit_code == 0, done.output
    notes = [one["notes"] for one in json.loads(done.stdout)["plan"]["steps"]]
    assert [len(each) for each in notes] == [1, 1]
    assert owner.run("undo").exit_code == 0
    assert owner.in_force() == {"max_worker_processes": "8", "work_mem": "32MB"}


def test_what_somebody_writes_after_the_plan_is_not_replaced(
    new_cluster: NewCluster, journal: Journal
) -> None:
    dsn = new_cluster().dsn()
    with connect(dsn) as conn:
        made = plan(read(conn), [Wanted(name="work_mem", value="16MB")])
    made = checked(dsn, made, restarts=False)
    sql(dsn, "ALTER SYSTEM SET work_mem = '32MB'")
    with pytest.raises(Refused, match="changed on the server since the plan was made: work_mem"):
        apply(dsn, made, journal)
    assert journal.changes() == ()
