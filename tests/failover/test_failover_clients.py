"""Generated settings, held against real clients whose server vanishes or freezes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from failover_stacks import Hang, door, hangs, python_programs

from mrtuner.failover.kernel import local
from mrtuner.failover.predict import SLACK
from mrtuner.failover.settings import Settings, settings
from mrtuner.failover.traces import Path as Way

# pytestmark = pytest.mark.timed

if TYPE_CHECKING:
    from mrtuner.postgres.cluster import Cluster

WITHIN = 5.0
#: The tests share two CPUs: a client may be woken late [s].
LATE = 0.3
STACKS = ("libpq", "psycopg", "sqlalchemy", "django", "pgbouncer")
#: Debian's client libraries, where they are.
DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin/psql"))

Found = Mapping[str, Mapping[str, Hang]]


@pytest.fixture(scope="module")
def advice() -> dict[str, Settings]:
    return {name: settings(name, WITHIN, local(), Way(), longest_query=1) for name in STACKS}


@pytest.fixture(scope="module")
def programs(
    embedded: Cluster, advice: dict[str, Settings], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[str]]:
    psql = {"psql": embedded.binaries.program("psql")}
    psql |= {f"psql {path.parts[-3]}": path for path in DEBIAN}
    return python_programs(advice, tmp_path_factory.mktemp("snippets"), psql)


@pytest.fixture(scope="module")
def silent(
    embedded: Cluster, programs: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Found:
    directory = tmp_path_factory.mktemp("silent")
    with door(embedded, directory) as path:
        return hangs(programs, "silent", directory, path)


@pytest.fixture(scope="module")
def frozen(
    embedded: Cluster, programs: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Found:
    """Only logins end by themselves where libpq does the waiting."""
    directory = tmp_path_factory.mktemp("frozen")
    cases = {name: ("connect",) for name in programs if name != "pgbouncer"}
    with door(embedded, directory) as path:
        return hangs(programs, "frozen", directory, path, cases=cases)


@pytest.mark.parametrize("case", ["connect", "idle", "flight"])
def test_no_real_client_hangs_longer_than_asked(silent: Found, case: str) -> None:
    assert {"psycopg", "psycopg pool", "sqlalchemy", "django", "psql"} <= set(silent)
    for client, found in silent.items():
        assert found[case].said.startswith("failed"), client
        assert 1 < found[case].seconds <= WITHIN + LATE, client


@pytest.mark.parametrize("place", [0, 1, 2])
def test_it_hangs_as_long_as_predicted(
    silent: Found, advice: dict[str, Settings], place: int
) -> None:
    """Also SQLAlchemy's and Django's new attempt after a check that failed."""
    for client, found in silent.items():
        if client in {"psycopg pool", "pgbouncer"}:
            continue
        predicted = advice["libpq" if client.startswith("psql") else client].cases[place]
        assert predicted.span is not None
        hang = found[str(predicted.case)].seconds
        assert predicted.span.covers(hang, slack=SLACK + LATE), client


def test_a_login_at_a_frozen_server_ends_too(frozen: Found) -> None:
    for client, found in frozen.items():
        assert found["connect"].said.startswith("failed"), client
        assert 1 < found["connect"].seconds <= WITHIN + LATE, client


def test_pgbouncer_bounds_clients_that_have_no_limit(
    silent: Found, frozen: Found, advice: dict[str, Settings]
) -> None:
    """query_wait_timeout bounds what has no server yet, query_timeout a frozen server's answers."""
    if "pgbouncer" not in silent:
        pytest.skip("PgBouncer is not installed")
    assert advice["pgbouncer"].bounds.pool_wait <= silent["pgbouncer"]["connect"].seconds
    for hang in frozen["pgbouncer"].values():
        assert hang.said.startswith("failed")
        assert 1 < hang.seconds <= WITHIN + LATE
