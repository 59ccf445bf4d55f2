"""A small cloud instance stood in for on this machine: little memory, few I/O operations.

Memory is a cgroup v1 limit on the server (its page cache counts). The I/O limit is set on a
whole loop device, so that the kernel's own write-back counts too: a limit on the server's group
alone lets that escape and ranks configurations wrongly. Linux, as root, cgroup v1.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


@contextmanager
def volume(size_gib: int, iops: int | None) -> Iterator[Volume]:
    """A fresh ext4 file system on a loop device; `iops` caps its reads, and its writes."""
    with tempfile.TemporaryDirectory(prefix="mrtuner-volume-", dir="/var/tmp") as name:
        image, place = Path(name, "image"), Path(name, "mnt")
        place.mkdir()
        _run("truncate", "-s", f"{size_gib}G", str(image))
        device = _run("losetup", "--find", "--show", "--direct-io=on", str(image))
        try:
            _run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
            _run("mount", "-o", "noatime", device, str(place))
            Path(name).chmod(0o755)
            yield Volume(place, device, iops)
        finally:
            Volume(place, device, None).throttle(0)
            subprocess.run(["umount", str(place)], check=False)
            subprocess.run(["losetup", "--detach", device], check=False)


class Volume:
    """A mounted loop device whose I/O operations can be capped."""

    def __init__(self, place: Path, device: str, iops: int | None) -> None:
        self.place, self.device, self.iops = place, device, iops

    def throttle(self, iops: int | None) -> None:
        """Cap reads and writes a second, each; 0 lifts the cap, None leaves all as it is."""
        if iops is None:
            return
        number = Path(self.device).stat().st_rdev
        rule = f"{os.major(number)}:{os.minor(number)} {iops}"
        for kind in ("read", "write"):
            (CGROUP / f"blkio/blkio.throttle.{kind}_iops_device").write_text(rule)


@contextmanager
def memory_limit(name: str, size: int) -> Iterator[Path]:
    """A memory cgroup of `size` bytes, empty; removed at the end."""
    group = CGROUP / "memory" / f"mrtuner-{os.getpid()}-{name}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(size))
        yield group
    finally:
        group.rmdir()


@contextmanager
def inside(group: Path | None) -> Iterator[None]:
    """Start processes inside a group: they inherit it from us."""
    if group is None:
        yield
        return
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        (CGROUP / "memory/cgroup.procs").write_text(str(os.getpid()))


@contextmanager
def huge_pages(count: int) -> Iterator[None]:
    """Reserve so many huge pages meanwhile; RuntimeError when the kernel cannot find them."""
    knob = Path("/proc/sys/vm/nr_hugepages")
    before = knob.read_text() if count else ""
    try:
        if count:
            knob.write_text(str(count))
            if int(knob.read_text()) < count:
                raise RuntimeError(f"only {knob.read_text().strip()} huge pages to be had")
        yield
    finally:
        if count:
            knob.write_text(before)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
