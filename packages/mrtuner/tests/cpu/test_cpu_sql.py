"""Workers as sessions of a real server."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from conftest import NewCluster

from machine import needs
from mrtuner.cpu.model import CpuPlan, Mode
from mrtuner.cpu.session import Setup, server
from mrtuner.cpu.sql import Sessions, StatementTimeout
from mrtuner.errors import ConnectError, MrTunerError, UsageError
from mrtuner.postgres.cluster import Cluster
from servers import MAJORS, sql

pytestmark = pytest.mark.timed

linux = needs("/proc")
PLAN = CpuPlan(
    mode=Mode.SQL, counts=(1, 2), repeats=2, seconds=0.2, pieces=5, seed=1, pairs=False, forced=True
)  # fmt: skip
OURS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mrtuner'"


@pytest.fixture(scope="module")
def setup(embedded: Cluster) -> Setup:
    return server(embedded.dsn(), None)


def sessions(cluster: Cluster) -> int:
    ((count,),) = sql(cluster.dsn(), OURS)
    return int(count)


def none_left(cluster: Cluster) -> bool:
    end = time.monotonic() + 10
    while sessions(cluster) and time.monotonic() < end:
        time.sleep(0.05)
    return sessions(cluster) == 0


@linux
def test_the_cpus_of_a_server_on_this_machine_are_not_given(embedded: Cluster) -> None:
    """With a number, nothing would be known of what else this machine does."""
    with pytest.raises(UsageError, match="this one runs here"):
        server(embedded.dsn(), 4)


@linux
def test_sessions_do_equal_work_and_account_for_it(setup: Setup, embedded: Cluster) -> None:
    with setup.site.workers(2) as crewed:
        done = crewed.work(PLAN)
        assert sessions(embedded) == 2
    assert none_left(embedded)
    for worker in done:
        assert len(worker.pieces) == 5
        assert min(worker.pieces) > 0
        assert worker.cpu is not None
        assert 0.05 < worker.cpu < 0.8
        assert worker.rest is not None
        assert abs(worker.rest) < 0.05 + 0.05 * worker.wall


@linux
def test_a_session_burns_on_until_the_crew_is_dismissed(setup: Setup, embedded: Cluster) -> None:
    """It starts statement after statement, although no more work is requested."""
    begun = OURS.replace("count(*)", "query_start") + " AND query LIKE '%generate_series%'"
    with setup.site.workers(1) as crewed:
        crewed.work(PLAN)
        seen: set[tuple[object, ...]] = set()
        end = time.monotonic() + 30
        while len(seen) < 5 and time.monotonic() < end:
            seen.update(sql(embedded.dsn(), begun))
        assert len(seen) >= 5
    assert none_left(embedded)


def test_the_work_is_not_optimised_away(setup: Setup) -> None:
    """Four times the steps: four times the CPU time, at the very least twice."""
    assert cpu_time(setup, 0.4) > 2 * cpu_time(setup, 0.1)


def cpu_time(setup: Setup, seconds: float) -> float:
    with setup.site.workers(1) as crewed:
        (worker,) = crewed.work(replace(PLAN, seconds=seconds))
    return worker.cpu or worker.wall


def test_a_server_that_goes_away_ends_the_test_with_a_reason(
    setup: Setup, embedded: Cluster
) -> None:
    with setup.site.workers(2) as crewed:
        sql(embedded.dsn(), OURS.replace("count(*)", "pg_terminate_backend(pid)"))
        with pytest.raises(ConnectError, match="connection to the server was lost"):
            crewed.work(PLAN)
    assert none_left(embedded)


def test_work_that_takes_far_too_long_is_ended_by_the_server(
    setup: Setup, embedded: Cluster
) -> None:
    """The work may take one second and takes four."""
    assert isinstance(setup.site, Sessions)
    patience = StatementTimeout(times=0, seconds=1)
    site = Sessions(embedded.dsn(), setup.usable, embedded.pid, patience=patience)
    with (
        site.workers(1) as crewed,
        pytest.raises(MrTunerError, match=r"cancelled a session's work: .*timeout"),
    ):
        crewed.work(replace(PLAN, seconds=4))
    assert none_left(embedded)


def test_nothing_is_written_to_the_server(setup: Setup, embedded: Cluster) -> None:
    count = "SELECT count(*) FROM pg_class"
    before = sql(embedded.dsn(), count)
    with setup.site.workers(1) as crewed:
        crewed.work(PLAN)
    assert sql(embedded.dsn(), count) == before


def test_the_oldest_server_burns_as_well(new_cluster: NewCluster) -> None:
    """Before 14, extract() gave double precision instead of numeric."""
    oldest = server(new_cluster(min(MAJORS)).dsn(), None)
    with oldest.site.workers(1) as crewed:
        (worker,) = crewed.work(PLAN)
    assert len(worker.pieces) == 5
    assert min(worker.pieces) > 0
