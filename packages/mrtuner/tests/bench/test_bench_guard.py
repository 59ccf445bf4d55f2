"""A runner that is killed leaves neither a server nor its files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mrtuner.postgres.server_user import scratch_directory
from servers import binaries
from waiting import until

pytestmark = pytest.mark.timed

PROGRAM = [sys.executable, "-c", "from mrtuner.cli import main; main()", "bench"]
PLAN = """
scales = [1]
clients = [1]
blocks = 9
seconds = 20
warmup = 0
steal_limit = 1
foreign_limit = 1
[[workload]]
builtin = "select"
[[variant]]
name = "a"
[[variant]]
name = "b"
"""
CHILD = """
import sys, time
from pathlib import Path
from mrtuner.bench.server import guard

place, kept, trace = map(Path, sys.argv[1:])
with guard.directory_removed(place), guard.command_run(["touch", str(trace)]):
    with guard.directory_removed(kept):
        pass
    print("inside", flush=True)
    time.sleep(600)
"""

LOOP = """
import sys
from pathlib import Path
from mrtuner.bench.server import guard

print("begun", flush=True)
while True:
    with guard.temporary_directory("mrtuner-", Path(sys.argv[1])) as directory:
        (directory / "file").touch()
"""


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A scratch directory for servers that holds nothing else."""
    directory = scratch_directory("mrtuner-test-")
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def test_what_is_registered_is_done_when_we_are_killed_and_nothing_else(tmp_path: Path) -> None:
    place, kept, trace = tmp_path / "place", tmp_path / "kept", tmp_path / "trace"
    for directory in (place, kept):
        directory.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(place), str(kept), str(trace)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"inside\n"
        assert place.exists()
        child.kill()
    until(lambda: not place.exists() and trace.exists())
    assert kept.exists()


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL])
def test_a_temporary_directory_goes_whenever_the_signal_comes(
    tmp_path: Path, signal_number: signal.Signals
) -> None:
    """The signal comes while directories are created and removed, each time at another step."""
    for moment in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", LOOP, str(tmp_path)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ) as child:  # fmt: skip
            assert child.stdout is not None
            assert child.stdout.readline() == b"begun\n"
            time.sleep(0.05 + moment * 0.0037)  # any moment will do, but another each time
            child.send_signal(signal_number)
        if signal_number == signal.SIGINT:
            assert child.returncode == -signal.SIGINT
            assert list(tmp_path.iterdir()) == []  # the program has waited for its guard
        until(lambda: list(tmp_path.iterdir()) == [])


def postmaster(scratch: Path) -> int | None:
    """PID of the server whose data are in this scratch directory, or None until it is ready."""
    with suppress(FileNotFoundError):  # a server between two starts
        for file in scratch.rglob("postmaster.pid"):
            lines = file.read_text().splitlines()
            if lines and lines[-1].strip() == "ready":
                return int(lines[0])
    return None


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def files_of_a_cluster(scratch: Path) -> list[str]:
    """os.walk, unlike rglob, passes over a directory that goes away while it looks."""
    return [at for at, _, names in os.walk(scratch) if "PG_VERSION" in names]


def test_a_killed_runner_leaves_no_server(tmp_path: Path, scratch: Path) -> None:
    binaries(18)
    (tmp_path / "plan.toml").write_text(PLAN)
    with subprocess.Popen(
        [*PROGRAM, "run", "plan.toml", "--dir", "run"], cwd=tmp_path, stderr=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": str(scratch)},
    ) as run:  # fmt: skip
        try:
            server = until(lambda: postmaster(scratch))
        finally:
            run.kill()
    until(lambda: not alive(server))
    until(lambda: not files_of_a_cluster(scratch))
