"""A test session retries only some failures, and fails if tests leave anything behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import leftovers
from servers import ROOT

TESTS = """
import subprocess
from pathlib import Path

import pytest

from mrtuner.errors import ConnectError

pytestmark = pytest.mark.timed


def once(request, error):
    seen = Path(__file__).with_name(request.node.name)
    first = not seen.exists()
    seen.touch()
    if first:
        raise error


def test_held_up(request):
    once(request, subprocess.TimeoutExpired(["initdb"], 60))


def test_no_session(request):
    once(request, ConnectError("cannot connect to db: connection timeout expired"))


def test_password(request):
    once(request, ConnectError("cannot connect to db: password authentication failed"))


def test_wrong(request):
    once(request, AssertionError("1 is not 2"))


def test_wrong_after_a_wait(request):
    try:
        raise subprocess.TimeoutExpired(["initdb"], 60)
    except subprocess.TimeoutExpired:
        once(request, AssertionError("it did not come"))


@pytest.mark.skip(reason="no browser here")
def test_not_here():
    pass
"""
LEAVING = """
import tempfile

from mrtuner.postgres.server_user import scratch_directory


def test_it_leaves_a_directory():
    scratch_directory()


def test_it_leaves_what_is_no_business_of_ours():
    tempfile.mkdtemp(prefix="somebody-")
"""


def session(directory: Path, text: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a pytest session of its own, with the conftest.py and settings of this one."""
    (directory / "test_it.py").write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-c", ROOT / "pyproject.toml",
         "--rootdir", directory, "-p", "no:cacheprovider", *more, directory / "test_it.py"],
        cwd=directory, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
             leftovers.PATIENCE: "0.1"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines that a session of `TESTS` prints."""
    return session(tmp_path_factory.mktemp("session"), TESTS).stdout.splitlines()


def test_a_failed_assertion_is_final_and_only_what_the_environment_did_is_tried_again(
    shown: list[str],
) -> None:
    again = {line.split("::")[1] for line in shown if line.startswith("RERUN")}
    failed = {line.split("::")[1].split()[0] for line in shown if line.startswith("FAILED")}
    assert again == {"test_held_up", "test_no_session"}
    assert failed == {"test_password", "test_wrong", "test_wrong_after_a_wait"}


def test_a_skipped_test_says_why(shown: list[str]) -> None:
    assert any(line.startswith("SKIPPED") and "no browser here" in line for line in shown)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_test_that_leaves_a_directory_fails_the_session_by_name(
    tmp_path: Path, workers: str
) -> None:
    done = session(tmp_path, LEAVING, "-n", workers)
    assert done.returncode == 1
    assert "left in the temporary directory" in done.stdout
    named = [line for line in done.stdout.splitlines() if line.startswith("mrtuner-")]
    assert len(named) == 1
    assert "somebody-" not in done.stdout


def test_what_a_killed_session_left_goes_with_the_next_one(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as dead:
        pass
    stale, alive = tmp_path / f"tests-{dead.pid}-a", tmp_path / f"tests-{os.getpid()}-b"
    for directory in (stale, alive, tmp_path / "tests-b"):
        directory.mkdir()
    leftovers.remove_of_the_dead(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([alive.name, "tests-b"])
