"""From a data directory down to the devices, and the limits that control groups set on them.

The files are written as Linux writes them; sources are named in mrtuner.host.devices and
mrtuner.host.io_limits.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest

from mrtuner.facts import Fact
from mrtuner.host import probe
from mrtuner.host.devices import Counted, Device, counted, layers
from mrtuner.host.io_limits import limits_of
from mrtuner.host.tree import Tree
from mrtuner.limits import Resource
from mrtuner.limits.host_ceilings import rates, read, watched_host
from mrtuner.units import Bytes

DATA = PurePosixPath("/data/pg")


def write(root: Path, path: str, text: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def link(root: Path, path: str, to: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.symlink_to(os.path.relpath(root / to.lstrip("/"), file.parent))


def mounted(root: Path, *lines: str) -> None:
    text = "".join(f"{20 + place} 1 {line}\n" for place, line in enumerate(lines))
    for process in ("self", "4711"):
        write(root, f"/proc/{process}/mountinfo", text)


def device(root: Path, folder: str, number: str) -> None:
    write(root, f"{folder}/dev", number + "\n")
    link(root, f"/sys/dev/block/{number}", folder)


@pytest.fixture
def lvm(tmp_path: Path) -> Path:
    """ext4 on dm-0, which is made of the partition sda2 and the disk sdb."""
    mounted(tmp_path, "253:0 / /data rw - ext4 /dev/mapper/vg-data rw")
    device(tmp_path, "/sys/devices/virtual/block/dm-0", "253:0")
    device(tmp_path, "/sys/devices/pci/block/sda", "8:0")
    device(tmp_path, "/sys/devices/pci/block/sda/sda2", "8:2")
    write(tmp_path, "/sys/devices/pci/block/sda/sda2/partition", "2\n")
    device(tmp_path, "/sys/devices/pci/block/sdb", "8:16")
    slaves = "/sys/devices/virtual/block/dm-0/slaves"
    link(tmp_path, f"{slaves}/sda2", "/sys/devices/pci/block/sda/sda2")
    link(tmp_path, f"{slaves}/sdb", "/sys/devices/pci/block/sdb")
    return tmp_path


def test_lvm_is_followed_through_partitions_to_whole_disks(lvm: Path) -> None:
    found = layers(Tree(lvm, 4711), DATA)
    assert [(one.name, one.number) for one in found] == [
        ("dm-0", "253:0"), ("sda", "8:0"), ("sdb", "8:16")
    ]  # fmt: skip


def test_a_loop_device_is_followed_to_the_disk_of_its_file(tmp_path: Path) -> None:
    mounted(tmp_path, "8:0 / / rw - ext4 /dev/sda rw", "7:3 / /data rw - ext4 /dev/loop3 rw")
    device(tmp_path, "/sys/devices/virtual/block/loop3", "7:3")
    write(tmp_path, "/sys/devices/virtual/block/loop3/loop/backing_file", "/images/pg\n")
    device(tmp_path, "/sys/devices/pci/block/sda", "8:0")
    assert [one.name for one in layers(Tree(tmp_path, 4711), DATA)] == ["loop3", "sda"]


def test_a_btrfs_is_found_by_the_name_of_its_device(tmp_path: Path) -> None:
    mounted(tmp_path, "0:35 /pg /data rw - btrfs /dev/sdc rw")
    device(tmp_path, "/sys/devices/pci/block/sdc", "8:32")
    link(tmp_path, "/sys/class/block/sdc", "/sys/devices/pci/block/sdc")
    assert layers(Tree(tmp_path, 4711), DATA) == (Device("sdc", "8:32"),)


def test_nfs_has_no_block_device(tmp_path: Path) -> None:
    mounted(tmp_path, "0:50 / /data rw - nfs4 far:/data rw")
    assert layers(Tree(tmp_path, 4711), DATA) == ()


@pytest.fixture
def unified(lvm: Path) -> Path:
    """Version 2: a slice limits sdb, and the service in it limits dm-0."""
    mounted(
        lvm,
        "253:0 / /data rw - ext4 /dev/mapper/vg-data rw",
        "0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
    )
    write(lvm, "/proc/4711/cgroup", "0::/db.slice/pg.service\n")
    groups = "/sys/fs/cgroup/db.slice"
    write(lvm, f"{groups}/io.max", "8:16 rbps=max wbps=max riops=max wiops=900\n")
    write(lvm, f"{groups}/pg.service/io.max", "253:0 rbps=2097152 wbps=max riops=max wiops=120\n")
    write(
        lvm,
        f"{groups}/pg.service/io.stat",
        "8:16 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n"
        "253:0 rbytes=4096 wbytes=8192 rios=5 wios=6 dbytes=0 dios=0\n",
    )
    return lvm


def test_every_group_above_the_server_may_limit_any_layer(unified: Path) -> None:
    tree = Tree(unified, 4711)
    found, unseen = limits_of(tree, layers(tree, DATA))
    assert unseen == ()
    assert [
        (one.device.name, one.rule, one.value, one.source)
        for one in found
    ] == [
        ("dm-0", "read_bandwidth", 2_097_152, "cgroup v2 io.max of /db.slice/pg.service"),
        ("dm-0", "write_iops", 120, "cgroup v2 io.max of /db.slice/pg.service"),
        ("sdb", "write_iops", 900, "cgroup v2 io.max of /db.slice"),
    ]  # fmt: skip


def test_a_probed_machine_has_the_lowest_of_them_as_what_its_volume_can_do(unified: Path) -> None:
    found = probe(unified, pid=4711, data_directory=Path("/data/pg"))
    source = "cgroup v2 io.max of /db.slice/pg.service"
    assert found.volume_iops == Fact(120, source)
    assert found.volume_bandwidth == Fact(Bytes(2_097_152), source)


def test_a_machine_without_such_limits_has_none(lvm: Path) -> None:
    mounted(lvm, "253:0 / /data rw - ext4 /dev/mapper/vg-data rw")
    found = probe(lvm, pid=4711, data_directory=Path("/data/pg"))
    assert found.volume_iops is found.volume_bandwidth is None


def test_of_version_2_the_group_that_is_limited_is_counted(unified: Path) -> None:
    found = watched_host(Tree(unified, 4711), DATA)
    assert found.device is not None
    assert found.device.name == "dm-0"
    assert read(found).disk == Counted(5, 6, 4096, 8192, None, None, None)


@pytest.fixture
def version_1(lvm: Path) -> Path:
    mounted(
        lvm,
        "253:0 / /data rw - ext4 /dev/mapper/vg-data rw",
        "0:30 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio",
    )
    write(lvm, "/proc/4711/cgroup", "3:blkio:/pg\n")
    folder = "/sys/fs/cgroup/blkio"
    write(lvm, f"{folder}/blkio.throttle.read_iops_device", "253:0 3000\n")
    write(lvm, f"{folder}/pg/blkio.throttle.read_bps_device", "8:16 5000000\n")
    write(
        lvm,
        "/proc/diskstats",
        "   8      16 sdb 100 20 4000 500 200 30 8000 900 0 700 1400 0 0 0 0 0 0\n",
    )
    return lvm


def test_of_version_1_only_the_server_s_own_group_counts(version_1: Path) -> None:
    tree = Tree(version_1, 4711)
    found, _ = limits_of(tree, layers(tree, DATA))
    assert [(one.device.name, one.value) for one in found] == [("sdb", 5_000_000)]


def test_merged_requests_count_and_sectors_are_512_bytes(version_1: Path) -> None:
    """By hand: 100 + 20 reads, 200 + 30 writes, 4,000 x 512, 8,000 x 512, milliseconds."""
    found = counted(Tree(version_1, 4711), Device("sdb", "8:16"))
    assert found == Counted(120, 230, 2_048_000, 4_096_000, 0.5, 0.9, 1.4)


def test_rates_are_cloudwatch_s_and_a_counter_that_went_back_is_a_gap(version_1: Path) -> None:
    """Two seconds later, 40 more reads took 0.2 s; counters that fall mean a new device."""
    watched = watched_host(Tree(version_1, 4711), DATA)
    assert watched.device is not None
    assert watched.device.name == "sdb"
    before = read(watched)
    write(
        version_1,
        "/proc/diskstats",
        "   8      16 sdb 140 20 4800 700 200 30 8000 900 0 700 1800 0 0 0 0 0 0\n",
    )
    after = read(watched)
    found = rates(watched, before, after, 2.0)
    assert found["ReadIOPS"] == 20
    assert found["ReadThroughput"] == 204_800
    assert found["ReadLatency"] == pytest.approx(0.005)
    assert found["DiskQueueDepth"] == pytest.approx(0.2)
    assert found["WriteIOPS"] == 0
    assert "WriteLatency" not in found
    assert rates(watched, after, before, 2.0).keys() & {"ReadIOPS", "ReadThroughput"} == set()


def test_network_cpu_and_memory_of_the_host(version_1: Path) -> None:
    """1,000 Mbit/s are 125 MB/s; CPU is 20 ticks out of those of all CPUs in two seconds."""
    route = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n"
    route += "eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\n"
    route += "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n"
    write(version_1, "/proc/4711/net/route", route)
    write(version_1, "/sys/class/net/eth0/speed", "1000\n")
    link(version_1, "/sys/class/net/eth0/device", "/sys/devices/pci")
    dev = "Inter-|   Receive  |  Transmit\n  eth0: {} 1 0 0 0 0 0 0 {} 1 0 0 0 0 0 0\n"
    write(version_1, "/proc/4711/net/dev", dev.format(1000, 5000))
    write(version_1, "/proc/stat", "cpu 100 0 100 1000 0 0 0 0 0 0\n")
    write(version_1, "/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 250 kB\n")
    watched = watched_host(Tree(version_1, 4711), DATA)
    values = {one.resource: one.value for one in watched.ceilings}
    assert values[Resource.NETWORK_IN] == values[Resource.NETWORK_OUT] == 125e6
    assert values[Resource.MEMORY] == 1_024_000
    before = read(watched)
    write(version_1, "/proc/4711/net/dev", dev.format(3000, 5500))
    write(version_1, "/proc/stat", "cpu 110 0 110 1000 0 0 0 0 0 0\n")
    found = rates(watched, before, read(watched), 2.0)
    assert (found["NetworkReceiveThroughput"], found["NetworkTransmitThroughput"]) == (1000, 250)
    ticks = os.sysconf("SC_CLK_TCK")
    assert found["CPUUtilization"] == pytest.approx(100 * 20 / ticks / 2 / (os.cpu_count() or 1))
    assert found["FreeableMemory"] == 256_000


def test_the_speed_of_another_namespace_s_interface_is_not_taken(version_1: Path) -> None:
    """Both have an eth0, and ours is not the server's."""
    route = "Iface\tDestination\n"
    route += "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n"
    write(version_1, "/proc/4711/net/route", route)
    write(version_1, "/sys/class/net/eth0/speed", "1000\n")
    link(version_1, "/sys/class/net/eth0/device", "/sys/devices/pci")
    for process, number in (("self", 1), ("4711", 2)):
        folder = version_1 / f"proc/{process}/ns"
        folder.mkdir(parents=True)
        (folder / "net").symlink_to(f"net:[{number}]")
    watched = watched_host(Tree(version_1, 4711), DATA)
    assert watched.interface == "eth0"
    assert Resource.NETWORK_IN not in {one.resource for one in watched.ceilings}


