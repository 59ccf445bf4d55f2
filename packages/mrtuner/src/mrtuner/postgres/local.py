"""Whether a server runs on this host, so that this host's facts are the server's."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.postgres.named_queries import rows_of

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

_PROC: Final = Path("/proc")
#: A backend records its start a little after the fork; the two clocks are not read simultaneously.
_SLACK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Process:
    """A process of this host. Source: proc(5), /proc/PID/stat."""

    name: str
    parent: int
    used: int  # ticks of CPU time
    reaped: int  # the same of children that have ended
    started: float  # seconds after boot


def postmaster(backend: int, age: float, proc: Path = _PROC) -> int | None:
    """Return the postmaster's process id if our `backend`, `age` seconds old, runs here, else None.

    On another host, a backend may have the id of some process here, so that process must be a
    PostgreSQL one, as old as the server says, and the child of another PostgreSQL process.
    Source: proc(5), /proc/uptime.
    """
    found = process(backend, proc)
    uptime = _uptime(proc)
    if found is None or uptime is None or not _is_postgres(found):
        return None
    if abs(uptime - found.started - age) > _SLACK_SECONDS:
        return None
    parent = process(found.parent, proc)
    return found.parent if parent is not None and _is_postgres(parent) else None


def postmaster_of(conn: Connection) -> int | None:
    """Return the postmaster of a session's server if it runs here, else None."""
    (row,) = rows_of(conn, "backend", conn.info.server_version)
    return postmaster(row["pid"], row["age"])


def own_port(conn: Connection) -> int | None:
    """Return our own port; None over a socket. A server behind a tunnel sees another."""
    with socket.socket(fileno=os.dup(conn.fileno())) as ours:
        name = ours.getsockname()
    return name[1] if isinstance(name, tuple) else None


def is_postgres(pid: int) -> bool:
    """Whether a process of PostgreSQL has this id here."""
    found = process(pid)
    return found is not None and _is_postgres(found)


def uncollected(pid: int) -> bool:
    """Whether a process has ended, but its parent has not yet collected its exit status.

    A server that we start is inherited by the first process, which in a container may collect such
    statuses late or never. OSError if there is no such process. Source: proc(5), /proc/PID/stat.
    """
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"


def process(pid: int, proc: Path = _PROC) -> Process | None:
    """One process, or None if it does not exist or we may not see it."""
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    before, _, after = text.rpartition(")")  # a name may contain blanks and parentheses
    fields = after.split()
    utime, stime, cutime, cstime = map(int, fields[11:15])
    return Process(
        name=before.partition("(")[2],
        parent=int(fields[1]),
        used=utime + stime,
        reaped=cutime + cstime,
        started=int(fields[19]) / os.sysconf("SC_CLK_TCK"),
    )


def _uptime(proc: Path) -> float | None:
    try:
        return float((proc / "uptime").read_text().split()[0])
    except OSError:
        return None


def _is_postgres(process: Process) -> bool:
    return process.name in ("postgres", "postmaster")
