"""Killed at any step: the start or the target is in force, and recover clears up."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from conftest import PASSWORD, NewCluster
from killed import CHILDREN, Verb, started, was_killed

from machine import needs
from mrtuner.change.journal import Journal
from mrtuner.change.settings.apply import (
    NEVER,
    Restart,
    Wanted,
    apply,
    finish_or_revert_settings,
    plan,
    undo,
)
from mrtuner.change.transaction import Observer
from mrtuner.errors import ApplyError, ConnectError
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.read_server import read
from mrtuner.postgres.server_user import scratch_directory
from servers import pg_ctl, running
from waiting import until

pytestmark = pytest.mark.timed

if sys.platform == "win32":
    pytest.skip("needs SIGKILL", allow_module_level=True)

WANTED = (
    Wanted(name="random_page_cost", value="1.1"),
    Wanted(name="shared_buffers", value="64MB"),
    Wanted(name="work_mem", value="64MB"),
)
START = ("4", "16384", "8192")
TARGET = ("1.1", "8192", "65536")
WITHOUT_RESTART = ("1.1", "16384", "65536")  # the target while shared_buffers waits
BEFORE = ["work_mem = '8MB'"]
AFTER = ["random_page_cost = '1.1'", "shared_buffers = '64MB'", "work_mem = '64MB'"]


@dataclass(frozen=True)
class Change:
    """Apply or undo, in a child process."""

    verb: Verb
    dsn: str
    state: Path
    command: str | None = None  # restarts the server
    more: tuple[Wanted, ...] = ()

    def __call__(self, at: Observer) -> None:
        restart = Restart(run=self.command) if self.command else NEVER
        with Journal(self.state) as journal:
            if self.verb == "undo":
                undo(self.dsn, journal, restart=restart, at=at)
                return
            with connect(self.dsn) as conn:
                server = read(conn)
            made = plan(server, WANTED + self.more)
            with suppress(ApplyError):
                apply(self.dsn, made, journal, restart=restart, at=at)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running(settings={"fsync": "off"}) as cluster:
        yield cluster


@pytest.fixture
def server(cluster: Cluster) -> Cluster:
    reset(cluster)
    return cluster


def reset(cluster: Cluster) -> None:
    """Bring the server to START, restarting it where that is needed."""
    if not cluster.running():
        (cluster.data / "postgresql.auto.conf").write_text("")
        cluster.start()
    with connect(cluster.dsn()) as conn:
        conn.execute("ALTER SYSTEM RESET ALL")
        conn.execute("ALTER SYSTEM SET work_mem = '8MB'")
        conn.execute("SELECT pg_reload_conf()")
    if in_force(cluster)[1] != START[1]:
        cluster.restart()
    until(lambda: in_force(cluster) == START)


def in_force(cluster: Cluster) -> tuple[str, ...]:
    """What a new session sees."""
    with connect(cluster.dsn()) as conn:
        rows = conn.execute(
            "SELECT setting FROM pg_settings WHERE name = ANY(%s) ORDER BY name",
            ([one.name for one in WANTED],),
        ).fetchall()
    return tuple(row[0] for row in rows)


def entries(cluster: Cluster) -> list[str]:
    text = (cluster.data / "postgresql.auto.conf").read_text()
    return sorted(line for line in text.splitlines() if not line.startswith("#"))


@pytest.mark.parametrize(("verb", "ways"), [
    ("apply", {"reverted", "undone"}),
    ("undo", {"undone", "finished"}),
])  # fmt: skip
def test_killed_at_any_step_the_next_undo_takes_one_change_back_not_two(
    server: Cluster, tmp_path: Path, verb: Verb, ways: set[str]
) -> None:
    """Two changes, the second or its undo killed: what remains is always the first."""
    seen = set()
    for killed_at in count(1, 4):
        reset(server)
        state = tmp_path / str(killed_at)
        with Journal(state) as journal, connect(server.dsn()) as conn:
            made = plan(read(conn), [Wanted(name="random_page_cost", value="3")])
            apply(server.dsn(), made, journal)
        was_killed(Change("apply", server.dsn(), state), killed_at * (verb == "apply"))
        if verb == "undo":
            was_killed(Change("undo", server.dsn(), state), killed_at)
        with Journal(state) as journal:
            if all(change.finished for change in journal.changes()):
                break  # it was done before it was killed: the next undo would undo another change
            seen.add(undo(server.dsn(), journal).result)
        until(lambda: in_force(server) == ("3", *START[1:]))
    assert seen == ways


def test_killed_on_the_way_back_the_next_run_goes_on(server: Cluster, tmp_path: Path) -> None:
    """The server refuses a value, so the change is rolled back; the rollback is killed, too."""
    refused = (Wanted(name="autovacuum_naptime", value="99999999"),)
    for killed_at in count(8):  # the last write is refused
        killed = was_killed(Change("apply", server.dsn(), tmp_path, more=refused), killed_at)
        assert in_force(server) == START, killed_at
        with Journal(tmp_path) as journal:
            finish_or_revert_settings(server.dsn(), journal)
        assert (in_force(server), entries(server)) == (START, BEFORE), killed_at
        if not killed:
            break
    assert killed_at > 12


def test_what_recover_leaves_can_be_applied_and_undone_again(
    server: Cluster, tmp_path: Path
) -> None:
    """The next apply itself clears up the interrupted change."""
    assert was_killed(Change("apply", server.dsn(), tmp_path), killed_at=5)
    with connect(server.dsn()) as conn:
        made = plan(read(conn), WANTED)
    with Journal(tmp_path) as journal:
        apply(server.dsn(), made, journal)
        assert (in_force(server), entries(server)) == (WITHOUT_RESTART, AFTER)
        undo(server.dsn(), journal)
        assert (in_force(server), entries(server)) == (START, BEFORE)
        assert [one.state for one in journal.changes()] == ["reverted", "reverted", "verified"]


def test_killed_halfway_and_reloaded_by_somebody_else(server: Cluster, tmp_path: Path) -> None:
    """The one way to a mixture: entries half written, then somebody reloads. recover ends it."""
    assert was_killed(Change("apply", server.dsn(), tmp_path), killed_at=4)
    with connect(server.dsn()) as conn:
        conn.execute("SELECT pg_reload_conf()")
    until(lambda: in_force(server) == ("1.1", "16384", "8192"))
    with Journal(tmp_path) as journal:
        outcome = finish_or_revert_settings(server.dsn(), journal)
    assert outcome is not None
    assert outcome.result == "reverted"
    assert (in_force(server), entries(server)) == (START, BEFORE)


def test_killed_while_the_command_restarts_the_server(server: Cluster, tmp_path: Path) -> None:
    """The command outlives us, so the server comes up with its target."""
    command = f"kill -9 $PPID; {pg_ctl(server, 'restart')}"
    assert was_killed(Change("apply", server.dsn(), tmp_path, command), killed_at=0)
    until(lambda: reached(server, TARGET))
    with Journal(tmp_path) as journal:
        outcome = finish_or_revert_settings(server.dsn(), journal)
    assert outcome is not None
    assert outcome.result == "finished"
    assert (in_force(server), entries(server)) == (TARGET, AFTER)


def reached(cluster: Cluster, values: tuple[str, ...]) -> bool:
    import psycopg

    try:
        return in_force(cluster) == values
    except (ConnectError, psycopg.OperationalError):  # it is restarting
        return False


def kill_with_the_server_down(server: Cluster, state: Path) -> None:
    command = f"kill -9 $PPID; {pg_ctl(server, 'stop')}"
    assert was_killed(Change("apply", server.dsn(), state, command), killed_at=0)
    until(lambda: not server.running())


def test_killed_with_the_server_down_it_is_brought_back_with_its_old_settings(
    server: Cluster, tmp_path: Path
) -> None:
    kill_with_the_server_down(server, tmp_path)
    with Journal(tmp_path) as journal:
        outcome = finish_or_revert_settings(
            server.dsn(), journal, restart=Restart(run=pg_ctl(server, "restart"))
        )
    assert outcome is not None
    assert outcome.result == "reverted"
    assert (in_force(server), entries(server)) == (START, BEFORE)


def test_without_consent_a_server_that_is_down_gets_its_old_file_and_is_not_started(
    server: Cluster, tmp_path: Path
) -> None:
    kill_with_the_server_down(server, tmp_path)
    with Journal(tmp_path) as journal:
        with pytest.raises(ApplyError, match="its old settings are back in") as down:
            finish_or_revert_settings(server.dsn(), journal, restart=Restart(patience=1))
        assert down.value.hint == "Start it, then run again to verify."
        assert entries(server) == BEFORE
        assert not server.running()
        server.start()
        assert finish_or_revert_settings(server.dsn(), journal) is not None
        assert finish_or_revert_settings(server.dsn(), journal) is None
    assert in_force(server) == START


def test_a_server_that_is_down_without_a_change_of_ours_is_just_down(
    server: Cluster, tmp_path: Path
) -> None:
    server.stop()
    with Journal(tmp_path) as journal, pytest.raises(ConnectError):
        finish_or_revert_settings(server.dsn(), journal)


def elsewhere(dsn: str, state: Path, uid: int, stop: str, said: object) -> None:
    """Apply as a user who cannot reach the data directory, with a restart that stops the server."""
    os.environ["PGPASSWORD"] = PASSWORD
    Journal(state).close()
    with connect(dsn) as conn:
        made = plan(read(conn), WANTED)
    for path in (state, *state.iterdir()):
        os.chown(path, uid, uid)
    os.setgid(uid)
    os.setuid(uid)

    def run() -> None:
        with connect(dsn) as conn:
            conn.execute(f"COPY (SELECT 1) TO PROGRAM '{stop}'".encode())
            time.sleep(1)

    with Journal(state) as journal:
        try:
            apply(dsn, made, journal, restart=Restart(run=run, patience=1))
        except ApplyError as error:
            said.put((error.message, error.hint))  # type: ignore[attr-defined]


@needs("root")
def test_an_unreachable_server_that_is_down_is_told_how_to_be_mended(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster(listen=True)
    with connect(cluster.dsn()) as conn:
        conn.execute("ALTER SYSTEM SET work_mem = '8MB'")
        conn.execute("SELECT pg_reload_conf()")
    until(lambda: in_force(cluster)[2] == "8192")
    stop = f"{cluster.binaries.program('pg_ctl')} stop -W -m immediate -D {cluster.data}"
    state = scratch_directory()
    said = CHILDREN.Queue()
    process = started(elsewhere, cluster.dsn(tcp=True), state, 65534, stop, said)
    message, hint = said.get(timeout=30)
    process.join()
    shutil.rmtree(state)
    assert "the server is down" in message
    assert hint == (
        f"In {cluster.data}/postgresql.auto.conf of its data directory put back"
        " work_mem = '8MB' and remove the lines that set random_page_cost, shared_buffers,"
        " then start the server."
    )
    # Following the hint restores the start.
    (cluster.data / "postgresql.auto.conf").write_text("work_mem = '8MB'\n")
    cluster.start()
    assert in_force(cluster) == START
