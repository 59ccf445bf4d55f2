"""A parameter group as somebody wrote it down, whatever they wrote it in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: From this version on the first number alone is the major version.
_ONE_NUMBER: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One parameter of a group.

    What AWS says of a parameter itself (`apply_type`, `allowed`, `modifiable`) is there where
    the group was read from AWS, and None in a program.
    """

    name: str
    value: str | None  # None: only known when the program runs; `unknown` is its text there
    method: str | None = None  # immediate, pending-reboot; None where the format has no place
    line: int | None = None
    unknown: str = ""
    either: tuple[str, ...] = ()  # what an unknown value may be: a ternary's literals
    apply_type: str | None = None
    allowed: str | None = None
    modifiable: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """An instance or a cluster of the same file that is given the group."""

    name: str
    class_names: tuple[str, ...] = ()  # what its class is, or may be; none where that is unknown
    engine: str | None = None
    version: str | None = None
    line: int | None = None

    @property
    def family(self) -> str | None:
        """The family that its engine and version need; None where the file does not say it."""
        first, _, rest = (self.version or "").partition(".")
        if self.engine is None or not first.isdigit():
            return None
        old = int(first) < _ONE_NUMBER
        return f"{self.engine}{first}.{rest.partition('.')[0]}" if old else f"{self.engine}{first}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenGroup:
    """One group with its parameters, in the order in which they stand."""

    entries: tuple[Entry, ...]
    source: str  # a file's name, or how AWS was asked
    name: str | None = None  # the group's, or the resource's where it has none of its own
    family: str | None = None  # postgres17; None where the text does not say it
    cluster: bool = False  # a DB cluster parameter group
    line: int | None = None
    unread: tuple[str, ...] = ()  # what stands there and cannot be known without running it
    users: tuple[User, ...] = ()

    def at(self, line: int | None) -> str:
        """A place to jump to: ``main.tf:12``."""
        return self.source if line is None else f"{self.source}:{line}"
