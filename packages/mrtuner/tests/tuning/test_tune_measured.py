"""What a live server's counters change: each rule with a window where they do, and one not.

Situations are those of test_tune_rules_live: 18, 32 GB, 8 CPUs, an SSD, OLTP, 100 connections.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_tune_rules_live import GIB, HOUR, advised, answer, live

from mrtuner.inputs import Workload
from mrtuner.tuning.feasibility import solve
from mrtuner.tuning.situation import (
    BufferWrites,
    Commits,
    Cpus,
    Data,
    DeadRows,
    FullWalBuffers,
    JitTime,
    Memory,
    ParallelWorkers,
    Partitions,
    Slrus,
)
from mrtuner.units import Bytes

# --- autovacuum


def test_tables_past_their_own_threshold_make_vacuum_faster_not_sooner() -> None:
    """A lower scale factor does not help tables whose vacuum is already due. Twice 200 are 400."""
    situation = live(dead_rows=DeadRows("public.orders", times=3.0, tables=2))
    sooner = advised("autovacuum_vacuum_scale_factor", situation)
    assert (sooner.value, sooner.changes) == ("0.2", False)
    faster = advised("autovacuum_vacuum_cost_limit", situation)
    assert (faster.value, str(faster.basis)) == ("400", "observed")
    assert faster.reason == (
        "public.orders has 3.0 times the dead rows that start a vacuum, and 1 more large tables "
        "are late: vacuum must go faster"
    )


def test_a_limit_of_your_own_that_is_too_slow_is_doubled() -> None:
    own = {"autovacuum_vacuum_cost_limit": "800"}
    situation = live(own, dead_rows=DeadRows("public.orders", times=3.0, tables=1))
    assert answer("autovacuum_vacuum_cost_limit", situation) == ("change", "1600")


# --- WAL buffers


@pytest.mark.parametrize(
    ("times", "now", "expected"),
    [
        (7201, "2048", ("change", "64MB")),  # 16 MB, full twice a second
        (7201, "8192", ("change", "128MB")),  # 64 MB
        (3600, "2048", ("keep", "16MB")),  # once a second
        (7201, "32768", ("keep", "256MB")),  # as large as is useful
    ],
)
def test_wal_buffers_grow_where_they_were_full(
    times: int, now: str, expected: tuple[str, str]
) -> None:
    full = FullWalBuffers(times=times, window=HOUR)
    item = advised("wal_buffers", live({"wal_buffers": now}, full_wal_buffers=full))
    if expected[0] == "change":
        assert (item.value, str(item.basis)) == (expected[1], "observed")
    else:
        assert item.basis != "observed"


# --- parallel workers


def test_helpers_that_never_came_are_no_longer_counted_on() -> None:
    """By hand: 700 of 1,000 started, so 30 % did not; eight workers for eight CPUs."""
    short = ParallelWorkers(planned=1000, launched=700)
    own = {"max_parallel_workers": "8", "max_parallel_workers_per_gather": "4"}
    item = advised(
        "max_parallel_workers_per_gather",
        live(own, workload=Workload.OLAP, parallel_workers=short),
    )
    assert (item.value, str(item.basis)) == ("2", "observed")
    assert item.reason == (
        "30% of 1,000 planned workers could not start on this server, although plans relied on them"
    )


def test_fewer_helpers_stay_fewer_when_the_advice_is_asked_again() -> None:
    """Once 1 is in force, the same counters and none at all leave it; nobody's 0 is cut."""
    short = ParallelWorkers(planned=1000, launched=700)
    own = {"max_parallel_workers": "8", "max_parallel_workers_per_gather": "1"}
    for workload in (Workload.OLTP, Workload.OLAP):
        for workers in (short, None):
            again = advised(
                "max_parallel_workers_per_gather",
                live(own, workload=workload, parallel_workers=workers),
            )
            assert (again.value, again.to_dict()["verdict"]) == ("1", "keep")
    off = advised("max_parallel_workers_per_gather", live({"max_parallel_workers": "0"}))
    assert (off.to_dict()["verdict"], off.reason) == (
        "keep",
        "max_parallel_workers or max_worker_processes is 0: none starts",
    )


