"""A small cloud instance, simulated on this machine: little memory, few I/O operations.

Memory is limited by a cgroup; the server's page cache counts. The I/O limit is that of a whole loop
device, so that the kernel's own write-back counts too. On cgroup v1 it is set on the root group,
to which write-back belongs: a limit on the server's group alone would let write-back escape and
rank configurations wrongly. On v2 it is set on the server's group, to which the write-back of its
pages is charged. Linux, as root; elsewhere MissingPart.
Source: Linux, Documentation/admin-guide/cgroup-v1/blkio-controller.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from mrtuner.bench.server import guard
from mrtuner.bench.server.commands import run
from mrtuner.errors import MissingPart
from mrtuner.units import Bytes

_CGROUP: Final = Path("/sys/fs/cgroup")
_HUGE_PAGES: Final = Path("/proc/sys/vm/nr_hugepages")
_SCRATCH: Final = "/var/tmp"  # noqa: S108 - mkdtemp makes a name of its own there
_HINT: Final = "Leave out memory, iops and disk, or run as root on Linux with cgroups."
_run: Final = partial(run, hint=_HINT)


@dataclass(frozen=True, slots=True)
class Volume:
    """A mounted file system on a loop device, whose I/O operations can be capped."""

    place: Path
    device: Path

    @property
    def number(self) -> str:
        known = self.device.stat().st_rdev
        return f"{os.major(known)}:{os.minor(known)}"

    def throttle(self, iops: int, cgroup: Path = _CGROUP, *, bandwidth: int = 0) -> None:
        """Cap reads and writes per second, and the bytes per second of each; 0 lifts a cap.

        Does nothing on cgroup v2, where `limits` sets the cap.
        """
        if unified(cgroup):
            return
        for kind in ("read", "write"):
            for unit, most in (("iops", iops), ("bps", bandwidth)):
                file = cgroup / f"blkio/blkio.throttle.{kind}_{unit}_device"
                _write(file, f"{self.number} {most}")

    def lifting(self, cgroup: Path = _CGROUP) -> list[list[str]]:
        """Commands that lift the cap if we are killed."""
        files = [cgroup / f"blkio/blkio.throttle.{kind}_iops_device" for kind in ("read", "write")]
        return [["sh", "-c", f"echo '{self.number} 0' > {file}"] for file in files]

    def admit(self, processes: Iterable[int], cgroup: Path = _CGROUP) -> None:
        """Apply the caps to a server that is in another group, as an engine's containers are.

        On v1 other groups do not inherit a cap, so the server's processes join the group that has
        it, and their children follow. On v2 the server's group has the cap itself.
        """
        for process in () if unified(cgroup) else processes:
            with suppress(ProcessLookupError):  # it has ended
                (cgroup / "blkio/cgroup.procs").write_text(str(process), encoding="ascii")


@contextmanager
def volume(size: Bytes) -> Iterator[Volume]:
    """A fresh, sparse ext4 file system of this size on a loop device; removed at the end."""
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
            # If we are killed, the file and its device are removed as soon as they are unused.
            with (
                guard.directory_removed(Path(name)),
                guard.command_run(["losetup", "--detach", device]),
                guard.command_run(["umount", "--lazy", str(place)]),
            ):
                yield Volume(place, Path(device))
        finally:
            Volume(place, Path(device)).throttle(0)
            subprocess.run(["umount", str(place)], check=False, capture_output=True)
            subprocess.run(["losetup", "--detach", device], check=False)


@contextmanager
def throttled(volume: Volume, iops: int) -> Iterator[None]:
    """Cap a volume during the block; the cap is lifted even if we are killed."""
    with ExitStack() as stack:
        for command in () if unified() else volume.lifting():
            stack.enter_context(guard.command_run(command))
        volume.throttle(iops)
        try:
            yield
        finally:
            volume.throttle(0)


def unified(cgroup: Path = _CGROUP) -> bool:
    """Whether only cgroup v2 is in use; in a mixture the controllers are v1's."""
    return (cgroup / "cgroup.controllers").is_file()


