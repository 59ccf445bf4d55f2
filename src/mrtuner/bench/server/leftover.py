"""What a killed run left on this machine when its guard was killed as well: scratch directories.

Whoever makes one holds a lock in it (guard.py). Without anybody who does it was left behind.
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
    """The scratch directories of runs that are gone, where ours are made."""
    bases = {Path(tempfile.gettempdir())}
    with suppress(MissingPart):
        bases.add(scratch_base(server_user()))
    found = {path for base in bases for path in base.glob("mrtuner-*") if _ours(path)}
    return tuple(sorted(path for path in found if guard.abandoned(path)))


def _ours(path: Path) -> bool:
    """Made by us, or given by us to the user whom a server of ours runs as."""
    try:
        status = path.lstat()
    except OSError:  # its own run has just removed it
        return False
    user = server_user()
    owners = {os.geteuid(), user.uid if user else None}
    return S_ISDIR(status.st_mode) and status.st_uid in owners


def remove(directory: Path) -> bool:
    """Stop a server that still runs from there, then delete it; whether it is gone."""
    for pid_file in directory.rglob("postmaster.pid"):
        if _runs_from(pid_file):
            with suppress(OSError, ValueError):
                guard.stop_server(str(pid_file.parent))
    shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()


def _runs_from(pid_file: Path) -> bool:
    """Whether the process of that number works in that directory, as a postmaster does."""
    try:
        number = int(pid_file.read_text(encoding="utf-8").split("\n", 1)[0])
        return Path(f"/proc/{number}/cwd").resolve() == pid_file.parent.resolve()
    except (OSError, ValueError):
        return False
