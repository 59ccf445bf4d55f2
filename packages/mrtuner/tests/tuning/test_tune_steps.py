"""What only a person can do on the machine: each step has a command, the present value, the risk.

The machine is a tree of files: 64 GB (65,536,000 kB) with two NUMA nodes and the kernel's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mrtuner
from mrtuner.host import probe
from mrtuner.tuning import gather, suggestions
from mrtuner.tuning.advice import ManualStep, RoleMemory
from mrtuner.tuning.feasibility import solve
from mrtuner.tuning.host_steps import checksums, reserve_huge_pages, steps

MEMORY = 65_536_000 * 1024

FILES: Mapping[str, str] = {
    "/proc/meminfo": """MemTotal: 65536000 kB
SwapTotal: 2097152 kB
Committed_AS: 8192000 kB
HugePages_Total: 0
HugePages_Free: 0
Hugepagesize: 2048 kB""",
    "/proc/cpuinfo": "\n".join(f"processor : {number}" for number in range(16)),
    "/proc/sys/vm/overcommit_memory": "0",
    "/proc/sys/vm/overcommit_ratio": "50",
    "/proc/sys/vm/dirty_background_bytes": "0",
    "/proc/sys/vm/dirty_background_ratio": "10",
    "/proc/sys/vm/dirty_bytes": "0",
    "/proc/sys/vm/dirty_ratio": "20",
    "/proc/sys/vm/swappiness": "60",
    "/proc/sys/vm/zone_reclaim_mode": "0",
    "/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
    "/sys/devices/system/node/online": "0-1",
    "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0",
}


def found(root: Path, changes: Mapping[str, str] | None = None, **said: Any) -> list[ManualStep]:
    """The steps for a machine with these files."""
    for path, text in {**FILES, **(changes or {})}.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    host = probe(root)
    usual: dict[str, Any] = {"storage": "nvme", "workload": "oltp", "postgres": 18}
    situation = gather.this_machine(gather.flags(**(usual | said)), host).situation
    solution = solve(situation)
    return list(steps(situation, solution.chosen, solution.budget, host, None))


def commands(taken: list[ManualStep]) -> str:
    return "\n".join(command for step in taken for command in step.commands)


def the_step(taken: list[ManualStep], command: str) -> ManualStep:
    (one,) = [step for step in taken if any(command in each for each in step.commands)]
    return one


def test_each_step_on_this_machine_has_its_command_the_value_now_and_the_risk(
    tmp_path: Path,
) -> None:
    taken = found(tmp_path)
    for step in taken:
        assert step.commands, step.purpose
        assert step.now, step.purpose
        assert step.risk, step.purpose
    # Huge pages, two dirty limits, overcommit, swappiness, transparent pages, NUMA.
    assert len(taken) == 7


def test_the_kernels_background_limit_is_offered_where_backend_flush_after_is_not(
    tmp_path: Path,
) -> None:
    """10 % of 62.5 GB would be written in one burst; 256 MB are 268,435,456 bytes."""
    step = the_step(found(tmp_path), "vm.dirty_background_bytes=268435456")
    assert step.now == "vm.dirty_background_ratio = 10"
    assert "dirty_background" not in commands(found(tmp_path, storage="ebs"))
    set_already = {"/proc/sys/vm/dirty_background_bytes": "67108864"}
    assert "dirty" not in commands(found(tmp_path, set_already))
    assert "dirty" not in commands(found(tmp_path, workload="olap"))
    # A second of what the volume writes, where it is known: 500 MiB.
    known = found(tmp_path, throughput="500MB/s")
    assert "vm.dirty_background_bytes=524288000" in commands(known)


def test_writers_wait_at_eight_times_that(tmp_path: Path) -> None:
    step = the_step(found(tmp_path), "vm.dirty_bytes=2147483648")
    assert step.now == "vm.dirty_ratio = 20"


def test_overcommit_is_offered_with_a_ratio_that_leaves_room(tmp_path: Path) -> None:
    """With the default ratio of 50 % the server could not use half of its memory."""
    taken = found(tmp_path)
    step = the_step(taken, "vm.overcommit_memory=2")
    assert "vm.overcommit_ratio=90" in step.commands[0]
    assert step.now.startswith("vm.overcommit_memory = 0")
    strict = found(tmp_path, {"/proc/sys/vm/overcommit_memory": "2"})
    assert "overcommit" not in commands(strict)
    # 64,000,000 kB are promised already, beyond nine tenths of 65,536,000 kB and 2 GB of swap.
    promised = FILES["/proc/meminfo"].replace("Committed_AS: 8192000", "Committed_AS: 64000000")
    assert "overcommit" not in commands(found(tmp_path, {"/proc/meminfo": promised}))
    # Half of it in huge pages leave 32,768,000 kB: 9/10 of them and the swap are 31,588,352 kB.
    for promise, offered in ((31_588_352, True), (31_588_353, False)):
        half = FILES["/proc/meminfo"].replace("HugePages_Total: 0", "HugePages_Total: 16000")
        half = half.replace("Committed_AS: 8192000", f"Committed_AS: {promise}")
        taken = found(tmp_path, {"/proc/meminfo": half}, memory="16GB")
        assert ("overcommit" in commands(taken)) == offered
    # A cgroup's limit kills, whatever the kernel promises.
    limited = {
        "/proc/self/cgroup": "0::/pod",
        "/proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
        "/sys/fs/cgroup/pod/memory.max": str(2**34),
    }
    assert "overcommit" not in commands(
        found(tmp_path, {**limited, "/proc/sys/vm/overcommit_memory": "0"})
    )


def test_swappiness_matters_only_where_there_is_swap(tmp_path: Path) -> None:
    assert the_step(found(tmp_path), "vm.swappiness=10").now.startswith("vm.swappiness = 60")
    assert "swappiness" not in commands(found(tmp_path, {"/proc/sys/vm/swappiness": "1"}))
    without = FILES["/proc/meminfo"].replace("SwapTotal: 2097152", "SwapTotal: 0")
    assert "swappiness" not in commands(found(tmp_path, {"/proc/meminfo": without}))


def test_transparent_huge_pages_are_left_to_programs_that_ask(tmp_path: Path) -> None:
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    assert the_step(found(tmp_path), path).now == "always"
    assert path not in commands(found(tmp_path, {path: "always [madvise] never"}))


def test_shared_memory_is_spread_where_one_node_would_fill_up(tmp_path: Path) -> None:
    """Two fifths of 62.5 GB are 25 GB, more than half of a node's 31.25 GB; 8 GB are less."""
    taken = found(tmp_path, data="500GB")
    assert the_step(taken, "numactl --interleave=all").now == "2 nodes of 31.2 GB"
    assert "numactl" not in commands(found(tmp_path, memory="32GB"))
    one = {"/sys/devices/system/node/online": "0"}
    assert "numactl" not in commands(found(tmp_path, one, data="500GB"))
    reclaiming = {"/sys/devices/system/node/online": "0-1", "/proc/sys/vm/zone_reclaim_mode": "1"}
    assert "vm.zone_reclaim_mode=0" in commands(found(tmp_path, reclaiming))


