"""A parameter group as it is written in a file or stored in AWS."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

#: From this version on the major version is the first number alone.
_ONE_NUMBER: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEntry:
    """One parameter of a group.

    `apply_type`, `allowed` and `modifiable` are AWS's own description of the parameter: set where
    the group was read from AWS, None where it was read from a program.
    """

    name: str
    value: str | None  # None: only known when the program runs; `unknown` is its source text
    method: str | None = None  # immediate, pending-reboot; None where the format does not have it
    line: int | None = None
    unknown: str = ""
    either: tuple[str, ...] = ()  # possible values of an unknown value: a ternary's literals
    apply_type: str | None = None
    allowed: str | None = None
    modifiable: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """An instance or a cluster in the same file that uses the group."""

    name: str
    class_names: tuple[str, ...] = ()  # its class or possible classes; empty where unknown
    engine: str | None = None
    version: str | None = None
    line: int | None = None

    @property
    def family(self) -> str | None:
        """The family that its engine and version need; None where the file does not give it."""
        first, _, rest = (self.version or "").partition(".")
        if self.engine is None or not first.isdigit():
            return None
        old = int(first) < _ONE_NUMBER
        return f"{self.engine}{first}.{rest.partition('.')[0]}" if old else f"{self.engine}{first}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenGroup:
    """One group with its parameters, in the order in which they are written."""

    entries: tuple[GroupEntry, ...]
    source: str  # a file's name, or how AWS was queried
    name: str | None = None  # the group's, or the resource's where it has none of its own
    family: str | None = None  # postgres17; None where the text does not give it
    unknown_family: str = ""  # source text of a family that is only known when the program runs
    cluster: bool = False  # a DB cluster parameter group
    line: int | None = None
    unread: tuple[str, ...] = ()  # source texts that cannot be known without running the program
    users: tuple[User, ...] = ()
    terraform: bool = False  # managed by Terraform, which compares the values with AWS's


def together(classes: Collection[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the classes of a cluster's instances; none if any of them is unknown."""
    return tuple(dict.fromkeys(one for each in classes for one in each)) if all(classes) else ()
