"""The journal of rotations: one file a group, replaced in one piece and on disk at every step.

The house's journal (mrtuner.journal) is about entries of a server's configuration; a rotation has
none. This one lies beside it. It never holds a password. One that was handed to a store that cannot
be asked lies in a file of its own beside it, for its owner only, until the rotation has ended.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from errno import EISDIR
from hashlib import sha256
from pathlib import Path
from stat import S_IMODE

from mrtuner.change.journal import journal_directory
from mrtuner.errors import ApplyError
from mrtuner.rotate.model import Group, Rotation, Step


class RotationJournal:
    """The latest rotation of each group of each server."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = journal_directory(directory)

    def last(self, server: str, address: str, group: str) -> Rotation | None:
        """The latest rotation of a group, finished or not. ApplyError if it cannot be read."""
        path = self._path(server, address, group)
        try:
            return _rotation(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _unusable(path, error) from error

    def write(self, rotation: Rotation) -> None:
        """Once this returns, the step survives a crash of the machine."""
        path = self._path(rotation.server, rotation.address, rotation.group)
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(path, json.dumps(asdict(rotation), indent=1))
        except OSError as error:
            raise _unusable(path, error) from error

    def keep(self, rotation: Rotation, password: str) -> None:
        """Keep the new role's password, before anybody gets it, until `forget`."""
        path = self._password(rotation, rotation.new)
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(path, password)
        except OSError as error:
            raise _unusable(path, error) from error

    def kept(self, rotation: Rotation) -> str | None:
        """The new role's password, if it was kept."""
        path = self._password(rotation, rotation.new)
        try:
            return path.read_text(encoding="utf-8") or None
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise _unusable(path, error) from error

    def forget(self, rotation: Rotation) -> None:
        """Remove the passwords that are kept of the group's roles."""
        for role in Group(rotation.group).roles:
            path = self._password(rotation, role)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise _unusable(path, error) from error

    def _path(self, *which: str, kind: str = "json") -> Path:
        digest = sha256("/".join(which).encode()).hexdigest()[:16]
        return self.directory / f"rotate-{digest}.{kind}"

    def _password(self, rotation: Rotation, role: str) -> Path:
        return self._path(rotation.server, rotation.address, role, kind="password")


def replace_file(path: Path, text: str, like: os.stat_result | None = None) -> None:
    """Write a file in one piece, through to the disk; with the owner and permissions of `like`,
    else only its owner can read it. OSError, and nothing is left behind.
    """
    _written_beside(path, text, like).replace(path)
    _sync(path.parent)


def try_replacing(path: Path, text: str, like: os.stat_result | None = None) -> None:
    """Do all of `replace_file` but the replacing. OSError where that could not be done."""
    if path.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(path))
    _written_beside(path, text, like).unlink()


def _written_beside(path: Path, text: str, like: os.stat_result | None) -> Path:
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.unlink(missing_ok=True)
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            if like is not None:
                _admit(file, like)
            stream.write(text)
            stream.flush()
            os.fsync(file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return unfinished


def _admit(file: int, like: os.stat_result) -> None:
    """Let the same read it as before: an application is often another user."""
    now = os.fstat(file)
    if (now.st_uid, now.st_gid) != (like.st_uid, like.st_gid):
        os.fchown(file, like.st_uid, like.st_gid)
    os.fchmod(file, S_IMODE(like.st_mode))


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
