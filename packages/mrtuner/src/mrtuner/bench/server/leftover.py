"""Scratch directories that a killed run left on this machine because its guard was killed as well.

A run holds a lock in each of its directories (guard.py); one that is not locked was left behind.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR

from mrtuner.bench.server import guard
from mrtuner.errors import MissingPart
from mrtuner.postgres.server_user import scratch_base, server_user


def directories() -> tuple[Path, ...]:
    """Scratch directories of runs that are gone, in the places where we create ours."""
    bases = {Path(tempfile.gettempdir())}
    with suppress(MissingPart):
        bases.add(scratch_base(server_user()))
    found = {path for base in bases for path in base.glob("mrtuner-*") if _ours(path)}
    return tuple(sorted(path for path in found if guard.abandoned(path)))


def _ours(path: Path) -> bool:
    """Whether a directory belongs to us, or to the user whom our servers run as."""
    try:
        status = path.lstat()
    except OSError:  # its own run has just removed it
        return False
    user = server_user()
    owners = {os.geteuid(), user.uid if user else None}
    return S_ISDIR(status.st_mode) and status.st_uid in owners


def remove(directory: Path) -> bool:
    """Stop servers that still run from a directory, then delete it; return whether it is gone."""
    for pid_file in directory.rglob("postmaster.pid"):
        if _runs_from(pid_file):
            with suppress(OSError, ValueError):
                guard.stop_server(str(pid_file.parent))
    shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()


def _runs_from(pid_file: Path) -> bool:
    """Whether the process in a pid file works in the file's directory, as a postmaster does."""
    try:
        number = int(pid_file.read_text(encoding="utf-8").split("\n", 1)[0])
        return Path(f"/proc/{number}/cwd").resolve() == pid_file.parent.resolve()
    except (OSError, ValueError):
        return False
