"""Running our own PostgreSQL server: for the demo, for measurements, for tests."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from mrtuner.errors import ConnectError, MissingPart, UsageError
from mrtuner.postgres import conf_file
from mrtuner.postgres.binaries import Binaries
from mrtuner.postgres.local import uncollected
from mrtuner.postgres.server_user import (
    ServerUser,
    build_name,
    hand_over,
    reachable,
    run_as,
    server_user,
    within_reach,
)
from mrtuner.wording import last_line

SUPERUSER: Final = "postgres"
#: Environment variable: a directory that keeps data directories as initdb made them. A copy takes a
#: tenth of initdb's time. For tests and labs, like PostgreSQL's own INITDB_TEMPLATE.
INITDB_CACHE: Final = "MRTUNER_INITDB_CACHE"

#: Bytes in sockaddr_un.sun_path, less the terminating zero: 107 on Linux, 103 on macOS.
_SOCKET_PATH_LIMIT: Final = 103
#: Long enough for a recovery; pg_ctl notices immediately if the postmaster gives up.
_START_SECONDS: Final = 300
#: The same as pg_ctl, which polls every 0.1 s, though most servers stop in a tenth of that.
_STOP_SECONDS: Final = 60
_POLL: Final = 0.005
#: For the postmaster to exit after removing postmaster.pid; without /proc we may never see it.
_ENDING_SECONDS: Final = 0.5

StopMode = Literal["smart", "fast", "immediate"]
_SIGNALS: Final = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
Value = str | int | float
_PROC: Final = Path("/proc/self").exists()


@dataclass(eq=False, slots=True, weakref_slot=True)
class Cluster:
    """One PostgreSQL server that we started. As a context manager it runs inside the block.

    `directory` holds `data`, the server's `log` and the socket; only the server's user (and
    root) may enter it, which is why `trust` is good enough on the socket.
    """

    binaries: Binaries
    directory: Path
    port: int = 5432
    user: ServerUser | None = field(default_factory=server_user)

    @classmethod
    def create(
        cls,
        binaries: Binaries,
        directory: Path,
        settings: Mapping[str, Value] | None = None,
        *,
        listen: bool = False,
        password: str | None = None,
    ) -> Cluster:
        """Create a stopped cluster in an empty or missing directory: UTF8, locale C.

        `settings` are written to postgresql.conf. With `listen` it also accepts connections on
        127.0.0.1, on a free port, with SCRAM and the superuser's `password`.
        Raises UsageError for an unusable directory, MissingPart if initdb fails.
        """
        if listen and not password:
            raise UsageError("a server that listens needs a password", "Give password=….")
        user = server_user()
        _prepare(directory, user)
        port = free_port() if listen else 5432
        cluster = cls(within_reach(binaries, user), directory.absolute(), port, user)
        cluster._make_data(password)
        cluster.configure(cluster._own_settings(listen) | dict(settings or {}))
        return cluster

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def pid(self) -> int | None:
        """The postmaster's process id, or None if there is no postmaster.pid."""
        try:
            return int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return None

    def running(self) -> bool:
        """Whether the process of postmaster.pid exists, as `pg_ctl status` checks."""
        pid = self.pid
        return pid is not None and self._is_there(pid)

    def start(self) -> None:
        """Start and wait for connections; ConnectError with the log's reason if it fails."""
        before = len(self._whole_log())
        self._wait_for_collection()
        atexit.register(self._stop_at_exit, os.getpid())
        done = self.run(
            "pg_ctl", "start", "-D", self.data, "-w", "-t", str(_START_SECONDS),
            "-l", str(self._log_path),
        )  # fmt: skip
        if done.returncode != 0:
            self.stop("immediate")  # it may only be slow
            raise _start_failure(self._whole_log()[before:] or done.stderr)

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop as `pg_ctl stop` does, if it is running; ConnectError if that takes too long."""
        atexit.unregister(self._stop_at_exit)
        pid = self.pid
        if pid is None or not self.running():
            return
        with suppress(ProcessLookupError):
            os.kill(abs(pid), _SIGNALS[mode])
        deadline = time.monotonic() + _STOP_SECONDS
        while self.running():
            if time.monotonic() > deadline:
                raise ConnectError(
                    f"the server in {self.data} does not stop in {_STOP_SECONDS} s",
                    "End the sessions that hold it up, or stop it with mode immediate.",
                )
            time.sleep(_POLL)
        ending = time.monotonic() + _ENDING_SECONDS
        while self._is_there(pid) and time.monotonic() < ending:
            time.sleep(_POLL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def configure(self, settings: Mapping[str, Value]) -> None:
        """Append settings to postgresql.conf. They take effect at the next reload or start."""
        lines = [f"{conf_file.entry(name, str(value))}\n" for name, value in settings.items()]
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(lines)

    def dsn(self, dbname: str = "postgres", *, user: str = SUPERUSER, tcp: bool = False) -> str:
        """Return a conninfo string for libpq; the password for TCP has to come from elsewhere."""
        host = "127.0.0.1" if tcp else str(self.directory)
        parts = {"host": host, "port": str(self.port), "user": user, "dbname": dbname}
        return " ".join(f"{name}={_conninfo_quoted(text)}" for name, text in parts.items())

    def log(self, lines: int = 50) -> str:
        return "\n".join(self._whole_log().splitlines()[-lines:])

    def run(self, program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run one of the installation's programs as the server's user."""
        return run_as(self.user, [self.binaries.program(program), *arguments], self.directory)

    def remove(self) -> None:
        """Stop in immediate mode and delete the whole directory."""
        self.stop("immediate")
        shutil.rmtree(self.directory)

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop("fast" if kind is None else "immediate")

    def _make_data(self, password: str | None) -> None:
        """Run initdb, or copy what it made for another cluster of the same programs.

        A copy has the system identifier of its original, so it is made only if a cache is named.
        """
        named = os.environ.get(INITDB_CACHE)
        if not named:
            self._initdb(password)
            return
        kept = Path(named) / build_name(self.binaries)
        if kept.is_dir():
            self._copy(kept, self.data)
        else:
            self._initdb(None)
            self._keep(kept)
        if password:
            self._set_password(password)

    def _set_password(self, password: str) -> None:
        """Give a copy its own superuser's password as initdb would, in single-user mode."""
        command: list[str | Path] = [self.binaries.program("postgres"), "--single", "-F"]
        command += ["-D", self.data, "postgres"]
        quoted = password.replace("'", "''")
        alter = f"ALTER ROLE {SUPERUSER} PASSWORD '{quoted}'\n"
        done = run_as(self.user, command, self.directory, given=alter)
        if done.returncode != 0 or "ERROR:" in done.stderr:
            raise MissingPart(
                f"cannot set a password in {self.data}: {last_line(done.stderr)}",
                f"Unset {INITDB_CACHE}: initdb sets it then.",
            )

    def _keep(self, kept: Path) -> None:
        """Copy the new data directory, for others; a rename puts the finished copy in place."""
        unfinished = Path(tempfile.mkdtemp(prefix=".copy-", dir=kept.parent))
        try:
            hand_over(unfinished, self.user)
            self._copy(self.data, unfinished / "data")
            _make_sparse(unfinished / "data" / "pg_wal")
            (unfinished / "data").rename(kept)
        except OSError:
            if not kept.is_dir():  # else another cluster was first, with the same files
                raise
        finally:
            shutil.rmtree(unfinished)

    def _copy(self, source: Path, target: Path) -> None:
        done = run_as(self.user, ["cp", "-R", source, target], self.directory)
        if done.returncode != 0:
            raise MissingPart(
                f"cannot copy the data directory {source}: {last_line(done.stderr)}",
                f"Check the space and the permissions there, or unset {INITDB_CACHE}.",
            )

    def _initdb(self, password: str | None) -> None:
        flags = ["-D", str(self.data), "-U", SUPERUSER, "-E", "UTF8", "--locale=C", "--no-sync"]
        flags += ["--auth-local=trust", "--auth-host=scram-sha-256"]
        secret = self.directory / "password"
        try:
            if password:
                secret.touch(mode=0o600)
                secret.write_text(password, encoding="utf-8")
                hand_over(secret, self.user)
                flags.append(f"--pwfile={secret}")
            done = self.run("initdb", *flags)
        finally:
            secret.unlink(missing_ok=True)
        if done.returncode != 0:
            raise MissingPart(
                f"initdb failed in {self.directory}: {last_line(done.stderr)}",
                "Check the space and the permissions there; scratch_directory() gives a good one.",
            )

    def _own_settings(self, listen: bool) -> dict[str, Value]:
        return {
            "listen_addresses": "127.0.0.1" if listen else "",
            "port": self.port,
            "unix_socket_directories": str(self.directory),
        }

    @property
    def _log_path(self) -> Path:
        return self.directory / "log"

    def _whole_log(self) -> str:
        try:
            return self._log_path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def _is_there(self, pid: int) -> bool:
        """Whether the server's user has such a process.

        postmaster.pid may be left from long ago, and its process id reused by another program.
        """
        number = abs(pid)  # negative in single-user mode
        if number in {os.getpid(), os.getppid()}:
            return False
        try:
            os.kill(number, 0)
            if not _PROC:
                return True
            ours = self.user is None or self.user.uid == Path("/proc", str(number)).stat().st_uid
            return ours and not uncollected(number)
        except OSError:
            return False

    def _wait_for_collection(self) -> None:
        """Wait until the exit status of a server that was killed has been collected.

        Until then PostgreSQL refuses to start, since the process of postmaster.pid is still there.
        """
        pid, deadline = self.pid, time.monotonic() + _STOP_SECONDS
        with suppress(OSError):  # it is gone
            while pid is not None and uncollected(abs(pid)) and time.monotonic() < deadline:
                time.sleep(_POLL)

    def _stop_at_exit(self, owner: int) -> None:
        if os.getpid() == owner:  # a forked child must not stop its parent's server
            self.stop("immediate")


