"""The journal of rotations: one file a group, replaced in one piece and on disk at every step.

The journal of changes (mrtuner.change.journal) is about entries of a server's configuration; a
rotation has none. This one lies beside it. It never holds a password. One that was handed to a
store that cannot be asked lies in a file of its own beside it, for its owner only, until the
rotation has ended.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Final

from mrtuner import files
from mrtuner.change.journal import journal_directory
from mrtuner.errors import ApplyError
from mrtuner.rotate.model import Group, Rotation, Step

#: Files that hold a secret, or tell of one.
OWNER_ONLY: Final = 0o600


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
            files.replace(path, json.dumps(asdict(rotation), indent=1), mode=OWNER_ONLY)
        except OSError as error:
            raise _unusable(path, error) from error

    def keep(self, rotation: Rotation, password: str) -> None:
        """Keep the new role's password, before anybody gets it, until `forget`."""
        path = self._password(rotation, rotation.new)
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            files.replace(path, password, mode=OWNER_ONLY)
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
