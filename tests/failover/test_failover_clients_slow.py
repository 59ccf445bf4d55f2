"""Generated settings, held against real clients that are fetched and built first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import failover_programs
import pytest
from failover_stacks import door, hangs

from mrtuner.failover.kernel import local
from mrtuner.failover.settings import Settings, settings
from mrtuner.failover.traces import Path as Way

if TYPE_CHECKING:
    from mrtuner.postgres.cluster import Cluster

# pytestmark = [pytest.mark.slow, pytest.mark.timed]

#: Node's ten probes leave no room below 13 s.
WITHIN = {"node-postgres": 14.0, "rails": 10.0}
ON_POSTGRES: dict[str, Callable[[Settings, Path], list[str]]] = {
    "pgjdbc": failover_programs.pgjdbc,
    "hikaricp": failover_programs.hikaricp,
    "pgx": failover_programs.pgx,
    "node-postgres": failover_programs.node,
    "rails": failover_programs.rails,
}


@pytest.fixture
def way(embedded: Cluster, tmp_path: Path) -> Iterator[Path]:
    with door(embedded, tmp_path) as path:
        yield path


def made(stack: str, longest_query: float | None = None) -> Settings:
    within = WITHIN.get(stack, 10.0)
    return settings(stack, within, local(), Way(), longest_query=longest_query)


@pytest.mark.parametrize("stack", ON_POSTGRES)
def test_silence_hangs_it_no_longer_than_asked(stack: str, way: Path, tmp_path: Path) -> None:
    """Without a limit on answers, so that only the kernel's timers end a query."""
    advice = made(stack)
    program = ON_POSTGRES[stack](advice, tmp_path)
    found = hangs({stack: program}, "silent", tmp_path, way, sysctl=advice.sysctl)[stack]
    print(stack, found)
    for case, hang in found.items():
        assert hang.said.startswith("failed"), case
        assert 1 < hang.seconds <= advice.bounds.within, case


@pytest.mark.parametrize("stack", ON_POSTGRES)
def test_a_frozen_server_hangs_it_no_longer_than_asked(
    stack: str, way: Path, tmp_path: Path
) -> None:
    """All cases where the driver has a limit on answers, else the login alone."""
    advice = made(stack, longest_query=1)
    program = ON_POSTGRES[stack](advice, tmp_path)
    cases = None if advice.stack.read_timeout else {stack: ("connect",)}
    found = hangs({stack: program}, "frozen", tmp_path, way, sysctl=advice.sysctl, cases=cases)
    print(stack, found[stack])
    for case, hang in found[stack].items():
        assert hang.said.startswith("failed"), case
        assert 1 < hang.seconds <= advice.bounds.within, case
