"""The Django project of the how-to, under gunicorn as its manifest has it, with a real database."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import psycopg

from mrtuner.postgres.cluster import Cluster, free_port

EXAMPLE = Path(__file__).parents[3] / "examples/pods/django"
PATIENCE = 90.0


def answered(
    port: int, process: subprocess.Popen[bytes], database: float = 0.001
) -> http.client.HTTPResponse:
    """Wait for the server; return its answer to a request, which spends `database` s on SQL."""
    end = time.monotonic() + PATIENCE
    while True:
        assert process.poll() is None, "the server ended"
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            parts = {"X-CPU": "0.001", "X-Database": str(database), "X-Sleep": "0.001"}
            parts["Connection"] = "close"
            client.request("GET", "/", headers=parts)
            return client.getresponse()
        except ConnectionRefusedError:
            assert time.monotonic() < end, "the server does not listen"
            time.sleep(0.05)


def test_the_example_answers_from_one_of_its_workers_and_keeps_its_connection(
    embedded: Cluster, tmp_path: Path
) -> None:
    manifest = (EXAMPLE / "deployment.yaml").read_text()
    command = re.search(r"command: \[gunicorn, --config, (\S+), (\S+)\]", manifest)
    assert command is not None
    port = free_port()
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "--config", command[1], "--bind", f"127.0.0.1:{port}",
         "--chdir", str(EXAMPLE), command[2]],
        cwd=EXAMPLE, stdout=log, stderr=log,
        env={**os.environ, "WEB_CONCURRENCY": "2", "PYTHONDONTWRITEBYTECODE": "1",
             "DATABASE_URL": embedded.dsn()},
    )  # fmt: skip
    try:
        answer = answered(port, process)
        assert (answer.status, answer.read()) == (200, b"ok\n"), (tmp_path / "log").read_text()
        worker = int(answer.headers["X-Worker"])
        assert worker != process.pid
        with psycopg.connect(embedded.dsn()) as session:
            found = session.execute(
                "SELECT query FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(%'"
                " AND state = 'idle'"
            ).fetchall()
        assert len(found) == 1
    finally:
        process.terminate()
        process.wait(PATIENCE)
        log.close()
