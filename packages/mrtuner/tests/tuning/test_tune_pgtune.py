"""PgTune's values for a machine, worked out by hand from its rules, and where ours differ.

`mrtuner/tuning/pgtune.py` gives the source of these rules.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_tune_rules import machine

from command_line import run
from mrtuner.inputs import Storage, Workload
from mrtuner.tuning.pgtune import DataSize, PgTuneInputs, differences, settings

GIB = 2**30
COMPARISON = Path(__file__).parents[4] / "docs" / "comparison.md"


def values(**other: Any) -> dict[str, str]:
    known: dict[str, Any] = {
        "memory": 16 * GIB, "cpus": 4, "connections": 200, "workload": Workload.WEB,
        "storage": Storage.SSD, "major": 18,
    }  # fmt: skip
    return {name: one.value for name, one in settings(PgTuneInputs(**known | other)).items()}


def test_a_web_server_of_16_gb() -> None:
    """By hand: work_mem is (16 - 4) GB, 12,582,912 kB, by 3 × (200 + 4): 20,560.3 kB."""
    assert values() == {
        "max_connections": "200", "shared_buffers": "4194304kB", "effective_cache_size":
        "12582912kB", "maintenance_work_mem": "1048576kB", "work_mem": "20560kB",
        "huge_pages": "try", "min_wal_size": "1024MB", "max_wal_size": "4096MB",
        "checkpoint_completion_target": "0.9", "wal_buffers": "16MB", "wal_compression": "lz4",
        "default_statistics_target": "100", "random_page_cost": "1.1",
        "effective_io_concurrency": "200", "jit": "off", "max_worker_processes": "4",
        "max_parallel_workers": "4", "max_parallel_workers_per_gather": "2",
        "max_parallel_maintenance_workers": "2", "io_method": "io_uring",
    }  # fmt: skip


def test_a_small_server_with_many_sessions_gets_the_floor() -> None:
    """By hand: 3,145,728 kB by 3 × (500 + 8) are 2,064 kB, below 4 MB; 2 CPUs: no workers."""
    found = values(memory=4 * GIB, cpus=2, connections=500, major=17)
    assert (found["work_mem"], found["huge_pages"]) == ("4096kB", "off")
    assert not {"max_worker_processes", "io_method", "autovacuum_max_workers"} & found.keys()


def test_a_warehouse_with_more_data_than_memory() -> None:
    """By hand: 201,326,592 kB by 3 × (40 + 64) by 2, times 0.9: 290,374.9 kB; 32 GB are capped."""
    found = values(
        memory=256 * GIB, cpus=64, connections=40, workload=Workload.OLAP, data=DataSize.LARGER
    )
    expected = {
        "work_mem": "290374kB", "maintenance_work_mem": "8388608kB", "autovacuum_work_mem": "2GB",
        "autovacuum_max_workers": "5", "max_parallel_workers_per_gather": "32",
        "max_parallel_maintenance_workers": "4", "max_wal_size": "16384MB",
        "default_statistics_target": "500", "random_page_cost": "4",
    }  # fmt: skip
    assert expected.items() <= found.items()
    assert "jit" not in found


def test_a_desktop() -> None:
    """By hand: 1 GB by 16 are 64 MB, of which 3 % are 1,966 kB; 1,950 kB are below 4 MB."""
    found = values(
        memory=GIB, cpus=1, connections=None, workload=Workload.DESKTOP, storage=None, major=13
    )
    expected = {
        "max_connections": "20", "shared_buffers": "65536kB", "effective_cache_size": "262144kB",
        "work_mem": "4096kB", "wal_buffers": "1966kB", "wal_level": "minimal",
        "max_wal_senders": "0", "wal_compression": "on", "min_wal_size": "100MB",
        "max_wal_size": "2048MB",
    }  # fmt: skip
    assert expected.items() <= found.items()


@pytest.mark.parametrize(
    ("workload", "storage", "data", "work_mem", "cost", "reads"),
    [
        # 6,291,456 kB by 3 × (100 + 8): 19,418.07 kB; halved 9,709.04; times 1.3 12,621.7.
        (Workload.MIXED, Storage.HDD, DataSize.SIMILAR, "9709kB", "4", "2"),
        (Workload.MIXED, Storage.HDD, DataSize.SMALLER, "12621kB", "1.1", "2"),
        (Workload.WEB, Storage.NVME, DataSize.SIMILAR, "19418kB", "1.1", "1000"),
        (Workload.WEB, Storage.NETWORK, DataSize.SIMILAR, "19418kB", "1.1", "300"),
        (Workload.WEB, Storage.EBS, DataSize.SIMILAR, "19418kB", "1.1", "200"),
    ],
)
def test_storage_and_data(
    workload: Workload, storage: Storage, data: DataSize, work_mem: str, cost: str, reads: str
) -> None:
    found = values(
        memory=8 * GIB, cpus=8, connections=100, workload=workload, storage=storage, data=data
    )
    assert found["work_mem"] == work_mem
    assert (found["random_page_cost"], found["effective_io_concurrency"]) == (cost, reads)


@pytest.mark.parametrize(
    ("row", "shape"),
    [
        ("4 GB, 2 CPUs, 100 connections, web, 17", {"memory": 4, "cpus": 2, "connections": 100}),
        ("4 GB, 2 CPUs, 500 connections, web, 17", {"memory": 4, "cpus": 2, "connections": 500}),
        ("16 GB, 4 CPUs, 100 connections, web, 17", {"connections": 100}),
        ("32 GB, 8 CPUs, 200 connections, oltp, 18",
         {"memory": 32, "cpus": 8, "workload": Workload.OLTP}),
        ("256 GB, 64 CPUs, 500 connections, oltp, 18",
         {"memory": 256, "cpus": 64, "connections": 500, "workload": Workload.OLTP,
          "data": DataSize.LARGER}),
        ("256 GB, 64 CPUs, 40 connections, olap, 18",
         {"memory": 256, "cpus": 64, "connections": 40, "workload": Workload.OLAP,
          "data": DataSize.LARGER}),
    ],
)  # fmt: skip
def test_the_rules_give_what_pgtune_was_seen_to_give(row: str, shape: dict[str, Any]) -> None:
    """docs/comparison.md has what its code gave when it was run, rounded to two or three digits."""
    line = next(
        line.replace("\N{NO-BREAK SPACE}", " ") for line in COMPARISON.read_text().splitlines()
        if line.replace("\N{NO-BREAK SPACE}", " ").startswith(f"| {row} |")
    )  # fmt: skip
    work_mem, max_wal, _ = line.split(" | ")[4].split(", ")
    found = values(**shape | {"memory": shape.get("memory", 16) * GIB})
    seen = float(work_mem.removesuffix(" MB"))
    assert float(found["work_mem"].removesuffix("kB")) / 1024 == pytest.approx(seen, abs=0.5)
    assert int(found["max_wal_size"].removesuffix("MB")) == 1024 * int(max_wal.removesuffix(" GB"))


def test_where_the_two_differ_each_says_why() -> None:
    found = {one.name: one for one in differences(machine(memory="16GB", cpus=4, workload="web"))}
    work_mem = found["work_mem"]
    assert (work_mem.ours, work_mem.rule.split(",")[0]) == ("8MB", "what shared_buffers leaves")
    assert "one merge pass" in work_mem.reason
    workers = found["max_worker_processes"]
    assert (workers.ours, workers.theirs, workers.rule) == ("8", "4", "as many as CPUs")
    assert "does not start" in found["io_method"].reason
    # Both take a quarter of memory: equal values are not listed, however they are written.
    assert not {"shared_buffers", "max_wal_size", "jit"} & found.keys()
    assert all(one.rule and one.reason and one.ours != one.theirs for one in found.values())


def tune(*more: str) -> Any:
    described = ("--memory", "16GB", "--cpus", "4", "--pg", "18", "--workload", "desktop")
    return run("tune", *described, *more)


def test_the_command_lists_them() -> None:
    done = tune("--compare", "pgtune")
    assert done.exit_code == 0, done.output
    assert "wal_level: replica here, minimal by PgTune" in done.stdout
    assert "data of one to three times the memory" in done.stdout
    told = json.loads(tune("--compare", "pgtune", "--json").stdout)
    assert {one["name"] for one in told["pgtune"]} >= {"io_method", "wal_level", "work_mem"}
    assert "pgtune" not in json.loads(tune("--json").stdout)
    refused = tune("--compare", "pgtune", "--format", "conf")
    assert (refused.exit_code, "cannot show a comparison" in refused.stderr) == (2, True)


def test_the_page_is_told_the_same_as_the_command() -> None:
    from mrtuner.web.tuner import answer

    asked = {"memory": "16GB", "cpus": "4", "postgres": "18", "workload": "desktop"}
    told = answer(asked)["pgtune"]
    assert told["differences"] == json.loads(tune("--compare", "pgtune", "--json").stdout)["pgtune"]
    assert told["source"].startswith("PgTune, commit ")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "0.90 to 1.60 times PgTune's throughput, 1.35 in the middle"),
        ({"memory": "1GB"}, "not measured on such a machine"),
        ({"data": "1GB"}, "not measured on such a machine"),
        ({"iops": 16_000}, "not measured on such a machine"),
        ({"workload": "mixed"}, "not measured on such a machine"),
        ({"cpus": 64, "storage": "hdd", "pg": 13}, "not measured on such a machine"),
        ({"connections": 200}, "not measured on such a machine"),
        ({"throughput": "1MB"}, "not measured on such a machine"),
        ({"wal-disk": "10GB"}, "not measured on such a machine"),
    ],
    ids=str,
)
def test_the_measured_ratio_is_told_only_for_the_machine_it_was_measured_on(
    given: dict[str, Any], expected: str
) -> None:
    like = {
        "memory": "2GB", "cpus": 2, "iops": 3000, "data": "6GB", "workload": "oltp",
        "throughput": "125MB", "storage": "ssd", "connections": 30, "pg": 18,
    }  # fmt: skip
    options = [word for name, value in (like | given).items() for word in (f"--{name}", str(value))]
    done = run("tune", *options, "--compare=pgtune")
    assert expected in " ".join(done.output.split())
    if "not" in expected:
        assert "in the middle" not in done.output