@contextmanager
def limits(
    name: str,
    memory: Bytes | None,
    device: Volume | None,
    iops: int | None,
    cgroup: Path = _CGROUP,
) -> Iterator[Path | None]:
    """The cgroup to start a server in, removed at the end; None if it needs none.

    On v1 the group limits only memory, and `Volume.throttle` caps the device.
    """
    rules: dict[str, tuple[str, str]] = {}  # by controller: a file and what goes into it
    if memory is not None:
        file = "memory.max" if unified(cgroup) else "memory.limit_in_bytes"
        rules["memory"] = (file, str(memory))
    if device is not None and iops is not None and unified(cgroup):
        rules["io"] = ("io.max", f"{device.number} riops={iops} wiops={iops}")
    if not rules:
        yield None
        return
    with _group(_parent(cgroup, *rules), name) as group:
        for file, text in rules.values():
            _write(group / file, text)
        yield group


@contextmanager
def inside(group: Path | None, cgroup: Path = _CGROUP) -> Iterator[None]:
    """Join a group during the block, so that processes started in it inherit the group."""
    if group is None:
        yield
        return
    before = _own_group("memory", cgroup)
    _write(group / "cgroup.procs", str(os.getpid()))
    try:
        yield
    finally:
        _write(before / "cgroup.procs", str(os.getpid()))


@contextmanager
def huge_pages(count: int, knob: Path = _HUGE_PAGES) -> Iterator[int]:
    """Reserve this many more huge pages during the block; yields how many were: all or none.

    None without the right to reserve them, or where memory is too fragmented. Afterwards only these
    are given back: another benchmark, or a person, may have reserved pages meanwhile.
    Source: Linux, admin-guide/mm/hugetlbpage.rst.
    """
    if count < 1 or not os.access(knob, os.W_OK):
        yield 0
        return
    got = _reserve_more(knob, count)
    back = ["sh", "-c", f"echo $(($(cat {knob}) - {got})) > {knob}"]
    try:
        if got < count:
            yield 0
        else:
            with guard.command_run(back):
                yield got
    finally:
        _reserve_more(knob, -got)


def _reserve_more(knob: Path, count: int) -> int:
    """Add to the reserved huge pages; return by how many they grew, which may be fewer."""
    with suppress(OSError, ValueError), knob.open("r+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # other benchmarks add to the same number
        before = int(file.read())
        file.seek(0)
        file.write(str(max(before + count, 0)))
        file.truncate()
        file.flush()
        return int(knob.read_text(encoding="ascii")) - before
    return 0


def require(*, memory: bool, volume: bool, cgroup: Path = _CGROUP) -> None:
    """MissingPart where such a limit cannot be set."""
    wanted = [
        name
        for name, needed in (("memory", memory), ("io" if unified(cgroup) else "blkio", volume))
        if needed
    ]
    missing = [name for name in wanted if name not in _controllers(cgroup)]
    if missing:
        raise MissingPart(f"missing cgroup controllers: {', '.join(missing)}", _HINT)
    if wanted and os.geteuid() != 0:
        raise MissingPart("limits on a server need root", _HINT)


def _controllers(cgroup: Path) -> set[str]:
    if unified(cgroup):
        return set((cgroup / "cgroup.controllers").read_text(encoding="ascii").split())
    return {path.name for path in cgroup.iterdir() if path.is_dir()} if cgroup.is_dir() else set()


def _parent(cgroup: Path, *controllers: str) -> Path:
    """Where a group with these controllers can be made. The root group may have processes too."""
    if not unified(cgroup):
        return cgroup / controllers[0]
    switched_on = (cgroup / "cgroup.subtree_control").read_text(encoding="ascii").split()
    for name in controllers:
        if name not in switched_on:
            _write(cgroup / "cgroup.subtree_control", f"+{name}")
    return cgroup


@contextmanager
def _group(parent: Path, name: str) -> Iterator[Path]:
    group = parent / f"mrtuner-{os.getpid()}-{name}"
    try:
        group.mkdir()
    except OSError as error:
        raise MissingPart(f"cannot make {group}: {error.strerror}", _HINT) from error
    try:
        yield group
    finally:
        group.rmdir()


def _own_group(controller: str, cgroup: Path) -> Path:
    """The group that we are in now. Source: cgroups(7), /proc/PID/cgroup."""
    for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") or (not controllers and unified(cgroup)):
            base = cgroup if unified(cgroup) else cgroup / controller
            found = base / path.lstrip("/")
            return found if found.is_dir() else base
    return cgroup if unified(cgroup) else cgroup / controller


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="ascii")
    except OSError as error:
        raise MissingPart(f"cannot write {file}: {error.strerror}", _HINT) from error
