"""Outlives the lab by a moment: stops and removes its servers when the lab was killed.

Run as a program by `servers.py`, with the standard library only. Each line on stdin is a
server's directory; a line that begins with a minus takes one back. When stdin ends, the lab is
gone: every postmaster whose pid file lies in one of the directories is told to quit at once, and
the directories are removed.
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
    """The directories that are still the lab's."""
    kept: set[Path] = set()
    for line in lines:
        text = line.strip()
        kept = kept - {Path(text[1:])} if text.startswith("-") else kept | {Path(text)}
    return kept


def postmaster(directory: Path) -> int | None:
    """The process id in the server's pid file, if that file is of this data directory."""
    data = directory / "data"
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        return int(lines[0]) if data.samefile(lines[1]) else None
    except (OSError, ValueError, IndexError):
        return None


def end(directory: Path) -> None:
    """Quit the server and remove what it had."""
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
