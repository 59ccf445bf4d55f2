"""What the kernel counted, read from files as Linux writes them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from mrtuner.host.counters import (
    GroupUsage,
    Traffic,
    available_memory,
    boot_time,
    context_switches,
    cpu_times,
    default_interface,
    group_usage,
    own_groups,
    pressure,
    traffic,
)
from mrtuner.host.tree import Tree

NOTHING = GroupUsage(cpu=None, throttled=None, memory=None)


def tree(root: Path, files: dict[str, str], pid: int = 7) -> Tree:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return Tree(root, pid)


def test_a_group_of_version_2_is_read(tmp_path: Path) -> None:
    machine = tree(tmp_path, {
        "proc/self/mountinfo": "30 1 0:26 / /cg rw - cgroup2 cgroup2 rw\n",
        "proc/7/cgroup": "0::/two\n",
        "cg/two/cpu.stat": "usage_usec 2500000\nnr_throttled 3\nthrottled_usec 500000\n",
        "cg/two/memory.current": "4096\n",
    })  # fmt: skip
    assert group_usage(machine, own_groups(machine)) == GroupUsage(
        cpu=2.5, throttled=0.5, memory=4096
    )


def test_a_group_of_version_1_has_its_files_in_three_hierarchies(tmp_path: Path) -> None:
    machine = tree(tmp_path, {
        "proc/self/mountinfo": "30 1 0:26 / /cg/cpu rw - cgroup cgroup rw,cpu\n"
        "31 1 0:27 / /cg/cpuacct rw - cgroup cgroup rw,cpuacct\n"
        "32 1 0:28 / /cg/memory rw - cgroup cgroup rw,memory\n",
        "proc/7/cgroup": "5:memory:/m\n4:cpu:/c\n3:cpuacct:/c\n1:name=systemd:/\n",
        "cg/cpu/c/cpu.stat": "nr_periods 1\nnr_throttled 1\nthrottled_time 1500000000\n",
        "cg/cpuacct/c/cpuacct.usage": "3000000000\n",
        "cg/memory/m/memory.usage_in_bytes": "8192\n",
    })  # fmt: skip
    assert group_usage(machine, own_groups(machine)) == GroupUsage(
        cpu=3.0, throttled=1.5, memory=8192
    )


def test_the_machine_is_read(tmp_path: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    machine = tree(tmp_path, {
        "proc/stat": f"cpu  {3 * ticks} {ticks} {2 * ticks} {50 * ticks} {5 * ticks} {ticks} "
        f"{2 * ticks} {ticks} 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nbtime 1700000000\nctxt 4242\n",
        "proc/meminfo": "MemTotal:       100 kB\nMemAvailable:    40 kB\n",
        "proc/pressure/io": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=999\n",
        "proc/7/net/route": "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "eth1\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
        "eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
        "proc/7/net/dev": "Inter-|   Receive  |  Transmit\n"
        "  eth0: 1000 2 0 0 0 0 0 0 3000 4 0 0 0 0 0 0\n",
    })  # fmt: skip
    times = cpu_times(machine)
    assert times is not None
    assert (times.user, times.system, times.interrupts) == (4, 2, 3)
    assert (times.busy, times.total) == (10, 65)
    assert (boot_time(machine), context_switches(machine)) == (1_700_000_000, 4242)
    assert available_memory(machine) == 40 * 1024
    assert pressure(machine) == {"io": 1.5}
    assert default_interface(machine) == "eth0"
    assert traffic(machine, "eth0") == Traffic(received=1000, sent=3000)
    assert traffic(machine, "eth1") is None


def test_where_nothing_is_counted_nothing_is_known(tmp_path: Path) -> None:
    machine = Tree(tmp_path, 7)
    assert (cpu_times(machine), context_switches(machine), available_memory(machine)) == (None,) * 3
    assert boot_time(machine) is None
    assert (default_interface(machine), traffic(machine, "eth0")) == (None, None)
    assert (pressure(machine), group_usage(machine, own_groups(machine))) == ({}, NOTHING)


def test_here_the_time_of_all_cpus_goes_on() -> None:
    before = cpu_times(Tree())
    time.sleep(0.2)  # what is counted
    after = cpu_times(Tree())
    assert before is not None
    assert after is not None
    cpus = os.cpu_count() or 1
    assert 0.1 * cpus < after.total - before.total < 20 * cpus
