"""From flags, a machine and a server to one `Situation`; flags win, contradictions are said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from mrtuner.catalog import MAJORS
from mrtuner.errors import BadValue, UsageError
from mrtuner.facts import Fact, Missing
from mrtuner.host.model import Storage
from mrtuner.tuning.advice import Given, Level, Notice
from mrtuner.tuning.situation import (
    USUAL_CEILING,
    BufferWrites,
    Clock,
    Connections,
    Cpus,
    Data,
    DeadRows,
    Disk,
    Memory,
    Situation,
    Spills,
    Wal,
    Workload,
)
from mrtuner.units import Bytes, MiB, parse_bytes, pretty_bytes

if TYPE_CHECKING:
    from mrtuner.host.model import Host
    from mrtuner.postgres.model import Activity, Relation, Server

T = TypeVar("T")
Choice = TypeVar("Choice", bound=StrEnum)

#: What is tuned for when nobody says which version.
NEWEST = 18
#: What x86-64 and arm64 can address, 52 bits, and what a file's offset can: no machine has more.
MOST_MEMORY = 2**52
MOST_DISK = 2**63 - 1
#: initdb's own databases take some 25 MB.
SOME_DATA = 256 * MiB
#: Tables with fewer rows than this are vacuumed in no time.
LARGE_TABLE = 1_000_000
#: More dead rows than this in a large table: autovacuum comes too late.
TOO_DEAD = 0.1
#: On a standby these may not be below the primary's, or it stops replaying.
FOLLOW_PRIMARY = (
    "max_connections",
    "max_worker_processes",
    "max_wal_senders",
    "max_prepared_transactions",
    "max_locks_per_transaction",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the caller says of the machine; None where nothing was said."""

    memory: Bytes | None = None
    cpus: int | None = None
    storage: Storage | None = None
    disk: Bytes | None = None
    data: Bytes | None = None
    workload: Workload | None = None
    connections: int | None = None
    postgres: int | None = None
    ceiling: float | None = None
    watched: bool = False  # the server's counters are of a window under load, not since their reset

    @property
    def describe_a_machine(self) -> bool:
        """Memory or CPUs given: another machine is meant, not this one."""
        return self.memory is not None or self.cpus is not None


def flags(
    *,
    memory: str | int | None = None,
    cpus: int | None = None,
    storage: str | None = None,
    disk: str | int | None = None,
    data: str | int | None = None,
    workload: str | None = None,
    connections: int | None = None,
    postgres: int | None = None,
    ceiling: float | None = None,
) -> Flags:
    """Check what a caller gave; BadValue names the bad one."""
    if postgres is not None and (not isinstance(postgres, int) or postgres not in MAJORS):
        raise BadValue(
            f"PostgreSQL {postgres!r} is not supported",
            f"MrTuner knows the majors {MAJORS[0]} to {MAJORS[-1]}.",
        )
    if ceiling is not None and not 0.1 <= ceiling <= 1:
        raise BadValue(f"ceiling {ceiling} is not a share", "Give a share from 0.1 to 1.")
    return Flags(
        memory=_sized("memory", memory, MOST_MEMORY),
        cpus=_counted("cpus", cpus, 4096),
        storage=None if storage is None else _one_of(Storage, "storage", storage),
        disk=_sized("disk", disk, MOST_DISK),
        data=_sized("data", data, MOST_DISK),
        workload=None if workload is None else _one_of(Workload, "workload", workload),
        connections=_counted("connections", connections, 262_143),
        postgres=postgres,
        ceiling=ceiling,
    )


def _sized(name: str, value: str | int | None, most: int) -> Bytes | None:
    if value is None:
        return None
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise BadValue(f"{name} {value!r} is not a size", "Give bytes or a text such as 16GB.")
    size = parse_bytes(value)
    if size < MiB:
        raise BadValue(
            f"{name} of {size} bytes cannot be meant", "Give a size with its unit, such as 16GB."
        )
    if size > most:
        raise BadValue(
            f"{name} {value!r} is more than there can be", f"Give at most {pretty_bytes(most)}."
        )
    return size


def _counted(name: str, value: int | None, most: int) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadValue(f"{name} {value!r} is not a whole number", f"Give one from 1 to {most}.")
    if not 1 <= value <= most:
        raise BadValue(f"{name} {value} is out of range", f"Give a number from 1 to {most}.")
    return value


def _one_of(kind: type[Choice], name: str, text: str) -> Choice:
    try:
        return kind(text.lower())
    except ValueError:
        known = ", ".join(kind)
        raise BadValue(f"unknown {name} {text!r}", f"Use one of {known}.") from None


@dataclass(slots=True)
class Gathered:
    """A situation, and what is to be told of how it came about."""

    situation: Situation
    given: list[Given] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)


@dataclass(slots=True)
class _Collector:
    """Merges a flag with a fact, and keeps account of both."""

    given: list[Given] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    said: set[str] = field(default_factory=set)  # names that a flag supplied

    def pick(self, name: str, said: T | None, found: Fact[T] | None) -> T | None:
        if said is not None:
            self.given.append(Given(name, _text(said), f"--{name}"))
            self.said.add(name)
            if found is not None and found.value != said:
                text = f"--{name} says {_text(said)}; {found.source} says {_text(found.value)}"
                self.notices.append(Notice(Level.WARNING, text))
            return said
        if found is not None:
            self.given.append(Given(name, _text(found.value), found.source))
            return found.value
        return None

    def assume(self, name: str, value: T) -> T:
        """What is taken where nobody says anything."""
        self.given.append(Given(name, _text(value), f"assumed; --{name} says otherwise"))
        return value


