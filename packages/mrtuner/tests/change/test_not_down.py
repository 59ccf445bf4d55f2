"""A server that gives no session may run: then it, and files at its path, are left alone."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from killed import Verb, started

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
from mrtuner.change.settings.server_log import ServerLog
from mrtuner.change.transaction import Observer, unobserved
from mrtuner.errors import ApplyError, ConnectCause, ConnectError
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.read_server import read
from mrtuner.postgres.server_user import scratch_directory
from servers import binaries, pg_ctl, sql
from waiting import until

pytestmark = pytest.mark.timed

if sys.platform == "win32":
    pytest.skip("needs SIGKILL", allow_module_level=True)

OURS = ["work_mem = '8MB'"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster.create(binaries(18), scratch_directory(), {"fsync": "off"})
    yield cluster
    cluster.remove()


@pytest.fixture
def server(cluster: Cluster) -> Cluster:
    """A server without entries, whatever the previous test left."""
    if cluster.running():
        cluster.stop()
    (cluster.data / "postgresql.auto.conf").write_text("")
    cluster.start()
    return cluster


def change(
    verb: Verb, dsn: str, state: Path, at: Observer = unobserved, restart: Restart = NEVER,
    name: str = "work_mem", value: str = "8MB",
) -> None:  # fmt: skip
    with Journal(state) as journal:
        if verb == "undo":
            undo(dsn, journal, restart=restart, at=at)
            return
        with connect(dsn) as conn:
            made = plan(read(conn), [Wanted(name=name, value=value)])
        apply(dsn, made, journal, restart=restart, at=at)


def killed_before(step: str, verb: Verb, dsn: str, state: Path) -> None:
    process = started(die_before, step, verb, dsn, state)
    process.join()
    assert process.exitcode == -signal.SIGKILL


def die_before(step: str, verb: Verb, dsn: str, state: Path) -> None:
    def at(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    change(verb, dsn, state, at)


def recover(dsn: str, state: Path, restart: Restart = NEVER) -> str | None:
    with Journal(state) as journal:
        outcome = finish_or_revert_settings(dsn, journal, restart=restart)
    return None if outcome is None else outcome.result


def entries(cluster: Cluster) -> list[str]:
    text = (cluster.data / "postgresql.auto.conf").read_text()
    return [line for line in text.splitlines() if not line.startswith("#")]


def states(state: Path) -> list[str]:
    with Journal(state) as journal:
        return [one.state for one in journal.changes()]


def work_mem(cluster: Cluster) -> str:
    return str(sql(cluster.dsn(), "SHOW work_mem")[0][0])


def elsewhere(cluster: Cluster) -> str:
    """Another port leads to the server, as a published port does: its files are not known here."""
    link = cluster.directory / ".s.PGSQL.5999"
    link.unlink(missing_ok=True)
    link.symlink_to(f".s.PGSQL.{cluster.port}")
    return f"host={cluster.directory} port=5999 user=postgres dbname=postgres"


def test_an_interrupted_undo_is_not_finished_in_files_that_may_be_of_another_server(
    server: Cluster, tmp_path: Path
) -> None:
    dsn = elsewhere(server)
    change("apply", dsn, tmp_path)
    killed_before("write work_mem", "undo", dsn, tmp_path)
    server.stop()
    with pytest.raises(ConnectError) as refused:
        recover(dsn, tmp_path)
    assert refused.value.cause is ConnectCause.REFUSED
    assert entries(server) == OURS
    assert states(tmp_path) == ["verified", "writing"]
    server.start()
    assert recover(dsn, tmp_path) == "reverted"


def test_an_interrupted_undo_is_not_finished_in_the_files_of_a_running_server(
    server: Cluster, tmp_path: Path
) -> None:
    """Its socket is gone, so nothing listens there, but it runs."""
    change("apply", server.dsn(), tmp_path)
    killed_before("write work_mem", "undo", server.dsn(), tmp_path)
    socket = server.directory / f".s.PGSQL.{server.port}"
    socket.rename(server.directory / "away")
    try:
        with pytest.raises(ConnectError):
            recover(server.dsn(), tmp_path)
    finally:
        (server.directory / "away").rename(socket)
    assert entries(server) == OURS


def test_an_interrupted_undo_waits_if_the_login_is_refused(server: Cluster, tmp_path: Path) -> None:
    """Its entry is gone from the file, but 8MB is in force until somebody reloads."""
    change("apply", server.dsn(), tmp_path)
    killed_before("reload", "undo", server.dsn(), tmp_path)
    with pytest.raises(ConnectError):
        recover(server.dsn(user="nobody"), tmp_path)
    assert states(tmp_path) == ["verified", "reloading"]
    assert work_mem(server) == "8MB"
    assert recover(server.dsn(), tmp_path) == "reverted"
    assert (work_mem(server), entries(server)) == ("8MB", OURS)


@pytest.mark.parametrize(("role", "cause"), [
    ("nobody", ConnectCause.NO_ROLE), ("crowd", ConnectCause.ROLE_FULL), ("shy", None),
])  # fmt: skip
def test_a_server_that_refuses_a_login_is_not_restarted(
    server: Cluster, tmp_path: Path, role: str, cause: ConnectCause | None
) -> None:
    sql(
        server.dsn(), "DROP ROLE IF EXISTS crowd", "CREATE ROLE crowd LOGIN CONNECTION LIMIT 0",
        "DROP ROLE IF EXISTS shy", "CREATE ROLE shy LOGIN",
        "ALTER ROLE shy SET session_preload_libraries = 'nowhere'",
    )  # fmt: skip
    killed_before("verify", "apply", server.dsn(), tmp_path / "state")
    command = f"touch {tmp_path}/restarted; {pg_ctl(server, 'restart')}"
    with pytest.raises(ConnectError) as refused:
        recover(server.dsn(user=role), tmp_path / "state", Restart(run=command))
    assert refused.value.cause is cause
    assert not (tmp_path / "restarted").exists()
    assert states(tmp_path / "state") == ["reloaded"]
    assert entries(server) == OURS


def test_a_restarted_server_that_gives_no_session_is_not_restarted_again(
    server: Cluster, tmp_path: Path
) -> None:
    sql(server.dsn(), "DROP ROLE IF EXISTS tuner", "CREATE ROLE tuner LOGIN SUPERUSER")
    restarts = []

    def restart() -> None:
        server.restart()
        sql(server.dsn(), "ALTER ROLE tuner NOLOGIN")
        restarts.append(1)

    with pytest.raises(ApplyError, match=r"may run, but gives no session: .*not permitted") as left:
        change(
            "apply", server.dsn(user="tuner"), tmp_path, restart=Restart(run=restart, patience=1),
            name="shared_buffers", value="64MB",
        )  # fmt: skip
    assert left.value.hint == (
        "The change is in the journal: run again to continue putting it back."
    )
    assert restarts == [1]
    assert states(tmp_path) == ["restarting"]


# The owner's command is never stopped between its stop and its start.


def slow(cluster: Cluster, place: Path, seconds: int) -> str:
    stopped = f"{pg_ctl(cluster, 'stop')} && touch {place}/stopped"
    return f"{stopped}; sleep {seconds}; {pg_ctl(cluster, 'start')}"


def at_start(cluster: Cluster) -> bool:
    try:
        return sql(cluster.dsn(), "SHOW shared_buffers") == [("128MB",)]
    except Exception:
        return False


def test_an_interrupted_restart_goes_on_and_everything_is_taken_back(
    server: Cluster, tmp_path: Path
) -> None:
    def interrupt() -> None:
        until((tmp_path / "stopped").exists)
        os.kill(os.getpid(), signal.SIGINT)

    user = threading.Thread(target=interrupt)
    user.start()
    with pytest.raises(KeyboardInterrupt):
        change(
            "apply", elsewhere(server), tmp_path / "state",
            restart=Restart(run=slow(server, tmp_path, 2)),
            name="shared_buffers", value="64MB",
        )  # fmt: skip
    user.join()
    assert at_start(server)
    assert entries(server) == []
    assert states(tmp_path / "state") == ["reverted"]


def test_a_restart_that_takes_too_long_goes_on_with_the_old_settings(
    server: Cluster, tmp_path: Path
) -> None:
    with pytest.raises(ApplyError, match="still runs"):
        change(
            "apply", server.dsn(), tmp_path / "state",
            restart=Restart(run=slow(server, tmp_path, 12), patience=1),
            name="shared_buffers", value="64MB",
        )  # fmt: skip
    assert entries(server) == []
    until(lambda: at_start(server))
    assert recover(server.dsn(), tmp_path / "state") == "reverted"


@pytest.mark.parametrize(("collected", "told"), [(False, 1), (True, 2)])
def test_only_the_collectors_newer_files_are_of_the_same_server(
    tmp_path: Path, collected: bool, told: int
) -> None:
    """Debian's clusters write into one directory. Of 3 MB, only the last is read."""
    ours, other = tmp_path / "postgresql-18-main.log", tmp_path / "postgresql-16-main.log"
    ours.write_text("FATAL:  before\n")
    log = ServerLog(ours, ours.stat().st_size, collected)
    with ours.open("a") as file:
        file.write("FATAL:  too early\n" + "LOG:  x\n" * 400_000 + "FATAL:  could not map memory\n")
    other.write_text("FATAL:  of the other\n")
    os.utime(other, (2_000_000_000, 2_000_000_000))
    assert log.lines() == ("FATAL: could not map memory", "FATAL: of the other")[:told]
