"""Undo on a server that is down: its settings keep it from starting, and it is repaired."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conftest import NewCluster
from killed import was_killed

from mrtuner.change.journal import Journal
from mrtuner.change.record import State
from mrtuner.change.settings.apply import address_of, undo
from mrtuner.change.settings.stopped import _of_one_server
from mrtuner.change.transaction import Observer
from mrtuner.cli import main
from mrtuner.errors import ConnectError, Refused
from mrtuner.postgres.cluster import Cluster
from servers import pg_ctl, sql, standby_of

pytestmark = pytest.mark.timed


@pytest.fixture
def broken(new_cluster: NewCluster, tmp_path: Path) -> Cluster:
    """A server that is down: a slot was created between the change and the next start."""
    cluster = new_cluster()
    sql(cluster.dsn(), "ALTER SYSTEM SET work_mem = '8MB'")
    (tmp_path / "wanted.conf").write_text("wal_level = minimal\nmax_wal_senders = 0\n")
    done = run("apply", cluster.dsn(), tmp_path, "--from", str(tmp_path / "wanted.conf"))
    assert done.exit_code == 0, done.output
    sql(cluster.dsn(), "SELECT pg_create_physical_replication_slot('late')")
    cluster.stop()
    with pytest.raises(ConnectError, match="slot"):
        cluster.start()
    return cluster


def run(command: str, dsn: str, place: Path, *more: str) -> Result:
    words = [command, dsn, "--yes", "--journal", str(place / "journal"), *more]
    return CliRunner().invoke(main, words)


def entries(cluster: Cluster) -> list[str]:
    text = (cluster.data / "postgresql.auto.conf").read_text()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_a_server_that_cannot_start_any_more_is_repaired_by_undo(
    broken: Cluster, tmp_path: Path
) -> None:
    done = run("undo", broken.dsn(), tmp_path)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("2 settings restored in ")
    assert entries(broken) == ["work_mem = '8MB'"]
    broken.start()
    assert sql(broken.dsn(), "SHOW wal_level") == [("replica",)]
    assert "nothing to undo" in run("undo", broken.dsn(), tmp_path).stderr


def test_the_server_is_started_if_the_owner_says_how(broken: Cluster, tmp_path: Path) -> None:
    where = ["--data-directory", str(broken.data)]
    done = run("undo", broken.dsn(), tmp_path, "--restart", pg_ctl(broken, "restart"), *where)
    assert done.exit_code == 0, done.output
    assert done.stdout == "2 settings undone and verified\n"
    assert sql(broken.dsn(), "SHOW wal_level") == [("replica",)]
    with Journal(tmp_path / "journal") as journal:
        assert [one.state for one in journal.changes()] == ["reverted", "verified"]


def test_what_was_changed_since_and_what_still_runs_is_refused(
    broken: Cluster, new_cluster: NewCluster, tmp_path: Path
) -> None:
    file = broken.data / "postgresql.auto.conf"
    file.write_text(file.read_text().replace("minimal", "logical"))
    done = run("undo", broken.dsn(), tmp_path)
    assert done.exit_code == 4
    assert "settings were changed since: wal_level" in done.stderr
    assert run("undo", broken.dsn(), tmp_path, "--force").exit_code == 0
    other = new_cluster()
    assert run("undo", broken.dsn(), tmp_path, "--data-directory", str(other.data)).exit_code != 0


def test_a_standbys_files_are_not_taken_for_its_primarys(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    """Both have the same identity, and the primary was changed last."""
    (tmp_path / "wanted.conf").write_text("max_connections = 120\n")
    primary = new_cluster()
    with standby_of(primary) as standby:
        done = run("apply", primary.dsn(), tmp_path, "--from", str(tmp_path / "wanted.conf"),
                   "--restart", pg_ctl(primary, "restart"),
                   "--standby", standby.dsn(), pg_ctl(standby, "restart"))  # fmt: skip
        assert done.exit_code == 0, done.output
        standby.stop()
        where = ["--data-directory", str(standby.data)]
        done = run("undo", standby.dsn(), tmp_path, *where)
        assert done.exit_code == 0, done.output
        with Journal(tmp_path / "journal") as journal:
            undone = [one.address for one in journal.changes() if one.state == State.REVERTED]
        assert undone == [address_of(standby.dsn())]
        assert run("undo", standby.dsn(), tmp_path, *where).exit_code != 0  # it is undone
        assert not [line for line in entries(standby) if "max_connections" in line]
        # On machines of their own, both are at the same path.
        file = str(standby.data / "postgresql.auto.conf")
        with Journal(tmp_path / "journal") as journal:
            alike = [replace(one, file=file) for one in journal.changes()]
        here = address_of(standby.dsn())
        ours = _of_one_server(alike, here, standby.data)
        assert {one.address for one in ours} == {here}
        with pytest.raises(Refused, match="changes of several servers could be of"):
            _of_one_server(alike, "elsewhere:5432", standby.data)


def test_what_somebody_wrote_into_the_include_file_is_not_overwritten(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster()
    place = cluster.data / "conf.d"
    place.mkdir()
    shutil.chown(place, *(cluster.data.owner(), cluster.data.group()))
    with (cluster.data / "postgresql.conf").open("a") as file:
        file.write(f"include_dir = '{place}'\n")
    (tmp_path / "wanted.conf").write_text("work_mem = 8MB\nwal_buffers = -1\n")
    done = run("apply", cluster.dsn(), tmp_path, "--from", str(tmp_path / "wanted.conf"),
               "--conf-dir", str(place), "--restart", pg_ctl(cluster, "restart"))  # fmt: skip
    assert done.exit_code == 0, done.output
    (written,) = place.iterdir()
    with written.open("a") as file:
        file.write("jit = off\n")
    cluster.stop()
    refused = run("undo", cluster.dsn(), tmp_path)
    assert refused.exit_code == 4
    assert f"settings were changed since: others in {written}" in refused.stderr
    assert "jit = off" in written.read_text()
    assert run("undo", cluster.dsn(), tmp_path, "--force").exit_code == 0


def test_the_lines_of_others_stay_as_they_are_byte_for_byte(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    """A value may contain any character but a newline: PostgreSQL ends a line at that alone."""
    cluster, prefix = new_cluster(), "%m\r|\v\f\r"
    sql(cluster.dsn(), f"ALTER SYSTEM SET log_line_prefix = '{prefix}'")
    (tmp_path / "wanted.conf").write_text("work_mem = 8MB\n")
    file = cluster.data / "postgresql.auto.conf"
    before = file.read_bytes()
    done = run("apply", cluster.dsn(), tmp_path, "--from", str(tmp_path / "wanted.conf"))
    assert done.exit_code == 0, done.output
    cluster.stop()
    assert run("undo", cluster.dsn(), tmp_path).exit_code == 0
    assert file.read_bytes() == before
    cluster.start()
    assert sql(cluster.dsn(), "SHOW log_line_prefix") == [(prefix,)]


@pytest.fixture
def interrupted(new_cluster: NewCluster, tmp_path: Path) -> Cluster:
    """A server that was stopped after its undo was killed."""
    cluster = new_cluster()
    (tmp_path / "wanted.conf").write_text("work_mem = 8MB\n")
    done = run("apply", cluster.dsn(), tmp_path, "--from", str(tmp_path / "wanted.conf"))
    assert done.exit_code == 0, done.output
    killed = partial(undo_killed_at, cluster.dsn(), tmp_path / "journal")
    assert was_killed(killed, 2)  # at "write work_mem"
    cluster.stop()
    return cluster


def undo_killed_at(dsn: str, state: Path, at: Observer) -> None:
    with Journal(state) as journal:
        undo(dsn, journal, at=at)


def states(place: Path) -> list[str]:
    with Journal(place / "journal") as journal:
        return [one.state for one in journal.changes()]


def test_an_interrupted_undo_is_finished_in_the_files_and_reported(
    interrupted: Cluster, tmp_path: Path
) -> None:
    done = run("undo", interrupted.dsn(), tmp_path)
    assert done.exit_code == 0, done.output
    assert done.stdout == "1 setting restored\n"
    assert "start the server to put them into force" in done.stderr
    assert entries(interrupted) == []
    assert states(tmp_path) == ["reverted", "verified"]


def test_what_is_finished_in_the_files_is_a_document_too(
    interrupted: Cluster, tmp_path: Path
) -> None:
    done = run("undo", interrupted.dsn(), tmp_path, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["outcome"]["result"] == found["recovered"]["result"] == "finished"
    assert found["outcome"]["changed"] == ["work_mem"]


def test_an_interrupted_undo_ends_with_a_start_if_the_owner_says_how(
    interrupted: Cluster, tmp_path: Path
) -> None:
    restart = pg_ctl(interrupted, "restart")
    done = run("undo", interrupted.dsn(), tmp_path, "--restart", restart)
    assert done.exit_code == 0, done.output
    assert done.stdout == "1 setting finished and verified\n"
    assert sql(interrupted.dsn(), "SHOW work_mem") == [("4MB",)]


@pytest.mark.parametrize("starts", [False, True])
def test_an_interrupted_undo_that_was_on_its_way_back_is_begun_again(
    interrupted: Cluster, tmp_path: Path, starts: bool
) -> None:
    with Journal(tmp_path / "journal") as journal:
        journal.note(journal.changes()[-1], State.REVERTING, "put back work_mem")
    restart = ("--restart", pg_ctl(interrupted, "restart")) if starts else ()
    done = run("undo", interrupted.dsn(), tmp_path, *restart)
    assert done.exit_code == 0, done.output
    assert entries(interrupted) == []
    assert interrupted.running() is starts
    assert states(tmp_path) == ["reverted", "reverted", "verified"]
