"""Fifty clients during many rotations: none is turned away, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from rotating import Applications, admin, login, rotate, running

from mrtuner.postgres.cluster import Cluster
from mrtuner.rotate import Patience
from mrtuner.rotate.model import RotationStep
from servers import sql

CLIENTS = 50
#: Longer than a client on a busy machine takes from reading its secret to logging in.
PATIENCE = Patience(wait=60, quiet=1.2)


pytestmark = pytest.mark.timed


@pytest.fixture
def server() -> Iterator[Cluster]:
    with running({"fsync": "off"}) as cluster:
        yield cluster


class Clients(Applications):
    """Applications that read their secret, log in, write one row, and leave; again and again."""

    def __init__(self, secret: Path) -> None:
        super().__init__(CLIENTS)
        self.secret = secret
        self.acknowledged: list[tuple[int, int]] = []

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


@pytest.mark.parametrize("rotations", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_fifty_clients_reconnect_during_rotations_and_lose_nothing(
    server: Cluster, tmp_path: Path, rotations: int
) -> None:
    secret = tmp_path / "secret"
    rotate(admin(server), "load", secret, PATIENCE)
    sql(
        server.dsn(),
        "CREATE SCHEMA load AUTHORIZATION load",
        "CREATE TABLE load.ledger (client int, number int)",
        "ALTER TABLE load.ledger OWNER TO load",
        "ALTER ROLE load_blue SET search_path TO load",
    )
    with Clients(secret) as clients:
        ended = [rotate(admin(server), "load", secret, PATIENCE) for _ in range(rotations)]
    assert [outcome.rotation.step for outcome in ended] == [RotationStep.DONE] * rotations
    assert [outcome.rotation.new for outcome in ended] == ["load_green", "load_blue"] * (
        rotations // 2
    )
    assert clients.failures == []
    assert len(clients.acknowledged) > rotations * CLIENTS
    rows = sql(server.dsn(), "SELECT client, number FROM load.ledger")
    assert sorted(rows) == sorted(clients.acknowledged)
