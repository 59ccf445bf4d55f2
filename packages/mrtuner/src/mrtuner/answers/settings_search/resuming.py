"""What must be as it was when a search goes on: versions, the machine, the server, its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrtuner import __version__
from mrtuner.answers.proof.loads import database_name
from mrtuner.errors import Refused, UsageError
from mrtuner.units import Bytes, pretty_bytes

if TYPE_CHECKING:
    from mrtuner.search.model import Search
    from mrtuner.search.space import Server
    from mrtuner.tuning import Tuning


def require_database(found: Search, copied: str | None) -> None:
    """Refuse to go on with other data than the search began with."""
    wanted = found.load.database
    if (wanted is None) is not (copied is None):
        raise UsageError(
            f"the search ran on {'pgbench tables' if wanted is None else f'a copy of {wanted}'}",
            "Leave the connection string out."
            if wanted is None
            else "Give the connection string of that database again: no record has it.",
        )
    if copied is not None and (name := database_name(copied)) != wanted:
        raise Refused(
            f"the search ran on a copy of {wanted}, not of {name}", "Give that database again."
        )


def require_same(found: Search, postgres: str, tuning: Tuning, server: str | None = None) -> None:
    """Refuse to go on with another version, on another server or on another machine."""
    cpus, memory = machine_of(tuning)
    begun = found.cpus is not None or found.memory is not None
    machine = (
        ("the number of CPUs", found.cpus or "unknown", cpus or "unknown"),
        ("the memory", _size(found.memory), _size(memory)),
    )
    changed = [
        f"{name} was {before}, is {now}"
        for name, before, now in (
            ("MrTuner", found.mrtuner, __version__), ("PostgreSQL", found.postgres, postgres),
            ("the server", found.load.server or "our own", server or "our own"),
            *(machine if begun else ()),
        )
        if before != now
    ]  # fmt: skip
    if changed:
        raise Refused(
            f"the search was begun otherwise: {'; '.join(changed)}",
            "Continue it there and with those, or begin another in a new directory.",
        )


def require_accepted(found: Search, known: Server) -> None:
    """Refuse a build that does not accept what the search has tried, or is to try."""
    searched = ({one.name: text} for one in found.searched for text in one.values)
    sides = (found.advice, *(one.settings for one in found.trials), *searched)
    refused = {
        name
        for side in sides
        for name, text in side.items()
        if text not in known.accepted.get(name, (text,))
    }
    if refused:
        raise Refused(
            f"this build of PostgreSQL does not accept every value of {', '.join(sorted(refused))}",
            "Continue with the build that the search began with: give it with --server-bin.",
        )


def machine_of(tuning: Tuning) -> tuple[int | None, int | None]:
    """Return CPUs and memory [bytes], each None if unknown."""
    known = tuning.situation
    return (
        None if known.cpus is None else known.cpus.count,
        None if known.memory is None else int(known.memory.size),
    )


def _size(memory: int | None) -> str:
    """Return memory in words: a kernel's update changes it by some kilobytes."""
    return "unknown" if memory is None else pretty_bytes(Bytes(memory))
