"""The open connections: which process owns each, and the options in force on it.

Options are read from the socket itself: another process's descriptor is duplicated with
pidfd_getfd (Linux 5.6), which requires permission to trace that process: the same user, or root.
Without that permission, `ss -o` still shows whether a keepalive timer is running.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mrtuner.errors import MissingPart, MrTunerError
from mrtuner.failover.sockets import Options, options

#: The number is the same on every architecture. Source: asm-generic/unistd.h.
_PIDFD_GETFD: Final = 438
_ROW: Final = re.compile(r"\d+\s+\d+\s+(?P<local>\S+)\s+(?P<peer>\S+)\s*(?P<rest>.*)")
_USER: Final = re.compile(r'\("(?P<name>[^"]*)",pid=(?P<pid>\d+),fd=(?P<fd>\d+)\)')
_TIMER: Final = re.compile(r"timer:\((?P<kind>\w+),(?P<left>[^,]*),")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One established TCP connection, as seen from this machine."""

    local: str
    peer: str
    process: str | None = None  # None: another user's
    pid: int | None = None
    timer: str | None = None  # the armed timer, from ss: keepalive, on (data unacknowledged), …
    options: Options | None = None  # None: we may not read them


def to_port(port: int) -> tuple[Connection, ...]:
    """Every connection from here to this port, on any host."""
    return _established(f"dport = :{port}")


def of_process(pid: int) -> tuple[Connection, ...]:
    """Every TCP connection of one process; MrTunerError if there is no such process."""
    if not os.path.isdir(f"/proc/{pid}"):  # noqa: PTH112 - no path of ours
        raise MrTunerError(f"process {pid} does not exist", "List processes with pgrep -a NAME.")
    return tuple(one for one in _established(pid=pid) if one.pid == pid)


def _established(*condition: str, pid: int | None = None) -> tuple[Connection, ...]:
    command = ["ss", "-HOtnpo", "state", "established", *condition]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except FileNotFoundError:
        raise MissingPart("the program ss is not installed", "Install iproute2.") from None
    if done.returncode:
        raise MrTunerError(f"ss failed: {done.stderr.strip()}", "Run ss -tn yourself to see why.")
    return tuple(each for row in done.stdout.splitlines() for each in parsed(row, pid))


def parsed(row: str, pid: int | None = None) -> Iterator[Connection]:
    """Parse one row of ``ss -HOtnpo state established``: a connection, and its owner if known.

    Of several, which have inherited it, the owner is `pid`, else the first.

    >>> row = '0 0 10.0.0.1:40000 10.0.0.2:5432 timer:(keepalive,2min,0)'
    >>> [one.timer for one in parsed(row)]
    ['keepalive']
    """
    match = _ROW.match(row.strip())
    if match is None:
        return
    users, timer = list(_USER.finditer(match["rest"])), _TIMER.search(match["rest"])
    mine = [one for one in users if pid is not None and int(one["pid"]) == pid]
    user = next(iter(mine or users), None)
    yield Connection(
        local=match["local"],
        peer=match["peer"],
        process=user["name"] if user else None,
        pid=int(user["pid"]) if user else None,
        timer=timer["kind"] if timer else None,
        options=_options(int(user["pid"]), int(user["fd"]), match["local"]) if user else None,
    )


def _options(pid: int, fd: int, local: str) -> Options | None:
    """The options of the connection from `local`.

    None if we may not inspect it, the process is gone, or it has reused the descriptor since.
    """
    try:
        copy = os.dup(fd) if pid == os.getpid() else _copied(pid, fd)
    except OSError:
        return None
    try:
        return options(copy) if _port(copy) == local.rpartition(":")[2] else None
    except OSError:
        return None
    finally:
        os.close(copy)


def _port(fd: int) -> str | None:
    """The port of its own end; None if it is no socket of TCP. OSError if it is none at all."""
    seen = socket.socket(fileno=fd)
    try:
        known = seen.family in {socket.AF_INET, socket.AF_INET6}
        return str(seen.getsockname()[1]) if known else None
    finally:
        seen.detach()


def _copied(pid: int, fd: int) -> int:
    """Duplicate another process's descriptor."""
    import ctypes

    process = os.pidfd_open(pid)
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
        copy: int = call(_PIDFD_GETFD, process, fd, 0)
        if copy < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return copy
    finally:
        os.close(process)
