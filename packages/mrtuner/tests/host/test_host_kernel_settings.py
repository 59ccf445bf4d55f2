"""The kernel's settings for memory, read from small trees of /proc and /sys."""

from __future__ import annotations

from pathlib import Path

from mrtuner.host import probe
from mrtuner.host.model import VirtualMemory
from shared import write

MEMINFO = """MemTotal:       65536000 kB
SwapTotal:       2097152 kB
Committed_AS:    8192000 kB
HugePages_Total:       0
HugePages_Free:        0
Hugepagesize:       2048 kB"""


def test_the_kernels_settings_are_read_as_they_are(tmp_path: Path) -> None:
    write(tmp_path, "/proc/meminfo", MEMINFO)
    for name, value in {
        "overcommit_memory": 0, "overcommit_ratio": 50, "dirty_background_bytes": 0,
        "dirty_background_ratio": 10, "dirty_bytes": 0, "dirty_ratio": 20, "swappiness": 60,
        "zone_reclaim_mode": 0,
    }.items():  # fmt: skip
        write(tmp_path, f"/proc/sys/vm/{name}", value)
    write(tmp_path, "/proc/sys/kernel/numa_balancing", 1)
    write(tmp_path, "/sys/devices/system/node/online", "0-1")
    write(tmp_path, "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", 0)
    fact = probe(tmp_path).vm
    assert fact is not None
    assert fact.value == VirtualMemory(
        overcommit_memory=0,
        overcommit_ratio=50,
        dirty_background_bytes=0,
        dirty_background_ratio=10,
        dirty_bytes=0,
        dirty_ratio=20,
        swappiness=60,
        zone_reclaim_mode=0,
        numa_balancing=1,
        ram=65_536_000 * 1024,  # type: ignore[arg-type]
        committed=8_192_000 * 1024,  # type: ignore[arg-type]
        nodes=2,
        gigantic=0,
    )


def test_what_the_kernel_does_not_show_is_none(tmp_path: Path) -> None:
    write(tmp_path, "/proc/sys/vm/swappiness", 60)
    write(tmp_path, "/proc/sys/vm/dirty_ratio", "nonsense")
    fact = probe(tmp_path).vm
    assert fact is not None
    assert fact.value == VirtualMemory(swappiness=60)


def test_without_proc_there_are_no_settings(tmp_path: Path) -> None:
    assert probe(tmp_path).vm is None
