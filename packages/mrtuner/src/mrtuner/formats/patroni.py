"""Patroni: dynamic configuration for ``patronictl edit-config``.

Source: Patroni 4.1, docs/patroni_configuration.rst ("PostgreSQL parameters controlled by
Patroni") and patroni/postgresql/config.py, CMDLINE_OPTIONS.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from mrtuner.formats import manifest
from mrtuner.formats.line import Format, Line, divide

#: Set from listen, scope and the replication state, or forced on (not wal_log_hints in the newest
#: versions).
OWNED: Final = frozenset({
    "cluster_name", "hot_standby", "listen_addresses", "port", "primary_conninfo",
    "primary_slot_name", "wal_log_hints",
})  # fmt: skip
#: Shared memory: a replica with less than its primary cannot start.
SHARED: Final = (
    "max_connections", "max_locks_per_transaction", "max_prepared_transactions",
    "max_wal_senders", "max_worker_processes",
)  # fmt: skip
#: Below these Patroni silently replaces the value with its own default.
LEAST: Final = {
    "max_connections": 25,
    "max_locks_per_transaction": 32,
    "max_replication_slots": 4,
    "max_wal_senders": 3,
    "max_worker_processes": 2,
}

_PATH = ("postgresql", "parameters")


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return ``postgresql.parameters`` of the dynamic configuration."""
    ours, theirs = divide(lines, OWNED)
    ours, notes = accepted(ours)
    head = [
        title,
        "Apply: patronictl edit-config --apply FILE CLUSTER, then patronictl restart where needed.",
        *notes,
        *manifest.left_out(theirs, "Patroni"),
    ]
    document = {"postgresql": {"parameters": manifest.parameters(ours)}}
    return manifest.manifest(document, ours, head)


def accepted(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """Return the lines that Patroni, alone or in an operator, accepts, and the notes."""
    small = [line for line in lines if _too_small(line)]
    rest = [line for line in lines if line not in small]
    return rest, [*_shared_memory(rest), *(_least(line) for line in small)]


def _shared_memory(lines: Iterable[Line]) -> list[str]:
    """Return how to restart a cluster whose shared memory changes."""
    names = [line.name for line in lines if line.name in SHARED]
    if not names:
        return []
    return [
        f"{', '.join(names)}: stored once for the primary and its replicas. After an "
        "increase, restart the replicas before the primary; after a decrease, restart the "
        "primary first."
    ]


def _too_small(line: Line) -> bool:
    return line.value.isdecimal() and int(line.value) < LEAST.get(line.name, 0)


def _least(line: Line) -> str:
    return (
        f"Left out, Patroni would replace it with its default: {line.name} = {line.value}; "
        f"it takes {LEAST[line.name]} or more."
    )


def read(text: str) -> dict[str, str]:
    """Return ``postgresql.parameters`` of a dynamic configuration."""
    return manifest.values(manifest.load(text, _PATH))


FORMAT = Format(
    name="patroni",
    summary="Patroni: dynamic configuration for patronictl edit-config",
    write=write,
    read=read,
    container=True,
    orders_standbys=True,
)
