"""The facts of a server's machine that `tune` and `limits` need, as a source.

Each fact is a row, stored when it changes, so that the store alone is enough to give advice and to
judge limits, even if the machine is gone (recorded_machine.py reads the facts back). An RDS
instance is described by what AWS says of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.facts import Fact
from mrtuner.history.recording.program import OwnProgram, Place, Rows
from mrtuner.host.model import Host

if TYPE_CHECKING:
    from mrtuner.aws.rows import Instance

_DECLARATION: Final = """
help = "The server's machine, if the recorder runs on it; for an RDS instance, its class and volume"
interval = "1h"
keep = "1826d"

[keys]
name = { help = "memory, cpus, storage, disk_size, …; for RDS: class_name, storage_type, …" }

[texts]
value = { help = "bytes, a number or a word; or why the fact could not be read" }
origin = { help = "where it was read" }
"""
#: Prefix of the names of facts that could not be read.
UNREAD: Final = "unread."
#: Fields of AWS's description of an instance.
OF_RDS: Final = (
    "identifier", "class_name", "engine", "engine_version", "allocated_storage", "storage_type",
    "iops", "storage_throughput", "multi_az", "resource_id",
)  # fmt: skip
_DESCRIBED: Final = "rds:DescribeDBInstances"


def _open(place: Place) -> Rows | None:
    """Return a function that reads the server's machine; None if it is not this one."""
    if place.postmaster is None:
        return None
    return partial(_read, place.postmaster, place.data_directory)


MACHINE: Final = OwnProgram(_DECLARATION, _open)


def _read(postmaster: int, data_directory: str | None) -> Iterable[Mapping[str, Any]]:
    from mrtuner.host import probe
    from mrtuner.host.tree import Tree

    directory = data_directory or Tree(pid=postmaster).working_directory()
    return rows_of_host(
        probe(pid=postmaster, data_directory=None if directory is None else Path(directory))
    )


def rows_of_host(host: Host) -> Iterator[dict[str, Any]]:
    """Yield a row for each fact of a machine, and for each that could not be read."""
    for field in fields(Host):
        fact = getattr(host, field.name)
        if not isinstance(fact, Fact):
            continue
        if is_dataclass(fact.value):
            for part in fields(fact.value):
                value = getattr(fact.value, part.name)
                if value is not None:
                    yield _row(f"{field.name}.{part.name}", value, fact.source)
        else:
            yield _row(field.name, fact.value, fact.source)
    for item in host.missing:
        yield _row(f"{UNREAD}{item.name}", item.why, item.option)


def rows_of_instance(instance: Instance) -> Iterator[dict[str, Any]]:
    """What AWS says of an instance, as rows."""
    for name in OF_RDS:
        value = getattr(instance, name)
        if value is not None:
            yield _row(name, value, _DESCRIBED)
    for group in instance.groups[:1]:
        yield _row("parameter_group", group.name, _DESCRIBED)


def _row(name: str, value: object, origin: str | None) -> dict[str, Any]:
    return {"name": name, "value": str(value), "origin": origin}
