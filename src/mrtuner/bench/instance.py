"""A small cloud instance stood in for on this machine: little memory, few I/O operations.

Memory is a cgroup v1 limit on the server; its page cache counts. The I/O limit is set on a whole
loop device, so that the kernel's own write-back counts too: a limit on the server's group alone
lets that escape and ranks configurations wrongly. Linux, as root, cgroup v1; elsewhere MissingPart.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mrtuner.errors import MissingPart, MrTunerError
from mrtuner.units import Bytes

_CGROUP: Final = Path("/sys/fs/cgroup")
_SCRATCH: Final = "/var/tmp"  # noqa: S108 - mkdtemp makes a name of its own there
_HINT: Final = "Leave out memory, iops and disk, or run as root on Linux with cgroup v1."


@dataclass(frozen=True, slots=True)
class Volume:
    """A mounted file system on a loop device, whose I/O operations can be capped."""

    place: Path
    device: Path

    def throttle(self, iops: int) -> None:
        """Cap reads and writes a second, each; 0 lifts the cap. Source: blkio-controller.rst."""
        number = self.device.stat().st_rdev
        rule = f"{os.major(number)}:{os.minor(number)} {iops}"
        for kind in ("read", "write"):
            _write(_CGROUP / f"blkio/blkio.throttle.{kind}_iops_device", rule)


@contextmanager
def volume(size: Bytes) -> Iterator[Volume]:
    """A fresh, sparse ext4 file system of this size on a loop device; it goes at the end."""
    require(memory=False, volume=True)
    with tempfile.TemporaryDirectory(prefix="mrtuner-volume-", dir=_SCRATCH) as name:
        image, place = Path(name, "image"), Path(name, "mnt")
        place.mkdir()
        Path(name).chmod(0o755)
        _run("truncate", "-s", str(size), str(image))
        device = _run("losetup", "--find", "--show", "--direct-io=on", str(image))
        try:
            _run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
            _run("mount", "-o", "noatime", device, str(place))
            yield Volume(place, Path(device))
        finally:
            Volume(place, Path(device)).throttle(0)
            subprocess.run(["umount", str(place)], check=False, capture_output=True)
            subprocess.run(["losetup", "--detach", device], check=False)


@contextmanager
def memory_limit(name: str, size: Bytes) -> Iterator[Path]:
    """An empty memory cgroup of this size; removed at the end."""
    require(memory=True, volume=False)
    group = _CGROUP / "memory" / f"mrtuner-{os.getpid()}-{name}"
    try:
        group.mkdir()
        _write(group / "memory.limit_in_bytes", str(size))
        yield group
    finally:
        if group.exists():
            group.rmdir()


@contextmanager
def inside(group: Path | None) -> Iterator[None]:
    """Start processes inside a group meanwhile: they inherit it from us."""
    if group is None:
        yield
        return
    before = _own_group("memory")
    _write(group / "cgroup.procs", str(os.getpid()))
    try:
        yield
    finally:
        _write(before / "cgroup.procs", str(os.getpid()))


def require(*, memory: bool, volume: bool) -> None:
    """MissingPart where such a limit cannot be set."""
    wanted = (("memory", memory), ("blkio", volume))
    missing = [name for name, needed in wanted if needed and not (_CGROUP / name).is_dir()]
    if missing:
        raise MissingPart(f"no cgroup v1 controller {', '.join(missing)} here", _HINT)
    if (memory or volume) and os.geteuid() != 0:
        raise MissingPart("limits on a server need root", _HINT)


def _own_group(controller: str) -> Path:
    """The group that we are in now. Source: cgroups(7), /proc/PID/cgroup."""
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            found = _CGROUP / controller / path.lstrip("/")
            return found if found.is_dir() else _CGROUP / controller
    return _CGROUP / controller


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="ascii")
    except OSError as error:
        raise MissingPart(f"cannot write {file}: {error.strerror}", _HINT) from error


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", None) or str(error)
        raise MrTunerError(f"{command[0]} failed: {detail.strip()}", _HINT) from error
    return done.stdout.strip()
