"""Real silent loss on this kernel, without root: what is predicted is what happens."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mrtuner.errors import MissingPart
from mrtuner.failover.namespaces import enter, python, require
from mrtuner.failover.predict import SLACK

pytestmark = pytest.mark.timed


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    try:
        require()
    except MissingPart as missing:
        pytest.skip(missing.message)


def test_predicted_hangs_are_those_of_this_kernel() -> None:
    """A machine with no CPU to spare wakes a client late; not three times in a row."""
    script = "from mrtuner.cli import main; main()"
    program = [sys.executable, "-c", script, "failover", "self-test", "--json"]
    for _ in range(3):
        done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr + done.stdout
    document = json.loads(done.stdout)
    assert document["schema"] == "mrtuner.failover.selftest/1"
    assert [trial["case"] for trial in document["trials"]] == [1, 1, 2, 2, 3, 3]
    for trial in document["trials"]:
        band = trial["predicted"]
        for hang in trial["measured"]:
            assert band["low"] - SLACK <= hang <= band["high"] + SLACK, trial


def test_nothing_of_the_machine_changes() -> None:
    """The namespace has its own tcp_retries2; ours is what it was, and no link is added."""
    before = (_retries(), _links())
    inside = subprocess.run(
        enter(["sh", "-c", "echo 3 > /proc/sys/net/ipv4/tcp_retries2 && ip link add a type dummy;"
               " cat /proc/sys/net/ipv4/tcp_retries2"]),
        capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip
    assert inside.stdout == "3\n"
    assert (_retries(), _links()) == before


def _retries() -> str:
    return Path("/proc/sys/net/ipv4/tcp_retries2").read_text()


def _links() -> set[str]:
    return {link.name for link in Path("/sys/class/net").iterdir()}


def test_the_far_end_goes_when_its_stdin_does() -> None:
    """So nothing is left when whoever started it is killed."""
    with subprocess.Popen(enter(python("mrtuner.failover.peer")), stdin=subprocess.PIPE) as peer:
        assert peer.stdin is not None
        peer.stdin.close()
        assert peer.wait(20) == 0


def test_where_the_kernel_allows_no_namespaces_one_sentence_says_so() -> None:
    """Made so inside a namespace of ours: none may be made below it."""
    shut = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    program = [sys.executable, "-c", "from mrtuner.cli import main; main()"]
    done = subprocess.run(
        enter(["sh", "-c", shut, "sh", *program, "failover", "self-test"]),
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    error, hint = done.stderr.splitlines()[-2:]
    assert error.startswith("error: this kernel does not let us make network namespaces here: ")
    assert hint.startswith("HINT: ")
