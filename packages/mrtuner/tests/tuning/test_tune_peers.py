"""The peers' known mistakes, each by name, which we do not repeat.

The cases come from the survey of PgTune, timescaledb-tune, pgconfig and postgresqltuner
that docs/comparison.md describes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from test_tune_rules import machine

from mrtuner.errors import BadValue, DoesNotFit

if TYPE_CHECKING:
    from mrtuner.tuning import Tuning

GIB = 1024**3


def names(tuning: Tuning) -> set[str]:
    return {item.name for item in tuning.changes}


@pytest.mark.parametrize("major", [18, 19])
def test_pgtune_io_uring_is_never_advised_unseen(major: int) -> None:
    tuning = machine(postgres=major)
    assert "io_method" not in names(tuning)
    assert "io_uring" not in tuning.as_conf()


@pytest.mark.parametrize("major", [15, 18])
def test_pgtune_lz4_is_never_advised_unseen(major: int) -> None:
    tuning = machine(postgres=major)
    assert "wal_compression" not in names(tuning)
    assert "default_toast_compression" not in names(tuning)


def test_pgtune_desktop_does_not_lower_wal_level() -> None:
    tuning = machine(workload="desktop", connections=None)
    assert "wal_level" not in names(tuning)
    assert "max_wal_senders" not in names(tuning)


@pytest.mark.parametrize("cpus", [1, 2, 4, 5, 6, 7, 8])
def test_pgtune_worker_processes_never_below_the_default_of_eight(cpus: int) -> None:
    assert machine(cpus=cpus)["max_worker_processes"].target >= 8  # type: ignore[operator]


def test_pgtune_max_wal_size_grows_with_the_machine_and_obeys_the_disk() -> None:
    """By hand: half of 256 GB takes too long to replay; ten minutes of 40 MiB/s are 24,000 MiB; a
    tenth of 50 GB is 5 GB.
    """
    assert machine(memory="256GB", disk="1TB")["max_wal_size"].value == "24000MB"
    assert machine(disk="50GB")["max_wal_size"].value == "5GB"


def test_pgtune_floor_of_work_mem_does_not_break_the_budget() -> None:
    """4 GB with 500 connections: PgTune's 4 MB floor makes 141 % of memory."""
    tuning = machine(memory="4GB", cpus=2, connections=500, workload="web", postgres=17)
    work_mem = tuning["work_mem"].target
    assert isinstance(work_mem, int)
    assert GIB + 500 * work_mem * 1024 * 2 < 0.9 * 4 * GIB
    assert any("pooler" in notice.text for notice in tuning.notices)


def test_timescaledb_tune_ten_autovacuum_workers_are_not_advised() -> None:
    tuning = machine(memory="4GB", cpus=2, connections=100)
    assert tuning["autovacuum_max_workers"].target == 3
    assert tuning["autovacuum_work_mem"].value == "64MB"


def test_timescaledb_tune_max_wal_size_is_not_left_at_one_gigabyte() -> None:
    assert machine(memory="16GB", disk="1TB")["max_wal_size"].value == "16GB"


def test_timescaledb_tune_work_mem_does_not_collapse_as_cpus_rise() -> None:
    """Theirs: 1 GB at 2 CPUs, 6.4 MB at 64. Here a CPU costs one parallel worker's share."""
    few = machine(memory="256GB", cpus=2, connections=100)["work_mem"].target
    many = machine(memory="256GB", cpus=64, connections=100)["work_mem"].target
    assert isinstance(few, int)
    assert isinstance(many, int)
    assert many > few / 2


def test_pgconfig_parallel_workers_follow_the_machine() -> None:
    tuning = machine(cpus=64, workload="olap", connections=40)
    assert tuning["max_parallel_workers"].target == 64
    assert tuning["max_worker_processes"].target == 68
    assert tuning["max_parallel_workers_per_gather"].target == 16


@pytest.mark.parametrize("workload", ["OLTP", "oltp", "Oltp", "Mixed", "Desktop"])
def test_pgconfig_the_case_of_a_profile_does_not_matter(workload: str) -> None:
    tuning = machine(workload=workload, connections=50)
    assert tuning["shared_buffers"].target > 16  # type: ignore[operator]


@pytest.mark.parametrize(("storage", "reads"), [("NVME", 64), ("ssd", 64), ("Ssd", 64)])
def test_pgconfig_the_case_of_a_storage_does_not_matter(storage: str, reads: int) -> None:
    assert machine(storage=storage)["effective_io_concurrency"].target == reads


def test_pgconfig_an_unknown_storage_is_an_error_not_a_disk() -> None:
    with pytest.raises(BadValue, match="storage cannot be 'floppy'"):
        machine(storage="floppy")


def test_pgconfig_io_combine_limit_is_raised_with_its_cap() -> None:
    tuning = machine(workload="olap", connections=40)
    assert tuning["io_max_combine_limit"].value == "256kB"
    assert tuning["io_combine_limit"].value == "256kB"


def test_pgconfig_wal_is_not_two_and_three_gigabytes_everywhere() -> None:
    assert machine(memory="1GB", cpus=1, connections=20)["max_wal_size"].value == "4GB"
    assert machine(memory="256GB", cpus=64, disk="1TB")["min_wal_size"].value == "6000MB"


def test_postgresqltuner_costs_say_one_thing() -> None:
    """postgresqltuner warns of any non-default cost, yet asks for one on SSD."""
    assert machine(storage="ssd")["random_page_cost"].value == "1.1"
    assert "random_page_cost" not in names(machine(storage="hdd"))


def test_postgresqltuner_memory_in_bytes_is_taken() -> None:
    tuning = machine(memory=34_359_738_368, workload="web")
    assert tuning["shared_buffers"].value == "8GB"


def test_nineteen_gets_no_io_workers() -> None:
    """19 replaced io_workers; a server with an unknown name in its file does not start."""
    assert "io_workers" not in machine(postgres=19)
    assert "io_workers" in machine(postgres=18)
    assert "io_max_workers" in machine(postgres=19)


def test_nothing_is_said_of_what_is_right_already() -> None:
    """Good defaults are not reported: 14 and later spread checkpoints by default."""
    assert "checkpoint_completion_target" not in names(machine(postgres=18))
    assert "checkpoint_completion_target" in names(machine(postgres=13))


def test_more_connections_than_memory_holds_are_refused_with_a_way_out() -> None:
    with pytest.raises(DoesNotFit) as caught:
        machine(memory="2GB", cpus=2, connections=2000)
    assert caught.value.exit_code == 4
    assert caught.value.hint is not None
    assert "--connections" in caught.value.hint
    assert "memory" in caught.value.hint


def test_the_way_out_is_really_out() -> None:
    """The connections that the refusal names must work, and one more must not."""
    with pytest.raises(DoesNotFit) as caught:
        machine(memory="2GB", cpus=2, connections=2000)
    hint = caught.value.hint or ""
    fewer = int(hint.split("--connections to ")[1].split()[0])
    holding = machine(memory="2GB", cpus=2, connections=fewer)
    assert holding["max_connections"].target == fewer + 3  # what the server reserves
    with pytest.raises(DoesNotFit):
        machine(memory="2GB", cpus=2, connections=fewer + 1)


def test_more_memory_never_gives_less_shared_buffers() -> None:
    sizes = [machine(memory=2**29 + step * 777_777_777, connections=10) for step in range(200)]
    buffers = [tuning["shared_buffers"].target for tuning in sizes]
    assert all(a <= b for a, b in pairwise(buffers))  # type: ignore[operator]
