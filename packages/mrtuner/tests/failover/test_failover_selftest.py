"""Real silent loss on this kernel, without root: predictions come true."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from json_schemas import assert_valid
from mrtuner.failover.namespaces import enter, python
from mrtuner.failover.predict.hang_times import SLACK

pytestmark = [pytest.mark.timed, pytest.mark.usefixtures("namespaces")]


def test_predicted_hangs_are_those_of_this_kernel() -> None:
    """A machine without a free CPU may wake a client late, but not three times in a row."""
    script = "from mrtuner.cli import main; main()"
    program = [sys.executable, "-c", script, "failover", "self-test", "--json"]
    for _ in range(3):
        done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr + done.stdout
    document = json.loads(done.stdout)
    assert_valid(document, "mrtuner.failover.selftest/1")
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
    """So nothing is left when the process that started it is killed."""
    with subprocess.Popen(
        enter(python("mrtuner.failover.selftest.peer")), stdin=subprocess.PIPE
    ) as peer:
        assert peer.stdin is not None
        peer.stdin.close()
        assert peer.wait(20) == 0


def without_namespaces() -> subprocess.CompletedProcess[str]:
    """Run the self-test in a namespace of ours in which no further one may be created."""
    shut = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    program = [sys.executable, "-c", "from mrtuner.cli import main; main()"]
    return subprocess.run(
        enter(["sh", "-c", shut, "sh", *program, "failover", "self-test"]),
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip


def test_where_the_kernel_allows_no_namespaces_one_sentence_says_so() -> None:
    """Simulated in a namespace of ours in which no further one may be created."""
    done = without_namespaces()
    assert (done.returncode, done.stdout) == (1, "")
    error, hint = done.stderr.splitlines()[-2:]
    assert error.startswith("error: network namespaces cannot be created here: ")
    assert hint.startswith("HINT: ")


@pytest.mark.parametrize("whom", ["the process group, as Ctrl-C does", "the process alone"])
def test_ctrl_c_ends_it_at_once_and_leaves_nothing(whom: str) -> None:
    """It used to wait for the longest hang, 4 to 7 s. Its namespaces and processes end, too."""
    script = "from mrtuner.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", script, "failover", "self-test"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as child:  # fmt: skip
        end = time.monotonic() + 30
        while not _peers(child.pid) and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(1)  # until it measures hangs, during which it prints nothing
        asked = time.monotonic()
        (os.killpg if whom.startswith("the process group") else os.kill)(child.pid, signal.SIGINT)
        child.wait(30)
        took = time.monotonic() - asked
    assert (child.returncode, took < 2) == (130, True), took
    end = time.monotonic() + 2
    while _peers(child.pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not _peers(child.pid)


def _peers(session: int) -> list[str]:
    """Running far ends of that self-test; other tests may have their own."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            if os.getsid(int(file.parent.name)) == session:
                found.append(file.read_bytes().decode(errors="replace"))
    return [line for line in found if "mrtuner.failover.selftest.peer" in line]


def test_root_is_not_told_to_become_root() -> None:
    """Inside a namespace of ours we are root."""
    done = without_namespaces()
    hint = done.stderr.splitlines()[-1]
    assert hint == "HINT: Try it on the client's host itself, outside any container."
