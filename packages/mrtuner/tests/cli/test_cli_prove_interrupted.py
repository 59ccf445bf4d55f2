"""A proof that is interrupted repeatedly or killed: what is left is reported and can be removed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import Result
from conftest import NewCluster

from command_line import run
from mrtuner.change.journal import Journal
from mrtuner.change.settings.apply import Wanted, apply, plan
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.read_server import read
from mrtuner.postgres.server_user import scratch_directory
from servers import pg_ctl, sql
from waiting import until

pytestmark = pytest.mark.timed

PROGRAM = "from mrtuner.cli import main; main()"
#: Runs as short as possible, and so many that they do not end during the test.
TINY = (
    "--memory", "2GB", "--cpus", "2", "--storage", "ssd", "--scale", "1", "--clients", "2",
    "--seconds", "1", "--warmup", "0", "--blocks", "50", "--calibrate", "0", "--yes",
)  # fmt: skip
BACK = "restoring the settings"


class Proof:
    """A proof on one server, in its own process and with its own temporary directory."""

    def __init__(self, cluster: Cluster, place: Path, scratch: Path) -> None:
        self.cluster, self.dsn = cluster, cluster.dsn()
        self.journal, self.scratch = place / "journal", scratch
        self.said: list[str] = []

    @contextmanager
    def running(self, *more: str) -> Iterator[subprocess.Popen[str]]:
        arguments = [
            "prove", self.dsn, *TINY, "--server-bin", str(self.cluster.binaries.directory),
            "--journal", str(self.journal), *more,
        ]  # fmt: skip
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments], stderr=subprocess.PIPE, text=True,
            env={**os.environ, "TMPDIR": str(self.scratch)},
        ) as process:  # fmt: skip
            yield process

    def wait_for(self, process: subprocess.Popen[str], words: str) -> None:
        """Read the program's messages until one contains the words."""
        assert process.stderr is not None
        for line in process.stderr:
            self.said.append(line.rstrip("\n"))
            if words in line:
                return
        raise AssertionError(f"never said {words!r}: {self.said}")

    def rest(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.said += process.stderr.read().splitlines()

    def command_after(self, words: str) -> list[str]:
        """The command that a message gives after these words, split into arguments."""
        (line,) = {line for line in self.said if line.startswith(words)}
        return shlex.split(line.removeprefix(words))

    def databases(self) -> list[str]:
        found = sql(
            self.dsn, "SELECT datname FROM pg_database WHERE datname ~ 'mrtuner' ORDER BY 1"
        )
        return [name for (name,) in found]

    def cost(self) -> str:
        return str(sql(self.dsn, "SHOW random_page_cost")[0][0])

    def as_it_was(self) -> bool:
        set_now = "SELECT count(*) FROM pg_file_settings WHERE sourcefile ~ 'auto'"
        return (
            self.cost() == "4" and self.databases() == [] and sql(self.dsn, set_now) == [(0,)]
            and list(self.scratch.glob("mrtuner-*")) == []
        )  # fmt: skip

    def restart_command(self, before: str = "true") -> str:
        return f"{before}; {pg_ctl(self.cluster, 'restart')}"


@pytest.fixture
def proof(new_cluster: NewCluster, tmp_path: Path) -> Iterator[Proof]:
    scratch = scratch_directory("mrtuner-test-")
    yield Proof(new_cluster(), tmp_path, scratch)
    subprocess.run(["rm", "-rf", str(scratch)], check=True)


def typed(words: list[str], *more: str) -> Result:
    assert words[0] == "mrtuner"
    return run(*words[1:], *more)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_interrupted_again_while_it_puts_back_it_puts_back_all_the_same(
    proof: Proof, number: signal.Signals
) -> None:
    with proof.running() as process:
        proof.wait_for(process, "advised: ")  # measured, so its settings are in force
        process.send_signal(number)
        proof.wait_for(process, BACK)
        process.send_signal(number)
        proof.rest(process)
    assert process.returncode == 130
    assert proof.as_it_was(), proof.said


def test_interrupted_twice_at_once_it_puts_back_all_the_same(proof: Proof) -> None:
    """The second interrupt arrives while it still drops its databases."""
    with proof.running() as process:
        proof.wait_for(process, "advised: ")
        process.send_signal(signal.SIGTERM)
        time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        proof.rest(process)
    assert process.returncode == 130
    assert proof.as_it_was(), proof.said


def test_interrupted_a_third_time_it_says_what_is_in_force_and_what_repairs_it(
    proof: Proof,
) -> None:
    """Restoring needs a slow restart, during which the third interrupt arrives."""
    slow, restarting = proof.scratch / "slow", proof.scratch / "restarting"
    restart = proof.restart_command(f"if test -e {slow}; then touch {restarting}; sleep 2; fi")
    with proof.running("--restart", restart) as process:
        proof.wait_for(process, "advised: ")
        slow.touch()
        process.send_signal(signal.SIGTERM)
        proof.wait_for(process, BACK)
        process.send_signal(signal.SIGTERM)
        proof.wait_for(process, "still restoring everything; interrupt again")
        until(restarting.exists)
        process.send_signal(signal.SIGTERM)
        proof.rest(process)
    slow.unlink()
    assert process.returncode == 130, proof.said
    assert proof.cost() == "1.1"
    (left,) = [line for line in proof.said if line.startswith("warning: still in force, as")]
    assert "random_page_cost" in left
    assert "shared_buffers" in left
    command = proof.command_after("to restore everything: ")
    assert command[command.index("--restart") + 1] == restart
    done = typed(command, "--yes")
    assert done.exit_code == 0, done.output
    assert proof.as_it_was()
    assert sql(proof.dsn, "SHOW shared_buffers") == [("128MB",)]


@contextmanager
def killed_with_its_guard(proof: Proof) -> Iterator[None]:
    """Kill a proof and its children, as when systemd or a container's end kills its cgroup."""
    with proof.running() as process:
        proof.wait_for(process, "advised: ")
        until(lambda: proof.databases() != [] and list(proof.scratch.iterdir()) != [])
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGSTOP)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        process.kill()
    assert proof.databases() != []
    assert list(proof.scratch.iterdir()) != []
    yield


