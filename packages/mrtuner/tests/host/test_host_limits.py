"""Memory and CPUs of machines and containers, each built as a small tree of /proc and /sys."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrtuner.facts import Fact, Missing
from mrtuner.host import Host, HugePages, probe
from mrtuner.host.memory import huge_pages
from mrtuner.host.tree import Tree
from mrtuner.units import Bytes, GiB, MiB
from shared import write

UNLIMITED_V1 = 9223372036854771712  # what x86_64 shows
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"


def v1(controllers: str, root: str = "/") -> str:
    """A mountinfo line of a version 1 hierarchy, as Docker and systemd name its folder."""
    point = f"/sys/fs/cgroup/{controllers}"
    return f"35 31 0:32 {root} {point} rw,relatime - cgroup cgroup rw,{controllers}"


def machine(
    root: Path,
    cgroup: str,
    *mounts: str,
    online: str = "0-7",
    allowed: str | None = None,
    process: str = "self",
) -> Path:
    """16 GiB and eight CPUs, with one process in `cgroup`."""
    write(root, "/proc/meminfo", f"MemTotal: {16 * MiB} kB\nMemFree: 9 kB\nSwapTotal: 1024 kB")
    write(root, "/sys/devices/system/cpu/online", online)
    write(root, f"/proc/{process}/cgroup", cgroup)
    write(root, "/proc/self/mountinfo", "\n".join(mounts))
    allowed_list = f"Name:\tpostgres\nCpus_allowed_list:\t{allowed or online}"
    write(root, f"/proc/{process}/status", allowed_list)
    return root


def group(root: Path, path: str, **files: object) -> None:
    """Files of one control group; `memory__max` stands for memory.max."""
    for name, text in files.items():
        write(root, f"/sys/fs/cgroup{path}/{name.replace('__', '.')}", text)


def whys(host: Host, name: str) -> list[str]:
    return [missing.why for missing in host.missing if missing.name == name]


def test_docker_with_cgroup_v1_gives_the_container_its_limit(tmp_path: Path) -> None:
    """Without a cgroup namespace: the mount shows the container's own folder as its root."""
    root = machine(tmp_path, "4:memory:/docker/abc", v1("memory", "/docker/abc"))
    group(root, "/memory", memory__limit_in_bytes=2 * GiB)
    host = probe(root)
    assert host.memory == Fact(2 * GiB, "cgroup v1 memory.limit_in_bytes of /docker/abc")
    assert whys(host, "memory") == []


