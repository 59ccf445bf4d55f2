"""Generated settings, tested with real clients whose server vanishes or freezes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from failover_stacks import Hang, door, hangs, python_programs

from machine import debian_server
from mrtuner.failover.predict.hang_times import SLACK
from mrtuner.failover.predict.kernel import local
from mrtuner.failover.predict.path import Path as NetworkPath
from mrtuner.failover.settings.advice import Settings, settings
from servers import MAJORS

pytestmark = [pytest.mark.timed, pytest.mark.usefixtures("asks")]

if TYPE_CHECKING:
    from mrtuner.postgres.cluster import Cluster

WITHIN = 5.0
#: The tests share two CPUs: a client may be woken late [s].
LATE = 0.3
STACKS = ("libpq", "psycopg", "sqlalchemy", "django", "pgbouncer")
#: Debian's client libraries, where installed.
DEBIAN = [
    place / "psql"
    for place in map(debian_server, MAJORS)
    if place is not None and (place / "psql").exists()
]


@pytest.fixture(scope="module")
def advice() -> dict[str, Settings]:
    return {
        name: settings(name, WITHIN, local(), NetworkPath(), longest_query=1) for name in STACKS
    }


@pytest.fixture
def programs(
    embedded: Cluster, advice: dict[str, Settings], tmp_path: Path
) -> dict[str, list[str]]:
    psql = {"psql": embedded.binaries.program("psql")}
    psql |= {f"psql {path.parts[-3]}": path for path in DEBIAN}
    return python_programs(advice, tmp_path, psql)


def test_silence_hangs_no_real_client_longer_than_asked_and_as_long_as_predicted(
    embedded: Cluster, programs: dict[str, list[str]], advice: dict[str, Settings], tmp_path: Path
) -> None:
    """This includes the new attempt that SQLAlchemy and Django make after a failed check."""
    with door(embedded, tmp_path) as way:
        found = hangs(programs, "silent", tmp_path, way)
    assert {"psycopg", "psycopg pool", "sqlalchemy", "django", "psql"} <= set(found)
    for client, cases in found.items():
        bounded(client, cases)
        if client not in {"psycopg pool", "pgbouncer"}:  # their own limits apply first
            predicted(client, cases, advice["libpq" if client.startswith("psql") else client])


def test_a_frozen_server_hangs_no_login_longer_than_asked(
    embedded: Cluster, programs: dict[str, list[str]], tmp_path: Path
) -> None:
    """With libpq only a login times out by itself; PgBouncer has a query_timeout."""
    cases = {name: ("connect",) for name in programs if name != "pgbouncer"}
    with door(embedded, tmp_path) as way:
        found = hangs(programs, "frozen", tmp_path, way, cases=cases)
    for client, hung in found.items():
        bounded(client, hung)


def bounded(client: str, cases: Mapping[str, Hang]) -> None:
    """Assert that each case hung, failed, and ended in time."""
    for case, hang in cases.items():
        assert hang.said.startswith("failed"), (client, case)
        assert 1 < hang.seconds <= WITHIN + LATE, (client, case)


def predicted(client: str, cases: Mapping[str, Hang], advice: Settings) -> None:
    """Assert that each case hung as long as predicted."""
    for case in advice.cases[:3]:
        assert case.span is not None
        hang = cases[str(case.case)].seconds
        assert case.span.covers(hang, slack=SLACK + LATE), (client, str(case.case))
