"""The machines of the lab: a client, a router and servers in namespaces, without root.

    client 10.77.1.2 ── router ── 10.77.2.2 machine a
                               ── 10.77.3.2 machine b …
    the address that moves, 10.77.9.9, leads to one of them

The calling process is the client, and root of its own user, network, mount and process namespaces
(`enter`): when it ends, in any way, the kernel ends all the other processes and removes the links
and the memory that contains the data directories.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import IO, Final

from mrtuner.errors import MissingPart
from mrtuner.failover.namespaces import Peer, hint, ip, lead_to, link, network_of
from mrtuner.postgres.server_user import without_libpq

#: The address that a failover moves.
MOVING: Final = "10.77.9.9"
#: In memory, and in our own mount namespace: gone with the last process.
SCRATCH: Final = Path("/dev/shm/lab")  # noqa: S108  # no one else sees it
_SIZE: Final = "1g"
#: A server's processes run as this user of a nested namespace: PostgreSQL refuses root.
_USER: Final = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")


def enter(command: Sequence[str]) -> list[str]:
    flags = ("--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child",
             "--mount-proc", "--")  # fmt: skip
    return ["unshare", *flags, *command]


def prepare() -> None:
    ip("link", "set", "lo", "up")
    _mount("-t", "tmpfs", "-o", f"size={_SIZE},mode=1777", "tmpfs", str(SCRATCH.parent))
    SCRATCH.mkdir()


class LabMachine:
    """A server's machine: a network namespace and the processes in it."""

    def __init__(self, name: str, at: str, peer: int) -> None:
        self.name = name
        self.address = at
        self._peer = peer
        self.link = f"to-{name}"  # the router's end of the link
        self.directory = SCRATCH / name
        self.directory.mkdir()

    def start(self, command: Sequence[str | Path], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a program here, as the unprivileged user."""
        return subprocess.Popen(
            self._inside(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            cwd=self.directory, env=_environment(),
        )  # fmt: skip

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a program here until it ends, as the unprivileged user."""
        return subprocess.run(
            self._inside(command), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, cwd=self.directory, env=_environment(),
        )  # fmt: skip

    def _inside(self, command: Sequence[str | Path]) -> list[str]:
        entered = ("nsenter", "--target", str(self._peer), "--net", "--")
        return [*entered, *as_user(command)]

    def signal(self, number: signal.Signals) -> None:
        for pid in self._processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _processes(self) -> Iterator[int]:
        mine = network_of(self._peer)
        pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        yield from (pid for pid in pids if pid != self._peer and network_of(pid) == mine)


def _environment() -> dict[str, str]:
    return without_libpq() | {"LC_ALL": "C", "HOME": str(SCRATCH)}


class LabSite(AbstractContextManager["LabSite"]):
    """The links and machines, up while the block runs; all packet loss happens in the router."""

    def __init__(self, names: Sequence[str] = ("a", "b")) -> None:
        self._names = names
        self._stack = ExitStack()
        self._router = 0
        self._lost: set[tuple[str, ...]] = set()
        self.machines: Mapping[str, LabMachine] = {}

    def __enter__(self) -> LabSite:
        with ExitStack() as stack:
            self._router = stack.enter_context(Peer(["cat"])).pid
            lead_to(self._router)
            self.machines = {
                name: self._machine(name, place, stack)
                for place, name in enumerate(self._names, start=2)
            }
            self._stack = stack.pop_all()
        self.move_address(self.machines[self._names[0]])
        return self

    def __exit__(self, *_: object) -> None:
        for machine in self.machines.values():
            machine.signal(signal.SIGKILL)
        self._stack.close()

    def _machine(self, name: str, place: int, stack: ExitStack) -> LabMachine:
        peer = stack.enter_context(Peer(["cat"])).pid
        machine = LabMachine(name, f"10.77.{place}.2", peer)
        gateway = f"10.77.{place}.1"
        link((machine.link, gateway), self._router, ("net0", machine.address), peer)
        ip("link", "set", "lo", "up", inside=peer)
        ip("address", "add", f"{MOVING}/32", "dev", "lo", inside=peer)
        ip("route", "add", "default", "via", gateway, inside=peer)
        return machine

    def silence(self, machine: LabMachine) -> None:
        """Drop every packet to and from it, without telling either side."""
        self._drop("iif", machine.link)
        self._drop("to", machine.address)

    def restore(self, machine: LabMachine) -> None:
        self._pass("iif", machine.link)
        self._pass("to", machine.address)

    def cut(self, one: LabMachine, other: LabMachine) -> None:
        """Drop every packet between two machines; the client still sees both."""
        self._drop("from", one.address, "to", other.address)
        self._drop("from", other.address, "to", one.address)

    def mend(self, one: LabMachine, other: LabMachine) -> None:
        self._pass("from", one.address, "to", other.address)
        self._pass("from", other.address, "to", one.address)

    def _drop(self, *what: str) -> None:
        if what not in self._lost:
            ip("rule", "add", *what, "blackhole", inside=self._router)
            self._lost.add(what)

    def _pass(self, *what: str) -> None:
        if what in self._lost:
            ip("rule", "del", *what, "blackhole", inside=self._router)
            self._lost.remove(what)

    def move_address(self, machine: LabMachine) -> None:
        ip("route", "replace", f"{MOVING}/32", "via", machine.address, inside=self._router)


def as_user(command: Sequence[str | Path]) -> list[str]:
    """The command line that runs a command as an unprivileged user in a nested namespace."""
    return [*_USER, *map(str, command)]


def mount_over(path: str, text: str) -> None:
    """Show the client this text in place of a file, if there is such a file."""
    if not Path(path).exists():
        return
    copy = SCRATCH / Path(path).name
    copy.write_text(text, encoding="utf-8")
    _mount("--bind", str(copy), path)


def _mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingPart(
            f"cannot mount in our namespace: {done.stderr.strip()}",
            hint(),
        )
