"""A variant in a container (podman with runc), with its data where the other variants have theirs.

The data directory and the installation are mounted at their own paths, so a container changes
only what it is asked to: the network, and the files around the server. It shares our process ids,
so that its CPU time can be distinguished from that of others. Linux, as root.

What a bridge or a forwarded port needs (addresses, NAT) is set up in a network namespace that
exists only during the run: nothing is left behind in the machine's own.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mrtuner.bench.plan.model import APART, Variant
from mrtuner.errors import MissingPart, MrTunerError
from mrtuner.postgres.binaries import Binaries
from mrtuner.postgres.server_user import ServerUser
from mrtuner.wording import last_line

_HINT: Final = "Debian's packages: podman runc slirp4netns containernetworking-plugins iptables."
_CLONE_NEWNET: Final = 0x40000000  # sched.h
#: Size of /dev/shm. PostgreSQL needs little of it by default; parallel hash joins take more.
_SHM: Final = "1g"
#: By default, podman asks for more than a process without CAP_SYS_RESOURCE may have.
_ULIMITS: Final = ("nofile=4096:4096", "nproc=8192:8192")
#: Programs of the engine whose CPU is part of what a variant costs.
_ENGINE: Final = frozenset({"podman", "conmon", "slirp4netns", "rootlessport", "exe"})
_PROC: Final = Path("/proc")
_ZONES: Final = Path("/usr/share/zoneinfo")


@dataclass(frozen=True, slots=True)
class Contained:
    """What one container is run with. `port` is the server's, `published` this machine's."""

    name: str
    variant: Variant
    root: Path | None  # its root file system; None: the variant's image is known to podman
    mounts: Sequence[tuple[Path, str]]  # each with its options, at its own path
    user: ServerUser | None
    port: int
    published: int
    capped: Path | None = None  # the device whose operations its group is to cap, on cgroup v2

    def command(self, program: Path, data: Path) -> list[str]:
        """The command that runs the server in the container; it lasts as long as the server."""
        return [
            *_podman("run", "--rm", "--name", self.name, "--pid", "host", "--stop-signal", "INT"),
            *("--shm-size", _SHM, *(f"--ulimit={limit}" for limit in _ULIMITS)),
            *(() if self.user is None else ("--user", f"{self.user.uid}:{self.user.gid}")),
            *self._network(),
            *self._limits(),
            *(f"--volume={path}:{path}:{options}" for path, options in self.mounts),
            *(("--rootfs", f"{self.root}:O") if self.root else (self.variant.image,)),
            *(str(program), "-D", str(data)),
            *(("-c", "listen_addresses=*") if self.variant.network in APART else ()),
        ]

    def _network(self) -> list[str]:
        match self.variant.network:
            case "published":
                return ["--network=bridge", self._publish()]
            case "slirp":
                return ["--network=slirp4netns", self._publish()]
            case network:
                return [f"--network={network}"]

    def _publish(self) -> str:
        return f"--publish=127.0.0.1:{self.published}:{self.port}"

    def _limits(self) -> Iterator[str]:
        size, iops = self.variant.memory, self.variant.iops
        if size is not None:
            yield from (f"--memory={size}b", f"--memory-swap={size}b")
        if self.capped is not None and iops is not None:
            yield from (f"--device-{way}-iops={self.capped}:{iops}" for way in ("read", "write"))

    def address(self) -> tuple[str, int]:
        """Where the server is reached over TCP once the container runs; MrTunerError before."""
        match self.variant.network:
            case "bridge":
                found = _output("inspect", "--format", "{{.NetworkSettings.IPAddress}}", self.name)
                if not found:
                    raise MrTunerError(f"container {self.name} has no address yet")
                return found, self.port
            case "published" | "slirp":
                return "127.0.0.1", self.published
            case _:
                return "127.0.0.1", self.port

    def removal(self) -> list[str]:
        """The command that removes the container at once, whatever its state."""
        return _podman("rm", "--force", "--ignore", "--time", "0", self.name)


def require(variant: Variant) -> None:
    """Raise MissingPart if such a container cannot run; tried with one that does nothing."""
    if os.geteuid() != 0:
        raise MissingPart("containers need root", _HINT)
    if variant.image.startswith("/") and not Path(variant.image).is_dir():
        raise MissingPart(
            f"directory {variant.image} not found", "Create it, or use another image."
        )
    for program in ("podman", "runc", *(["slirp4netns"] if variant.network == "slirp" else [])):
        if _which(program) is None:
            raise MissingPart(f"program {program} not found", _HINT)
    with own_network([variant]):
        _try_one(variant)


def _try_one(variant: Variant) -> None:
    limits = (f"--ulimit={limit}" for limit in _ULIMITS)
    done = subprocess.run(
        [*_podman("run", "--rm", *limits, "--network", _plain(variant)), "--rootfs", "/:O", "true"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        said = last_line(done.stderr)
        raise MissingPart(f"no container can be run with network {variant.network}: {said}", _HINT)


def _plain(variant: Variant) -> str:
    return {"published": "bridge", "slirp": "slirp4netns"}.get(
        variant.network or "", variant.network or "none"
    )


def minimal_root(directory: Path, program: Path, mounted: Sequence[Path]) -> Path:
    """Make a root file system that has only the libraries that a program needs.

    Libraries in the `mounted` directories are not copied.
    """
    directory.chmod(0o755)
    for name in ("tmp", "dev", "proc", "sys", "etc", "run"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "tmp").chmod(0o1777)
    done = subprocess.run(["ldd", program], check=True, capture_output=True, text=True)
    for word in done.stdout.split():
        library = Path(word)
        if library.is_absolute() and not any(library.is_relative_to(path) for path in mounted):
            place = directory / word.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, place)
    return directory


def installation_mounts(binaries: Binaries) -> list[Path]:
    """What an installation needs: its directory, libraries or data beside it, and time zones.

    A wheel has its libraries in a sibling; Debian's packages their data and the system's zones.
    """
    home = binaries.directory.parent
    beside = (
        home.parent.with_name(f"{home.parent.name}.libs"),
        Path("/usr/share/postgresql") / home.name,
        _ZONES,
    )
    return [home, *(path for path in beside if path.is_dir())]


def engine_processes() -> list[int]:
    """Processes of the engine in our network namespace: their work is the variant's."""
    ours = (_PROC / "self/ns/net").stat().st_ino
    found = []
    for directory in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            name = (directory / "comm").read_text().strip()
            if name in _ENGINE and (directory / "ns/net").stat().st_ino == ours:
                found.append(int(directory.name))
    return found


