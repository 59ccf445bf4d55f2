"""The lab itself: a site with a primary and a standby, and what can be done to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Final

from mrtuner.errors import UsageError
from mrtuner.failover.lab.dns_resolver import NAME, Resolver
from mrtuner.failover.lab.machines import MOVING, LabMachine, LabSite, mount_over
from mrtuner.failover.lab.server import PORT, LabServer, pair
from mrtuner.postgres.binaries import Binaries
from mrtuner.postgres.cluster import SUPERUSER

_RESOLV: Final = "nameserver 127.0.0.1\n"
_NSSWITCH: Final = "hosts: files dns\n"


class Lab(AbstractContextManager["Lab"]):
    """Machines a (primary) and b (standby), up while the block runs."""

    names: tuple[str, ...] = ("a", "b")

    def __init__(self, binaries: Binaries, *, ttl: float = 5.0) -> None:
        self._binaries = binaries
        self._site = LabSite(self.names)
        self._ttl = ttl

    def __enter__(self) -> Lab:
        self._site.__enter__()
        machines = self._site.machines
        self.servers = self._serve(machines)
        self.resolver = Resolver(machines["a"].address, self._ttl)
        self.resolver.start()
        mount_over("/etc/resolv.conf", _RESOLV)
        mount_over("/etc/nsswitch.conf", _NSSWITCH)
        return self

    def __exit__(self, *failure: object) -> None:
        self._site.__exit__(*failure)

    def _serve(self, machines: Mapping[str, LabMachine]) -> Mapping[str, LabServer]:
        servers = pair(machines["a"], machines["b"], self._binaries)
        return dict(zip("ab", servers, strict=True))

    def dsns(self) -> dict[str, str]:
        """Every way for a client to connect, by name."""
        a, b = (self._machine(name).address for name in "ab")
        hosts = {"a": a, "b": b, "both, read-write": f"{a},{b}", "address": MOVING, "name": NAME}
        return {what: dsn(host) for what, host in hosts.items()}

    def await_leader(self, name: str) -> None:
        """Wait until that server accepts writes; a manager, if any, has it elected."""
        raise NotImplementedError

    # The lab's own commands; `explained` prints their docstrings.

    def silence(self, name: str) -> None:
        """The machine loses its power: nothing answers any more."""
        self._site.silence(self._machine(name))

    def restore(self, name: str) -> None:
        """Its network answers again."""
        self._site.restore(self._machine(name))

    def crash(self, name: str) -> None:
        """kill -9 of every process; the kernel refuses and resets."""
        self._server(name).crash()

    def start(self, name: str) -> None:
        """Start a crashed server again."""
        self._server(name).start()

    def freeze(self, name: str) -> None:
        """SIGSTOP to every process; the kernel still acknowledges."""
        self._server(name).freeze()

    def thaw(self, name: str) -> None:
        """Let it continue."""
        self._server(name).thaw()

    def promote(self, name: str) -> None:
        """Make the standby a primary."""
        self._server(name).promote()

    def cut(self) -> None:
        """Cut the two machines off from each other; the client sees both."""
        self._site.cut(self._machine("a"), self._machine("b"))

    def mend(self) -> None:
        """Undo cut."""
        self._site.mend(self._machine("a"), self._machine("b"))

    def move(self, name: str) -> None:
        """Move the moving address to this machine."""
        self._site.move_address(self._machine(name))

    def rename(self, name: str) -> None:
        """Point the name to this machine; caches keep the old address until their TTL ends."""
        self.resolver.switch(self._machine(name).address)

    def do(self, line: str) -> None:
        """Run one command as a person types it; UsageError if it does not exist."""
        verb, *arguments = line.split()
        method = getattr(self, verb) if verb in _VERBS else None
        if method is None or len(arguments) != (verb not in _ALONE):
            raise UsageError(
                f"unknown command {line.strip()!r}", f"Use one of: {', '.join(usage())}."
            )
        method(*arguments)

    def _server(self, name: str) -> LabServer:
        self._machine(name)
        return self.servers[name]

    def _machine(self, name: str) -> LabMachine:
        if name not in self._site.machines:
            raise UsageError(f"unknown machine {name!r}", "Use a or b.")
        return self._site.machines[name]


_ALONE: Final = ("cut", "mend")
_VERBS: Final = ("silence", "restore", "crash", "start", "freeze", "thaw", "promote", *_ALONE,
                 "move", "rename")  # fmt: skip


def usage() -> Iterator[str]:
    yield from (verb if verb in _ALONE else f"{verb} a|b" for verb in _VERBS)


def explained() -> Iterator[tuple[str, str]]:
    """Yield the commands with what they do."""
    for verb, shown in zip(_VERBS, usage(), strict=True):
        yield shown, str(getattr(Lab, verb).__doc__)


def dsn(host: str) -> str:
    """Return a connection string to this host, or to the one of several that accepts writes."""
    several = " target_session_attrs=read-write" if "," in host else ""
    return f"host={host} port={PORT} user={SUPERUSER} dbname=postgres{several}"