def _make_sparse(wal: Path) -> None:
    """Turn the zeros at the end of segments into holes: a copy is then a third smaller."""
    for segment in wal.glob("0*"):
        size, used = segment.stat().st_size, len(segment.read_bytes().rstrip(b"\0"))
        os.truncate(segment, used)
        os.truncate(segment, size)


def _prepare(directory: Path, user: ServerUser | None) -> None:
    """Create the directory for the server's user, closed to others."""
    path = directory.absolute()
    if len(os.fsencode(path / ".s.PGSQL.65535")) > _SOCKET_PATH_LIMIT:
        raise UsageError(f"the path {path} is too long for a socket", "Use a shorter one.")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise UsageError(f"the directory {path} is not empty", "Give a new one.")
    if not reachable(path.parent, user):
        raise UsageError(
            f"the server's user cannot enter {path.parent}",
            "Give a directory that every user can enter, such as one below /var/tmp.",
        )
    path.chmod(0o700)
    hand_over(path, user)


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _start_failure(log: str) -> ConnectError:
    return ConnectError(
        f"the server does not start: {reason_in(log)}",
        "See its log, which names the wrong setting.",
    )


def reason_in(log: str) -> str:
    """The last FATAL line of a failed start, with the complaints about files that led to it."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    ends = [n for n, line in enumerate(lines) if re.search(r"\b(FATAL|PANIC):  ", line)]
    if not ends:
        return lines[-1] if lines else "it gave no reason"
    fatal = ends[-1]
    reason = _without_prefix(lines[fatal])
    if reason.endswith("contains errors"):
        reason = "; ".join([reason, *(_without_prefix(line) for line in lines[:fatal])])
    return reason


def _without_prefix(line: str) -> str:
    """Strip a log line's prefix: `… [123] FATAL:  text` gives `FATAL: text`."""
    match = re.search(r"\b([A-Z]+):  (.*)", line)
    return f"{match[1]}: {match[2]}" if match else line


def _conninfo_quoted(value: str) -> str:
    if re.fullmatch(r"[\w/.:-]+", value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
