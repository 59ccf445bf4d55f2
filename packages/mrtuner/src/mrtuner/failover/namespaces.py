"""A client and a server with a router between them, in namespaces of one machine, without root.

    client 10.77.1.2 ── 10.77.1.1 router 10.77.2.1 ── 10.77.2.2 server

Silence is made in the router, by blackhole routes: a drop in the client's own output would be a
local error to its kernel, which then retries every 0.5 s without any backoff. The calling process
is already in the client's namespace (`enter`). Router and server are processes that end when their
stdin closes, so nothing is left behind, even if we are killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from shutil import which
from typing import Final

from mrtuner.errors import MissingPart
from mrtuner.wording import first_line

CLIENT: Final = "10.77.1.2"
SERVER: Final = "10.77.2.2"
_ROUTER: Final = ("10.77.1.1", "10.77.2.1")
_PATIENCE: Final = 10.0
_PLACE: Final = "Try it on the client's host itself, outside any container"


def enter(command: Sequence[str]) -> list[str]:
    """The command line that runs a command as root of new user and network namespaces."""
    flags = ("--user", "--map-root-user", "--net", "--kill-child", "--")
    return ["unshare", *flags, *command]


def require() -> None:
    """Raise MissingPart, in one sentence, if namespaces cannot be made."""
    for program, package in (("unshare", "util-linux"), ("nsenter", "util-linux"),
                             ("ip", "iproute2")):  # fmt: skip
        if which(program) is None:
            raise MissingPart(f"the program {program} is not installed", f"Install {package}.")
    tried = subprocess.run(
        enter(["ip", "link", "add", "mrtuner0", "type", "veth", "peer", "name", "mrtuner1"]),
        capture_output=True, text=True, check=False, timeout=_PATIENCE,
    )  # fmt: skip
    if tried.returncode:
        said = first_line(tried.stderr)
        raise MissingPart(f"network namespaces cannot be created here: {said}", hint())


def hint() -> str:
    """The hint if the kernel refuses; it suggests root only to those who are not root."""
    return f"{_PLACE}." if os.geteuid() == 0 else f"{_PLACE}, or as root."


class Network(AbstractContextManager["Network"]):
    """The two links, up while the block runs; `server` runs at the other end."""

    def __init__(self, server: Sequence[str]) -> None:
        self._command = server
        self._stack = ExitStack()
        self._router = 0

    def __enter__(self) -> Network:
        with ExitStack() as stack:
            self._router = stack.enter_context(Peer(["cat"])).pid
            server = stack.enter_context(Peer(self._command)).pid
            lead_to(self._router)
            link(("to-server", _ROUTER[1]), self._router, ("net0", SERVER), server)
            ip("route", "add", "default", "via", _ROUTER[1], inside=server)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def silence(self) -> None:
        """Drop every packet from now on, in both directions, without telling either side."""
        for address in (SERVER, CLIENT):
            ip("route", "add", "blackhole", f"{address}/32", inside=self._router)


class Peer(AbstractContextManager["Peer"]):
    """A process in its own network namespace; it ends when its stdin closes."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            ["unshare", "--net", "--", *command], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )

    @property
    def pid(self) -> int:
        """The id of a process that is already in the namespace."""
        end = time.monotonic() + _PATIENCE
        while network_of(self._process.pid) == network_of(os.getpid()):
            if time.monotonic() > end or self._process.poll() is not None:
                raise MissingPart("no network namespace was created", hint())
            time.sleep(0.005)
        return self._process.pid

    def __exit__(self, *_: object) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.terminate()
        self._process.wait(_PATIENCE)


def network_of(pid: int) -> str:
    """The network namespace of a process; empty if it is gone."""
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


def lead_to(router: int) -> None:
    """Link the client, which is this process, to a router that forwards what it sends."""
    link(("client0", CLIENT), None, ("to-client", _ROUTER[0]), router)
    ip("route", "add", "default", "via", _ROUTER[0])
    within(router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")


def link(near: tuple[str, str], here: int | None, far: tuple[str, str], there: int) -> None:
    """Join two network namespaces by a link; each end has a name and an address."""
    ip("link", "add", near[0], "type", "veth", "peer", "name", far[0], "netns", str(there),
       inside=here)  # fmt: skip
    for (name, at), inside in ((near, here), (far, there)):
        ip("address", "add", f"{at}/24", "dev", name, inside=inside)
        ip("link", "set", name, "up", inside=inside)


def ip(*words: str, inside: int | None = None) -> None:
    """Run iproute2, here or in the network namespace of a process."""
    if inside is None:
        _run(["ip", *words])
    else:
        within(inside, "ip", *words)


def within(pid: int, *words: str) -> None:
    _run(["nsenter", "--target", str(pid), "--net", "--", *words])


def _run(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    if done.returncode:
        raise MissingPart(f"{' '.join(words)}: {done.stderr.strip()}", hint())


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]
