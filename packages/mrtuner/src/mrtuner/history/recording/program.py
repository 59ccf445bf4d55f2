"""Sources in Python instead of SQL: the host of a server, and those of users' packages.

A program is an object with two members, found by the entry point group ``mrtuner.sources`` under
the name of its source:

- ``declaration``: the same TOML that a SQL file has at its head;
- ``open(place)``: called when a connection shows where the server runs, and again when it runs
  elsewhere or as another process; returns the function that is then called for each sample and
  returns its rows as mappings, or None where there is nothing to sample.

They are sampled in a thread of their own, which a server that hangs does not hold up. While the
server's process is gone, only programs with a true ``of_machine`` are sampled: they need the
machine alone. A crash or a restart of the server resets nothing that such a program counts, nor
one with a true ``own_counters``, which are the recorder's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Final, Protocol

from mrtuner.errors import BadValue
from mrtuner.history.recording.log.following import Log

#: Called for each sample; its rows by the names of the columns.
Rows = Callable[[], Iterable[Mapping[str, Any]]]
_GROUP: Final = "mrtuner.sources"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a server runs, as seen from here."""

    postmaster: int | None  # its process id; None on another machine
    data_directory: str | None  # None: the role may not see it
    earlier: Log | None = field(default=None, compare=False)  # what was read where it ran before

    @cached_property
    def log(self) -> Log | None:
        """The server's log, from the first look on. Raises MissingPart if it cannot be read."""
        return None if self.postmaster is None else Log.of(self.postmaster, self.earlier)

    def after(self, before: Place) -> Place:
        """Return this place, whose log is read on if it is that of the place before."""
        return replace(self, earlier=vars(before).get("log", before.earlier))


class Program(Protocol):
    """Samples a source that is not a query."""

    @property
    def declaration(self) -> str:
        """The source's head, in TOML."""

    def open(self, place: Place) -> Rows | None:
        """Return a function that samples a server at this place, or None if nothing can."""


@dataclass(frozen=True, slots=True)
class OwnProgram:
    """A program of this package."""

    declaration: str
    open: Callable[[Place], Rows | None]
    of_machine: bool = False


@cache
def programs() -> Mapping[str, Program]:
    """The programs of installed packages, by the name of their source.

    Raises:
        BadValue: one of them cannot be imported, or is not a program.
    """
    return dict(_loaded())


def _loaded() -> Iterator[tuple[str, Program]]:
    from importlib.metadata import entry_points

    for point in entry_points(group=_GROUP):
        try:
            found = point.load()
        except Exception as error:  # third-party code may raise anything
            raise _bad(point.name, f"{type(error).__name__}: {error}") from error
        if not isinstance(getattr(found, "declaration", None), str) or not callable(
            getattr(found, "open", None)
        ):
            raise _bad(point.name, f"{point.value} lacks a declaration or an open()")
        yield point.name, found


def _bad(name: str, why: str) -> BadValue:
    return BadValue(f"cannot load the source {name}: {why}", "See docs/how-to/record-history.md.")
