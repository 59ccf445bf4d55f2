"""For tests of several rooms: directories that are made once per session, and files of a tree."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

#: Variable with the session's directory for this.
SHARED = "MRTUNER_TESTS_SHARED"


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """Return a directory that `make` has written, once per session; it must not be changed."""
    place = Path(os.environ[SHARED])
    made, unfinished = place / name, place / f"{name}-unfinished"
    with (place / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished)
            unfinished.rename(made)
    return made


def write(root: Path, path: str, text: object) -> None:
    """Write a file of a tree, with the directories that it needs."""
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")