def test_no_more_helpers_are_planned_than_worker_processes_that_stay() -> None:
    """Patroni gives max_worker_processes = 8 on the command line, whatever the CPUs."""
    patroni = live(
        {"max_worker_processes": "8"}, workload=Workload.OLAP, cpus=Cpus(64),
        memory=Memory(Bytes(256 << 30)), fixed={"max_worker_processes": "on the command line"},
    )  # fmt: skip
    solution = solve(patroni)
    assert solution.advice["max_parallel_workers"].target == 8
    assert solution.advice["max_parallel_workers_per_gather"].target == 4
    # Of 64 that somebody wrote, 8 run: 100 sessions and these, two operations each.
    own = replace(
        patroni, running={**patroni.running, "max_parallel_workers": "64"},
        origins={**patroni.origins, "max_parallel_workers": "file"},
    )  # fmt: skip
    assert solve(own).advice["max_parallel_workers"].value == "64"
    assert solve(own).chosen.parallel_workers == 8
    assert solve(own).advice["max_parallel_workers_per_gather"].target == 4
    budget = solve(own).budget
    assert budget is not None
    (sorts,) = [one for one in budget.parts if one.name == "sorts and hashes"]
    assert sorts.how.startswith("216 at once")


def test_too_few_workers_for_the_cpus_are_made_as_many() -> None:
    short = ParallelWorkers(planned=1000, launched=700)
    own = {"max_parallel_workers": "2"}
    item = advised("max_parallel_workers", live(own, parallel_workers=short))
    assert (item.value, str(item.basis)) == ("8", "observed")
    gather = advised("max_parallel_workers_per_gather", live(own, parallel_workers=short))
    assert gather.basis != "observed"


@pytest.mark.parametrize("workers", [ParallelWorkers(99, 0), ParallelWorkers(1000, 801), None])
def test_few_or_launched_workers_change_nothing(workers: ParallelWorkers | None) -> None:
    item = advised("max_parallel_workers_per_gather", live(parallel_workers=workers))
    assert item.basis != "observed"


# --- JIT


def test_compiling_that_took_a_quarter_of_the_time_is_switched_off_for_olap_too() -> None:
    """By hand: 30 of 120 s."""
    slow = JitTime(calls=40, compiling=30.0, running=120.0)
    item = advised("jit", live({"jit": "on"}, workload=Workload.OLAP, jit_time=slow))
    assert (item.value, str(item.basis)) == ("off", "observed")
    assert item.reason == "compiling took 25% of the time of 40 compiled calls on this server"


@pytest.mark.parametrize(
    "jit_time", [JitTime(40, 20.0, 120.0), JitTime(9, 9.0, 10.0), JitTime(40, 0.5, 0.6), None]
)
def test_compiling_that_took_little_or_was_seen_too_seldom_stays_on_for_olap(
    jit_time: JitTime | None,
) -> None:
    situation = live({"jit": "on"}, workload=Workload.OLAP, jit_time=jit_time)
    assert answer("jit", situation) == ("keep", "on")


# --- what a busy server, or one of many partitions, is told


def test_commits_that_use_up_the_freeze_age_in_three_days_suggest_more() -> None:
    """By hand: 200 million at 1,000 a second last 55.6 h; at 771 a second, three days and more."""
    item = advised("autovacuum_freeze_max_age", live(commits=Commits(1000.0)))
    assert (item.value, item.suggested) == ("500000000", True)
    assert "each 56 h" in item.reason
    assert not advised("autovacuum_freeze_max_age", live(commits=Commits(771.0))).suggested


