"""Restarting a server with its owner's own method, and waiting until it is back."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from mrtuner.change.settings.live import identify
from mrtuner.errors import ConnectCause, ConnectError, MrTunerError
from mrtuner.interruptions import uninterrupted
from mrtuner.postgres.connect import connect, translated
from mrtuner.postgres.replay import SLOW_REPLAY

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

_T = TypeVar("_T")

#: The owner's shell command, or a function that returns when the restart is done.
Method = str | Callable[[], object]

#: After a failed method, the server still gets this long to answer [s].
_GRACE: Final = 3.0
_PAUSE: Final = 0.05
_RETRY: Final = 1.0
#: What a server gets at least to stop, start and answer [s].
LEAST: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The owner's consent to restart, given as the method to use; without one we never restart.

    `start` starts a stopped server, if the method does not. `patience` [s] is how long the
    server may take to answer, including recovery after a crash; None follows from its WAL.
    """

    run: Method | None = None
    start: Method | None = None
    patience: float | None = None

    def limit(self, conn: Connection) -> float:
        """How long a restart of this server may take [s]."""
        return _by_wal(conn) if self.patience is None else self.patience


NEVER: Final = Restart()


def _by_wal(conn: Connection) -> float:
    """A minute, and twice the WAL since the last checkpoint [s].

    Stopping writes the pages that this WAL has changed; if the server crashes instead, it replays
    the WAL.
    """
    from psycopg import errors

    with translated():
        try:
            row = conn.execute(
                "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
                " ELSE pg_current_wal_lsn() END - redo_lsn)::float FROM pg_control_checkpoint()"
            ).fetchone()
        except errors.InsufficientPrivilege:
            row = None
    wal = 0.0 if row is None else max(0.0, row[0] or 0.0)
    return LEAST + 2 * wal / SLOW_REPLAY


class NotAnswering(Exception):
    """The server does not answer; carries the reason, and its cause if that is known."""

    def __init__(self, reason: str, cause: ConnectCause | None) -> None:
        super().__init__(reason)
        self.cause = cause


class NotRestarted(Exception):
    """The server answers but has not restarted; carries the reason."""


def restarted(dsn: str, method: Method, patience: float, before: str) -> Connection:
    """Restart, and return a session with a server that did not start at `before`.

    Raises NotAnswering if it does not answer in time, NotRestarted if it never went down.
    """
    problem = _carry_out(method, patience)
    return _answering(dsn, before, patience, problem)


def started(dsn: str, method: Method, patience: float) -> Connection:
    """Start a server that is down and return a session with it. Raises NotAnswering."""
    problem = _carry_out(method, patience)
    return _answering(dsn, None, patience, problem)


def answering(dsn: str, patience: float) -> Connection:
    """Return a session once the server, which may be starting, answers, or raise NotAnswering."""
    return _answering(dsn, None, patience, "")


def until_it_works(
    act: Callable[[], _T], patience: float, tell: Callable[[str], None] = lambda _why: None
) -> _T:
    """Return what `act` returns; while it fails, it is tried again for so long [s].

    For what others do to the server meanwhile, such as a restart. `tell` hears the first reason.
    """
    deadline = time.monotonic() + patience
    told = False
    while True:
        try:
            return act()
        except MrTunerError as error:
            if time.monotonic() >= deadline:
                raise
            if not told:
                tell(error.message)
            told = True
        time.sleep(min(_RETRY, patience))


def _carry_out(method: Method, patience: float) -> str | None:
    """Run the method; return None on success, else what went wrong."""
    if isinstance(method, str):
        return _shell(method, patience)
    try:
        method()
    except (MrTunerError, OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None


#: The owner's commands that run, also after an interrupt or a time-out.
_RUNNING: Final[list[subprocess.Popen[bytes]]] = []


def ended(patience: float) -> bool:
    """Wait so long [s] until no command runs, not even one that we no longer waited for."""
    deadline = time.monotonic() + patience
    while _still_running():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE)
    return True


def _still_running() -> bool:
    with uninterrupted():
        _RUNNING[:] = [process for process in _RUNNING if process.poll() is None]
    return bool(_RUNNING)


def _shell(command: str, patience: float) -> str | None:
    if not ended(patience):
        return "an earlier restart command still runs"
    # A file, not a pipe: a server started by the command keeps its output open forever.
    # A new session, so that interrupting apply does not stop a restart halfway. It is never killed
    # either: the server could be between its stop and its start.
    with tempfile.TemporaryFile() as output:
        with uninterrupted():
            process = subprocess.Popen(
                ["sh", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            _RUNNING.append(process)
        if not ended(patience):
            return f"the command did not finish within {patience:.0f} s and still runs"
        if process.returncode == 0:
            return None
        output.seek(0)
        said = output.read().decode(errors="replace").strip().splitlines()
    code = process.returncode
    return f"the command ended with exit code {code}" + (f": {said[-1]}" if said else "")


def _answering(dsn: str, before: str | None, patience: float, problem: str | None) -> Connection:
    """Try until there is a session with a server that did not start at `before`."""
    now = time.monotonic()
    latest = now + patience
    enough = latest if problem is None else now + min(_GRACE, patience)
    while True:
        late: Exception = NotRestarted(problem or "the server was not restarted in time")
        until = enough
        try:
            if conn := _session(dsn, before):
                return conn
        except ConnectError as error:
            late = NotAnswering(problem or error.message, error.cause)
            until = latest if error.cause is ConnectCause.STARTING else enough
        if time.monotonic() > until:
            raise late
        time.sleep(_PAUSE)


def _session(dsn: str, before: str | None) -> Connection | None:
    """Return a session, or None if the server still is the one that started at `before`."""
    conn = connect(dsn)
    try:
        if before is None or identify(conn).started != before:
            return conn
    except BaseException:
        conn.close()
        raise
    conn.close()
    return None
