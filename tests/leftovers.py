"""A temporary directory for the session, searched at the end for what tests left in it.

It is on disk and open to the server's user. Each process of pytest-xdist has its own, next to that
of the process that started it: inside that one, a socket's path would become too long.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

#: Prefixes of what we, our servers and the browser create; other programs keep caches there.
OURS = ("mrtuner", "rdstune", ".copy-", ".org.chromium", "org.chromium", "chromium", "page")
#: Variable with the seconds to wait for clean-up: another process cleans up, with some delay, after
#: a program that a test killed on purpose.
PATIENCE = "MRTUNER_TESTS_PATIENCE"
_USUAL_PATIENCE = "8"
#: Variable with the parent of all these directories: the first process's TMPDIR, or /var/tmp.
BASE = "MRTUNER_TESTS_IN"


def make() -> Path:
    """Make the directory and use it for all temporary files from now on, except pytest's own."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    base = Path(os.environ.setdefault(BASE, os.environ.get("TMPDIR") or "/var/tmp"))
    remove_of_the_dead(base)
    made = Path(tempfile.mkdtemp(prefix=f"tests-{os.getpid()}-", dir=base))
    made.chmod(0o1777)
    os.environ["TMPDIR"] = str(made)
    tempfile.tempdir = None
    return made


def remove_of_the_dead(base: Path) -> None:
    """Remove the directories of sessions that were killed before they could clean up."""
    for path in base.glob("tests-*-*"):
        number = path.name.split("-")[1]
        if number.isdigit() and not Path("/proc", number).exists():
            remove(path)


def left_in(directory: Path) -> list[str]:
    """Return the names of what we created and is still there, after waiting for clean-up."""
    deadline = time.monotonic() + float(os.environ.get(PATIENCE, _USUAL_PATIENCE))
    while (found := _ours(directory)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _ours(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.startswith(OURS))


def remove(directory: Path) -> None:
    """Remove the directory with everything in it."""
    shutil.rmtree(directory, ignore_errors=True)
