"""A temporary directory of the session's own: what a test leaves in it is found at the end.

It is open to the server's user. Every process of pytest-xdist has one of its own beside that of the
process that started it: inside, a socket's path would become too long. For root, where there is
plenty of memory, it lies there: a session makes and deletes a thousand data directories, which
nobody needs after a crash, and ext4 without a journal passes over the inodes of files that were
deleted minutes ago, thousands of them for each new file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: What we, the servers of ours and the browser make; other programs keep caches there.
OURS = ("mrtuner", "rdstune", ".copy-", ".org.chromium", "org.chromium", "chromium", "page")
#: What was killed on purpose is cleaned up behind its back, by a process that takes a moment: this
#: many seconds are allowed for it.
PATIENCE = "MRTUNER_TESTS_PATIENCE"
_USUAL_PATIENCE = "8"
#: Where all these directories lie: the TMPDIR of whoever started the first of the processes.
BASE = "MRTUNER_TESTS_IN"
#: A machine with so much memory can spare what the tests of four workers write [bytes].
PLENTY = 16 * 2**30


def make() -> Path:
    """The directory, from now on the place of every temporary file; pytest's own stay outside."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    base = Path(os.environ.setdefault(BASE, os.environ.get("TMPDIR") or "/var/tmp"))
    remove_of_the_dead(base)
    made = Path(tempfile.mkdtemp(prefix=f"tests-{os.getpid()}-", dir=base))
    made.chmod(0o1777)
    _lie_in_memory(made)
    os.environ["TMPDIR"] = str(made)
    tempfile.tempdir = None
    return made


def _lie_in_memory(directory: Path) -> None:
    """Mount memory there; it stays on disk where that may not be, as in most containers."""
    plenty = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >= PLENTY
    if os.geteuid() == 0 and plenty and sys.platform == "linux":
        mount = ["mount", "-t", "tmpfs", "-o", "size=4g,mode=1777", "mrtuner-tests", str(directory)]
        subprocess.run(mount, check=False, stderr=subprocess.DEVNULL)


def remove_of_the_dead(base: Path) -> None:
    """Directories of sessions that were killed before they could clean up."""
    for path in base.glob("tests-*-*"):
        number = path.name.split("-")[1]
        if number.isdigit() and not Path("/proc", number).exists():
            remove(path)


def left_in(directory: Path) -> list[str]:
    """Names of what is ours and still there, after waiting for those who clean up."""
    deadline = time.monotonic() + float(os.environ.get(PATIENCE, _USUAL_PATIENCE))
    while (found := _ours(directory)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _ours(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.startswith(OURS))


def remove(directory: Path) -> None:
    """With all that is in it, ours or not."""
    if directory.is_mount():
        subprocess.run(["umount", "--lazy", str(directory)], check=False)
    shutil.rmtree(directory, ignore_errors=True)