def test_locks_suffice_for_active_sessions_that_read_all_partitions() -> None:
    """By hand: 16 active sessions, 2 for each CPU, with 3,000 locks each are 48,000; 100 sessions
    have 6,400 together, and need 480 each: 512.
    """
    many = live(partitions=Partitions("public.events", 3000))
    item = advised("max_locks_per_transaction", many)
    assert (item.value, item.suggested) == ("512", True)
    few = live(partitions=Partitions("public.events", 400))  # 16 * 400 = 6,400
    assert not advised("max_locks_per_transaction", few).suggested


def test_partitions_are_joined_one_by_one_for_reports_alone() -> None:
    events = Partitions("public.events", 40)
    reports = live(workload=Workload.OLAP, partitions=events)
    assert advised("enable_partitionwise_join", reports).suggested
    assert advised("enable_partitionwise_aggregate", reports).suggested
    assert not advised("enable_partitionwise_join", live(partitions=events)).suggested


# --- caches of transaction status


@pytest.mark.parametrize(
    ("reads", "misses", "now", "expected"),
    [
        (11.0, 0.02, "32", ("change", "512kB")),  # 256 kB doubled
        (10.0, 0.02, "32", ("keep", "256kB")),
        (500.0, 0.01, "32", ("keep", "256kB")),  # seldom, for a busy server
        (500.0, 0.5, "8192", ("keep", "64MB")),  # the largest advised
        (500.0, 0.5, "6144", ("change", "64MB")),
    ],
)
def test_a_cache_that_misses_is_doubled(
    reads: float, misses: float, now: str, expected: tuple[str, str]
) -> None:
    name = "subtransaction_buffers"
    slrus = Slrus({name: reads}, {name: misses})
    assert answer(name, live({name: now}, slrus=slrus)) == expected


def test_before_17_these_caches_have_no_parameter() -> None:
    assert "subtransaction_buffers" not in live(major=16).running


# --- who writes buffers


def test_shares_of_writes_are_told_only_where_sessions_made_room_for_themselves() -> None:
    """By hand: 20,000 of 100,000 buffers are a fifth. Before 16 the counter includes more."""
    fields = {"clean_stops": 0, "window": HOUR, "by_others": 80_000}
    assert BufferWrites(by_backends=20_000, evictions=50_000, **fields).share == 0.2  # type: ignore[arg-type]
    assert BufferWrites(by_backends=20_000, evictions=None, **fields).share is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("by_backends", "workload", "expected"),
    [
        (10_000, Workload.MIXED, ("13107MB", "observed")),  # 10,000 of 100,000: a tenth
        (9_000, Workload.MIXED, ("8GB", "convention")),
        (50_000, Workload.OLAP, ("8GB", "convention")),
    ],
)
def test_buffers_grow_where_sessions_write_them_to_make_room(
    by_backends: int, workload: Workload, expected: tuple[str, str]
) -> None:
    """Two fifths of 32 GB are 12.8 GB, 13,107 MB; a quarter is 8 GB."""
    writes = BufferWrites(
        by_backends=by_backends, clean_stops=0, window=HOUR, by_others=100_000 - by_backends,
        evictions=200_000,
    )  # fmt: skip
    data = Data(Bytes(100 * GIB))
    item = advised("shared_buffers", live(workload=workload, buffer_writes=writes, data=data))
    assert (item.value, str(item.basis)) == expected


@pytest.mark.parametrize(("gigabytes", "expected"), [(8, "10GB"), (0.3, "8GB"), (None, "8GB")])
def test_buffers_never_grow_past_what_the_data_can_use(
    gigabytes: float | None, expected: str
) -> None:
    """A quarter of 32 GB is 8 GB; 8 GB of data and a quarter more are 10 GB."""
    writes = BufferWrites(
        by_backends=50_000, clean_stops=0, window=HOUR, by_others=50_000, evictions=200_000
    )
    data = None if gigabytes is None else Data(Bytes(int(gigabytes * GIB)))
    situation = live(workload=Workload.MIXED, buffer_writes=writes, data=data)
    assert advised("shared_buffers", situation).value == expected
