"""The server has the last word: real servers of every major version accept our files."""

from __future__ import annotations

import random
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import mrtuner
from mrtuner.errors import DoesNotFit
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.server_user import scratch_directory
from servers import binaries, sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import NewCluster

    from mrtuner.tuning import Tuning

MIB, GIB = 2**20, 2**30
MACHINES_A_MAJOR = 30


def generated(major: int, count: int) -> Iterator[Tuning]:
    """Machines of every size and kind, the same in every run."""
    dice = random.Random(major)
    while count:
        machine: dict[str, Any] = {
            "memory": int(2 ** dice.uniform(27, 42)),
            "cpus": dice.choice([1, 2, 3, 4, 8, 16, 33, 64, 128, 256]),
            "connections": dice.choice([None, 1, 2, 3, 10, 50, 100, 500, 1000, 5000]),
            "storage": dice.choice(["hdd", "ssd", "nvme", "ebs", "network", "overlay", None]),
            "workload": dice.choice(["web", "oltp", "olap", "mixed", "desktop"]),
            "data": dice.choice([None, "1GB", "200GB"]),
            "disk": dice.choice([None, "20GB", "10TB"]),
            "postgres": major,
        }
        try:
            yield mrtuner.tune(**machine)
        except DoesNotFit:
            continue
        count -= 1


#: The smallest machines that anybody asks about, and few sessions on larger ones.
SMALLEST: list[dict[str, Any]] = [
    {"memory": "128MB", "cpus": 1, "connections": 1},
    {"memory": "256MB", "cpus": 1, "connections": 2, "workload": "web"},
    {"memory": "512MB", "cpus": 1, "connections": 3, "workload": "oltp"},
    {"memory": "16GB", "cpus": 4, "connections": 1, "workload": "olap"},
]


def test_a_server_starts_with_as_few_sessions_as_asked_for_and_gives_them_all(
    each_major: int, new_cluster: NewCluster
) -> None:
    """max_connections must exceed what is reserved; applications, not superusers, get the rest."""
    cluster = new_cluster(each_major)
    sql(cluster.dsn(), "create role app login")
    for machine in SMALLEST:
        conf = mrtuner.tune(**machine, storage="ssd", postgres=each_major).as_conf()
        if machine["memory"] == "16GB":
            conf += "shared_buffers = 128MB\n"  # the test's machine may have less
        (cluster.data / "postgresql.auto.conf").write_text(conf)
        cluster.restart()
        with ExitStack() as open_sessions:
            for _ in range(machine["connections"]):
                open_sessions.enter_context(psycopg.connect(cluster.dsn(), user="app"))
            with pytest.raises(psycopg.OperationalError, match=r"reserved|too many"):
                psycopg.connect(cluster.dsn(), user="app")


@pytest.fixture
def stopped(each_major: int) -> Iterator[Cluster]:
    cluster = Cluster.create(binaries(each_major), scratch_directory())
    yield cluster
    cluster.remove()


def test_every_generated_file_is_read_without_complaint(stopped: Cluster, each_major: int) -> None:
    """`postgres -C` reads the files as a start does, and stops before taking the memory."""
    include = stopped.data / "postgresql.auto.conf"
    for tuning in generated(each_major, MACHINES_A_MAJOR):
        include.write_text(tuning.as_conf())
        done = stopped.run("postgres", "-D", stopped.data, "-C", "shared_buffers")
        said = (done.stderr + tuning.as_conf()).splitlines()
        assert done.returncode == 0, said
        assert done.stdout.strip() == str(tuning["shared_buffers"].target), said


def test_the_sql_form_is_taken_and_gives_the_same_values(
    new_cluster: NewCluster, each_major: int
) -> None:
    cluster = new_cluster(each_major)
    for tuning in generated(each_major, 5):
        sql(cluster.dsn(), "alter system reset all")
        for line in tuning.as_sql().splitlines():
            if line and not line.startswith("--"):
                sql(cluster.dsn(), line)
        written = dict(
            sql(
                cluster.dsn(),
                "select name, setting from pg_file_settings "
                "where sourcefile like '%postgresql.auto.conf'",
            )
        )
        assert written == {item.name: item.value for item in tuning.values() if item.written}
        assert "work_mem" in written


def test_shared_memory_in_the_budget_covers_what_the_server_takes(
    stopped: Cluster, each_major: int
) -> None:
    """Judged by the server's own arithmetic (shared_memory_size came in 15)."""
    if each_major < 15:
        pytest.skip("shared_memory_size came in 15")
    include = stopped.data / "postgresql.auto.conf"
    for tuning in generated(each_major, 12):
        include.write_text(tuning.as_conf())
        done = stopped.run("postgres", "-D", stopped.data, "-C", "shared_memory_size")
        taken = int(done.stdout) * MIB
        assert tuning.budget is not None
        shared = tuning.budget.parts[0]
        assert shared.name == "shared memory"
        assert taken <= shared.size, tuning.as_conf()
        assert shared.size <= taken * 1.1 + 500 * MIB, "far too much is as wrong"


def test_a_tuned_server_starts_and_runs_with_the_values(
    every_major: int, new_cluster: NewCluster
) -> None:
    tuning = mrtuner.tune(memory="1GB", cpus=2, storage="ssd", connections=50, postgres=every_major)
    cluster = new_cluster(every_major)
    with (cluster.data / "postgresql.conf").open("a") as conf:
        conf.write(tuning.as_conf())
    cluster.restart()
    shown = {name: sql(cluster.dsn(), f"show {name}")[0][0] for name in tuning}
    assert {name: shown[name] for name in tuning} == {
        name: item.value for name, item in tuning.items() if not item.rule.suggestion
    } | {name: shown[name] for name, item in tuning.items() if item.rule.suggestion} | {
        # 0 stands for a 512th of shared_buffers, of 256MB here: documentation, Memory.
        name: "512kB"
        for name in ("transaction_buffers", "subtransaction_buffers", "commit_timestamp_buffers")
        if name in shown
    }


def test_run_is_a_real_process(stopped: Cluster) -> None:
    """The check above can fail: a wrong value makes the same command complain."""
    (stopped.data / "postgresql.auto.conf").write_text("work_mem = '12 parsecs'\n")
    done: subprocess.CompletedProcess[str] = stopped.run(
        "postgres", "-D", stopped.data, "-C", "shared_buffers"
    )
    assert done.returncode != 0
    assert "work_mem" in done.stderr
