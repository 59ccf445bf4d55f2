"""Rotation under load, and killed at every step: there is always a credential that works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from rotating import ADMIN, admin, login, may_login, rotate

from mrtuner.postgres.cluster import Cluster, scratch_directory
from mrtuner.rotate.model import Step
from mrtuner.rotate.rotation import Patience
from servers import binaries, sql

CLIENTS = 50
ROTATIONS = 20


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    cluster = Cluster.create(
        binaries(18), scratch_directory(), {"fsync": "off"}, listen=True, password=ADMIN
    )
    with cluster:
        yield cluster
    cluster.remove()


class Clients:
    """Applications that read their secret, log in, write one row, and leave; again and again."""

    def __init__(self, secret: Path) -> None:
        self.secret = secret
        self.over = threading.Event()
        self.failures: list[str] = []
        self.acknowledged: list[tuple[int, int]] = []
        self.threads = [threading.Thread(target=self.work, args=(n,)) for n in range(CLIENTS)]

    def __enter__(self) -> Clients:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()

    def work(self, client: int) -> None:
        number = 0
        while not self.over.wait(0.4):
            number += 1
            try:
                with psycopg.connect(login(self.secret)) as conn:
                    conn.execute("INSERT INTO ledger VALUES (%s, %s)", (client, number))
            except psycopg.Error as error:
                self.failures.append(str(error))
            else:
                self.acknowledged.append((client, number))


def test_fifty_clients_reconnect_during_twenty_rotations_and_lose_nothing(
    server: Cluster, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    patience = Patience(wait=30, quiet=0.4)
    rotate(admin(server), "load", secret, patience)
    sql(
        server.dsn(),
        "CREATE SCHEMA load AUTHORIZATION load",
        "CREATE TABLE load.ledger (client int, number int)",
        "ALTER TABLE load.ledger OWNER TO load",
        "ALTER ROLE load_blue SET search_path TO load",
    )
    with Clients(secret) as clients:
        ended = [rotate(admin(server), "load", secret, patience) for _ in range(ROTATIONS)]
    assert [outcome.rotation.step for outcome in ended] == [Step.DONE] * ROTATIONS
    assert [outcome.rotation.new for outcome in ended] == ["load_green", "load_blue"] * 10
    assert clients.failures == []
    assert len(clients.acknowledged) > ROTATIONS * CLIENTS
    rows = sql(server.dsn(), "SELECT client, number FROM load.ledger")
    assert sorted(rows) == sorted(clients.acknowledged)


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
    here = os.pathsep.join(
        [
            str(Path(__file__).parent),
            str(Path(__file__).parents[1]),
            os.environ.get("PYTHONPATH", ""),
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", KILLED, admin(server), group, str(secret), step, when],
        env={**os.environ, "PYTHONPATH": here},
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
