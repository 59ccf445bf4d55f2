"""A parameter group as somebody wrote it down, whatever they wrote it in."""

from __future__ import annotations

from dataclasses import dataclass


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
    apply_type: str | None = None
    allowed: str | None = None
    modifiable: bool | None = None


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

    def at(self, line: int | None) -> str:
        """A place to jump to: ``main.tf:12``."""
        return self.source if line is None else f"{self.source}:{line}"
