"""CPUs that can be used, and which share a core: small trees of /proc and /sys."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrtuner.cpu.model import CpuTopology
from mrtuner.cpu.topology import place, topology, usable
from mrtuner.host.tree import Tree
from shared import write

V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"


def machine(root: Path, *, online: str = "0-7", allowed: str = "0-7", **group: str) -> Tree:
    """Eight CPUs and one process in the group /pod; `cpu__max` stands for its file cpu.max."""
    write(root, "/proc/meminfo", "MemTotal: 16777216 kB")
    write(root, "/sys/devices/system/cpu/online", online)
    write(root, "/proc/self/status", f"Name:\tx\nCpus_allowed_list:\t{allowed}")
    write(root, "/proc/self/cgroup", "0::/kubepods/pod1")
    write(root, "/proc/self/mountinfo", V2)
    for name, text in group.items():
        write(root, f"/sys/fs/cgroup/kubepods/pod1/{name.replace('__', '.')}", text)
    return Tree(root)


def test_a_pod_limited_to_two_whose_cpuset_has_one_is_told_so(tmp_path: Path) -> None:
    """Field notes, section 8: a limit of 2000m that never used more than 1000m."""
    tree = machine(tmp_path, allowed="3", cpu__max="200000 100000", cpuset__cpus__effective="3")
    found = usable(tree)
    assert (found.count, found.bound) == (1, "cpuset")
    assert found.words.startswith("1 of 8, because of the cpuset (cgroup v2 ")
    assert found.cpus == (3,)
    assert place(tree).platform == "kubernetes"


def test_a_quota_below_the_cpuset_is_what_binds(tmp_path: Path) -> None:
    tree = machine(tmp_path, cpu__max="150000 100000", cpuset__cpus__effective="0-3")
    found = usable(tree)
    assert (found.count, found.bound, found.may_run_on) == (1.5, "quota", 4)
    assert "cpu.max" in found.words


def test_the_affinity_mask_binds_where_no_cpuset_does(tmp_path: Path) -> None:
    found = usable(machine(tmp_path, allowed="0,2"))
    assert (found.count, found.bound, found.cpus) == (2, "affinity", (0, 2))


def test_nothing_binds_a_process_that_has_the_whole_machine(tmp_path: Path) -> None:
    found = usable(machine(tmp_path, cpu__max="max 100000", cpuset__cpus__effective="0-7"))
    assert (found.count, found.bound) == (8, None)
    assert found.words == "8 (/sys/devices/system/cpu/online)"


def test_a_quota_that_is_wider_than_the_machine_binds_nothing(tmp_path: Path) -> None:
    assert usable(machine(tmp_path, cpu__max="1600000 100000")).bound is None


@pytest.mark.parametrize("file", ["core_cpus_list", "thread_siblings_list"])
def test_siblings_are_read_from_sysfs_old_and_new(tmp_path: Path, file: str) -> None:
    for cpu in range(4):
        write(
            tmp_path,
            f"/sys/devices/system/cpu/cpu{cpu}/topology/{file}",
            f"{cpu % 2},{cpu % 2 + 2}",
        )
    assert topology(Tree(tmp_path), range(4)) == CpuTopology(
        cores=((0, 2), (1, 3)), threads=2, source="/sys/devices/system/cpu/cpu*/topology"
    )


def test_a_sibling_out_of_our_cpuset_is_not_one_of_our_cpus(tmp_path: Path) -> None:
    for cpu in range(4):
        path = f"/sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list"
        write(tmp_path, path, "0-1" if cpu < 2 else "2-3")
    found = topology(Tree(tmp_path), (0, 2))
    assert found.cores == ((0,), (2,))
    assert found.threads == 2


def test_a_topology_that_is_not_told_is_not_guessed(tmp_path: Path) -> None:
    assert topology(Tree(tmp_path), (0, 1)).threads is None


def test_an_ec2_instance_is_known_by_its_dmi_names(tmp_path: Path) -> None:
    write(tmp_path, "/sys/class/dmi/id/sys_vendor", "Amazon EC2")
    write(tmp_path, "/sys/class/dmi/id/product_name", "m7i.large")
    write(tmp_path, "/proc/sys/kernel/arch", "x86_64")
    found = place(Tree(tmp_path))
    assert (found.platform, found.model, found.architecture) == ("ec2", "m7i.large", "x86_64")
