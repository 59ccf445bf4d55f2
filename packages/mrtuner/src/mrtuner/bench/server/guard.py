"""Clean up even if we are killed: a small process, the guard, waits for our end and does it.

A signal that cannot be caught runs no `finally`. Actions registered here are sent through a pipe to
the guard; when the pipe closes, it carries out those still registered, latest first. The guard runs
this very file, without the package.
"""

from __future__ import annotations

import atexit
import fcntl
import itertools
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

MARK = ".mrtuner"
_STOP_S = 20.0
_COMMAND_S = 60.0
_REPAIR_S, _PAUSE_S = 600.0, 1.0


@contextmanager
def server_stopped(data: Path) -> Iterator[None]:
    """If we are killed inside the block, the server of this data directory is stopped."""
    with _registered("server", str(data)):
        yield


@contextmanager
def directory_removed(directory: Path) -> Iterator[None]:
    """If we are killed inside the block, this directory is removed.

    If the guard is killed as well, the mark that stays behind shows that the directory is
    abandoned.
    """
    with _marked(directory), _registered("directory", str(directory)):
        yield


@contextmanager
def temporary_directory(prefix: str, base: Path | None = None) -> Iterator[Path]:
    """An empty directory that is removed at the end of the block, or when we are killed.

    It is registered before it is created and until it is removed, so that a Ctrl-C at any time
    leaves nothing behind. `base` defaults to the system's directory for temporary files.
    """
    directory = Path(base or tempfile.gettempdir(), f"{prefix}{secrets.token_hex(8)}")
    number = _register("directory", str(directory))
    directory.mkdir(mode=0o700)
    try:
        with _marked(directory):
            yield directory
    finally:
        try:
            shutil.rmtree(directory)
        except OSError as error:
            # Interrupted as it closes a file, rmtree closes it twice and hides the interruption.
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise
        _forget(number)


def abandoned(directory: Path) -> bool:
    """Whether a directory has a mark of this user's whose process is gone."""
    try:
        with (directory / MARK).open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return False
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # no mark, or it is locked
        return False
    return True


@contextmanager
def _marked(directory: Path) -> Iterator[None]:
    """Mark a directory by a file with a lock that ends with us, however we end."""
    mark = directory / MARK
    with ExitStack() as stack:
        with suppress(OSError):  # a directory that cannot be marked can still be used
            fcntl.flock(stack.enter_context(mark.open("ab")), fcntl.LOCK_SH)
            stack.callback(mark.unlink, missing_ok=True)
        yield


@contextmanager
def command_run(words: Sequence[str]) -> Iterator[None]:
    """If we are killed inside the block, this command is run."""
    with _registered("command", list(words)):
        yield


@contextmanager
def repaired(words: Sequence[str], done: Callable[[], bool]) -> Iterator[None]:
    """If we are killed inside the block, or end without `done`, this command is run.

    It is run again until it succeeds, for minutes: the server may be restarting.
    """
    number = _register("repair", list(words))
    try:
        yield
    finally:
        if done():
            _forget(number)


@contextmanager
def _registered(kind: str, what: str | list[str]) -> Iterator[None]:
    number = _register(kind, what)
    try:
        yield
    finally:
        _forget(number)


def _register(kind: str, what: str | list[str]) -> int:
    number = next(_numbers)
    _send({"number": number, "kind": kind, "what": what})
    return number


def _forget(number: int) -> None:
    _send({"number": number})


_numbers = itertools.count()
_guards: dict[int, subprocess.Popen[bytes]] = {}  # by the process that started it


def _send(line: dict[str, object]) -> None:
    """Send a line to the guard; that the guard died is no reason to stop."""
    pipe = _guard().stdin
    if pipe is not None:
        with suppress(OSError, ValueError):
            pipe.write(json.dumps(line).encode() + b"\n")
            pipe.flush()


def _guard() -> subprocess.Popen[bytes]:
    """The guard of this process; in a session of its own, beyond the reach of a Ctrl-C."""
    if os.getpid() not in _guards:
        _guards[os.getpid()] = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        atexit.register(_dismiss, os.getpid())
    return _guards[os.getpid()]


def _dismiss(pid: int) -> None:
    """Close the pipe at a normal exit: the guard just ends, but for repairs that we failed at."""
    if os.getpid() == pid:
        guard = _guards.pop(pid)
        with suppress(OSError, subprocess.TimeoutExpired):
            guard.communicate(timeout=_COMMAND_S)


# In the guard's own process


def _watch(lines: IO[bytes]) -> None:
    """Keep track of registrations until the pipe closes, then carry out what is left."""
    known: dict[int, dict[str, object]] = {}
    for text in lines:
        line = json.loads(text)
        if "kind" in line:
            known[line["number"]] = line
        else:
            known.pop(line["number"], None)
    for line in reversed(known.values()):
        with suppress(Exception):  # the others are still to be done
            _ACTIONS[str(line["kind"])](line["what"])


def stop_server(data: str) -> None:
    """Stop a server at once: its data are not needed. Source: postmaster.pid, line 1."""
    text = Path(data, "postmaster.pid").read_text(encoding="utf-8")
    pid = int(text.split("\n", 1)[0])
    if not _is_postgres(pid):
        return  # it died, and another process has its number
    os.kill(pid, signal.SIGQUIT)
    deadline = time.monotonic() + _STOP_S
    while time.monotonic() < deadline:
        time.sleep(0.05)
        os.kill(pid, 0)  # ProcessLookupError once it is gone
    os.kill(pid, signal.SIGKILL)


def _is_postgres(pid: int) -> bool:
    """Whether a process is PostgreSQL's; True without /proc. Source: proc(5), comm."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").startswith("post")
    except OSError:
        return not Path("/proc/self").exists()


def _remove(directory: str) -> None:
    shutil.rmtree(directory, ignore_errors=True)


def _run(words: list[str]) -> int:
    return subprocess.run(words, check=False, capture_output=True, timeout=_COMMAND_S).returncode


def _repair(words: list[str]) -> None:
    deadline = time.monotonic() + _REPAIR_S
    while time.monotonic() < deadline:
        with suppress(subprocess.TimeoutExpired):
            if _run(words) == 0:
                return
        time.sleep(_PAUSE_S)


_ACTIONS: dict[str, Callable[[Any], object]] = {
    "server": stop_server,
    "directory": _remove,
    "command": _run,
    "repair": _repair,
}

if __name__ == "__main__":
    _watch(sys.stdin.buffer)