def test_what_a_killed_proof_left_is_named_and_removed_by_the_command_that_it_gave(
    proof: Proof, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Settings, databases and directories are removed; the owner's earlier change stays."""
    settings = tmp_path / "wanted.conf"
    settings.write_text("work_mem = 5MB\n")
    keep = ["--journal", str(proof.journal)]
    applied = run("apply", proof.dsn, "--from", settings, "--yes", *keep)
    assert applied.exit_code == 0
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("TMPDIR", str(proof.scratch))
    with killed_with_its_guard(proof):
        command = proof.command_after("everything is restored at the end; if this is killed, run: ")
        databases, directories = proof.databases(), sorted(proof.scratch.iterdir())
        asked = typed(command)  # nobody is there to agree
        for name in databases:
            assert f"left behind by a run that was killed: database {name}" in asked.stderr
        for path in directories:
            assert f"left behind by a run that was killed: directory {path}" in asked.stderr
        assert "use --yes to do it" in asked.stderr
        assert (proof.databases(), sorted(proof.scratch.iterdir())) == (databases, directories)

        done = typed(command, "--yes", "--json")
        assert done.exit_code == 0, done.output
        document = json.loads(done.stdout)
        removed = [*databases, *(str(path) for path in directories)]
        assert set(removed) <= set(document["removed"])  # the server may have continued to copy
    assert (proof.databases(), list(proof.scratch.iterdir())) == ([], [])
    assert proof.cost() == "4"
    assert sql(proof.dsn, "SHOW work_mem") == [("5MB",)], "not the proof's"
    assert typed(command, "--yes").exit_code == 0
    assert sql(proof.dsn, "SHOW work_mem") == [("5MB",)]
    assert run("undo", proof.dsn, "--yes", *keep).exit_code == 0
    assert proof.as_it_was()


def test_what_a_running_proof_uses_is_left_alone(
    proof: Proof, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("TMPDIR", str(proof.scratch))
    other = ["undo", proof.dsn, "--proof", "--yes", "--journal", str(tmp_path / "other")]
    with proof.running() as process:
        proof.wait_for(process, "current: ")
        until(lambda: list(proof.scratch.glob("mrtuner-proof-*")) != [])
        before, (directory,) = proof.databases(), proof.scratch.glob("mrtuner-proof-*")
        done = run(*other)
        assert "left behind" not in done.stderr
        assert before != []
        assert set(before) <= {*proof.databases(), "mrtuner_proof_run"}  # created for each run
        assert directory.exists()
        process.send_signal(signal.SIGTERM)
        proof.rest(process)
    assert proof.as_it_was()


def test_a_second_proof_or_a_search_waits_whatever_its_journal(
    proof: Proof, tmp_path: Path
) -> None:
    """Each would take the values of the other's side for what was there before."""
    programs = ("--server-bin", str(proof.cluster.binaries.directory))
    second = ("prove", proof.dsn, *TINY, *programs, "--journal", tmp_path / "other")
    search = ("search", proof.dsn, "--reload-only", "--yes", "--dir", tmp_path / "search")
    with proof.running() as process:
        proof.wait_for(process, "current: ")
        for other in (second, (*search, "--journal", proof.journal)):
            done = run(*other)
            assert done.exit_code == 4, done.output
            assert "another proof or search changes settings on this server now" in done.stderr
        process.send_signal(signal.SIGTERM)
        proof.rest(process)
    assert process.returncode == 130
    assert proof.as_it_was(), proof.said


def test_nothing_is_built_on_what_a_killed_proof_left(proof: Proof, tmp_path: Path) -> None:
    """It would count as the user's own: as nothing to change, or as what undo restores."""
    with Journal(proof.journal) as journal:
        with connect(proof.dsn) as session:
            left = plan(read(session), [Wanted(name="work_mem", value="8MB")])
        apply(proof.dsn, left, journal, proof=True)
    settings, keep = tmp_path / "wanted.conf", ("--journal", proof.journal)
    settings.write_text("work_mem = 9MB\n")
    programs = ("--server-bin", str(proof.cluster.binaries.directory))
    for words in (
        ("apply", proof.dsn, "--from", settings, "--yes"), ("prove", proof.dsn, *TINY, *programs),
    ):  # fmt: skip
        done = run(*words, *keep)
        assert done.exit_code == 4, done.output
        assert "a proof or search has put settings into force: work_mem" in done.stderr
        assert "mrtuner undo DSN --proof" in done.stderr
    assert sql(proof.dsn, "SHOW work_mem") == [("8MB",)]
    assert run("undo", proof.dsn, "--proof", "--yes", *keep).exit_code == 0
    assert run("apply", proof.dsn, "--from", settings, "--yes", *keep).exit_code == 0
    assert run("undo", proof.dsn, "--yes", *keep).exit_code == 0
    assert proof.as_it_was()


def test_a_database_of_another_machines_proof_is_only_named(proof: Proof, tmp_path: Path) -> None:
    mark = "mrtuner proof, pid 1 on elsewhere since 2026-01-01T00:00:00+00:00; may be dropped"
    sql(
        proof.dsn, "CREATE DATABASE theirs", f"COMMENT ON DATABASE theirs IS '{mark}'",
        "CREATE DATABASE mrtuner_mine",
    )  # fmt: skip
    done = run("undo", proof.dsn, "--proof", "--yes", "--journal", tmp_path / "journal")
    assert done.exit_code == 0, done.output
    assert f"database theirs exists: {mark}" in done.stderr
    assert 'once that has ended: DROP DATABASE "theirs";' in done.stderr
    assert sql(proof.dsn, "SELECT count(*) FROM pg_database WHERE datname ~ 'theirs|mine'") == [
        (2,)
    ]
