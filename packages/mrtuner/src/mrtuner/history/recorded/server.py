"""A server and its machine as recorded: for `tune`, without a connection.

What the recorder does not sample is reported as missing; it never counts as fine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from mrtuner.catalog.load import parameters
from mrtuner.catalog.parameter import Parameter
from mrtuner.errors import BadValue, UsageError
from mrtuner.facts import Fact, Missing
from mrtuner.history.analysis.peaks import peaks
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import History
from mrtuner.history.recorded.counters import counters
from mrtuner.history.recorded.machine import Facts, facts, host_of, instance_of
from mrtuner.history.store.layout import last_value
from mrtuner.history.store.opening import last_identity
from mrtuner.host.model import Host
from mrtuner.inputs import Storage
from mrtuner.postgres.model import Activity, Origin, Platform, Server, Setting, Slot
from mrtuner.postgres.platform import Clues, managed, platform
from mrtuner.units import Bytes, GiB

#: Our names for pg_settings.source; the file itself is not recorded.
_ORIGINS: Final[dict[str, Origin]] = {
    "environment variable": "environment",
    "configuration file": "file",
    "command line": "command line",
    "global": "role",
    "database": "database",
    "user": "role",
    "database user": "role",
    "override": "computed",
}
_AURORA: Final = "aurora"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What the store knows of a server; None where it knows nothing."""

    server: Server | None
    host: Host
    major: int | None  # known even if only AWS describes the instance
    notices: tuple[str, ...]


def recorded(history: History, about: HistoryPeriod) -> Recorded:
    """Return the server of an instance at the end of a period, with the peaks of the period."""
    known = facts(history, about.instance, until=about.end)
    server = _server(history, about, known)
    engine = instance_of(known)
    major = server.version_num // 10_000 if server else engine.major if engine else None
    notices: tuple[str, ...] = ()
    if server is None:
        notices = (
            "no setting of the server was recorded: its current settings are taken for the "
            "defaults",
            *([_platform({}, known).how] if engine else []),
        )
    return Recorded(
        notices=notices,
        server=server,
        host=machine_of(known),
        major=major or None,
    )


# The machine.


def machine(history: History, about: HistoryPeriod) -> Host:
    return machine_of(facts(history, about.instance, until=about.end))


def machine_of(known: Facts) -> Host:
    """Return the machine that these facts describe, from its kernel or else its class."""
    return host_of(known) or _host_of_class(known) or _no_host()


def _host_of_class(known: Facts) -> Host | None:
    """Return the machine of an RDS instance, from its class."""
    from mrtuner.catalog.classes import instance_class
    from mrtuner.formula.class_memory import class_memory

    instance = instance_of(known)
    if instance is None:
        return None
    try:
        found = instance_class(instance.class_name)
    except BadValue as error:  # newer than our table
        return _no_host(error.message)
    estimate = class_memory(found, instance.engine or "postgres")
    aurora = instance.engine.startswith(_AURORA)
    size = None if aurora else Bytes(instance.allocated_storage * GiB)
    return Host(
        memory=Fact(estimate.value, f"{found.name}: {estimate.source}"),
        cpus=Fact(found.vcpus, found.name),
        storage=None if aurora else Fact(Storage.EBS, "rds:DescribeDBInstances"),
        disk_size=Fact(size, "rds:DescribeDBInstances") if size else None,
        missing=_missing_storage("Aurora's storage is not a volume") if aurora else (),
    )


def _no_host(why: str | None = None) -> Host:
    """Return an unknown machine, with the options that supply the missing facts."""
    why = why or "it was not recorded: the recorder did not run on the server's host, or is older"
    return Host(
        missing=(
            Missing("memory", why, "--memory"), Missing("cpus", why, "--cpus"),
            *_missing_storage(why),
        )
    )  # fmt: skip


def _missing_storage(why: str) -> tuple[Missing, ...]:
    return Missing("storage", why, "--storage"), Missing("disk", why, "--disk")


# The server.


