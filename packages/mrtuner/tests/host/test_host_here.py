"""Facts about the machine that runs the tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from groups import real_group
from machine import needs
from mrtuner.facts import Fact
from mrtuner.host import probe
from mrtuner.host.cpus import count_by_library
from mrtuner.host.memory import ram_by_sysconf
from mrtuner.units import MiB

pytestmark = pytest.mark.timed

linux = needs("/proc")

WAIT = "import sys; print(flush=True); sys.stdin.read()"


@contextmanager
def sleeper(*before: str) -> Iterator[int]:
    """A process that waits until the block ends; yields its PID once it runs."""
    command = [*before, sys.executable, "-c", WAIT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"\n"
        yield child.pid


@linux
def test_memory_is_that_of_proc_meminfo_or_less() -> None:
    total = re.search(r"MemTotal: *(\d+) kB", Path("/proc/meminfo").read_text())
    assert total is not None
    memory = probe().memory
    assert memory is not None
    assert 0 < memory.value <= int(total[1]) * 1024
    if memory.source.startswith("/proc/meminfo"):
        assert memory.value == int(total[1]) * 1024


@linux
def test_cpus_are_those_of_our_affinity_or_fewer() -> None:
    cpus = probe().cpus
    assert cpus is not None
    assert 1 <= cpus.value <= len(os.sched_getaffinity(0))
    if "cgroup" not in cpus.source:
        assert cpus.value == len(os.sched_getaffinity(0))


@linux
def test_kernel_and_architecture_are_those_of_uname() -> None:
    host = probe()
    assert host.kernel is not None
    assert host.kernel.value == os.uname().release
    assert host.architecture is not None
    assert host.architecture.value == os.uname().machine


def test_the_disk_is_as_large_as_statvfs_says(tmp_path: Path) -> None:
    """Also for a folder that does not exist yet: its file system does already."""
    host = probe(data_directory=tmp_path)
    found = os.statvfs(tmp_path)
    assert host.disk_size == Fact(
        found.f_blocks * found.f_frsize, f"statvfs {tmp_path.resolve()}: f_blocks"
    )
    planned = probe(data_directory=tmp_path / "not" / "yet").disk_size
    assert planned is not None
    assert planned.value == found.f_blocks * found.f_frsize


@linux
def test_dev_shm_is_no_storage() -> None:
    host = probe(data_directory=Path("/dev/shm/pg"))
    assert host.storage is None
    assert any("tmpfs" in missing.why for missing in host.missing)


@linux
def test_the_affinity_of_another_process_counts() -> None:
    one = str(min(os.sched_getaffinity(0)))
    with sleeper("taskset", "-c", one) as pid:
        cpus = probe(pid=pid).cpus
    assert cpus is not None
    assert cpus.value == 1


@linux
def test_a_real_memory_limit_of_another_process_is_found() -> None:
    """96 MiB, set on a real cgroup that only the child is in."""
    with real_group("memory", memory__limit_in_bytes=str(96 * MiB)) as folder:
        with sleeper() as pid:
            (folder / "cgroup.procs").write_text(str(pid))
            memory = probe(pid=pid).memory
        ours = probe().memory
    assert memory is not None
    assert memory.value == 96 * MiB
    assert memory.source.startswith("cgroup v1 memory.limit_in_bytes of ")
    assert memory.source.endswith(folder.name)
    assert ours is not None
    assert folder.name not in ours.source


@linux
def test_a_real_limit_on_the_parent_is_found() -> None:
    with real_group("memory", memory__limit_in_bytes=str(128 * MiB)) as folder:
        inner = folder / "postgres"
        inner.mkdir()
        try:
            with sleeper() as pid:
                (inner / "cgroup.procs").write_text(str(pid))
                memory = probe(pid=pid).memory
        finally:
            inner.rmdir()
    assert memory is not None
    assert memory.value == 128 * MiB


@linux
def test_a_real_quota_of_another_process_is_found() -> None:
    with real_group("cpu", cpu__cfs_quota_us="50000") as folder, sleeper() as pid:
        (folder / "cgroup.procs").write_text(str(pid))
        cpus = probe(pid=pid).cpus
    assert cpus is not None
    assert cpus.value == 1
    assert "cpu.cfs_quota_us" in cpus.source
    assert "0.5 CPUs" in cpus.source


@linux
@needs("unshare")
def test_a_real_process_in_its_own_mount_namespace_is_asked_for_its_mounts(tmp_path: Path) -> None:
    """8 MiB of tmpfs that only the child has at that path."""
    mounting = f'mount -t tmpfs -o size=8m tmpfs {tmp_path} && exec "$@"'
    enter = ["unshare", "--mount", "sh", "-c", mounting, "sh"]
    if subprocess.run([*enter, "true"], capture_output=True, check=False).returncode:
        pytest.skip("may not mount here")
    with sleeper(*enter) as pid:
        theirs = probe(pid=pid, data_directory=tmp_path).disk_size
    ours = probe(data_directory=tmp_path).disk_size
    assert theirs is not None
    assert theirs.value == 8 * MiB
    assert ours != theirs


@linux
@needs("unshare")
def test_with_sys_mounted_anew_the_limit_is_found_or_its_absence_is_said() -> None:
    """What `ip netns exec` does to a server, done with the same system calls."""
    code = "from mrtuner.host import probe; print([m.why for m in probe().missing], probe().memory)"
    script = 'umount -l /sys && mount -t sysfs sysfs /sys && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", code]
    with real_group("memory", memory__limit_in_bytes=str(256 * MiB)) as folder:
        enter = ["sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh"]
        done = subprocess.run([*enter, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"may not mount here: {done.stderr.strip()}")
    assert folder.name in done.stdout or "no cgroup hierarchy is visible" in done.stdout


def test_without_proc_the_library_is_asked() -> None:
    """The way taken on macOS, tested on every system."""
    ram, cpus = ram_by_sysconf(), count_by_library()
    assert ram is not None
    assert ram.value == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert cpus is not None
    assert cpus.value == os.cpu_count()


@needs("/proc", "/dev/shm as a mount")
def test_pg_wal_on_its_own_mount_counts_with_that_mounts_size(tmp_path: Path) -> None:
    """A link to another file system, as `initdb --waldir` makes it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as wal:
        (tmp_path / "pg_wal").symlink_to(wal)
        host = probe(data_directory=tmp_path)
        shm = os.statvfs("/dev/shm")
    assert host.wal_size is not None
    assert host.wal_size.value == shm.f_blocks * shm.f_frsize
    assert host.disk_size is not None
    assert host.disk_size.value != host.wal_size.value


@linux
def test_pg_wal_in_the_data_directory_has_no_size_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "pg_wal").mkdir()
    assert probe(data_directory=tmp_path).wal_size is None