@pytest.mark.parametrize(
    ("uevent", "known"), [("INTERFACE=eth0\n", False), ("DEVTYPE=bond\nINTERFACE=eth0\n", True)]
)
def test_a_speed_that_no_device_declares_is_no_ceiling(
    version_1: Path, uevent: str, known: bool
) -> None:
    """A container's veth declares 10 Gbps, behind which there may be anything."""
    route = "Iface\tDestination\n"
    route += "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n"
    write(version_1, "/proc/4711/net/route", route)
    write(version_1, "/sys/class/net/eth0/speed", "10000\n")
    write(version_1, "/sys/class/net/eth0/uevent", uevent)
    watched = watched_host(Tree(version_1, 4711), DATA)
    assert (Resource.NETWORK_IN in {one.resource for one in watched.ceilings}) is known


def test_a_server_that_may_use_two_of_four_cpus_is_busy_when_these_are(version_1: Path) -> None:
    """In a second CPU 1 is busy for all of it, CPU 3 for half: 75 % of the two, whatever 0 does."""
    tick = os.sysconf("SC_CLK_TCK")
    write(version_1, "/sys/devices/system/cpu/online", "0-3\n")
    write(version_1, "/proc/4711/status", "Name:\tpostgres\nCpus_allowed_list:\t1,3\n")
    each = "".join(f"cpu{cpu} {{{cpu}}} 0 0 1000 0 0 0 0 0 0\n" for cpu in range(4))
    write(version_1, "/proc/stat", "cpu 0 0 0 0 0 0 0 0 0 0\n" + each.format(0, 0, 0, 0))
    watched = watched_host(Tree(version_1, 4711), DATA)
    cpu = next(one for one in watched.ceilings if one.resource is Resource.CPU)
    assert (cpu.note, cpu.source) == (
        "2 CPUs that it may use", "/proc/4711/status: Cpus_allowed_list",
    )  # fmt: skip
    before = read(watched)
    busy = each.format(tick, tick, 0, tick // 2)
    write(version_1, "/proc/stat", "cpu 0 0 0 0 0 0 0 0 0 0\n" + busy)
    found = rates(watched, before, read(watched), 1.0)
    assert found["CPUUtilization"] == pytest.approx(75)


def test_a_quota_is_what_cpu_is_a_share_of(unified: Path) -> None:
    """Half a CPU: 0.4 s used in a second are 80 %."""
    group = "/sys/fs/cgroup/db.slice"
    write(unified, f"{group}/cpu.max", "50000 100000\n")
    write(unified, f"{group}/cpu.stat", "usage_usec 1000000\nuser_usec 1\n")
    watched = watched_host(Tree(unified, 4711), DATA)
    (ceiling,) = [one for one in watched.ceilings if one.resource is Resource.CPU]
    assert (ceiling.value, ceiling.source) == (100, "cgroup v2 cpu.max of /db.slice")
    before = read(watched)
    write(unified, f"{group}/cpu.stat", "usage_usec 1400000\nuser_usec 1\n")
    assert rates(watched, before, read(watched), 1.0)["CPUUtilization"] == pytest.approx(80)


def test_what_is_free_on_the_machine_says_nothing_where_a_group_has_less(unified: Path) -> None:
    write(unified, "/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 250 kB\n")
    watched = watched_host(Tree(unified, 4711), DATA)
    assert read(watched).available == 256_000
    write(unified, "/sys/fs/cgroup/db.slice/memory.max", "512000\n")
    limited = watched_host(Tree(unified, 4711), DATA)
    assert [one.value for one in limited.ceilings if one.resource is Resource.MEMORY] == [512_000]
    assert read(limited).available is None


def test_where_the_data_lie_on_no_device_that_is_said(tmp_path: Path) -> None:
    mounted(tmp_path, "0:50 / /data rw - nfs4 far:/data rw")
    found = watched_host(Tree(tmp_path, 4711), DATA)
    assert found.device is None
    assert any("not on a block device" in text for text in found.notices)
    hidden = watched_host(Tree(tmp_path, 4711), None)
    assert any("cannot see the data directory" in text for text in hidden.notices)
