"""Neighbouring machines: what one more CPU, a little more memory or a lower ceiling changes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from test_tune_budget import in_bytes

import mrtuner
from mrtuner.errors import DoesNotFit
from mrtuner.tuning.pgtune import measured_against

KIB, MIB, GIB = 2**10, 2**20, 2**30
CROWD: dict[str, Any] = {
    "memory": "16GB", "storage": "ssd", "workload": "oltp", "postgres": 17, "connections": 500,
}  # fmt: skip


# --- connections that nobody asked for


@pytest.mark.parametrize("workload", ["web", "oltp", "mixed", "olap", "desktop"])
@pytest.mark.parametrize(
    "memory", ["768MB", "800MB", "1GB", "1500MB", "2GB", "3GB", "4GB", "6GB", "12GB", "64GB"]
)
@pytest.mark.parametrize("cpus", [1, 8, 96])
def test_our_own_number_of_connections_leaves_each_the_servers_default_work_mem(
    workload: str, memory: str, cpus: int
) -> None:
    tuning = mrtuner.tune(memory=memory, cpus=cpus, workload=workload, postgres=17)
    assert in_bytes(tuning, "work_mem") >= 4 * MIB
    assert not [notice for notice in tuning.notices if "get only" in notice.text]


def test_4_gb_for_oltp_keep_the_100_connections_that_the_server_has() -> None:
    """By hand, in MB: 3686.4 under the ceiling, less buffers 1638.4 * 1.03, 16, 108 * 0.11 and 20,
    less 3 * 64 for autovacuum, 256 for maintenance and 16: 1487. Each of 100 sessions, 2 workers
    and 3 of autovacuum takes 2.5 and 1735.4 / 512 = 3.39, ten of the server's own 3.39: 834 are
    left, 2 * 4.09 for each of the 102 that sort. With 110 sessions it were 2 * 3.46.
    """
    tuning = mrtuner.tune(memory="4GB", cpus=2, storage="ssd", workload="oltp", postgres=17)
    assert tuning["max_connections"].value == "100"
    assert "as many as leave each 4 MB" in tuning["max_connections"].reason
    assert tuning["work_mem"].value == "4160kB"


def test_our_own_number_of_connections_has_no_steps_of_ten_where_there_are_few() -> None:
    """By hand, in MB: 691.2 under the ceiling, less buffers 307.2 * 1.03, 9.6, 26 * 0.11 and 20,
    less 3 * 12 for autovacuum, 48 for maintenance and 16: 242.4. Each of 18 sessions, 2 workers and
    3 of autovacuum takes 2.5 and 348.8 / 512 = 0.68, ten of the server's own 0.68: 162.4 are left,
    2 * 4.06 for each of the 20 that sort. With 19 sessions it were 2 * 3.79.
    """
    found = [
        mrtuner.tune(memory=f"{memory}MB", cpus=2, workload="oltp", postgres=17)
        for memory in range(512, 1600, 32)
    ]
    (known,) = [each for each in found if each.situation.machine["memory"] == 768 * MIB]
    assert known["max_connections"].value == "18"
    assert known["work_mem"].value == "4MB"
    for less, more in pairwise(found):
        counts = [in_bytes(each, "max_connections") for each in (less, more)]
        assert 0 <= counts[1] - counts[0] <= 2


def test_fewer_than_ten_connections_are_never_our_own_number() -> None:
    """256 MB hold ten, with less work_mem than usual, and that is said."""
    tuning = mrtuner.tune(memory="256MB", cpus=4, workload="oltp", postgres=17)
    assert tuning["max_connections"].value == "10"
    assert "10 connections get only" in "\n".join(notice.text for notice in tuning.notices)


# --- CPUs


def test_more_cpus_do_not_take_the_sessions_memory() -> None:
    """By hand, in MB: 14745.6 under the ceiling, less buffers 4096 * 1.03, 16, 511 * 0.11 and 20,
    less 3 * 256, 1024 and 16, leave 8627. Each of 503 sessions, 2 workers and 3 of autovacuum
    takes 2.5 and 4310.8 / 512 = 8.42, ten of the server's own 8.42: 2995 are left. Less 505 * 0.5
    for the least sorts, an eighth is 343: a worker with 8 MB * 2 takes 26.92, so 12 more fit. They
    leave 2995 - 12 * 10.92 = 2864, of which a fourth worker of autovacuum takes 256 and 10.92: 2597
    for 2 * 517 that sort. With two CPUs it were 2995 for 2 * 505.
    """
    workers = {cpus: mrtuner.tune(**CROWD, cpus=cpus) for cpus in (2, 8, 14, 15, 96, 192)}
    counts = {cpus: in_bytes(each, "max_parallel_workers") for cpus, each in workers.items()}
    assert counts == {2: 2, 8: 8, 14: 14, 15: 14, 96: 14, 192: 14}
    assert "budget spares" in workers[15]["max_parallel_workers"].reason
    assert workers[192]["max_worker_processes"].value == "18"
    sizes = {cpus: workers[cpus]["work_mem"].value for cpus in (2, 192)}
    assert sizes == {2: "3008kB", 192: "2560kB"}


def test_beyond_the_fewest_workers_memory_that_is_spared_is_used() -> None:
    """By hand, in MB. First machine: 7372.8 under the ceiling, less buffers 2048 * 1.03, 16,
    208 * 0.11 and 20, less 3 * 128, 512 and 16: 4293. 205 processes take 2.5 and 2168 / 512 = 4.23
    each, ten of the server's own 4.23: 2870. Less 202 * 0.5, an eighth is 346: 15 workers of 22.73
    fit beside two. Then 2767 are left; less 217 * 0.5, an eighth is 332: two more of autovacuum, of
    134.7, would fit beside three, and 8 GB allow one.
    Second: 7372.8, less 1845 * 1.03, 16, 511 * 0.11 and 20, less the same 912: 4469. 508 processes
    take 6.39 each, ten 3.89: 1183. Less 505 * 4 * 0.25, an eighth is 85: two of 38.4 beside two.
    """
    web = mrtuner.tune(memory="8GB", cpus=64, workload="web", postgres=17)
    assert web["max_parallel_workers"].value == "17"
    assert web["autovacuum_max_workers"].value == "4"
    olap = mrtuner.tune(memory="8GB", cpus=4, workload="olap", connections=500, postgres=17)
    assert olap["max_parallel_workers"].value == "4"


@pytest.mark.parametrize("workload", ["web", "oltp", "mixed", "olap"])
@pytest.mark.parametrize("connections", [None, 100])
@pytest.mark.parametrize("memory", ["4GB", "16GB", "64GB"])
@pytest.mark.parametrize("postgres", [17, 18, 19])
def test_more_cpus_never_give_fewer_parallel_workers(
    workload: str, connections: int | None, memory: str, postgres: int
) -> None:
    asked: dict[str, Any] = {
        "memory": memory, "workload": workload, "connections": connections, "postgres": postgres,
    }  # fmt: skip
    found = [mrtuner.tune(**asked, cpus=cpus) for cpus in (2, 8, 16, 32, 64, 192)]
    for name in (
        "max_parallel_workers", "max_parallel_workers_per_gather", "max_worker_processes"
    ):  # fmt: skip
        counts = [in_bytes(each, name) for each in found]
        assert counts == sorted(counts)


def test_io_workers_take_what_parallel_workers_leave() -> None:
    """By hand, in MB: 3686.4 under the ceiling, less buffers 1638.4 * 1.03, 16, 111 * 0.11 and 20,
    less 3 * 64, 256 and 16: 1487. 108 processes take 2.5 and 3.39 each, ten 3.39: 817. Less
    105 * 0.5, an eighth is 95: four of 21.89 beside two.
    """
    for cpus in (16, 64):
        tuning = mrtuner.tune(
            memory="4GB", cpus=cpus, storage="ssd", workload="oltp", connections=100, postgres=18
        )
        assert tuning["max_parallel_workers"].value == "6"
        assert tuning["max_parallel_workers_per_gather"].value == "2"


@pytest.mark.parametrize(
    ("memory", "connections"),
    [("4GB", 500), ("8GB", 1000), ("16GB", 500), ("16GB", 2000), ("256GB", 20_000), ("1TB", 500)],
)
@pytest.mark.parametrize("postgres", [17, 18, 19])
def test_more_cpus_never_refuse_what_fewer_allow(
    memory: str, connections: int, postgres: int
) -> None:
    for workload in ("oltp", "olap"):
        asked: dict[str, Any] = {"memory": memory, "workload": workload, "postgres": postgres}
        held = most_held(asked, connections)
        for cpus in (8, 48, 96, 192, 512):
            mrtuner.tune(**asked, connections=held, cpus=cpus)


def most_held(asked: dict[str, Any], connections: int) -> int:
    """The most connections that two CPUs allow, as the refusal names them."""
    try:
        mrtuner.tune(**asked, connections=connections, cpus=2)
    except DoesNotFit as refusal:
        return int((refusal.hint or "").split("--connections to ")[1].split()[0])
    return connections


def test_one_query_asks_for_no_more_than_half_of_the_workers_there_are() -> None:
    for cpus in (1, 2, 8, 64, 192):
        tuning = mrtuner.tune(memory="512MB", cpus=cpus, workload="olap", postgres=18)
        workers = in_bytes(tuning, "max_parallel_workers")
        assert in_bytes(tuning, "max_parallel_workers_per_gather") <= workers / 2


def test_io_workers_that_we_raise_are_in_the_budget() -> None:
    """By hand, in MB: 58982.4 under the ceiling, less buffers 19200 * 1.03, 64, 511 * 0.11 and 20,
    less 3 * 256, 1024 and 16: 37258. 508 processes take 2.5 and 38.9 each, ten 38.9: 15839. Less
    505 * 16, 135 of 57.4 fit beside two. The sessions of 8 MB leave no more, so the others take an
    eighth: four of autovacuum, of 297.4, beside three, and 26 of 41.4 for I/O, beside three. Every
    one touches all of shared memory.
    """
    tuning = mrtuner.tune(
        memory="64GB", cpus=192, storage="nvme", workload="oltp", connections=500, data="10TB",
        postgres=18,
    )  # fmt: skip
    assert tuning["io_workers"].value == "29"
    assert tuning.budget is not None
    how = {part.name: part.how for part in tuning.budget.parts}
    processes = 503 + 137 + 7 + 26
    assert how["page tables"].startswith(f"{processes + 10} processes")
    assert how["processes"].startswith(f"{processes} of 2.5 MB each")


def test_the_pool_of_19_is_counted_at_its_largest() -> None:
    """50 + 3 sessions, 4 parallel workers, 3 of autovacuum, 8 - 3 I/O workers."""
    tuning = mrtuner.tune(memory="16GB", cpus=4, connections=50, postgres=19)
    assert tuning.budget is not None
    (how,) = [part.how for part in tuning.budget.parts if part.name == "processes"]
    assert how.startswith("65 of 2.5 MB")


# --- memory


@pytest.mark.parametrize("workload", ["web", "oltp", "olap", "desktop"])
@pytest.mark.parametrize("connections", [10, 40])
def test_more_memory_never_gives_less_work_mem(workload: str, connections: int) -> None:
    """Where the same processes run: one more that memory admits takes its share."""
    found = []
    for memory in range(448, 1600, 16):
        try:
            found.append(
                mrtuner.tune(
                    memory=f"{memory}MB", cpus=2, workload=workload, connections=connections,
                    postgres=17,
                )
            )  # fmt: skip
        except DoesNotFit:
            assert not found
    sizes = [in_bytes(each, "work_mem") for each in found]
    assert len(sizes) > 30
    assert all(less <= more + 64 * KIB for less, more in pairwise(sizes))


@pytest.mark.parametrize(
    ("memory", "workload", "value"),
    [
        ("512MB", "desktop", "-1"),  # 32 MB of buffers: nothing to spare
        ("512MB", "oltp", "-1"),
        ("640MB", "web", "-1"),  # (640 - 512) / 32 = 4 MB; 160 MB / 32 = 5 MB is more
        ("768MB", "web", "8MB"),  # (768 - 512) / 32; automatic would be 6 MB
        ("1GB", "web", "16MB"),
    ],
)
def test_wal_buffers_grow_with_memory(memory: str, workload: str, value: str) -> None:
    tuning = mrtuner.tune(memory=memory, cpus=1, workload=workload, connections=5, postgres=17)
    assert tuning["wal_buffers"].value == value
    assert tuning["wal_buffers"].reason.startswith("one segment") is (value == "16MB")


# --- the ceiling


@pytest.mark.parametrize(
    ("memory", "ceiling", "like", "workload"),
    [
        ("18GB", 0.3, "6GB", "mixed"),  # 18 * 0.3 = 5.4 = 0.9 * 6
        ("2304MB", 0.5, "1280MB", "oltp"),  # 1152 = 0.9 * 1280
        ("8GB", 0.25, "4GB", "desktop"),  # whose usual ceiling is half
    ],
)
def test_a_lower_ceiling_gives_what_a_smaller_machine_has(
    memory: str, ceiling: float, like: str, workload: str
) -> None:
    asked: dict[str, Any] = {"cpus": 4, "workload": workload, "storage": "ssd", "postgres": 17}
    low = mrtuner.tune(memory=memory, ceiling=ceiling, **asked)
    small = mrtuner.tune(memory=like, **asked)
    assert {item.name: item.value for item in low.changes} == {
        item.name: item.value for item in small.changes
    }
    assert low.budget is not None
    assert low.budget.fits
    size = like if like.endswith("MB") else f"{like.removesuffix('GB')} GB"
    assert size.replace("1280MB", "1.25 GB") in "\n".join(each.text for each in low.notices)


def test_a_ceiling_above_the_usual_one_leaves_the_shares_of_memory() -> None:
    for ceiling in (0.9, 0.95):
        tuning = mrtuner.tune(memory="8GB", cpus=4, ceiling=ceiling, postgres=17)
        assert tuning["shared_buffers"].value == "2GB"
        assert "--ceiling" not in "\n".join(each.text for each in tuning.notices)


def test_what_was_measured_on_a_machine_is_not_shown_for_half_of_a_larger_one() -> None:
    """4 GB at 0.45 are advised as 2 GB at 0.9, of which 6 GB of data are three times: measured."""
    asked: dict[str, Any] = {
        "cpus": 2, "storage": "ebs", "iops": 3000, "throughput": "125MB", "workload": "oltp",
        "connections": 20, "data": "6GB", "postgres": 18,
    }  # fmt: skip
    whole, half = (
        mrtuner.tune(memory="2GB", **asked),
        mrtuner.tune(memory="4GB", ceiling=0.45, **asked),
    )
    for name in ("shared_buffers", "commit_delay", "backend_flush_after"):
        assert whole[name].value == half[name].value
        assert str(whole[name].basis) == "measured"
        assert str(half[name].basis) != "measured"
    assert measured_against(whole)
    assert measured_against(half) is None
    twice = mrtuner.tune(memory="4GB", ceiling=0.45, **asked | {"data": "12GB"})
    assert measured_against(twice) is None


@pytest.mark.parametrize("ceiling", [0.2, 0.333, 0.47, 0.85])
def test_no_sum_exceeds_a_lower_ceiling(ceiling: float) -> None:
    for memory in (2 * GIB + 12_345, 7 * GIB + 1, 64 * GIB):
        for connections in (None, 20):
            tuning = mrtuner.tune(
                memory=memory, cpus=4, ceiling=ceiling, connections=connections, postgres=18
            )
            assert tuning.budget is not None
            assert tuning.budget.total <= ceiling * memory


# --- few requests


@pytest.mark.parametrize(
    ("iops", "storage", "postgres", "value"),
    [
        (500, "ebs", 17, "12"),  # 500 * 0.025 = 12.5
        (3000, "ebs", 17, "75"),
        (3000, "ebs", 18, "64"),  # as was measured: no more than a process may have in flight
        (16_000, "ebs", 17, "128"),
        (30, "network", 18, "1"),  # at least one
    ],
)
def test_no_more_is_read_ahead_than_the_volume_serves_in_25_ms(
    iops: int, storage: str, postgres: int, value: str
) -> None:
    tuning = mrtuner.tune(memory="4GB", cpus=2, storage=storage, iops=iops, postgres=postgres)
    for name in ("effective_io_concurrency", "maintenance_io_concurrency"):
        assert tuning[name].value == value


@pytest.mark.parametrize(
    ("data", "iops", "workload", "value"),
    [
        ("2TB", 500, "mixed", "2"),
        ("2TB", 500, "oltp", "1.1"),  # the rows in use are few
        ("2TB", 16_000, "mixed", "1.1"),
        ("40GB", 500, "mixed", "1.1"),  # ten times memory
        ("2TB", 500, "olap", "4"),
    ],
)
def test_random_reads_cost_more_where_reports_outrun_memory_and_volume(
    data: str, iops: int, workload: str, value: str
) -> None:
    tuning = mrtuner.tune(
        memory="4GB", cpus=2, storage="ebs", data=data, iops=iops, workload=workload, postgres=17
    )
    assert tuning["random_page_cost"].value == value
