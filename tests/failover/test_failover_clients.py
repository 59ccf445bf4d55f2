"""Generated settings, held against real clients whose server vanishes without a word."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import pytest
from failover_clients import lead
from psycopg.conninfo import conninfo_to_dict

from mrtuner.errors import MissingPart
from mrtuner.failover.kernel import local
from mrtuner.failover.namespaces import enter, require
from mrtuner.failover.predict import SLACK
from mrtuner.failover.settings import STACKS, Settings, settings
from mrtuner.failover.traces import Path as Way

pytestmark = pytest.mark.timed

if TYPE_CHECKING:
    from mrtuner.postgres.cluster import Cluster

WITHIN = 5.0
#: Debian's client libraries, where they are.
DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin/psql"))


@pytest.fixture(scope="module")
def advice() -> Settings:
    """libpq's; psycopg's are the same in other words."""
    return settings("libpq", WITHIN, local(), Way())


@pytest.fixture(scope="module")
def hangs(
    embedded: Cluster, advice: Settings, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Hangs [s] by client and case."""
    try:
        require()
    except MissingPart as missing:
        pytest.skip(missing.message)
    directory = tmp_path_factory.mktemp("clients")
    request = {
        "socket": str(directory / "server"),
        "texts": {name: stack.write(advice.bounds) for name, stack in STACKS.items()},
        "pgbouncer": which("pgbouncer") or which("pgbouncer", path="/usr/sbin"),
        "psql": {
            "psql": str(embedded.binaries.program("psql")),
            **{f"psql {path.parts[-3]}": str(path) for path in DEBIAN},
        },
    }
    with _door(embedded, directory / "server"):
        done = _run(request, directory)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def _door(server: Cluster, path: Path) -> Iterator[None]:
    """A Unix socket that leads to the server's, open to whom the server's own is closed."""
    where = conninfo_to_dict(server.dsn())
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()
    lead(listening, f"{where['host']}/.s.PGSQL.{where['port']}")
    try:
        yield
    finally:
        listening.shutdown(socket.SHUT_RDWR)


def _run(request: dict[str, Any], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        enter([sys.executable, str(Path(__file__).with_name("failover_clients.py"))]),
        input=json.dumps(request), capture_output=True, text=True, check=False, timeout=60,
        cwd=directory,
    )  # fmt: skip


@pytest.mark.parametrize("case", ["connect", "idle", "flight"])
def test_no_real_client_hangs_longer_than_asked(hangs: dict[str, Any], case: str) -> None:
    assert {"psycopg", "psql"} <= set(hangs)
    for client, found in hangs.items():
        assert found[case] <= WITHIN, client


@pytest.mark.parametrize("place", [0, 1, 2])
def test_it_hangs_as_long_as_predicted(hangs: dict[str, Any], advice: Settings, place: int) -> None:
    """psql may need a moment to start and to end."""
    predicted = advice.cases[place]
    assert predicted.span is not None
    direct = {name: found for name, found in hangs.items() if name != "pgbouncer"}
    for client, found in direct.items():
        hang = found[str(predicted.case)]
        # the tests share two CPUs: a client may be woken late
        assert predicted.span.covers(hang, slack=SLACK + 0.3), client


def test_pgbouncer_passes_on_what_it_is_told(hangs: dict[str, Any], advice: Settings) -> None:
    """Its client has no limit of its own; query_wait_timeout bounds what has no server yet."""
    if "pgbouncer" not in hangs:
        pytest.skip("PgBouncer is not installed")
    found = hangs["pgbouncer"]
    assert advice.bounds.pool_wait <= found["connect"] <= WITHIN
    for case in advice.cases[1:3]:
        assert case.span is not None
        assert case.span.covers(found[str(case.case)], slack=0.4)