@contextmanager
def own_network(variants: Sequence[Variant]) -> Iterator[None]:
    """Enter a network namespace of our own for the block, if these variants need one.

    Not if a user's command starts one of the servers: that may listen outside of the namespace.
    """
    wanted = any(variant.network in APART for variant in variants)
    if not wanted or any(variant.start is not None for variant in variants):
        yield
        return
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    _system_call("unshare", _CLONE_NEWNET)
    try:
        _loopback_and_forwarding()
        yield
    finally:
        _system_call("setns", before, _CLONE_NEWNET)
        os.close(before)


def _loopback_and_forwarding() -> None:
    try:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True, capture_output=True)
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")
    except (OSError, subprocess.CalledProcessError) as error:
        raise MissingPart(f"a network namespace cannot be set up: {error}", _HINT) from error


def _system_call(name: str, *arguments: int) -> None:
    """Call unshare(2) or setns(2), which Python has only from 3.12 on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        raise MissingPart(f"{name} failed: {os.strerror(ctypes.get_errno())}", _HINT)


def _podman(*words: str) -> list[str]:
    return [_which("podman") or "podman", "--runtime", _which("runc") or "runc", *words]


def _which(name: str) -> str | None:
    """Look in sbin, too: Debian has runc there, and it is not on an ordinary PATH."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _output(*words: str) -> str:
    done = subprocess.run(_podman(*words), check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""