def _text(value: object) -> str:
    return pretty_bytes(value) if isinstance(value, int) and value > 65536 else str(value)


def described(said: Flags) -> Gathered:
    """A machine known from flags alone."""
    return _gather(said, None, None)


def this_machine(said: Flags, host: Host) -> Gathered:
    """The machine we run on, flags on top."""
    return _gather(said, host, None)


def live(said: Flags, server: Server, host: Host | None) -> Gathered:
    """A running server; `host` is its machine where that is known to be ours too."""
    if said.postgres is not None and said.postgres != server.major:
        raise UsageError(
            f"the server is PostgreSQL {server.version}, not {said.postgres}",
            "Leave --pg away: the server knows its version.",
        )
    if host and host.memory and said.memory and said.memory > host.memory.value:
        raise UsageError(
            f"--memory {pretty_bytes(said.memory)} is more than the "
            f"{pretty_bytes(host.memory.value)} this host has ({host.memory.source})",
            "Give what PostgreSQL may really use, or leave --memory away.",
        )
    return _gather(said, host, server)


def _gather(said: Flags, host: Host | None, server: Server | None) -> Gathered:
    collect = _Collector()
    memory = collect.pick("memory", said.memory, host.memory if host else None)
    cpus = collect.pick("cpus", said.cpus, host.cpus if host else None)
    storage = collect.pick("storage", said.storage, host.storage if host else None)
    size = collect.pick("disk", said.disk, host.disk_size if host else None)
    free = host.disk_free.value if host and host.disk_free else None
    data = collect.pick("data", said.data, _data(server))
    major = collect.pick("pg", said.postgres, _major(server)) or collect.assume("pg", NEWEST)
    workload = collect.pick("workload", said.workload, None)
    workload = workload or collect.assume("workload", Workload.MIXED)
    situation = Situation(
        major=major,
        workload=workload,
        connections=Connections(said.connections, server.connections if server else None),
        memory=Memory(memory) if memory else None,
        cpus=Cpus(cpus) if cpus else None,
        storage=storage,
        disk=None if size is None and free is None else Disk(size, free),
        data=Data(data) if data else None,
        clock=Clock(host.clock.value) if host and host.clock else None,
        ceiling=said.ceiling or (0.5 if workload is Workload.DESKTOP else USUAL_CEILING),
        **_observed(server, said.watched),
    )
    gathered = Gathered(situation, collect.given, collect.notices)
    gathered.missing = [
        *(item for item in (host.missing if host else ()) if item.name not in collect.said),
        *(server.missing if server else ()),
        *(_out_of_sight(situation) if server and host is None else ()),
    ]
    return gathered


def _out_of_sight(situation: Situation) -> list[Missing]:
    """SQL shows nothing of the machine below a server that runs elsewhere."""
    machine = {
        "memory": situation.memory,
        "cpus": situation.cpus,
        "storage": situation.storage,
        "disk": situation.disk,
    }
    why = "the server's machine cannot be seen from here"
    return [Missing(name, why, f"--{name}") for name, fact in machine.items() if fact is None]


def _data(server: Server | None) -> Fact[Bytes] | None:
    """An all but empty server says nothing of the data to come."""
    size = sum(server.databases.values()) if server else 0
    return Fact(Bytes(size), "pg_database_size of every database") if size >= SOME_DATA else None


def _major(server: Server | None) -> Fact[int] | None:
    return Fact(server.major, "server_version_num") if server else None


def _observed(server: Server | None, watched: bool) -> dict[str, Any]:
    """What a running server adds: its values, its build, its counters."""
    if server is None:
        return {}
    settings = server.settings.values()
    return {
        "running": {item.name: item.setting for item in settings},
        "origins": {item.name: item.origin for item in settings},
        "enum_values": {item.name: item.enumvals for item in settings if item.enumvals},
        "fixed": _fixed(server),
        "wal": _wal(server.activity, watched),
        "spills": _spills(server.activity),
        "dead_rows": _dead_rows(server.relations),
        "buffer_writes": _buffer_writes(server.activity),
    }


def _fixed(server: Server) -> dict[str, str]:
    fixed = {
        item.name: "set on the command line: left alone, only its starter can change it"
        for item in server.settings.values()
        if item.origin == "command line"
    }
    if server.standby:
        fixed |= dict.fromkeys(FOLLOW_PRIMARY, "a standby follows its primary: change it there")
    return fixed


def _wal(activity: Activity, watched: bool) -> Wal | None:
    timed, requested = activity.checkpoints_timed, activity.checkpoints_requested
    if activity.wal_bytes is None or timed is None or requested is None or activity.window <= 0:
        return None
    return Wal(activity.window, activity.wal_bytes, timed, requested, watched)


def _spills(activity: Activity) -> Spills | None:
    if activity.temp_files is None or activity.temp_bytes is None:
        return None
    return Spills(activity.window, activity.temp_files, activity.temp_bytes)


def _dead_rows(relations: Iterable[Relation]) -> DeadRows | None:
    large = [item for item in relations if item.live_rows + item.dead_rows >= LARGE_TABLE]
    late = [item for item in large if _share(item) > TOO_DEAD]
    if not late:
        return None
    worst = max(late, key=_share)
    return DeadRows(f"{worst.schema}.{worst.name}", _share(worst), len(late))


def _share(relation: Relation) -> float:
    return relation.dead_rows / (relation.live_rows + relation.dead_rows)


def _buffer_writes(activity: Activity) -> BufferWrites | None:
    if activity.clean_stops is None:
        return None
    return BufferWrites(activity.backend_writes or 0, activity.clean_stops, activity.window)