#: A quarter of 64,000 MB and 3 % are 16,480 MB; with 16 MB of WAL buffers, 112 kB for each of some
#: 120 connections and workers, and 20 MB, 16,529 MB of shared memory.
@pytest.mark.parametrize(
    ("kilobytes", "others", "reserved", "command"),
    [
        (2048, 0, 0, "vm.nr_hugepages=8265"),
        (2048, 4000, 4244, "vm.nr_hugepages=12265"),  # 244 are free
        (2048, 4000, 12_265, None),
        (524_288, 0, 0, "vm.nr_hugepages=33"),  # 64-bit ARM with pages of 64 kB
        (1_048_576, 0, 0, "vm.nr_hugepages=17"),
    ],
)
def test_huge_pages_are_counted_in_the_machines_size_and_beside_those_of_others(
    tmp_path: Path, kilobytes: int, others: int, reserved: int, command: str | None
) -> None:
    counts = {"HugePages_Total": reserved, "HugePages_Free": reserved - others}
    info = FILES["/proc/meminfo"].replace("2048 kB", f"{kilobytes} kB")
    for name, number in counts.items():
        info = info.replace(f"{name}: 0", f"{name}: {number}")
    taken = found(tmp_path, {"/proc/meminfo": info}, connections=97, memory="64000MB")
    if command is None:
        assert "nr_hugepages" not in commands(taken)
        return
    step = the_step(taken, f"{command} ")
    assert step.now == f"{reserved} reserved"
    assert (f"beside the {others} that others use" in step.purpose) == bool(others)


