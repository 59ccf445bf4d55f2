"""`mrtuner limits` of a server that is not on RDS: local, or by a connection string."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from functools import partial
from typing import Any

import pytest

import command_line
from mrtuner.postgres.cluster import Cluster
from servers import sql

pytestmark = pytest.mark.timed
PATIENCE = 60.0
OUR_SESSION = "FROM pg_stat_activity WHERE application_name = 'mrtuner'"


run = partial(command_line.run, "limits")


def test_local_is_where_libpq_would_go(embedded: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", str(embedded.directory))
    monkeypatch.setenv("PGUSER", "postgres")
    monkeypatch.setenv("PGDATABASE", "postgres")
    done = run("local")
    assert done.exit_code == 0, done.output
    assert "nothing was measured" in done.stdout.splitlines()[0]
    assert "server connections" in done.stdout


def test_the_document_is_the_same_as_of_an_instance(embedded: Cluster) -> None:
    done = run(embedded.dsn(), "--watch", "2s", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["schema"], told["class"], told["pegged"]) == ("mrtuner.limits/1", None, [])
    assert any("too few" in text for text in told["notices"])


@pytest.mark.parametrize(
    ("by_the_server", "code", "notice"),
    [(False, 130, "interrupted after"), (True, 6, "which ended the watch")],
    ids=["Ctrl-C", "server"],
)
def test_a_watch_cut_short_tells_what_there_is(
    embedded: Cluster, by_the_server: bool, code: int, notice: str
) -> None:
    """The watch is cut short after three samples."""
    program = "import sys; from mrtuner.cli import main; main(sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "limits", embedded.dsn(), "--watch", "10m", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_for_samples(embedded, 3)
        if by_the_server:
            sql(embedded.dsn(), f"SELECT pg_terminate_backend(pid) {OUR_SESSION}")
        else:
            process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == code
    assert any(notice in text for text in json.loads(told)["notices"])


def wait_for_samples(cluster: Cluster, count: int) -> None:
    """Wait until the program's session has started this many sample queries."""
    deadline, begun = time.monotonic() + PATIENCE, set[Any]()
    while len(begun) < count:
        assert time.monotonic() < deadline, f"{len(begun)} samples"
        begun.update(sql(cluster.dsn(), f"SELECT query_start {OUR_SESSION} AND query ~ 'waiting'"))
        time.sleep(0.1)


def test_a_server_that_is_not_there_is_two_lines() -> None:
    done = run("postgresql://127.0.0.1:1/none", "--watch", "10m")
    assert done.exit_code == 1
    assert "nothing is listening there" in done.stderr
