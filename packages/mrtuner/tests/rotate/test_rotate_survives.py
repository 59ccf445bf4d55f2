"""Killed at every step: there is always a credential that works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from rotating import IMPATIENT, admin, login, may_login, rotate, running, unused

from mrtuner.postgres.cluster import Cluster
from mrtuner.rotate import RotationStep
from mrtuner.rotate.answer import opened
from mrtuner.rotate.stores import FileStore
from servers import sql

pytestmark = pytest.mark.timed


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with running({"fsync": "off"}) as cluster:
        yield cluster


KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from mrtuner.change.journal import Journal
from mrtuner.rotate.answer import opened, upcoming
from mrtuner.rotate.journal import RotationJournal
from mrtuner.rotate.stores import FileStore
from rotating import IMPATIENT

dsn, group, secret, step, when, act = sys.argv[1:]

class Deadly(RotationJournal):
    def write(self, rotation):
        if (rotation.step, when) == (step, "before"):
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(rotation)
        if (rotation.step, when) == (step, "after"):
            os.kill(os.getpid(), signal.SIGKILL)

with opened(dsn, group, IMPATIENT) as rotator:
    deadly = replace(rotator, book=Deadly(Journal(Path(secret).parent / "state")))
    rotation, where = upcoming(deadly, f"file:{secret}", None, sys.stdout)
    deadly.abort(rotation, where) if act == "abort" else deadly.run(rotation, where)
"""
STEPS = [
    RotationStep.PREPARING, RotationStep.SETTING, RotationStep.VERIFYING, RotationStep.STORING,
    RotationStep.WAITING, RotationStep.DISABLING, RotationStep.DONE,
]  # fmt: skip


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_the_stored_credential_works_and_the_next_run_ends_it(
    server: Cluster, tmp_path: Path, step: RotationStep, when: str
) -> None:
    secret, group = tmp_path / "secret", unused(f"kill_{step}_{when}")
    rotate(admin(server), group, secret)
    killed(server, group, secret, step, when, "rotate")
    assert sql(login(secret), "SELECT session_user")[0][0] in may_login(server, group)
    outcome = rotate(admin(server), group, secret)
    assert outcome.rotation.step is RotationStep.DONE
    assert may_login(server, group) == {outcome.rotation.new}
    assert sql(login(secret), "SELECT session_user") == [(outcome.rotation.new,)]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", [RotationStep.ABORTING, RotationStep.ABORTED])
def test_killed_while_it_goes_back_the_next_abort_ends_it(
    server: Cluster, tmp_path: Path, step: RotationStep, when: str
) -> None:
    secret, group = tmp_path / "secret", unused(f"kill_{step}_{when}")
    rotate(admin(server), group, secret)
    before = secret.read_text()
    with psycopg.connect(login(secret)):
        assert rotate(admin(server), group, secret).rotation.step is RotationStep.WAITING
    killed(server, group, secret, step, when, "abort")
    assert sql(login(secret), "SELECT session_user") == [(f"{group}_blue",)]
    with opened(admin(server), group, IMPATIENT, journal=tmp_path / "state") as rotator:
        last = rotator.last()
        assert last is not None
        if not last.finished:
            assert rotator.abort(last, FileStore(secret)).rotation.step is RotationStep.ABORTED
    assert secret.read_text() == before
    assert may_login(server, group) == {f"{group}_blue"}


def killed(
    server: Cluster, group: str, secret: Path, step: RotationStep, when: str, act: str
) -> None:
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", KILLED, admin(server), group, str(secret), step, when, act],
        env={**os.environ, "PYTHONPATH": path},
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
