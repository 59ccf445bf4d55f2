"""Clean up after a lab that was killed: stop and remove its servers.

Run as a program by `servers.py`, with the standard library only. Each line on stdin is a server's
directory; a line that begins with a minus withdraws one. When stdin ends, the lab is gone: every
postmaster with a pid file in one of the directories is told to shut down immediately, and the
directories are removed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

_PATIENCE = 10.0  # seconds for an immediate shutdown


def watch(lines: list[str]) -> set[Path]:
    """Return the directories that the lines name and do not withdraw."""
    kept: set[Path] = set()
    for line in lines:
        text = line.strip()
        kept = kept - {Path(text[1:])} if text.startswith("-") else kept | {Path(text)}
    return kept


def postmaster(directory: Path) -> int | None:
    """Return the process id in the server's pid file, if it belongs to this data directory."""
    data = directory / "data"
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        return int(lines[0]) if data.samefile(lines[1]) else None
    except (OSError, ValueError, IndexError):
        return None


def end(directory: Path) -> None:
    """Stop the server and remove its files."""
    pid = postmaster(directory)
    if pid is not None and _sent(pid, signal.SIGQUIT):
        limit = time.monotonic() + _PATIENCE
        while _sent(pid, 0) and time.monotonic() < limit:
            time.sleep(0.05)
    shutil.rmtree(directory, ignore_errors=True)


def _sent(pid: int, what: int) -> bool:
    try:
        os.kill(pid, what)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    for one in watch(sys.stdin.readlines()):
        end(one)
