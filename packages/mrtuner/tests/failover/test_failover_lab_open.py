"""A lab that stays open: entered, broken by hand, and gone however it ends."""

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
from typing import Any

import pytest

from mrtuner.failover.lab.machines import enter

pytestmark = [pytest.mark.timed, pytest.mark.usefixtures("namespaces")]

PROGRAM = [sys.executable, "-c", "from mrtuner.cli import main; main()", "failover", "lab"]


@contextmanager
def standing() -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A lab that stays open, and its document."""
    with subprocess.Popen(
        [*PROGRAM, "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            text = ""
            for line in process.stdout:
                text += line
                if line == "}\n":
                    break
            yield process, json.loads(text)
        finally:
            process.kill()


def below(pid: int) -> list[int]:
    """Every descendant of a process."""
    found: list[int] = []
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *below(int(child))]
    return found


def gone(pids: list[int]) -> bool:
    end = time.monotonic() + 30
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.1)
    return not any(alive(pid) for pid in pids)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def asked(document: dict[str, Any], dsn: str) -> str:
    """The server's answer to a client in the lab's namespaces, or the error."""
    query = "SELECT pg_is_in_recovery()"
    script = f"import psycopg; print(*psycopg.connect({dsn!r}).execute({query!r}).fetchone())"
    done = subprocess.run(
        [*shlex.split(document["enter"]), sys.executable, "-c", script],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.stdout.strip() or done.stderr


def test_an_open_lab_is_entered_and_broken_by_hand_and_ends_with_ctrl_c() -> None:
    with standing() as (process, document):
        a, b = document["dsns"]["a"], document["dsns"]["b"]
        assert (asked(document, a), asked(document, b)) == ("False", "True")
        assert asked(document, document["dsns"]["name"]) == "False"
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("crash a\npromote b\nfly b\n")
        process.stdin.flush()
        for line in process.stderr:
            if line.startswith("HINT: Use one of: silence a|b"):
                break
        assert "refused" in asked(document, f"{a} connect_timeout=5")
        assert asked(document, b) == "False"
        everybody = below(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert gone(everybody)


def test_kill_9_of_the_command_leaves_nothing() -> None:
    with standing() as (process, _):
        everybody = below(process.pid)
        assert len(everybody) > 10  # both servers with their processes
        process.kill()
        assert gone(everybody)
    assert not Path("/dev/shm/lab").exists()


def test_kill_9_of_what_holds_the_namespaces_leaves_nothing_and_is_said() -> None:
    with standing() as (process, _):
        holder, *others = below(process.pid)
        os.kill(holder, signal.SIGKILL)
        assert gone(others)
        assert process.wait(30) == 1
        assert process.stderr is not None
        assert "error: the lab ended unexpectedly" in process.stderr.read()


def test_a_setting_that_the_kernel_does_not_take_is_refused() -> None:
    done = subprocess.run(
        [*PROGRAM, "--scenario", "crash", "--sysctl", "tcp_retries2=999"],
        capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: this kernel rejects net.ipv4.tcp_retries2 = 999" in done.stderr


def test_where_the_kernel_allows_no_namespaces_one_sentence_says_so() -> None:
    shut = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    done = subprocess.run(
        enter(["sh", "-c", shut, "sh", *PROGRAM, "--scenario", "crash"]),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    error, hint = done.stderr.splitlines()[-2:]
    assert error.startswith("error: network namespaces cannot be created here: ")
    assert hint.startswith("HINT: ")
