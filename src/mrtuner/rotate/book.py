"""The journal of rotations: one file a group, replaced in one piece and on disk at every step.

The house's journal (mrtuner.journal) is about entries of a server's configuration; a rotation has
none. This one lies beside it. It never holds a password: one that was lost is made anew.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from mrtuner.errors import ApplyError
from mrtuner.journal.store import journal_directory
from mrtuner.rotate.model import Rotation, Step


class Book:
    """The latest rotation of each group of each server."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = journal_directory(directory)

    def last(self, server: str, group: str) -> Rotation | None:
        """The latest rotation of a group, finished or not. ApplyError if it cannot be read."""
        path = self._path(server, group)
        try:
            return _rotation(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _unusable(path, error) from error

    def write(self, rotation: Rotation) -> None:
        """Once this returns, the step survives a crash of the machine."""
        path = self._path(rotation.server, rotation.group)
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(path, json.dumps(asdict(rotation), indent=1))
        except OSError as error:
            raise _unusable(path, error) from error

    def _path(self, server: str, group: str) -> Path:
        digest = sha256(f"{server}/{group}".encode()).hexdigest()[:16]
        return self.directory / f"rotate-{digest}.json"


def replace_file(path: Path, text: str) -> None:
    """Write a file that only its owner can read, in one piece, through to the disk."""
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.unlink(missing_ok=True)
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.replace(path)
    _sync(path.parent)


def _sync(directory: Path) -> None:
    file = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _rotation(text: str) -> Rotation:
    contents = json.loads(text)
    step, steps = Step(contents.pop("step")), tuple(contents.pop("steps"))
    return Rotation(**contents, step=step, steps=steps)


def _unusable(path: Path, error: Exception) -> ApplyError:
    reason = error.strerror if isinstance(error, OSError) else type(error).__name__
    return ApplyError(
        f"cannot use the journal {path}: {reason}",
        "Name another directory with --journal or MRTUNER_STATE_DIR.",
    )
