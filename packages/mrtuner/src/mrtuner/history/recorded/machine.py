"""The facts of a server's machine, read back from what machine.py recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from mrtuner.facts import Fact, Missing
from mrtuner.history.recording.machine import OF_RDS, UNREAD
from mrtuner.history.store.layout import last_value
from mrtuner.history.unchanged import while_same
from mrtuner.host.model import Host, HugePages, IoUring, VirtualMemory
from mrtuner.inputs import Storage
from mrtuner.units import Bytes

if TYPE_CHECKING:
    from mrtuner.aws.rows import Instance
    from mrtuner.history.reading import History

_SIZES: Final = ("allocated_storage", "iops", "storage_throughput")
#: The facts of one machine by name, as they were recorded last.
Facts = Mapping[str, Fact[str]]


def facts(history: History, instance: str, *, until: datetime | None = None) -> Facts:
    """Return the recorded facts of an instance's machine; empty if there are none.

    Each fact has its last value before `until`; if none was recorded by then, the first values
    count.
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
    """Return the facts of each instance's machine as last recorded."""
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
    """Return the machine that these facts describe; None if they do not describe one."""
    if not any(name in known for name in ("memory", "cpus", "kernel", "architecture")):
        return None
    scalars: dict[str, Any] = {
        name: Fact(read(known[name].value), known[name].source)
        for name, read in _SCALARS.items()
        if name in known
    }
    missing = tuple(
        Missing(name.removeprefix(UNREAD), fact.value, fact.source or None)
        for name, fact in known.items()
        if name.startswith(UNREAD)
    )
    return Host(
        **scalars,
        huge_pages=_nested(HugePages, "huge_pages", known),
        vm=_nested(VirtualMemory, "vm", known),
        io_uring=_nested(IoUring, "io_uring", known),
        missing=missing,
    )


_SCALARS: Final[Mapping[str, Callable[[str], Any]]] = {
    "memory": lambda text: Bytes(int(text)),
    "cpus": int,
    "architecture": str,
    "kernel": str,
    "storage": Storage,
    "filesystem": str,
    "disk_size": lambda text: Bytes(int(text)),
    "disk_free": lambda text: Bytes(int(text)),
    "swap": lambda text: Bytes(int(text)),
    "clock": str,
    "wal_size": lambda text: Bytes(int(text)),
    "wal_free": lambda text: Bytes(int(text)),
    "volume_iops": int,
    "volume_bandwidth": lambda text: Bytes(int(text)),
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
    """Return the RDS instance that these facts describe; None if they do not describe one."""
    if "class_name" not in known:
        return None
    from mrtuner.aws.rows import Instance

    text = {name: known[name].value for name in OF_RDS if name in known}
    whole = {name: int(text[name]) for name in _SIZES if name in text}
    return Instance(
        identifier=text.get("identifier", ""), arn="", resource_id=text.get("resource_id", ""),
        class_name=text["class_name"], engine=text.get("engine", ""),
        engine_version=text.get("engine_version", ""), status="", groups=(),
        multi_az=text.get("multi_az") == "True", storage_type=text.get("storage_type"),
        allocated_storage=whole.get("allocated_storage", 0), iops=whole.get("iops"),
        storage_throughput=whole.get("storage_throughput"),
    )  # fmt: skip
