"""Atomic replacement of configuration files on this machine."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

from mrtuner import files
from mrtuner.errors import MissingPart
from mrtuner.postgres.local import is_postgres, uncollected


def read_text(path: Path) -> str | None:
    """Return the file's text, with all bytes preserved; None if there is no such file."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")  # read_text changes \r
    except FileNotFoundError:
        return None


def replace_file(path: Path, text: str | None) -> None:
    """Replace a file with this text, synced to disk on return; None removes the file.

    The new file gets the old one's owner and mode, or its directory's owner and mode 0644.
    MissingPart if the directory cannot be written.
    """
    try:
        if text is None:
            path.unlink(missing_ok=True)
            files.sync(path.parent)
        else:
            files.replace(path, text.encode("utf-8", "surrogateescape"), _access(path))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise MissingPart(
            f"cannot write {path}: {error.strerror or error}",
            "Free space on its volume, then run again."
            if full
            else "Give a directory that you can write to, or run as its owner.",
        ) from error


def _access(path: Path) -> files.Access:
    """Owner and mode for the new file. Only root can give a file to another user."""
    try:
        like = files.Access.of(path)
    except FileNotFoundError:
        like = files.Access.of(path.parent)._replace(mode=0o644)
    if os.geteuid() == 0:
        return like
    return like._replace(uid=os.geteuid(), gid=os.getegid())


def runs_here(data_directory: Path, port: int, started: str) -> bool:
    """Whether the server that answered runs from this directory on this machine.

    Its postmaster.pid must name the same port and start time. A copy of it on another machine, or
    another machine's server with the same paths, differs. Source: miscadmin.h, LOCK_FILE_LINE_*.
    """
    try:
        lines = (data_directory / "postmaster.pid").read_text().splitlines()
        since, listens = int(lines[2]), int(lines[3])
    except (OSError, ValueError, IndexError):
        return False
    # pg_postmaster_start_time() is read a little later than the time in the file.
    apart = abs(float(started) - since)
    return listens == port and apart < 10


def runs_from(data_directory: Path) -> bool:
    """Whether a server runs from this directory on this machine, reachable or not."""
    try:
        pid = int((data_directory / "postmaster.pid").read_text().split("\n", 1)[0])
        return is_postgres(pid) and not uncollected(pid)
    except (OSError, ValueError):
        return False


def belongs_to(data_directory: Path, system_identifier: str | None) -> bool:
    """Whether this is the data directory of that stopped server, and we may write to it.

    The identifier is the first field of pg_control. Source: pg_control.h, ControlFileData.
    """
    try:
        with (data_directory / "global" / "pg_control").open("rb") as file:
            (found,) = struct.unpack("=Q", file.read(8))
    except (OSError, struct.error):
        return False
    return str(found) == system_identifier and os.access(data_directory, os.W_OK)
