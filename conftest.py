"""Fixtures that every test may use: real, running PostgreSQL servers."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, settings
from served import browser, example, recorded, sealed, viewer  # noqa: F401 - for the tests of web/

import leftovers
import machine
from image_podman import podman  # noqa: F401 - for the tests of image/
from labs import _lab, client, lab, server_lab  # noqa: F401 - fixtures for every test
from machine import asks  # noqa: F401 - a fixture for every test
from mrtuner.change.journal import Journal
from mrtuner.errors import MissingPart
from mrtuner.failover.namespaces import require
from mrtuner.postgres.cluster import INITDB_CACHE, Cluster
from mrtuner.postgres.server_user import scratch_directory
from servers import GRID, MAJORS, at_hand, binaries, running
from shared import SHARED

PASSWORD = "correct horse battery staple"
#: Fixtures with a real server behind them, which a busy machine can hold up.
SERVERS = {"embedded", "new_cluster", "cluster", "server", "lab", "server_lab"}

# Examples drawn or tried slowly on a busy machine say nothing about a strategy or a test.
settings.register_profile("busy", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("busy")

# A test runner in the background ignores or blocks SIGINT, and every program that a test starts
# would inherit that.
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


#: Failures that a busy machine causes in a correct test, by the exception's name and text: only
#: these are retried. A failed assertion never is, because it shows a real fault.
ENVIRONMENT = (
    r"^TimeoutExpired: ",  # a program that should have ended long ago
    r"^Held: ",  # a browser that was not done within a minute, see report_browser.py
    r"^ConnectError: .*(timeout expired|timed out|does not start)",
    r"^(ConnectionTimeout|OperationalError): .*(timeout expired|timed out)",
    r"^OSError: .*Address already in use",
)
#: The slowest file of those that run last.
LONGEST = "test_viewer_pages.py"
LEFT = pytest.StashKey[list[str]]()
PLACE = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[PLACE] = leftovers.make()
    _share(config.stash[PLACE], INITDB_CACHE, "initdb")
    _share(config.stash[PLACE], SHARED, "shared")
    config.stash[LEFT] = []
    machine.hide(config.stash[PLACE] / "programs")


def _share(place: Path, variable: str, name: str) -> None:
    """Make a directory for all workers, unless they inherit one from the session that starts them.

    The one for initdb lets it run once per major, not once per cluster.
    """
    if variable not in os.environ:
        directory = place / name
        directory.mkdir()
        directory.chmod(0o1777)
        os.environ[variable] = str(directory)


def pytest_unconfigure(config: pytest.Config) -> None:
    leftovers.remove(config.stash[PLACE])


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    for item in items:
        if item.get_closest_marker("quiet"):
            item.add_marker("slow")
    machine.mark(items)
    # The tests of web/ run last; their slowest file starts first, so as not to run on alone.
    items.sort(key=lambda item: item.path.parent.name == "web" and item.path.name != LONGEST)
    again = pytest.mark.flaky(reruns=2, only_rerun=list(ENVIRONMENT), rerun_except=[AssertionError])
    for item in items:
        if item.get_closest_marker("timed") or SERVERS.intersection(item.fixturenames):
            item.add_marker(again)


@pytest.hookimpl(tryfirst=True)  # before fixtures are made
def pytest_runtest_setup(item: pytest.Item) -> None:
    machine.skip(item)


def pytest_collection_finish() -> None:
    """Collect garbage seldom: among thousands of tests it took a seventh of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 5)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the session if tests left anything behind; a worker reports it to the main process."""
    left = leftovers.left_in(session.config.stash[PLACE])
    session.config.stash[LEFT] += left
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left"] = left
    elif session.config.stash[LEFT] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    node.config.stash[LEFT] += getattr(node, "workeroutput", {}).get("left", [])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.stash[LEFT]:
        terminalreporter.section("left in the temporary directory", red=True)
        for name in config.stash[LEFT]:
            terminalreporter.line(name)


def pytest_report_header() -> str:
    found = at_hand()
    return "PostgreSQL: " + (", ".join(found.values()) or "none yet; servers are fetched on demand")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """An empty journal of changes."""
    with Journal(tmp_path) as journal:
        yield journal


@pytest.fixture
def short_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan pods from a tenth of the requests, for tests that do not check the plan's figures."""
    from mrtuner_pods.planning import runs

    monkeypatch.setattr(runs, "QUEUES", runs.QUEUES // 10)
    monkeypatch.setattr(runs, "STAGES", runs.STAGES // 10)
    monkeypatch.setattr(runs, "BY_SLOT", runs.BY_SLOT // 10)


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skip the test where the kernel allows no namespaces, and say why."""
    try:
        require()
    except MissingPart as missing:
        pytest.skip(missing.message)


@pytest.fixture(scope="session")
def embedded() -> Iterator[Cluster]:
    """One running PostgreSQL 18 for a whole worker: leave it as you found it."""
    with running() as cluster:
        yield cluster


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


@pytest.fixture(params=GRID)
def each_major(request: pytest.FixtureRequest) -> int:
    """Every major, some only in `make test-slow`; skipped where it is not available."""
    major: int = request.param
    binaries(major)
    return major


@pytest.fixture(params=MAJORS, ids=lambda major: f"pg{major}")
def every_major(request: pytest.FixtureRequest) -> int:
    """Every major in every run; skipped where it is not available."""
    major: int = request.param
    binaries(major)
    return major