def test_no_pages_are_reserved_for_a_server_that_may_not_use_them() -> None:
    tuning = mrtuner.tune(memory="64GB", cpus=8, storage="ssd", postgres=18, connections=500)
    situation = replace(tuning.situation, running={"huge_pages": "off"}, origins={})
    solution = solve(tuning.situation)
    pages = reserve_huge_pages(situation, solution.chosen, solution.budget, None, None)
    assert [*pages] == []
    assert [*reserve_huge_pages(tuning.situation, solution.chosen, solution.budget, None, None)]


def test_no_pages_are_reserved_that_a_control_group_would_not_let_the_server_have(
    tmp_path: Path,
) -> None:
    """A pod needs a limit of its own for them: on the node they would be reserved for nobody."""
    pod = {
        "/proc/self/cgroup": "0::/pod",
        "/proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
        "/sys/fs/cgroup/pod/hugetlb.2MB.max": "0",
    }
    assert "nr_hugepages" not in commands(found(tmp_path, pod))
    enough = {"/sys/fs/cgroup/pod/hugetlb.2MB.max": "max"}
    assert "nr_hugepages" in commands(found(tmp_path, pod | enough))


def test_pages_of_a_gigabyte_are_offered_on_large_machines() -> None:
    """A quarter of 512 GB and 3 % are 131.84 GB, with 0.1 GB for locks and WAL: 132 pages."""
    large = mrtuner.tune(memory="512GB", cpus=64, storage="nvme", postgres=18)
    assert "hugepagesz=1G hugepages=132" in commands(list(large.steps))
    small = mrtuner.tune(memory="64GB", cpus=16, storage="nvme", postgres=18)
    assert "hugepagesz" not in commands(list(small.steps))
    old = mrtuner.tune(memory="512GB", cpus=64, storage="nvme", postgres=13)
    assert "hugepagesz" not in commands(list(old.steps)), "huge_page_size came with 14"


def test_a_desktop_is_left_alone(tmp_path: Path) -> None:
    taken = commands(found(tmp_path, workload="desktop", connections=20))
    assert "sysctl -w vm.swappiness" not in taken
    assert "overcommit" not in taken


@pytest.mark.parametrize(("shown", "offered"), [("off", True), ("on", False), (None, False)])
def test_checksums_that_are_off_are_a_step(shown: str | None, offered: bool) -> None:
    from test_tune_gather import server

    situation = gather.live(gather.Flags(), server(), None).situation
    running = {} if shown is None else {"data_checksums": shown}
    taken = list(checksums(replace(situation, running=running), server()))
    assert bool(taken) == offered
    if taken:
        assert any("pg_checksums --enable" in each for each in taken[0].commands)
        assert taken[0].risk


def test_a_role_whose_name_was_not_read_whole_has_words_and_no_command() -> None:
    ours = suggestions.step(RoleMemory(role="caf\u00e9", value="8MB", spilt="spilt"))
    assert ours.commands[0] == "ALTER ROLE \"caf\u00e9\" SET work_mem = '8MB';"
    told = suggestions.step(RoleMemory(role="caf\ufffd", value="8MB", spilt="spilt"))
    assert told.commands == ()
    assert told.purpose.endswith(r"\gexec): ALTER ROLE " + "\"caf\ufffd\" SET work_mem = '8MB';")
