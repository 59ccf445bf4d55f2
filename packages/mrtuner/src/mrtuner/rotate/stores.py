"""Stores for secrets: by name, and the three that need no other package.

Another package can add a store with an entry point in the group `mrtuner.rotate.stores`: its name
is the scheme before the colon, its object a function that takes the text after it and returns a
`Store`.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from mrtuner import files
from mrtuner.errors import ApplyError, UsageError
from mrtuner.rotate.journal import OWNER_ONLY

if TYPE_CHECKING:
    from mrtuner.rotate.model import Credential

ENTRY_POINTS: Final = "mrtuner.rotate.stores"
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):(\S+)")
_COMMAND_SECONDS: Final = 60


class Store(Protocol):
    """Where applications find their credential. Passwords must not appear in errors."""

    @property
    def readable(self) -> bool:
        """Whether `read` returns what was written."""

    def write(self, credential: Credential) -> None:
        """Put it where applications read it, atomically. ApplyError if it fails."""

    def read(self) -> dict[str, Any] | None:
        """Return the content, with at least username and password; None if it cannot be read."""

    def restore(self, username: str) -> bool:
        """Restore the previous content if it has that role; False if there is none."""


def check(where: Store) -> None:
    """Check in advance that a secret could be written to a store.

    A store may have a method `check` for that: it changes nothing and raises any problem.
    """
    if (own := getattr(where, "check", None)) is not None:
        own()


def store(named: str, out: TextIO) -> Store:
    """Return the store for `--to`: secretsmanager:ARN, file:PATH, stdout, a plug-in's, a command.

    Raises UsageError for an unknown scheme.
    """
    if named == "stdout":
        return Stream(out)
    if named.startswith("file:"):
        return FileStore(Path(named.removeprefix("file:")).expanduser())
    if not (match := _SCHEME.fullmatch(named)):
        return CommandStore(_split(named))
    scheme, rest = match.groups()
    if scheme == "secretsmanager":
        from mrtuner.rotate.secretsmanager import Secret

        return Secret(rest)
    return _plugged_in(scheme, rest)


def absolute(named: str) -> str:
    """Return the store's name as valid from any directory, for the journal."""
    if not named.startswith("file:"):
        return named
    return f"file:{Path(named.removeprefix('file:')).expanduser().absolute()}"


def _plugged_in(scheme: str, rest: str) -> Store:
    offered = entry_points(group=ENTRY_POINTS)
    if scheme not in offered.names:
        known = ", ".join(f"{name}:" for name in ("secretsmanager", "file", *sorted(offered.names)))
        raise UsageError(
            f"unknown secret store: {scheme!r}", f"Use stdout, a command, or one of {known}."
        )
    made: Store = offered[scheme].load()(rest)
    return made


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        raise UsageError("cannot parse the command of --to", "Quote it as in a shell.")
    return words


class FileStore:
    """A JSON file; other content in it is kept, and so are its owner and permissions.

    A new file is readable by its owner only. The previous content is kept beside it as
    PATH.previous, to be restored; that is empty if there was no file. For a symbolic link, the
    file that it points to is used.
    """

    readable = True

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.previous = self.path.with_name(f"{self.path.name}.previous")

    def check(self) -> None:
        """Raise ApplyError if it cannot be replaced, or contains something other than an object."""
        try:
            before, _ = self._before()
            files.try_replacing(self.path, before, self._access(), mode=OWNER_ONLY)
        except (OSError, ValueError) as error:
            raise self._unwritable(error) from None

    def write(self, credential: Credential) -> None:
        """Replace the file atomically: a reader sees the old or the new one."""
        try:
            before, kept = self._before()
            text = json.dumps(credential.within(kept), indent=1)
            if kept.get("username") != credential.username:
                files.replace(self.previous, before, mode=OWNER_ONLY)
            files.replace(self.path, text + "\n", self._access(), mode=OWNER_ONLY)
        except (OSError, ValueError) as error:
            raise self._unwritable(error) from None

    def read(self) -> dict[str, Any] | None:
        """Return the file's object, None if there is none. ApplyError when it cannot be read."""
        try:
            return _object(self.path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        except OSError as error:
            raise ApplyError(
                f"cannot read {self.path}: {_reason(error)}",
                "It shows which secret the applications have: make it readable, then run again.",
            ) from None

    def _before(self) -> tuple[str, dict[str, Any]]:
        """Return the text of the file and its object; ValueError if it is not an object."""
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        found = _object(text) if text.strip() else {}
        if found is None:
            raise ValueError
        return text, found

    def _unwritable(self, error: Exception) -> ApplyError:
        return ApplyError(
            f"cannot write {self.path}: {_reason(error)}",
            "It must be absent or a JSON object, in a writable directory.",
        )

    def _access(self) -> files.Access | None:
        return files.Access.of(self.path) if self.path.exists() else None

    def restore(self, username: str) -> bool:
        """Restore the previous file; remove the current one if there was none."""
        try:
            text = self.previous.read_text(encoding="utf-8")
            if not text:
                self.path.unlink(missing_ok=True)
                return True
            if (_object(text) or {}).get("username") != username:
                return False
            files.replace(self.path, text, self._access(), mode=OWNER_ONLY)
        except (OSError, ValueError):
            return False
        return True


class _Unread:
    """A store whose secret can neither be read back nor taken back."""

    readable = False

    def read(self) -> dict[str, Any] | None:
        return None

    def restore(self, username: str) -> bool:  # noqa: ARG002
        return False


class Stream(_Unread):
    """One line of JSON on a stream, for a person or a program that waits for it."""

    def __init__(self, out: TextIO) -> None:
        self.out = out

    def write(self, credential: Credential) -> None:
        try:
            self.out.write(json.dumps(credential.document()) + "\n")
            self.out.flush()
        except OSError as error:
            raise _not_taken("stdout", _reason(error)) from None


class CommandStore(_Unread):
    """A program that reads the JSON on its standard input: no argument contains a password."""

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def check(self) -> None:
        """Raise UsageError when the program does not exist or may not be run."""
        program = self.words[0]
        if shutil.which(program) is not None:
            return
        there = "/" in program and Path(program).exists()
        raise UsageError(
            f"--to: {program} is not {'executable' if there else 'a command'}",
            "Use a program on the PATH, or the path of an executable file.",
        )

    def write(self, credential: Credential) -> None:
        """Run the program. Its output is not shown, because it may contain the password."""
        given = json.dumps(credential.document()) + "\n"
        try:
            done = subprocess.run(
                self.words, input=given.encode(), stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, check=False, timeout=_COMMAND_SECONDS,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _not_taken(self._name, _reason(error)) from None
        if done.returncode != 0:
            raise _not_taken(self._name, f"exit code {done.returncode}")

    @property
    def _name(self) -> str:
        return Path(self.words[0]).name


def _not_taken(name: str, reason: str) -> ApplyError:
    """Return the error; whether the secret arrived anyway is unknown."""
    return ApplyError(
        f"{name} did not accept the secret: {reason}",
        "Whichever credential it has works, the old or the new one. Fix it, then run again: the "
        "same secret is handed out.",
    )


def _object(text: str) -> dict[str, Any] | None:
    found = json.loads(text)
    return found if isinstance(found, dict) else None


def _reason(error: Exception) -> str:
    """Return the reason, without what was being written."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it took more than {_COMMAND_SECONDS} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "it is not a JSON object"
