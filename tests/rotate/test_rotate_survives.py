"""Killed at every step: there is always a credential that works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rotating import admin, login, may_login, rotate, running

from mrtuner.postgres.cluster import Cluster
from mrtuner.rotate.model import Step
from servers import sql


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with running({"fsync": "off"}) as cluster:
        yield cluster


KILLED = """
import os, signal, sys
from pathlib import Path
from mrtuner.rotate.book import Book
from rotating import rotate

dsn, group, secret, step, when = sys.argv[1:]

class Deadly(Book):
    def write(self, rotation):
        if (rotation.step, when) == (step, "before"):
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(rotation)
        if (rotation.step, when) == (step, "after"):
            os.kill(os.getpid(), signal.SIGKILL)

rotate(dsn, group, Path(secret), book=Deadly(Path(secret).parent / "state"))
"""
STEPS = [
    Step.PREPARING, Step.SETTING, Step.VERIFYING, Step.STORING, Step.WAITING, Step.DISABLING,
    Step.DONE,
]  # fmt: skip


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_the_stored_credential_works_and_the_next_run_ends_it(
    server: Cluster, tmp_path: Path, step: Step, when: str
) -> None:
    secret, group = tmp_path / "secret", f"kill_{step}_{when}"
    rotate(admin(server), group, secret)
    here, ours = Path(__file__).parent, os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join([str(here), str(here.parent), ours])
    done = subprocess.run(
        [sys.executable, "-c", KILLED, admin(server), group, str(secret), step, when],
        env={**os.environ, "PYTHONPATH": path},
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    user = sql(login(secret), "SELECT session_user")[0][0]
    assert user in may_login(server, group)
    outcome = rotate(admin(server), group, secret)
    assert outcome.rotation.step is Step.DONE
    assert may_login(server, group) == {outcome.rotation.new}
    assert sql(login(secret), "SELECT session_user") == [(outcome.rotation.new,)]
