"""The open connections: which process owns each, and the options in force on it.

Options are read from the socket itself: another process's descriptor is duplicated with
pidfd_getfd (Linux 5.6), which requires permission to trace that process: the same user, or root.
Without that permission, `ss -o` still shows whether a keepalive timer is running.
"""

from __future__ import annotations

import os
import re
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
    return tuple(one for one in _established() if one.pid == pid)


def _established(*condition: str) -> tuple[Connection, ...]:
    command = ["ss", "-HOtnpo", "state", "established", *condition]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except FileNotFoundError:
        raise MissingPart("the program ss is not installed", "Install iproute2.") from None
    if done.returncode:
        raise MrTunerError(f"ss failed: {done.stderr.strip()}", "Run ss -tn yourself to see why.")
    return tuple(connection for row in done.stdout.splitlines() for connection in parsed(row))


def parsed(row: str) -> Iterator[Connection]:
    """Parse one row of ``ss -HOtnpo state established``: a connection, and its owner if known.

    >>> row = '0 0 10.0.0.1:40000 10.0.0.2:5432 timer:(keepalive,2min,0)'
    >>> [one.timer for one in parsed(row)]
    ['keepalive']
    """
    match = _ROW.match(row.strip())
    if match is None:
        return
    user, timer = _USER.search(match["rest"]), _TIMER.search(match["rest"])
    yield Connection(
        local=match["local"],
        peer=match["peer"],
        process=user["name"] if user else None,
        pid=int(user["pid"]) if user else None,
        timer=timer["kind"] if timer else None,
        options=_options(int(user["pid"]), int(user["fd"])) if user else None,
    )


def _options(pid: int, fd: int) -> Options | None:
    """The options, or None if the process is gone or we may not inspect it."""
    if pid == os.getpid():
        return options(fd)
    try:
        copy = _copied(pid, fd)
    except OSError:
        return None
    try:
        return options(copy)
    finally:
        os.close(copy)


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
