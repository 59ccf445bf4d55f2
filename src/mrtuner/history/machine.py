"""What a server's machine is, as a source: the facts that `tune` and `limits` ask for.

One row a fact, stored when it changes, so that advice can be given and limits can be judged from
the store alone, also for a machine that is gone. An instance of RDS is described by what AWS says
of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.facts import Fact, Missing
from mrtuner.history.program import Place, Rows
from mrtuner.history.store.layout import last_value
from mrtuner.history.unchanged import while_same
from mrtuner.host.model import Host, HugePages, VirtualMemory
from mrtuner.inputs import Storage
from mrtuner.units import Bytes

if TYPE_CHECKING:
    from mrtuner.aws.rows import Instance
    from mrtuner.history.reading import History

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
#: Before the names of facts that could not be read.
_UNREAD: Final = "unread."
#: Of AWS's row of an instance.
_OF_RDS: Final = (
    "identifier", "class_name", "engine", "engine_version", "allocated_storage", "storage_type",
    "iops", "storage_throughput", "multi_az", "resource_id",
)  # fmt: skip
_SIZES: Final = ("allocated_storage", "iops", "storage_throughput")
_DESCRIBED: Final = "rds:DescribeDBInstances"


@dataclass(frozen=True, slots=True)
class _MachineProgram:
    declaration: str = _DECLARATION

    def open(self, place: Place) -> Rows | None:
        """Read the machine that this server runs on; None if it is another one."""
        if place.postmaster is None:
            return None
        return partial(_read, place.postmaster, place.data_directory)


MACHINE: Final = _MachineProgram()


def _read(postmaster: int, data_directory: str | None) -> Iterable[Mapping[str, Any]]:
    from mrtuner.host import probe
    from mrtuner.host.tree import Tree

    directory = data_directory or Tree(pid=postmaster).working_directory()
    return rows_of_host(
        probe(pid=postmaster, data_directory=None if directory is None else Path(directory))
    )


def rows_of_host(host: Host) -> Iterator[dict[str, Any]]:
    """Each fact of a machine as a row, and each that could not be read."""
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
        yield _row(f"{_UNREAD}{item.name}", item.why, item.option)


def rows_of_instance(instance: Instance) -> Iterator[dict[str, Any]]:
    """What AWS says of an instance, as rows."""
    for name in _OF_RDS:
        value = getattr(instance, name)
        if value is not None:
            yield _row(name, value, _DESCRIBED)
    for group in instance.groups[:1]:
        yield _row("parameter_group", group.name, _DESCRIBED)


def _row(name: str, value: object, origin: str | None) -> dict[str, Any]:
    return {"name": name, "value": str(value), "origin": origin}


#: The facts of one machine by name, as they were recorded last.
Facts = Mapping[str, Fact[str]]


def facts(history: History, instance: str, *, until: datetime | None = None) -> Facts:
    """What the store has of an instance's machine; nothing where it was not recorded.

    Of several, the last before `until`; an instance that was not recorded until then has the first
    that was.
    """
    if not history.has("machine"):
        return {}
    return while_same(
        history, "machine", ("facts", instance), lambda: _known(history, instance, until),
        until=None if until is None else until.replace(tzinfo=None),
    )  # fmt: skip


def _known(history: History, instance: str, until: datetime | None) -> Facts:
    before = {} if until is None else {"until": until.replace(tzinfo=None)}
    known = _facts(history, last_value, "time < $until" if before else "true", instance, before)
    return known or _facts(history, _first_value, "true", instance, {})


def _facts(
    history: History, chosen: Callable[[str], str], where: str, instance: str,
    more: Mapping[str, Any],
) -> Facts:  # fmt: skip
    rows = history.rows(
        f"""SELECT name, {chosen("value")} AS value, {chosen("origin")} AS origin
            FROM machine WHERE instance = $instance AND {where} GROUP BY name ORDER BY name""",
        {"instance": instance, **more},
    )
    return {
        row["name"]: Fact(row["value"], row["origin"] or "")
        for row in rows
        if row["value"] is not None
    }


def facts_by_instance(history: History) -> dict[str, Facts]:
    """What the store has of each instance's machine, as it was recorded last."""
    if not history.has("machine"):
        return {}
    return history.kept("machine", "facts by instance", lambda: _facts_by_instance(history))


def _facts_by_instance(history: History) -> dict[str, Facts]:
    rows = history.latest(
        f"""SELECT instance, name, {last_value("value")}, {last_value("origin")}
            FROM machine WHERE time >= $begin AND time < $end GROUP BY instance, name""",
        "machine", 2, instance=None, end=datetime.max,
    )  # fmt: skip
    found: dict[str, dict[str, Fact[str]]] = {}
    for instance, name, value, origin in sorted(rows, key=lambda row: (row[0], str(row[1]))):
        if value is not None:
            found.setdefault(instance, {})[name] = Fact(value, origin or "")
    return dict(found)


def _first_value(column: str) -> str:
    return f"arg_min({column}, time)"


def host_of(known: Facts) -> Host | None:
    """The machine that these facts describe; None if they are none of a machine."""
    if not any(name in known for name in ("memory", "cpus", "kernel", "architecture")):
        return None
    scalars: dict[str, Any] = {
        name: None if (fact := known.get(name)) is None else Fact(read(fact.value), fact.source)
        for name, read in _SCALARS.items()
    }
    missing = tuple(
        Missing(name.removeprefix(_UNREAD), fact.value, fact.source or None)
        for name, fact in known.items()
        if name.startswith(_UNREAD)
    )
    return Host(
        **scalars,
        huge_pages=_nested(HugePages, "huge_pages", known),
        vm=_nested(VirtualMemory, "vm", known),
        missing=missing,
    )


_SCALARS: Final[Mapping[str, Callable[[str], Any]]] = {
    "memory": lambda text: Bytes(int(text)),
    "cpus": int,
    "architecture": str,
    "kernel": str,
    "storage": Storage,
    "disk_size": lambda text: Bytes(int(text)),
    "disk_free": lambda text: Bytes(int(text)),
    "swap": lambda text: Bytes(int(text)),
    "clock": str,
    "wal_size": lambda text: Bytes(int(text)),
    "wal_free": lambda text: Bytes(int(text)),
}


def _nested(kind: type[Any], name: str, known: Facts) -> Fact[Any] | None:
    """A fact that has parts, each in a row of its own."""
    parts = {
        field.name: known[f"{name}.{field.name}"]
        for field in fields(kind)
        if f"{name}.{field.name}" in known
    }
    if not parts:
        return None
    values = {
        part: int(fact.value) if fact.value.lstrip("-").isdigit() else fact.value
        for part, fact in parts.items()
    }
    return Fact(kind(**values), next(iter(parts.values())).source)


def instance_of(known: Facts) -> Instance | None:
    """The instance of RDS that these facts describe; None if they are none of one."""
    if "class_name" not in known:
        return None
    from mrtuner.aws.rows import Instance

    text = {name: known[name].value for name in _OF_RDS if name in known}
    whole = {name: int(text[name]) for name in _SIZES if name in text}
    return Instance(
        identifier=text.get("identifier", ""), arn="", resource_id=text.get("resource_id", ""),
        class_name=text["class_name"], engine=text.get("engine", ""),
        engine_version=text.get("engine_version", ""), status="", groups=(),
        multi_az=text.get("multi_az") == "True", storage_type=text.get("storage_type"),
        allocated_storage=whole.get("allocated_storage", 0), iops=whole.get("iops"),
        storage_throughput=whole.get("storage_throughput"),
    )  # fmt: skip