def _server(history: History, about: HistoryPeriod, known: Facts) -> Server | None:
    settings = {row["name"]: row for row in _last(history, about, "settings", _SETTINGS, "name")}
    version = _version(history, about, settings)
    if version is None or not settings:
        return None
    missing = list(_not_recorded())
    try:
        activity = peaks(history, about)
    except UsageError as error:
        missing.append(Missing("peaks", error.message, hint=error.hint))
        activity = _NOTHING
    typed = _settings(settings, version // 10_000)
    who = last_identity(history.db, about.instance)
    if who is None:
        missing.append(Missing("standby", "a copy of a store does not say whether it is one"))
    now = next(_last(history, about, "connections", ("clients", "active"), "instance"), {})
    counted = counters(history, about, typed, clients=now.get("clients") or 0)
    missing += counted.missing
    return Server(
        version_num=version,
        version=settings.get("server_version", {}).get("value") or str(version // 10_000),
        settings=typed,
        overrides=(),
        file_problems=(),
        platform=_platform(typed, known),
        standby=who is not None and who.standby,
        standbys=0,
        connections=now.get("clients") or 0,
        databases={
            row["database"]: Bytes(row["bytes"])
            for row in _last(history, about, "sizes", ("bytes",), "database")
            if row["bytes"] is not None
        },
        relations=(),
        extensions=(),
        activity=activity,
        data_directory=typed["data_directory"].setting if "data_directory" in typed else None,
        local_pid=None,
        superuser=False,
        slots=tuple(
            Slot(
                name=row["name"], kind=row["kind"], active=bool(row["active"]),
                status=row["status"],
                retained=None if row["retained"] is None else Bytes(row["retained"]),
            )
            for row in _last(history, about, "slots", ("kind", "active", "status", "retained"),
                             "name")
            if row["kind"] is not None
        ),
        active=now.get("active") or 0,
        slrus=counted.slrus,
        archiver=counted.archiver,
        jit=counted.jit,
        role_spills=counted.role_spills,
        missing=tuple(missing),
    )  # fmt: skip


_SETTINGS: Final = ("value", "unit", "origin", "pending")
_NOTHING: Final = Activity(
    window=0.0, wal_bytes=None, checkpoints_timed=None, checkpoints_requested=None,
    temp_files=None, temp_bytes=None, commits=None, backend_writes=None, clean_stops=None,
)  # fmt: skip


def _last(
    history: History, about: HistoryPeriod, source: str, columns: tuple[str, ...], key: str
) -> Iterator[dict[str, Any]]:
    """Yield the last row for each value of `key`, as of the end of the period."""
    if not history.has(source):
        return
    values = ", ".join(f'{last_value(name)} AS "{name}"' for name in columns)
    yield from history.rows(
        f"""SELECT {key}, {values} FROM {source}
            WHERE instance = $instance AND time <= $end GROUP BY {key} ORDER BY {key}""",
        {name: about.parameters[name] for name in ("instance", "end")},
    )


def _version(
    history: History, about: HistoryPeriod, settings: Mapping[str, Mapping[str, Any]]
) -> int | None:
    text = settings.get("server_version_num", {}).get("value")
    if text and text.isdecimal():
        return int(text)
    who = last_identity(history.db, about.instance)
    return None if who is None else who.version_num


def _settings(rows: Mapping[str, Mapping[str, Any]], major: int) -> dict[str, Setting]:
    """Settings as recorded, with what our catalogue knows of them."""
    known = parameters(major)
    return {
        name: _setting(name, row, known.get(name))
        for name, row in rows.items()
        if row["value"] is not None
    }


def _setting(name: str, row: Mapping[str, Any], of: Parameter | None) -> Setting:
    return Setting(
        name=name,
        setting=row["value"],
        unit=row["unit"],
        vartype=of.vartype if of else "string",
        context=of.context if of else "internal",
        boot_val=None,
        reset_val=row["value"],
        # The server's build options are not known, so words that depend on them are left out.
        enumvals=tuple(word for word in of.enum if word not in of.build) if of else (),
        pending_restart=bool(row["pending"]),
        origin=_ORIGINS.get(row["origin"] or "default", "default"),
        sourcefile=None,
        sourceline=None,
    )


def _platform(settings: Mapping[str, Setting], known: Facts) -> Platform:
    """Return who runs the server: from what AWS says, else from its settings alone."""
    instance = instance_of(known)
    if instance is None:
        return platform(Clues(settings=settings))
    name: Literal["aurora", "rds"] = "aurora" if instance.engine.startswith(_AURORA) else "rds"
    return managed(name, "rds:DescribeDBInstances")


def _not_recorded() -> Iterator[Missing]:
    """Yield what `tune` reads from a server but the recorder does not."""
    for name, why in (
        ("overrides", "ALTER ROLE … SET and ALTER DATABASE … SET are not recorded"),
        ("file_problems", "lines of the configuration files are not recorded"),
        ("relations", "thresholds of single tables are not recorded"),
    ):
        yield Missing(name, why, hint="mrtuner tune DSN --history DIR asks the server.")
