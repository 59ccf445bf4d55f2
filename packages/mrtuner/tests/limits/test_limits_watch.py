"""A real server watched: what its host declares, and what SQL alone can see."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from psycopg.pq import PGconn

from mrtuner.limits import Ceiling, CeilingKind, Limits, MetricSeries, Resource
from mrtuner.limits.assess import on_host
from mrtuner.limits.ceilings import BY_DEFINITION
from mrtuner.limits.confirmation import WAITING
from mrtuner.limits.metrics.watch import watch
from mrtuner.limits.sentences import host_advice
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.named_queries import rows_of
from servers import sql
from waiting import until

if TYPE_CHECKING:
    from conftest import NewCluster

pytestmark = pytest.mark.timed
SECONDS = 300
PUSHED = slice(100, 250)


def test_without_a_watch_the_ceilings_are_told(embedded: Cluster) -> None:
    """max_connections but for 3 of superusers, 100 % of the CPUs; the disk declares no limit."""
    found = watch(embedded.dsn())
    values = {one.resource: (one.value, one.source) for one in found.ceilings}
    (most,) = sql(embedded.dsn(), "SHOW max_connections")[0]
    assert values[Resource.CONNECTIONS] == (int(most) - 3, "max_connections (pg_settings)")
    assert values[Resource.CPU][0] == 100
    assert Resource.MEMORY in values
    assert found.verdict == "nothing was measured; these are the configured ceilings"
    assert found.series.points == 0
    assert any(str(embedded.data) in text for text in found.notices)


def test_clients_have_what_is_not_reserved_and_workers_take_none_of_it(
    new_cluster: NewCluster,
) -> None:
    """By hand: 30 less 4 and 5. Two clients, of which one has a worker that is no connection."""
    cluster = new_cluster(
        settings={
            "max_connections": 30, "superuser_reserved_connections": 4, "reserved_connections": 5,
        }
    )  # fmt: skip
    most = next(
        one for one in watch(cluster.dsn()).ceilings if one.resource is Resource.CONNECTIONS
    )
    assert (most.value, most.note) == (21, "9 more are reserved")
    other = PGconn.connect(cluster.dsn().encode())
    with connect(cluster.dsn()) as mine:
        clients = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        until(lambda: mine.execute(clients).fetchone() == (2,))  # the watch's session has ended
        other.exec_(b"SET debug_parallel_query = on")
        other.send_query(b"SELECT pg_sleep(60)")
        workers = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'"
        until(lambda: mine.execute(workers).fetchone() == (1,))
        (now,) = rows_of(mine, "limits_now", mine.info.server_version)
    other.finish()
    assert now["sessions"] == 2


def test_a_short_watch_says_how_much_is_needed(embedded: Cluster) -> None:
    heard: list[float] = []
    found = watch(embedded.dsn(), 2, tell=heard.append)
    assert any(
        "too few to find a ceiling: watch for at least 120 s" in one for one in found.notices
    )
    assert heard[-1] == 0
    assert found.pegged == ()


def test_a_late_sample_does_not_leave_too_few_points(embedded: Cluster) -> None:
    """The first is due after one second and taken after 2.8; those of 2 and 3 s are too close."""
    heard: list[float] = []

    def tell(remaining: float) -> None:
        if not heard:
            time.sleep(2.8)
        heard.append(remaining)

    found = watch(embedded.dsn(), 4, tell=tell)
    assert any(text.startswith("4 points are too few") for text in found.notices)


def test_a_server_elsewhere_is_seen_by_sql_alone_and_that_is_said(
    each_major: int, new_cluster: NewCluster, tmp_path: Path
) -> None:
    """The host's files show no server process; each major version has its own views."""
    cluster = new_cluster(each_major)
    found = watch(cluster.dsn(), 1, root=tmp_path)
    assert [one.resource for one in found.ceilings] == [Resource.CONNECTIONS]
    said = " ".join(found.notices)
    assert "runs on another host" in said
    assert ("pg_stat_io" in said) is (each_major >= 16)
    assert ("not those of WAL" in said) is (each_major < 18)
    assert "too few" in said


def test_a_role_that_sees_little_is_told_what_it_lacks(embedded: Cluster) -> None:
    sql(embedded.dsn(), "DROP ROLE IF EXISTS limits_blind", "CREATE ROLE limits_blind LOGIN")
    try:
        found = watch(embedded.dsn(user="limits_blind"), 1)
    finally:
        sql(embedded.dsn(), "DROP ROLE limits_blind")
    assert any("GRANT pg_monitor" in text for text in found.notices)


def watched(level: float, waits: float, calm_waits: float = 0.5) -> MetricSeries:
    """Five minutes, half of them with `level` reads a second; waiting sessions are counted."""
    random = np.random.default_rng(3)
    reads = 0.3 * level * random.lognormal(0, 0.2, SECONDS)
    reads[PUSHED] = level * random.normal(1, 0.002, 150)
    writes = 0.2 * level * random.lognormal(0, 0.3, SECONDS)
    waiting = random.poisson(calm_waits, SECONDS).astype(float)
    waiting[PUSHED] = random.poisson(waits, 150)
    queue = (reads + writes) * 1e-4  # the device's own queue, as short at the limit as elsewhere
    return MetricSeries(
        start=datetime(2026, 3, 2, tzinfo=UTC), step=1, apart=True,
        metrics={
            "ReadIOPS": reads, "WriteIOPS": writes, "ReadThroughput": reads * 8192,
            "WriteThroughput": writes * 8192 * random.lognormal(0, 0.3, SECONDS),
            "DiskQueueDepth": queue, WAITING: waiting,
        },
    )  # fmt: skip


