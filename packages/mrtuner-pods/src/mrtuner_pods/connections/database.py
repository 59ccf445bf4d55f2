"""What a database admits: max_connections, what is reserved, limits of roles and databases.

Source: postinit.c, InitPostgres: a session of an ordinary role is refused when fewer than
superuser_reserved_connections + reserved_connections places are free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Unpack

from mrtuner.catalog import parameters
from mrtuner.errors import BadValue
from mrtuner.facts import Fact
from mrtuner.postgres.reserved import OF_RDS, RESERVED
from mrtuner.tuning.gather import Flags, described, flags, live
from mrtuner.units import Bytes

if TYPE_CHECKING:
    from mrtuner.aws.session import Account
    from mrtuner.checks.state import ConnectionLimit
    from mrtuner.host.model import Host
    from mrtuner.inputs import MachineInputs
    from mrtuner.postgres.connect import Connection
    from mrtuner.postgres.model import Server
    from mrtuner.tuning.situation import Situation
    from mrtuner_pods.observed.model import OpenSessions

_SUPERUSERS: Final = "superuser_reserved_connections"
#: MAX_BACKENDS: 18 bits. Source: postmaster.h.
_MOST: Final = 2**18 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """The limits of a server, and what it would take to have more."""

    where: str
    max_connections: Fact[int]
    reserved: Mapping[str, Fact[int]]  # by parameter
    situation: Situation  # for the memory budget
    host: str | None = None  # by which applications may know it
    role_limits: Mapping[str, Fact[int]] = field(default_factory=dict)
    database_limits: Mapping[str, Fact[int]] = field(default_factory=dict)
    superusers: frozenset[str] = frozenset()
    privileged: frozenset[str] = frozenset()  # roles that may use reserved_connections
    open_now: int | None = None
    sessions: tuple[OpenSessions, ...] = ()  # open now, by application
    notes: tuple[str, ...] = ()

    def usable(self, roles: frozenset[str | None] = frozenset()) -> int:
        """The most sessions that max_connections admits for these roles together."""
        kept = sum(one.value for one in self.reserved.values())
        if roles and None not in roles and roles <= self.superusers:
            kept = 0
        elif roles and None not in roles and roles <= self.superusers | self.privileged:
            kept = self.reserved[_SUPERUSERS].value if _SUPERUSERS in self.reserved else 0
        return max(0, self.max_connections.value - kept)


def numbers(
    max_connections: int, *, reserved: int | None = None,
    role_limits: Mapping[str, int] | None = None, database_limits: Mapping[str, int] | None = None,
    **machine: Unpack[MachineInputs],
) -> Database:  # fmt: skip
    """Return a database described by numbers; `machine` is as for `mrtuner.tune`.

    By default, it reserves what its version does. Raises BadValue where the server would not start
    with them.
    """
    situation = described(flags(**machine)).situation
    if not 1 <= max_connections <= _MOST:
        raise BadValue(
            f"max_connections {max_connections} is out of range",
            f"PostgreSQL takes 1 to {_MOST:,}.",
        )
    kept = _defaults(situation.major)
    if reserved is not None:
        kept = {"reserved": Fact(reserved, f"--reserved {reserved}")}
    if sum(one.value for one in kept.values()) >= max_connections:
        raise BadValue(
            f"max_connections {max_connections} is not above what is reserved, "
            f"{sum(one.value for one in kept.values())}",
            "The server does not start with it; raise --max-connections or lower --reserved.",
        )
    return Database(
        where="--max-connections",
        max_connections=Fact(max_connections, f"--max-connections {max_connections}"),
        reserved=kept,
        situation=situation,
        role_limits=_facts(role_limits, "--role-limit"),
        database_limits=_facts(database_limits, "--database-limit"),
    )


def _facts(limits: Mapping[str, int] | None, option: str) -> dict[str, Fact[int]]:
    return {name: Fact(most, f"{option} {name}={most}") for name, most in (limits or {}).items()}


def _defaults(major: int) -> dict[str, Fact[int]]:
    known = parameters(major)
    return {
        name: Fact(int(known[name].default or 0), f"default of PostgreSQL {major}")
        for name in RESERVED
        if name in known
    }


def of_server(connection: Connection, said: Flags) -> Database:
    """Return the limits of a running server; ConnectError where it cannot be read."""
    from mrtuner.checks.state import ConnectionLimit
    from mrtuner.postgres.connect import translated
    from mrtuner.postgres.named_queries import Reader
    from mrtuner.postgres.read_server import read
    from mrtuner_pods.observed.activity import sessions_now

    server = read(connection)
    with translated():
        rows = Reader(connection, server.version_num).rows("connection_limits")
        sessions, doubts = sessions_now(connection)
    limits = [ConnectionLimit(**row) for row in rows]
    return replace(
        admitted(server, limits, live(said, server, _host(server)).situation),
        host=connection.info.host or None, sessions=sessions, notes=doubts,
    )  # fmt: skip


def admitted(server: Server, limits: Sequence[ConnectionLimit], situation: Situation) -> Database:
    """Return the limits of a server that was read."""
    return Database(
        where=f"PostgreSQL {server.version}",
        max_connections=Fact(
            int(server.settings["max_connections"].setting), "pg_settings: max_connections"
        ),
        reserved={
            name: Fact(int(server.settings[name].setting), f"pg_settings: {name}")
            for name in (*RESERVED, *OF_RDS)
            if name in server.settings
        },
        situation=situation,
        role_limits=_limited(limits, "role", "pg_roles: rolconnlimit"),
        database_limits=_limited(limits, "database", "pg_database: datconnlimit"),
        superusers=frozenset(one.name for one in limits if one.superuser),
        privileged=frozenset(one.name for one in limits if one.reserved),
        open_now=server.connections,
    )


def _limited(limits: Sequence[ConnectionLimit], kind: str, source: str) -> dict[str, Fact[int]]:
    return {
        one.name: Fact(one.most, source)
        for one in limits
        if one.kind == kind and one.most >= 0 and not one.superuser
    }


def _host(server: Server) -> Host | None:
    if server.local_pid is None:
        return None
    from mrtuner.host import probe

    return probe(pid=server.local_pid)


def of_instance(name: str, said: Flags, account: Account) -> Database:
    """Return the limits of an RDS instance, from its parameter group and the memory of its class.

    Raises AwsError where the instance or its group cannot be read.
    """
    from mrtuner.aws import rds
    from mrtuner.aws.session import client
    from mrtuner.catalog.classes import instance_class
    from mrtuner.catalog.families import family
    from mrtuner.formula.class_memory import class_memory

    service = client("rds", account)
    instance = rds.instance(service, name)
    group = instance.groups[0].name
    values = {one.name: one.value for one in rds.parameters(service, group)}
    kind = instance_class(instance.class_name)
    memory = class_memory(kind, instance.engine)
    machine = {"DBInstanceClassMemory": memory.low, "DBInstanceVCPU": kind.vcpus}
    major = instance.major
    own = family(f"{instance.engine}{major}").parameters
    by_default = {one: own[one].default for one in own} | {
        one: each.default for one, each in parameters(major).items() if one not in own
    }

    def value(parameter: str) -> Fact[int]:
        return _value(parameter, values.get(parameter), group, machine, by_default)

    reserved = {
        parameter: value(parameter) for parameter in (*RESERVED, *OF_RDS)
        if values.get(parameter) or by_default.get(parameter)
    }  # fmt: skip
    known = replace(said, memory=said.memory or Bytes(memory.low), cpus=said.cpus or kind.vcpus,
                    postgres=major)  # fmt: skip
    return Database(
        where=f"{name} ({instance.class_name})",
        host=instance.host,
        max_connections=value("max_connections"),
        reserved=reserved,
        situation=described(known).situation,
        notes=(
            f"DBInstanceClassMemory of {instance.class_name}: {memory}; its lower bound is used",
            *_waiting(name, group, instance.groups[0].status),
        ),
    )


def _waiting(name: str, group: str, status: str) -> Iterator[str]:
    if status != "in-sync":
        yield f"{name}: its group {group} is {status}: its values may not be in effect yet"


def _value(
    parameter: str, text: str | None, group: str, machine: Mapping[str, int],
    by_default: Mapping[str, Any],
) -> Fact[int]:  # fmt: skip
    from mrtuner.formula.rds_formula import parse

    if text:
        return Fact(parse(text).evaluate(machine), f"group {group}: {parameter} = {text}")
    default = str(by_default.get(parameter) or 0)
    return Fact(parse(default).evaluate(machine), f"default of RDS: {parameter} = {default}")
