"""Fixtures that every test may use: real, running PostgreSQL servers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from typing import Protocol

import pytest

from labs import _lab, lab, server_lab  # noqa: F401 - fixtures for every test
from mrtuner.postgres.cluster import Cluster, scratch_directory
from servers import MAJORS, at_hand, binaries

PASSWORD = "correct horse battery staple"
#: Fixtures with a real server behind them, which a busy machine can hold up.
SERVERS = {"embedded", "new_cluster", "cluster", "server", "lab", "server_lab"}

# A runner in the background ignores or blocks Ctrl-C, and every program that a test starts inherits
# that.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


class NewCluster(Protocol):
    """Make a running cluster; it is stopped and removed when the test ends."""

    def __call__(
        self,
        major: int = 18,
        settings: Mapping[str, str | int | float] | None = None,
        listen: bool = False,
    ) -> Cluster: ...


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    for item in items:
        if item.get_closest_marker("timed") or SERVERS.intersection(item.fixturenames):
            item.add_marker(pytest.mark.flaky(reruns=2))


def pytest_report_header() -> str:
    found = at_hand()
    return "PostgreSQL: " + (", ".join(found.values()) or "none yet; servers are fetched on demand")


@pytest.fixture(scope="session")
def embedded() -> Iterator[Cluster]:
    """One running PostgreSQL 18 for a whole worker: leave it as you found it."""
    cluster = Cluster.create(binaries(18), scratch_directory())
    try:
        with cluster:
            yield cluster
    finally:
        cluster.remove()


@pytest.fixture
def new_cluster() -> Iterator[NewCluster]:
    """A function that makes running clusters; with `listen`, the password is PASSWORD."""
    made: list[Cluster] = []

    def make(
        major: int = 18,
        settings: Mapping[str, str | int | float] | None = None,
        listen: bool = False,
    ) -> Cluster:
        password = PASSWORD if listen else None
        cluster = Cluster.create(
            binaries(major), scratch_directory(), settings, listen=listen, password=password
        )
        made.append(cluster)
        cluster.start()
        return cluster

    yield make
    for cluster in made:
        cluster.remove()


@pytest.fixture(params=MAJORS, ids=lambda major: f"pg{major}")
def each_major(request: pytest.FixtureRequest) -> int:
    """Every major there is a server for; the test is skipped for one that cannot be had."""
    major: int = request.param
    binaries(major)
    return major