CGROUP = Ceiling(
    resource=Resource.READ_IOPS, part="cgroup", kind=CeilingKind.SUSTAINED, value=800,
    source="cgroup v2 io.max of /db", note="on sdb",
)  # fmt: skip


def judged(series: MetricSeries, *known: Ceiling) -> Limits:
    return on_host(series, known, name="here", storage="sdb")


def test_a_limit_on_reads_is_found_though_writes_go_on_beside_them() -> None:
    found = judged(watched(800, 12), CGROUP)
    (one,) = found.pegged
    assert one.ceiling == CGROUP
    assert one.confirmed
    assert found.advice == (
        "read iops stops at 800 IOPS, set by cgroup v2 io.max of /db on sdb: raise it there, or "
        "reduce the load.",
    )


def test_all_cpus_in_use_are_no_limit_that_somebody_set() -> None:
    (one,) = judged(watched(800, 12), CGROUP).pegged
    whole = replace(
        CGROUP, resource=Resource.CPU, value=100, source=BY_DEFINITION, note="2 CPUs of the machine"
    )
    assert list(host_advice([replace(one, ceiling=whole)])) == [
        "100 % of 2 CPUs of the machine is in use: add CPUs, or reduce the load."
    ]


def test_what_sql_does_not_show_is_not_judged() -> None:
    """Another host's CPU and network are never seen, and its connections have no values here."""
    assert [one.name for one in judged(watched(800, 12)).unjudged] == [
        "network in", "network out", "cpu", "connections",
    ]  # fmt: skip


def test_undeclared_it_is_an_unknown_ceiling_because_sessions_wait() -> None:
    found = judged(watched(800, 12))
    levels = [one.plateau.level for one in found.pegged]
    assert levels[0] == pytest.approx(800, rel=0.01) or levels[0] == pytest.approx(
        800 * 8192, rel=0.01
    )
    assert all(one.ceiling is None for one in found.pegged)
    assert found.advice[0].startswith("Unknown read ")


def test_an_even_job_that_nobody_waits_for_is_not_accused() -> None:
    """Three times as many operations with three times as many waiting: each waits no longer."""
    found = judged(watched(800, waits=1.5))
    assert found.pegged == ()


def test_pushed_all_the_time_the_sessions_that_wait_confirm_it() -> None:
    whole = watched(800, 12)
    metrics = {name: values[PUSHED] for name, values in whole.metrics.items()}
    (one,) = judged(
        MetricSeries(start=whole.start, step=1, metrics=metrics, apart=True), CGROUP
    ).pegged
    assert one.confirmed
    assert "on average" in one.evidence[-1].because


def test_the_document_of_a_host_has_no_class() -> None:
    told = judged(watched(800, 12), CGROUP).to_dict()
    assert (told["instance"], told["class"], told["storage"]) == ("here", None, "sdb")
    assert told["candidates"] == []


def test_an_even_trickle_of_writes_beside_the_reads_is_not_accused() -> None:
    whole = watched(800, 12)
    found = judged(replace(whole, metrics={**whole.metrics, "WriteIOPS": np.full(SECONDS, 3.0)}))
    assert found.pegged
    assert all(one.resource is not Resource.WRITE_IOPS for one in found.pegged)


def test_a_declared_limit_on_few_writes_is_found_beside_many_reads() -> None:
    """Twenty writes a second are allowed, while reads go up to some 500."""
    whole = watched(800, 12)
    writes = np.random.default_rng(4).poisson(4, SECONDS).astype(float)
    writes[PUSHED] = np.random.default_rng(5).normal(20, 0.05, 150)
    reads = 300 * np.random.default_rng(6).lognormal(0, 0.2, SECONDS)
    metrics = {**whole.metrics, "WriteIOPS": writes, "ReadIOPS": reads}
    known = replace(CGROUP, resource=Resource.WRITE_IOPS, value=20)
    found = judged(replace(whole, metrics=metrics), known)
    assert known in [one.ceiling for one in found.pegged]


def test_statistics_that_are_reset_meanwhile_are_a_gap(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster()
    found = meanwhile(cluster, tmp_path, lambda: sql(cluster.dsn(), RESET))
    assert "statistics were reset during the watch; that interval is left out" in found.notices


def test_a_server_that_goes_away_ends_the_watch_not_the_answer(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster()
    found = meanwhile(cluster, tmp_path, cluster.stop)
    assert any(text.endswith("which ended the watch") for text in found.notices)
    assert any("too few" in text for text in found.notices)


RESET = "SELECT pg_stat_reset_shared('io')"


def meanwhile(cluster: Cluster, root: Path, act: Callable[[], object]) -> Limits:
    """Watch by SQL alone for six seconds, and act when two of them have passed."""
    acted: list[float] = []

    def tell(remaining: float) -> None:
        if remaining < 4 and not acted:
            acted.append(remaining)
            act()

    found = watch(cluster.dsn(), 6, tell=tell, root=root)
    assert acted
    return found
