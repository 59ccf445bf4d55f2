"""The server's own log lines, read on its machine when a restart has failed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.postgres.connect import translated
from mrtuner.postgres.local import postmaster_of

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

#: Lines that tell why a server ended or did not start.
_TELLING: Final = re.compile(r"\b(?:FATAL|PANIC|HINT|DETAIL):  .*|.*terminated by signal.*")
#: A client that cannot connect yet is no reason.
_NO_REASON: Final = re.compile(r"database system is (?:starting|shutting)|terminating connection")
_MOST: Final = 5
_READ: Final = 1 << 20  # bytes of each file


@dataclass(frozen=True, slots=True)
class ServerLog:
    """Where the server writes its log, and how much was in it."""

    path: Path
    size: int
    collected: bool  # by the logging collector, which may begin newer files beside it

    def lines(self) -> tuple[str, ...]:
        """The telling lines written since, the last few, without their prefix."""
        return tuple(
            re.sub(r":  +", ": ", found[0])
            for line in self._new_text().splitlines()
            if (found := _TELLING.search(line)) and not _NO_REASON.search(line)
        )[-_MOST:]

    def _new_text(self) -> str:
        """What was added, to the file or to newer ones of the collector; of much, the end."""
        text = _end_of(self.path, self.size)
        beside = sorted(self.path.parent.glob("*.log")) if self.collected else []
        for path in beside:
            if path != self.path and path.stat().st_mtime > self.path.stat().st_mtime:
                text += _end_of(path, 0)
        return text.decode(errors="replace")


def _end_of(path: Path, begin: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(begin, path.stat().st_size - _READ))
        return file.read(_READ)


def server_log(conn: Connection) -> ServerLog | None:
    """Find the log of a server on this machine: the collector's, or where its stderr leads.

    None if it runs elsewhere, or its log goes to another program such as journald.
    """
    try:
        with translated():
            pid = postmaster_of(conn)
        if pid is None:
            return None
        collected = _collected(conn, pid)
        path = collected or Path(f"/proc/{pid}/fd/2").readlink()
        if not path.is_file():
            return None
        return ServerLog(path, path.stat().st_size, collected is not None)
    except OSError:
        return None


def _collected(conn: Connection, pid: int) -> Path | None:
    """The collector's present file; the postmaster works in its data directory."""
    from psycopg import errors

    with translated():
        try:
            row = conn.execute("SELECT pg_current_logfile()").fetchone()
        except errors.InsufficientPrivilege:
            return None
    name = None if row is None else row[0]
    return None if name is None else Path(f"/proc/{pid}/cwd").readlink() / name


def with_log(reason: str, log: ServerLog | None) -> str:
    """A reason for a failed restart, and what the server's log says of it."""
    try:
        found = () if log is None else log.lines()
    except OSError:
        found = ()
    new = [line for line in found if line not in reason]
    return f"{reason}; the server's log says: {' / '.join(new)}" if new else reason
