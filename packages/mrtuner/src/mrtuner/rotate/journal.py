"""The journal of rotations: how far the latest rotation of each group has come, at every step.

It is kept in the journal of changes (mrtuner.change.journal), which never holds a password. A
password that is handed to a store that cannot be read back is kept in its own file next to the
journal, readable by its owner only, until the rotation has ended.
"""

from __future__ import annotations

from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from mrtuner import files
from mrtuner.change.journal import Journal, unusable
from mrtuner.rotate.model import BegunStep, RoleGroup, RotationState, RotationStep

#: For files that contain a secret, or refer to one.
OWNER_ONLY: Final = 0o600


class RotationJournal:
    """The latest rotation of each group of each server. Failures are raised as JournalError."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def last(self, server: str, address: str, group: str) -> RotationState | None:
        """Return the latest rotation of a group, finished or not; None if there is none."""
        try:
            contents = self.journal.kept(_name(server, address, group))
            return None if contents is None else _rotation(contents)
        except (ValueError, KeyError, TypeError) as error:
            raise unusable(self.journal.path, error) from error

    def write(self, rotation: RotationState) -> None:
        """Record a rotation; once this returns, its step survives a crash of the machine."""
        name = _name(rotation.server, rotation.address, rotation.group)
        self.journal.keep(name, asdict(rotation))

    def keep(self, rotation: RotationState, password: str) -> None:
        """Keep the new role's password until `forget`; called before it is handed out."""
        path = self._password(rotation, rotation.new)
        try:
            files.replace(path, password, mode=OWNER_ONLY)
        except OSError as error:
            raise unusable(path, error) from error

    def kept(self, rotation: RotationState) -> str | None:
        """Return the new role's password, if it was kept."""
        path = self._password(rotation, rotation.new)
        try:
            return path.read_text(encoding="utf-8") or None
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise unusable(path, error) from error

    def forget(self, rotation: RotationState) -> None:
        """Delete the kept passwords of the group's roles."""
        for role in RoleGroup(rotation.group).roles:
            path = self._password(rotation, role)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise unusable(path, error) from error

    def _password(self, rotation: RotationState, role: str) -> Path:
        key = "/".join((rotation.server, rotation.address, role))
        digest = sha256(key.encode()).hexdigest()[:16]
        return self.journal.directory / f"rotate-{digest}.password"


def _name(server: str, address: str, group: str) -> str:
    return f"rotation of {group} on {server} at {address}"


def _rotation(contents: dict[str, Any]) -> RotationState:
    step = RotationStep(contents.pop("step"))
    steps = tuple(BegunStep(RotationStep(one["step"]), one["at"]) for one in contents.pop("steps"))
    return RotationState(**contents, step=step, steps=steps)