def test_docker_with_cgroup_v2_gives_the_container_its_limit(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/system.slice/docker-abc.scope", V2)
    group(root, "/system.slice/docker-abc.scope", memory__max=3 * GiB, memory__high="max")
    group(root, "/system.slice", memory__max="max")
    assert probe(root).memory == Fact(
        3 * GiB, "cgroup v2 memory.max of /system.slice/docker-abc.scope"
    )


def test_a_kubernetes_limit_on_the_pod_binds_its_containers(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/kubepods/pod1/ctr", V2)
    group(root, "/kubepods/pod1/ctr", memory__max="max", cpu__max="max 100000")
    group(root, "/kubepods/pod1", memory__max=4 * GiB, cpu__max="200000 100000")
    group(root, "/kubepods", memory__max=15 * GiB, cpu__max="max 100000")
    host = probe(root)
    assert host.memory == Fact(4 * GiB, "cgroup v2 memory.max of /kubepods/pod1")
    assert host.cpus == Fact(2, "cgroup v2 cpu.max of /kubepods/pod1: 2 CPUs")


def test_max_on_every_level_leaves_the_whole_machine(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/a/b", V2)
    for path in ("/a", "/a/b"):
        group(root, path, memory__max="max", memory__high="max", cpu__max="max 100000")
    host = probe(root)
    assert host.memory == Fact(16 * GiB, "/proc/meminfo: MemTotal")
    assert host.cpus == Fact(8, "/sys/devices/system/cpu/online: 8 CPUs")
    assert whys(host, "memory") == whys(host, "cpus") == []


def test_the_unlimited_value_of_cgroup_v1_is_no_limit(tmp_path: Path) -> None:
    """Also with 64 kB pages, where it is another number."""
    root = machine(tmp_path, "4:memory:/a\n1:cpu,cpuacct:/a", v1("memory"), v1("cpu,cpuacct"))
    group(root, "/memory", memory__limit_in_bytes=UNLIMITED_V1)
    group(root, "/memory/a", memory__limit_in_bytes=9223372036854710272)
    group(root, "/cpu,cpuacct/a", cpu__cfs_quota_us=-1, cpu__cfs_period_us=100000)
    host = probe(root)
    assert host.memory == Fact(16 * GiB, "/proc/meminfo: MemTotal")
    assert host.cpus == Fact(8, "/sys/devices/system/cpu/online: 8 CPUs")
    assert whys(host, "memory") == whys(host, "cpus") == []


def test_without_a_memory_controller_ram_counts_and_it_is_said(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/user.slice", V2)
    group(root, "/user.slice", cpu__max="max 100000")
    host = probe(root)
    assert host.memory == Fact(16 * GiB, "/proc/meminfo: MemTotal")
    assert Missing(
        "memory", "no memory controller in cgroup /user.slice: no limit found", "--memory"
    ) in host.missing  # fmt: skip


def test_hybrid_reads_memory_from_v1_and_ignores_the_unified_group(tmp_path: Path) -> None:
    unified = V2.replace(" /sys/fs/cgroup ", " /sys/fs/cgroup/unified ")
    root = machine(tmp_path, "4:memory:/job/1\n3:cpuset:/\n1:cpu:/\n0::/", v1("memory"), unified)
    group(root, "/memory/job/1", memory__limit_in_bytes=UNLIMITED_V1)
    group(root, "/memory/job", memory__limit_in_bytes=5 * GiB)
    group(root, "/unified", cgroup__procs=1)
    host = probe(root)
    assert host.memory == Fact(5 * GiB, "cgroup v1 memory.limit_in_bytes of /job")
    assert whys(host, "memory") == []


def test_in_a_cgroup_namespace_the_own_group_is_the_root(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/", V2)
    group(root, "", memory__max=GiB, cpu__max="50000 100000")
    host = probe(root)
    assert host.memory == Fact(GiB, "cgroup v2 memory.max of /")
    assert host.cpus == Fact(1, "cgroup v2 cpu.max of /: 0.5 CPUs")


def test_a_hierarchy_mounted_from_outside_the_namespace_shows_an_outer_limit(
    tmp_path: Path,
) -> None:
    """Which folder below it is ours cannot be known, but a limit above it applies to us."""
    root = machine(tmp_path, "0::/", V2.replace(" / /sys", " /../.. /sys"))
    group(root, "", memory__max=6 * GiB)
    host = probe(root)
    assert host.memory == Fact(6 * GiB, "cgroup v2 memory.max of /../..")
    assert whys(host, "memory") == [
        "cgroup / lies outside the hierarchy mounted here: a limit would not be seen"
    ]


def test_a_process_outside_our_namespace_does_not_get_our_limit(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/../other", V2, process="77")
    group(root, "", memory__max=GiB)
    host = probe(root, pid=77)
    assert host.memory == Fact(16 * GiB, "/proc/meminfo: MemTotal")
    assert whys(host, "memory") == [
        "cgroup /../other lies outside the hierarchy mounted here: a limit would not be seen"
    ]


def test_without_a_mounted_hierarchy_no_limit_is_found_and_that_is_said(tmp_path: Path) -> None:
    """As after `ip netns exec`, which mounts a new /sys over the old one."""
    root = machine(tmp_path, "0::/kubepods/pod1", "23 27 0:22 / /sys rw - sysfs sysfs rw")
    group(root, "/kubepods/pod1", memory__max=GiB)  # under the new /sys: must not be read
    host = probe(root)
    why = "no cgroup hierarchy is visible here"
    assert host.memory == Fact(16 * GiB, "/proc/meminfo: MemTotal")
    assert whys(host, "memory") == [f"{why}: a limit would not be seen"]
    assert whys(host, "cpus") == [f"{why}: a quota would not be seen"]


def test_a_hierarchy_that_only_the_first_process_sees_is_found_there(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/pg", "23 27 0:22 / /sys rw - sysfs sysfs rw")
    write(root, "/proc/1/mountinfo", V2)
    write(root, "/proc/1/root/sys/fs/cgroup/pg/memory.max", 2 * GiB)
    assert probe(root).memory == Fact(2 * GiB, "cgroup v2 memory.max of /pg")


def test_a_hierarchy_mounted_at_an_unusual_place_is_found(tmp_path: Path) -> None:
    root = machine(
        tmp_path, "0::/pg", "30 23 0:26 / /run/c\\040group rw shared:4 - cgroup2 none rw"
    )
    write(root, "/run/c group/pg/memory.max", 2 * GiB)
    assert probe(root).memory == Fact(2 * GiB, "cgroup v2 memory.max of /pg")


def test_memory_max_of_a_systemd_slice_binds_the_services_in_it(tmp_path: Path) -> None:
    service = "/db.slice/db-pg.slice/postgresql@17-main.service"
    root = machine(tmp_path, f"0::{service}", V2)
    group(root, service, memory__max="max")
    group(root, "/db.slice/db-pg.slice", memory__max="max")
    group(root, "/db.slice", memory__max=8 * GiB)
    assert probe(root).memory == Fact(8 * GiB, "cgroup v2 memory.max of /db.slice")


def test_memory_high_counts_where_it_is_lower(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/pg", V2)
    group(root, "/pg", memory__max=8 * GiB, memory__high=6 * GiB)
    assert probe(root).memory == Fact(6 * GiB, "cgroup v2 memory.high of /pg")


def test_v1_memory_stat_tells_of_a_limit_that_a_container_cannot_see(tmp_path: Path) -> None:
    root = machine(tmp_path, "4:memory:/pod/ctr", v1("memory", "/pod/ctr"))
    stat = f"cache 0\nhierarchical_memory_limit {7 * GiB}\nhierarchical_memsw_limit {9 * GiB}"
    group(root, "/memory", memory__limit_in_bytes=UNLIMITED_V1, memory__stat=stat)
    assert probe(root).memory == Fact(7 * GiB, "cgroup v1 memory.stat of /pod/ctr")


def test_a_limit_above_ram_gives_no_more_than_ram(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/pg", V2)
    group(root, "/pg", memory__max=64 * GiB)
    assert probe(root).memory == Fact(16 * GiB, "/proc/meminfo: MemTotal")


@pytest.mark.parametrize("text", ["0", "-5", "lots", "", "4G"])
def test_a_limit_that_is_none_is_ignored_and_said(tmp_path: Path, text: str) -> None:
    root = machine(tmp_path, "0::/pg", V2)
    group(root, "/pg", memory__max=text)
    host = probe(root)
    assert host.memory == Fact(16 * GiB, "/proc/meminfo: MemTotal")
    assert whys(host, "memory") == [
        f"cgroup v2 memory.max of /pg contains {text!r}, which is not a limit: ignored"
    ]


def test_a_limit_of_zero_does_not_hide_the_parents_limit(tmp_path: Path) -> None:
    root = machine(tmp_path, "4:memory:/a/b", v1("memory"))
    group(root, "/memory/a/b", memory__limit_in_bytes=0)
    group(root, "/memory/a", memory__limit_in_bytes=2 * GiB)
    host = probe(root)
    assert host.memory == Fact(2 * GiB, "cgroup v1 memory.limit_in_bytes of /a")
    assert len(whys(host, "memory")) == 1


def test_a_limit_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    """A folder in the file's place: unlike a forbidden file, unreadable for root too."""
    root = machine(tmp_path, "0::/pg", V2)
    (root / "sys/fs/cgroup/pg/memory.max").mkdir(parents=True)
    host = probe(root)
    assert host.memory == Fact(16 * GiB, "/proc/meminfo: MemTotal")
    assert whys(host, "memory") == ["cgroup v2 memory.max of /pg cannot be read: Is a directory"]


def test_a_quota_of_one_and_a_half_gives_two_cpus(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/pg", V2)
    group(root, "/pg", cpu__max="150000 100000")
    assert probe(root).cpus == Fact(2, "cgroup v2 cpu.max of /pg: 1.5 CPUs")


def test_a_parents_lower_quota_binds(tmp_path: Path) -> None:
    root = machine(tmp_path, "3:cpu,cpuacct:/a/b", v1("cpu,cpuacct"))
    group(root, "/cpu,cpuacct/a/b", cpu__cfs_quota_us=400000, cpu__cfs_period_us=100000)
    group(root, "/cpu,cpuacct/a", cpu__cfs_quota_us=150000, cpu__cfs_period_us=50000)
    assert probe(root).cpus == Fact(3, "cgroup v1 cpu.cfs_quota_us of /a: 3 CPUs")


def test_a_pod_of_2000m_that_may_use_one_core_has_one_cpu(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/kubepods/pod1", V2)
    group(root, "/kubepods/pod1", cpu__max="200000 100000", cpuset__cpus__effective="5")
    assert probe(root).cpus == Fact(
        1, "cgroup v2 cpuset.cpus.effective of /kubepods/pod1: 1 CPU"
    )  # fmt: skip


def test_the_cpuset_of_cgroup_v1_counts(tmp_path: Path) -> None:
    root = machine(tmp_path, "3:cpuset:/docker/abc", v1("cpuset"))
    group(root, "/cpuset/docker/abc", cpuset__cpus="0-2,6")
    assert probe(root).cpus == Fact(4, "cgroup v1 cpuset.cpus of /docker/abc: 4 CPUs")


def test_an_empty_cpuset_leaves_the_parents(tmp_path: Path) -> None:
    """cpuset.cpus.effective is absent where the controller is not enabled."""
    root = machine(tmp_path, "0::/a/b", V2)
    group(root, "/a/b", cpu__max="max 100000")
    group(root, "/a", cpuset__cpus__effective="0-3")
    assert probe(root).cpus == Fact(4, "cgroup v2 cpuset.cpus.effective of /a: 4 CPUs")


def test_affinity_counts_and_cpus_that_are_not_online_do_not(tmp_path: Path) -> None:
    """A virtual machine's mask often names every CPU that it could be given."""
    everything = machine(tmp_path / "a", "0::/", V2, online="0-3", allowed="0-127")
    assert probe(everything).cpus == Fact(4, "/sys/devices/system/cpu/online: 4 CPUs")
    pinned = machine(tmp_path / "b", "0::/", V2, online="0-3", allowed="2-3")
    assert probe(pinned).cpus == Fact(2, "/proc/self/status: Cpus_allowed_list: 2 CPUs")


def test_cpus_are_counted_in_cpuinfo_where_sysfs_is_closed(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/", V2, allowed="0-7")
    (root / "sys/devices/system/cpu/online").unlink()
    write(root, "/proc/cpuinfo", "processor\t: 0\nBogoMIPS : 50\n\nprocessor\t: 1\nBogoMIPS : 50")
    assert probe(root).cpus == Fact(2, "/proc/cpuinfo: 2 CPUs")


@pytest.mark.parametrize("text", ["0 100000", "x 100000", "100000 0", "100000 y"])
def test_a_quota_that_is_none_is_ignored_and_said(tmp_path: Path, text: str) -> None:
    root = machine(tmp_path, "0::/pg", V2)
    group(root, "/pg", cpu__max=text)
    host = probe(root)
    assert host.cpus == Fact(8, "/sys/devices/system/cpu/online: 8 CPUs")
    assert whys(host, "cpus") == [
        f"cgroup v2 cpu.max of /pg contains {text!r}, which is not a limit: ignored"
    ]


def test_the_groups_of_another_process_are_its_own(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/pg", V2, process="4711", allowed="0-1")
    write(root, "/proc/self/cgroup", "0::/me")
    group(root, "/pg", memory__max=2 * GiB)
    group(root, "/me", memory__max=GiB)
    host = probe(root, pid=4711)
    assert host.memory == Fact(2 * GiB, "cgroup v2 memory.max of /pg")
    assert host.cpus == Fact(2, "/proc/4711/status: Cpus_allowed_list: 2 CPUs")


def test_a_process_that_is_gone_leaves_the_machine_and_a_word(tmp_path: Path) -> None:
    host = probe(machine(tmp_path, "0::/", V2), pid=4711)
    assert host.memory == Fact(16 * GiB, "/proc/meminfo: MemTotal")
    assert whys(host, "memory") == ["/proc/4711/cgroup cannot be read: a limit would not be seen"]


@pytest.mark.parametrize(
    ("told", "kept"), [("aarch64", "aarch64"), ("arm64", "aarch64"), ("amd64", "x86_64")]
)
def test_architectures_have_one_name_each(tmp_path: Path, told: str, kept: str) -> None:
    root = machine(tmp_path, "0::/", V2)
    write(root, "/proc/sys/kernel/arch", told)
    assert probe(root).architecture == Fact(kept, "/proc/sys/kernel/arch")


def test_reserved_huge_pages_are_counted(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/", V2)
    pages = "HugePages_Total:    1200\nHugePages_Free:      200\nHugepagesize:       2048 kB"
    write(root, "/proc/meminfo", f"MemTotal: 16777216 kB\n{pages}")
    write(root, "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    assert probe(root).huge_pages == Fact(
        HugePages(size=Bytes(2 * MiB), reserved=1200, free=200, transparent="madvise"),
        "/proc/meminfo: HugePages_Total",
    )


@pytest.mark.parametrize(
    ("limit", "used", "allowed", "unclaimed"),
    [
        (0, 0, 0, 0),  # a pod without hugepages-2Mi on a node with free pages
        (100 * MiB, 40 * MiB, 30, 30),
        (4 * GiB, 0, 2048, 200),
        ("max", 0, None, 200),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_huge_pages_that_a_control_group_does_not_allow_are_not_there_for_us(
    tmp_path: Path, limit: int | str, used: int, allowed: int | None, unclaimed: int, version: int
) -> None:
    own = "/kubepods/pod1"
    if version == 1:
        root = machine(tmp_path, f"3:hugetlb:{own}", v1("hugetlb"))
        limit = UNLIMITED_V1 if limit == "max" else limit
        files: dict[str, object] = {"limit_in_bytes": limit, "usage_in_bytes": used}
        folder = f"/hugetlb{own}"
    else:
        root, files, folder = machine(tmp_path, f"0::{own}", V2), {}, own
        files |= {"max": limit, "current": used}
    for name, value in files.items():
        write(root, f"/sys/fs/cgroup{folder}/hugetlb.2MB.{name}", value)
    pages = "HugePages_Total:    1200\nHugePages_Free:      200\nHugepagesize:       2048 kB"
    write(root, "/proc/meminfo", f"MemTotal: 16777216 kB\n{pages}")
    found = probe(root).huge_pages
    assert found is not None
    assert (found.value.allowed, found.value.unclaimed) == (allowed, unclaimed)


def test_huge_pages_that_were_mapped_count_before_they_are_touched(tmp_path: Path) -> None:
    """Of 4,096 allowed ones 3,500 are mapped: 596 are left, though only 500 are in use."""
    root = machine(tmp_path, "0::/pod", V2)
    for name, pages in (("max", 4096), ("current", 500), ("rsvd.current", 3500)):
        write(root, f"/sys/fs/cgroup/pod/hugetlb.2MB.{name}", pages * 2 * MiB)
    write(root, "/proc/meminfo", "MemTotal: 16777216 kB\nHugepagesize:       2048 kB")
    found = probe(root).huge_pages
    assert found is not None
    assert found.value.allowed == 596


def test_huge_pages_of_another_size_are_counted_in_their_own_folder(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/", V2)
    pages = "HugePages_Total:    1200\nHugePages_Free:      200\nHugepagesize:       2048 kB"
    write(root, "/proc/meminfo", f"MemTotal: 16777216 kB\n{pages}")
    for name, number in (("nr", 132), ("free", 40), ("resv", 3)):
        write(root, f"/sys/kernel/mm/hugepages/hugepages-1048576kB/{name}_hugepages", number)
    found = huge_pages(Tree(root), GiB)
    assert isinstance(found, Fact)
    assert found.value == HugePages(
        size=Bytes(GiB), reserved=132, free=40, committed=3, transparent=None
    )
    assert huge_pages(Tree(root), 2 * MiB) == huge_pages(Tree(root))
    assert isinstance(huge_pages(Tree(root), 512 * MiB), Missing)


def test_kernel_swap_and_clock_are_read(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/", V2)
    write(root, "/proc/sys/kernel/osrelease", "6.1.0-18-cloud-arm64")
    clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    write(root, clock, "arch_sys_counter")
    host = probe(root)
    assert host.kernel == Fact("6.1.0-18-cloud-arm64", "/proc/sys/kernel/osrelease")
    assert host.swap == Fact(MiB, "/proc/meminfo: SwapTotal")
    assert host.clock == Fact("arch_sys_counter", clock)


def test_an_empty_tree_knows_nothing_and_names_everything(tmp_path: Path) -> None:
    host = probe(tmp_path)
    assert sorted({missing.name for missing in host.missing}) == [
        "architecture", "clock", "cpus", "disk_free", "disk_size", "huge_pages", "kernel",
        "memory", "storage", "swap",
    ]  # fmt: skip
    assert host.memory is None
    assert host.cpus is None


Level = tuple[int | None, tuple[int, int] | None]  # memory; quota and period

MEMORY = st.none() | st.integers(1, 64 * GiB)
QUOTA = st.none() | st.tuples(st.integers(1000, 2_000_000), st.sampled_from([50_000, 100_000]))


def build(root: Path, levels: list[Level], version: int) -> None:
    """Nested groups /0, /0/1, …, the process in the innermost; None is written as unlimited."""
    path = "".join(f"/{depth}" for depth in range(len(levels)))
    lines = f"2:memory:{path}\n1:cpu:{path}" if version == 1 else f"0::{path}"
    machine(root, lines, *([v1("memory"), v1("cpu")] if version == 1 else [V2]))
    for depth, (memory, quota) in enumerate(levels):
        at = "".join(f"/{above}" for above in range(depth + 1))
        if version == 1:
            group(root, f"/memory{at}", memory__limit_in_bytes=memory or UNLIMITED_V1)
            took, period = quota or (-1, 100_000)
            group(root, f"/cpu{at}", cpu__cfs_quota_us=took, cpu__cfs_period_us=period)
        else:
            written = f"{quota[0]} {quota[1]}" if quota else "max 100000"
            group(root, at, memory__max=memory or "max", cpu__max=written)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(MEMORY, QUOTA), min_size=1, max_size=5), st.sampled_from([1, 2]))
def test_no_answer_is_above_any_limit(levels: list[Level], version: int) -> None:
    """CPUs are whole, so less than one above the quota; memory equals one of the limits."""
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), levels, version)
        host = probe(Path(folder))
    assert host.memory is not None
    assert host.cpus is not None
    memories = [16 * GiB, *(memory for memory, _ in levels if memory is not None)]
    assert all(host.memory.value <= memory for memory in memories)
    assert host.memory.value in memories
    assert 1 <= host.cpus.value <= 8
    for _, quota in levels:
        if quota is not None:
            assert (host.cpus.value - 1) * quota[1] < quota[0]
