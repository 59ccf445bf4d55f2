"""Where a secret goes: the stores by name, and the three that need nothing else.

A store of another package is an entry point of the group `mrtuner.rotate.stores`: its name is the
scheme before the colon, its object a function that takes the text after it and gives a `Store`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from mrtuner.errors import ApplyError, UsageError
from mrtuner.rotate.book import replace_file

if TYPE_CHECKING:
    from mrtuner.rotate.model import Credential

ENTRY_POINTS: Final = "mrtuner.rotate.stores"
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):(\S+)")
_COMMAND_SECONDS: Final = 60


class Store(Protocol):
    """Where applications find their credential. No method may put a password into an error."""

    @property
    def readable(self) -> bool:
        """Whether `read` gives back what was written."""

    def write(self, credential: Credential) -> None:
        """Put it where applications read it, at once and as a whole. ApplyError if it fails."""

    def read(self) -> dict[str, Any] | None:
        """What is there, with at least username and password; None if nothing can be read."""

    def restore(self, username: str) -> bool:
        """Put back what was there before, if it is of that role; False if there is none."""


def store(named: str, out: TextIO) -> Store:
    """The store of `--to`: secretsmanager:ARN, file:PATH, stdout, a plug-in's, or a command.

    UsageError for a scheme that nobody offers.
    """
    if named == "stdout":
        return Stream(out)
    if named.startswith("file:"):
        return File(Path(named.removeprefix("file:")).expanduser())
    if not (match := _SCHEME.fullmatch(named)):
        return Command(_split(named))
    scheme, rest = match.groups()
    if scheme == "secretsmanager":
        from mrtuner.rotate.secretsmanager import Secret

        return Secret(rest)
    return _plugged_in(scheme, rest)


def absolute(named: str) -> str:
    """The same store from any directory, as the journal keeps it."""
    if not named.startswith("file:"):
        return named
    return f"file:{Path(named.removeprefix('file:')).expanduser().absolute()}"


def _plugged_in(scheme: str, rest: str) -> Store:
    offered = entry_points(group=ENTRY_POINTS)
    if scheme not in offered.names:
        known = ", ".join(f"{name}:" for name in ("secretsmanager", "file", *sorted(offered.names)))
        raise UsageError(
            f"no secret store is called {scheme!r}", f"Say stdout, a command, or one of {known}."
        )
    made: Store = offered[scheme].load()(rest)
    return made


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        raise UsageError("the command of --to cannot be read", "Quote it as for a shell.")
    return words


class File:
    """A file of JSON; what else is in it stays, and so do its owner and permissions.

    A new one only its owner can read. What it held before lies beside it as PATH.previous, for the
    way back; that is empty when there was no file. Of a symbolic link it is the file that it leads
    to.
    """

    readable = True

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.previous = self.path.with_name(f"{self.path.name}.previous")

    def write(self, credential: Credential) -> None:
        """Replace the file in one piece: a reader sees the old or the new."""
        try:
            before = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
            kept = json.loads(before) if before.strip() else {}
            text = json.dumps(credential.within(kept), indent=1)
            if kept.get("username") != credential.username:
                replace_file(self.previous, before)
            replace_file(self.path, text + "\n", self._status())
        except (OSError, ValueError, TypeError) as error:
            raise ApplyError(
                f"cannot write {self.path}: {_reason(error)}",
                "It has to be missing, or a JSON object in a directory that we may write to.",
            ) from None

    def read(self) -> dict[str, Any] | None:
        """The object in the file; None without one."""
        try:
            return _object(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def _status(self) -> os.stat_result | None:
        return self.path.stat() if self.path.exists() else None

    def restore(self, username: str) -> bool:
        """Put the previous file back in its place; remove this one if there was none."""
        try:
            text = self.previous.read_text(encoding="utf-8")
            if not text:
                self.path.unlink(missing_ok=True)
                return True
            if (_object(text) or {}).get("username") != username:
                return False
            replace_file(self.path, text, self._status())
        except (OSError, ValueError):
            return False
        return True


class Stream:
    """One line of JSON on a stream, for a person or a program that waits for it."""

    readable = False

    def __init__(self, out: TextIO) -> None:
        self.out = out

    def write(self, credential: Credential) -> None:
        """Write it and make sure that it is out."""
        self.out.write(json.dumps(credential.document()) + "\n")
        self.out.flush()

    def read(self) -> dict[str, Any] | None:
        """What is gone is gone."""
        return None

    def restore(self, username: str) -> bool:  # noqa: ARG002
        """What is gone is gone."""
        return False


class Command:
    """A program that reads the JSON from its standard input: no argument ever has a password."""

    readable = False

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def write(self, credential: Credential) -> None:
        """Run it. What it prints is not shown, because it may be what it was given."""
        given = json.dumps(credential.document()) + "\n"
        try:
            done = subprocess.run(
                self.words, input=given, text=True, capture_output=True, check=False,
                timeout=_COMMAND_SECONDS,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._failed(_reason(error)) from None
        if done.returncode != 0:
            raise self._failed(f"exit code {done.returncode}")

    def read(self) -> dict[str, Any] | None:
        """A command only takes."""
        return None

    def restore(self, username: str) -> bool:  # noqa: ARG002
        """A command only takes."""
        return False

    def _failed(self, reason: str) -> ApplyError:
        return ApplyError(
            f"{Path(self.words[0]).name} did not take the secret: {reason}",
            "The old credential still works. Mend the command, then run again.",
        )


def _object(text: str) -> dict[str, Any] | None:
    found = json.loads(text)
    return found if isinstance(found, dict) else None


def _reason(error: Exception) -> str:
    """Why, without what was being written."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it took more than {_COMMAND_SECONDS} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "it does not hold a JSON object"
