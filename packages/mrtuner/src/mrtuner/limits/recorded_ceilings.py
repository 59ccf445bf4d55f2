"""The limits of a server's host as a source of the history, so that they can be judged later.

A program as `history.recording.program` describes it; the recording command adds it, since a
history knows nothing of limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final, Protocol

from mrtuner.host.tree import Tree
from mrtuner.limits.ceilings import Ceiling, Resource, sustained
from mrtuner.limits.host_ceilings import watched_host

_DECLARATION: Final = """
help = "Limits of the server's host: of its control groups, network interface, CPUs and memory"
interval = "10min"
keep = "1826d"

[keys]
resource = { help = "what is limited: write iops, cpu, network in, …" }
part = { help = "what limits it: cgroup, interface or server" }

[gauges]
value = { type = "float", help = "bytes or operations a second, per cent, bytes" }

[texts]
origin = { help = "the file that says so" }
note = { help = "more about the number" }
"""


class _Place(Protocol):
    """The part of a history's `Place` that is needed here."""

    @property
    def postmaster(self) -> int | None:
        """Process ID of the server on this host."""

    @property
    def data_directory(self) -> str | None:
        """Its data directory, if known."""


@dataclass(frozen=True, slots=True)
class _CeilingsProgram:
    declaration: str = _DECLARATION

    def open(self, place: _Place) -> Callable[[], Iterable[Mapping[str, Any]]] | None:
        """Find what limits this server; None if it runs elsewhere."""
        if place.postmaster is None:
            return None
        given = place.data_directory
        return partial(_read, Tree(pid=place.postmaster), PurePosixPath(given) if given else None)


CEILINGS: Final = _CeilingsProgram()


def _read(tree: Tree, data_directory: PurePosixPath | None) -> Iterable[Mapping[str, Any]]:
    # Nested groups may each limit the same resource: the lowest counts.
    lowest: dict[tuple[str, str], Ceiling] = {}
    for one in watched_host(tree, data_directory).ceilings:
        key = (one.resource, one.part)
        if key not in lowest or one.value < lowest[key].value:
            lowest[key] = one
    return rows_of(lowest.values())


def rows_of(known: Iterable[Ceiling]) -> Iterator[dict[str, Any]]:
    for one in known:
        yield {
            "resource": one.resource.value, "part": one.part, "value": one.value,
            "origin": one.source, "note": one.note,
        }  # fmt: skip


def ceilings_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Ceiling, ...]:
    """Rows of the source as ceilings; a resource that this version does not know is left out."""
    known = {resource.value for resource in Resource}
    return tuple(
        sustained(
            Resource(row["resource"]), row["part"], row["value"], row["origin"] or "",
            row["note"] or "",
        )
        for row in rows
        if row["resource"] in known and row["value"] is not None
    )  # fmt: skip
