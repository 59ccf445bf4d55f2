"""The Rails application of the how-to, under Puma as its manifest has it, with a real database."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from command_line import run
from machine import needs
from mrtuner.postgres.cluster import Cluster, free_port
from mrtuner_pods.observed import activity
from servers import sql
from test_sizing_django_example import PATIENCE, answered

EXAMPLE = Path(__file__).parents[3] / "examples/pods/rails"
MANIFEST = EXAMPLE / "deployment.yaml"
pytestmark = needs("puma", "rails/version", "active_record/version", "pg")


@pytest.fixture
def database(embedded: Cluster) -> Iterator[Cluster]:
    """A server with the shop's database, for as long as a test needs it."""
    sql(embedded.dsn(), "CREATE DATABASE shop")
    sql(embedded.dsn("shop"), (EXAMPLE / "db/structure.sql").read_text())
    yield embedded
    sql(embedded.dsn(), "DROP DATABASE shop WITH (FORCE)")


@contextmanager
def shop(cluster: Cluster, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run the manifest's container with that database; yield its process and its port."""
    (container,) = yaml.safe_load(MANIFEST.read_text())["spec"]["template"]["spec"]["containers"]
    environment = {one["name"]: one.get("value", 64 * "0") for one in container["env"]}
    # Rails accepts no _ in a host.
    socket = quote(str(cluster.directory), safe="").replace("_", "%5F")
    environment["DATABASE_URL"] = f"postgresql://postgres@{socket}:{cluster.port}/shop"
    port = free_port()
    with log.open("wb") as said:
        process = subprocess.Popen(
            [*container["command"], "-b", f"tcp://127.0.0.1:{port}"],
            cwd=EXAMPLE, stdout=said, stderr=said, env={**os.environ, **environment},
        )  # fmt: skip
        try:
            yield process, port
        finally:
            process.terminate()
            process.wait(PATIENCE)


def told(*command: object) -> Any:
    done = run(*command, "--json")
    return json.loads(done.stdout)


def test_the_example_has_the_connections_and_processes_that_are_told(
    database: Cluster, tmp_path: Path
) -> None:
    """By hand: one worker of two threads, so two connections in each of eight pods, at most."""
    log = tmp_path / "log"
    with shop(database, log) as (process, port):
        first = answered(port, process)
        assert (first.status, first.read()) == (200, b"0 products\n"), log.read_text()
        worker = int(first.headers["X-Worker"])
        assert worker != process.pid
        with ThreadPoolExecutor(6) as clients:
            asked = [clients.submit(answered, port, process, 0.2) for _ in range(6)]
            assert {one.result().read() for one in asked} == {b"0 products\n"}
        seen = activity.watched(
            database.dsn(), seconds=0.1, application=f"puma: cluster worker [{EXAMPLE.name}]"
        )
        held = told("pods", "measure", process.pid, "--seconds", "0.5")
    assert [one.sessions for one in seen.sessions if one.database == "shop"] == [2]
    fits = told("pods", "check", MANIFEST, "--max-connections", 30)
    assert fits["reachable"] == 8 * 2
    names = {one["pid"]: one["name"] for one in held["processes"]}
    assert names[worker] == f"puma: cluster worker 0: {process.pid} [{EXAMPLE.name}]"
    assert f"(tcp://127.0.0.1:{port})" in names[process.pid]
    assert all(one["memory"] > 0 for one in held["processes"])
