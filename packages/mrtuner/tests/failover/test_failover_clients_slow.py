"""Generated settings, tested with real clients that are fetched and built first."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import failover_programs
import pytest
from conftest import PASSWORD
from failover_clients import FAULTS
from failover_stacks import CASES, Hang, door, hangs

from mrtuner.failover.predict.kernel import local
from mrtuner.failover.predict.path import Path as NetworkPath
from mrtuner.failover.settings.advice import Settings, settings

if TYPE_CHECKING:
    from conftest import NewCluster

    from mrtuner.postgres.cluster import Cluster

# #: The first run fetches: WildFly alone is 250 MB.
pytestmark = [
    pytest.mark.quiet,
    pytest.mark.timed,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("asks"),
]

#: Node's ten probes leave no room below 13 s.
WITHIN = {"node-postgres": 14.0, "rails": 10.0}
ON_POSTGRES: dict[str, Callable[[Settings, Path], list[str]]] = {
    "pgjdbc": failover_programs.pgjdbc,
    "hikaricp": failover_programs.hikaricp,
    "wildfly": failover_programs.wildfly,
    "pgx": failover_programs.pgx,
    "node-postgres": failover_programs.node,
    "rails": failover_programs.rails,
    "asyncpg": failover_programs.asyncpg,
    "pg8000": failover_programs.pg8000,
}


ON_MYSQL: dict[str, Callable[[Settings, Path], list[str]]] = {
    "connector-j": failover_programs.connector_j,
    "pymysql": failover_programs.pymysql,
}


def made(stack: str, longest_query: float | None = None) -> Settings:
    within = WITHIN.get(stack, 10.0)
    return settings(stack, within, local(), NetworkPath(), longest_query=longest_query)


def held(
    advice: Settings, program: list[str], fault: str, directory: Path, way: Path
) -> dict[str, Hang]:
    """Run every case that the advice bounds; none may hang longer than asked."""
    name = Path(program[0]).name
    answers = fault == "silent" or advice.bounds.read_timeout is not None
    cases = {name: CASES if answers else ("connect",)}
    found = hangs({name: program}, fault, directory, way, sysctl=advice.sysctl, cases=cases)[name]
    for case, hang in found.items():
        assert hang.said.startswith("failed"), case
        assert 1 < hang.seconds <= advice.bounds.within, (case, hang)
    return found


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("stack", ON_POSTGRES)
def test_it_hangs_no_longer_than_asked(
    stack: str, fault: str, embedded: Cluster, tmp_path: Path
) -> None:
    """Silence is tested without a limit on answers, so only the kernel's timers end a query."""
    advice = made(stack, longest_query=1 if fault == "frozen" else None)
    program = ON_POSTGRES[stack](advice, tmp_path)
    with door(embedded, tmp_path) as way:
        print(stack, fault, held(advice, program, fault, tmp_path, way))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("client", ON_MYSQL)
def test_mysqls_hang_no_longer_than_asked(client: str, fault: str, tmp_path: Path) -> None:
    advice = made("mysql", longest_query=1 if fault == "frozen" else None)
    program = ON_MYSQL[client](advice, tmp_path)
    with failover_programs.mariadb(tmp_path) as way:
        print(client, fault, held(advice, program, fault, tmp_path, way))


@pytest.mark.parametrize("version", ["v5.0.0", "v5.7.6", "v5.8.0", "v5.12.0"])
def test_the_snippet_for_pgx_compiles_with_every_release(version: str, tmp_path: Path) -> None:
    """PingTimeout came with 5.8; a snippet that sets it does not compile before that."""
    failover_programs.pgx_compiles(version, made("pgx"), tmp_path)


def test_a_pause_after_a_commit_is_no_error_with_asyncpg(
    new_cluster: NewCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server pauses for 0.8 s while the connection is released, which may take 0.5 s."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    dsn = new_cluster(listen=True).dsn(tcp=True)
    program = failover_programs.asyncpg_paused(made("asyncpg"), tmp_path, dsn)
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.strip(), done.returncode) == ("done", 0), done.stderr
