"""The unprivileged user that a server runs as when we are root, and what that user can reach.

PostgreSQL refuses to run as root. If we are root, everything that belongs to the server runs as an
unprivileged user, and an installation which that user cannot reach is copied once to where it can.
For an ordinary user, all of this does nothing.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mrtuner.errors import MissingPart, Refused
from mrtuner.postgres.binaries import Binaries


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
    hand_over(directory, user)
    return directory


def scratch_base(user: ServerUser | None) -> Path:
    """TMPDIR if set, else /var/tmp: /tmp may be in memory, where nothing should be measured."""
    named = os.environ.get("TMPDIR")
    candidates = [Path(text) for text in (named, "/var/tmp", tempfile.gettempdir()) if text]  # noqa: S108
    for base in candidates:
        if os.access(base, os.W_OK) and len(os.fsencode(base)) < 70 and reachable(base, user):
            return base
    tried = ", ".join(str(base) for base in candidates)
    raise MissingPart(
        f"no scratch directory: tried {tried}",
        "Set TMPDIR to one with a short path that every user can enter.",
    )


def reachable(path: Path, user: ServerUser | None) -> bool:
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


def hand_over(path: Path, user: ServerUser | None) -> None:
    if user is not None:
        os.chown(path, user.uid, user.gid)


def within_reach(binaries: Binaries, user: ServerUser | None) -> Binaries:
    """The same programs, in a place where the server's user can run them."""
    if user is None or _runs(binaries.program("postgres"), user):
        return binaries
    return Binaries(_copied(binaries), binaries.version, binaries.major)


def build_name(binaries: Binaries) -> str:
    """Return a name for what is made from these programs, by their version, path, time and size."""
    postgres = binaries.program("postgres")
    origin = f"{postgres} {postgres.stat().st_mtime_ns} {postgres.stat().st_size}"
    return f"{binaries.version}-{hashlib.sha256(origin.encode()).hexdigest()[:12]}"


@cache
def _runs(program: Path, user: ServerUser) -> bool:
    try:
        run_as(user, [program, "--version"], Path("/")).check_returncode()
    except (PermissionError, subprocess.CalledProcessError):
        return False
    return True


def _copied(binaries: Binaries) -> Path:
    """Copy an installation below /var/tmp, once; return the path of the copy's bin directory.

    An upgrade has another name and is copied again. A rename puts the finished copy in place: other
    processes see all of it or nothing.
    """
    place = _own_directory() / f"postgres-{build_name(binaries)}"
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


def run_as(
    user: ServerUser | None,
    command: list[str | Path],
    cwd: Path,
    *,
    given: str | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program as the server's user, in a directory it may enter, without PG* variables.

    `given` is what it reads on stdin. Raises subprocess.TimeoutExpired after `timeout` [s].
    """
    become = _setpriv(user) if user else ()
    who = {"user": user.uid, "group": user.gid, "extra_groups": ()} if user and not become else {}
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [*become, *command],
        cwd=cwd,
        env=_environment(user),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        **({"stdin": subprocess.DEVNULL} if given is None else {"input": given}),
        **who,
    )


@cache
def _setpriv(user: ServerUser) -> tuple[str, ...]:
    """Return the words before a command that make it run as that user; none if they do not work.

    If subprocess itself changes the user, it forks: that copies the page tables of all our memory,
    and takes ten times as long as vfork. Busybox's setpriv cannot change users. The shell is in
    between because setpriv may still start a program that only root can reach.
    """
    ids = (f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups")
    words = ("setpriv", *ids, "--", "sh", "-c", 'exec "$@"', "sh")
    try:
        subprocess.run([*words, "true"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    return words


def without_libpq() -> dict[str, str]:
    """Return our environment without the variables that libpq reads: PGHOST, PGPASSWORD, …"""
    return {name: text for name, text in os.environ.items() if not name.startswith("PG")}


def _environment(user: ServerUser | None) -> dict[str, str]:
    kept = without_libpq()
    if user is not None:
        kept |= {"HOME": "/", "USER": user.name, "LOGNAME": user.name}
    return kept | {"LC_ALL": "C"}
