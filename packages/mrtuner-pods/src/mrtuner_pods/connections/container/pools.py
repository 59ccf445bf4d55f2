"""The pools of one container: as set by its options, environment and framework.

In order of precedence: what the caller says, the connection string, the framework's own variable,
a variable that is named like a pool, the framework's default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl

from mrtuner.errors import BadValue
from mrtuner.facts import Fact, Missing
from mrtuner.wording import enumerated
from mrtuner_pods.connections.container.applications import (
    file_of,
    framework_of,
    is_assumed,
    processes,
    said_threads,
    serving,
    threads,
)
from mrtuner_pods.connections.container.clients import (
    OF_A_DATABASE,
    is_no_client,
    is_something_else,
)
from mrtuner_pods.connections.container.connection_string import (
    ConnectionString,
    parsed,
)
from mrtuner_pods.connections.container.container import (
    Container,
    Environment,
    is_of_image,
    matches,
    option,
    option_of_program,
    variable,
    whole,
)
from mrtuner_pods.connections.given import Given, Uncounted
from mrtuner_pods.connections.model import Count, Pool
from mrtuner_pods.frameworks import AppServer, Framework, PoolDefault, uncounted

#: Variables that an application itself reads for its pool; their names are all we know of them.
_POOL: Final = re.compile(
    r"(?=.*(^|_)(DB|DATABASE|PG|POSTGRES\w*|SQL\w*|HIKARI|DATASOURCE)(_|$)).*"
    r"(^|_)(POOL|POOL_?SIZE|POOL_MAX|MAX_POOL|MAX_POOL_SIZE|MAXIMUM_POOL_?SIZE|POOL_MAX_SIZE"
    r"|MAX_OPEN_CONNS?|MAX_OPEN_CONNECTIONS|MAX_CONNS|MAX_CONNECTIONS|CONNECTION_LIMIT)$",
    re.IGNORECASE,
)
_PGBOUNCERS_PORT: Final = "6432"
_POOLER: Final = re.compile(r"pgbouncer|pooler|pgcat|odyssey|supavisor|\.proxy-", re.IGNORECASE)
#: Variables that cannot hold the size of a pool, wherever their values come from.
_NO_POOL: Final = re.compile(
    r"(PASSWORD|PASSWD|PASS|PWD|USER|USERNAME|HOST|HOSTNAME|PORT|NAME|_DATABASE|_DB|SSLMODE|CA|CERT"
    r"|KEY)$",
    re.IGNORECASE,
)
_HOST: Final = re.compile(r"(^|_)(?:DB)?(HOST|HOSTNAME|SERVER|ADDR)$", re.IGNORECASE)


@dataclass(slots=True)
class Found:
    """What was found in a container, or why nothing was."""

    pools: list[Pool] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unjudged: list[Missing] = field(default_factory=list)


def pools(container: Container, given: Given) -> Found:
    """Return the pools of a container; none, with a note, if nothing shows a database.

    Where there is a database and the size of the pool cannot be known, that is not judged.
    """
    found = Found()
    said = container.said(given.pool, "--pool")
    named = container.said(given.framework, "--framework")
    strings = {
        name: string
        for name, one in container.environment.items()
        if one.value and (string := parsed(one.value)) is not None
    }
    if said is None and named is None:
        for application in uncounted():
            if is_of_image(container.image, application.images) or any(
                matches(name, sign) for sign in application.signs for name in container.environment
            ):
                hint = f"--pool {container.workload}=N counts it"
                why = f"it is {application.title}: {application.why}"
                found.unjudged.append(_missing(container, why, hint))
                return found
        if is_no_client(container, strings):
            _tell_uncounted(container, found)
            return found
    manager = next((one.manager for one in container.started if one.manager), None)
    if manager is not None and said is None:
        why = f"{manager} starts several processes, which a file that is not here lists"
        hint = f"--pool {container.workload}=N counts all of them"
        found.unjudged.append(_missing(container, why, hint))
        return found
    serving_now: list[tuple[AppServer | None, Container]] = [*serving(container)]
    for server, one in serving_now or [(None, container)]:
        if server is not None and not server.client:
            continue
        known, version = framework_of(one, server, strings, named)
        try:
            for main in _mains(strings):
                case = _Case(
                    container=one, given=given, found=found, server=server, known=known,
                    version=version, strings=strings, main=main,
                    threads=threads(one, server, given),
                )  # fmt: skip
                found.pools.append(_pool(case))
                if named is None and not _is_told(case) and is_assumed(one, server, strings, known):
                    found.unjudged.append(_assumed(case))
        except Uncounted as unknown:
            hint = (unknown.hint or "").removesuffix(".").replace("Give ", "give ")
            found.unjudged.append(_missing(container, unknown.message, hint))
        if server is not None and server.note:
            found.notes.append(f"{server.title}: {server.note}")
        _tell(container, known, found)
    return found


def _pool(case: _Case) -> Pool:
    container, given = case.container, case.given
    size, overflow = _size(case)
    chosen = case.string or ConnectionString()
    return Pool(
        container=container.name,
        processes=processes(container, case.server, given),
        databases=_databases(case),
        size=size,
        overflow=overflow,
        threads=case.threads,
        framework=case.known.title if case.known else None,
        role=chosen.user or _libpq(container, "PGUSER") or given.role,
        database=chosen.database or _libpq(container, "PGDATABASE") or given.dbname,
        host=chosen.host or _host(container),
        application=_application(chosen) or _libpq(container, "PGAPPNAME"),
        starts_first=container.starts_first,
        pgbouncer=_leads_to_a_pooler(chosen, container),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One container with everything that its pool may depend on."""

    container: Container
    given: Given
    found: Found
    server: AppServer | None
    known: Framework | None
    version: str | None
    strings: Mapping[str, ConnectionString]  # by variable
    main: str | None  # the variable with the application's own connection string
    threads: Fact[int] | None

    @property
    def string(self) -> ConnectionString | None:
        return self.strings.get(self.main or "")

    @property
    def default(self) -> PoolDefault | None:
        return self.known.default(self.version) if self.known else None


def _leads_to_a_pooler(string: ConnectionString, container: Container) -> bool:
    """Whether a connection string says so, or its host's name or port does."""
    port = string.port or _libpq(container, "PGPORT")
    host = string.host or _host(container) or ""
    said = string.parameters.get("pgbouncer") == "true"
    return said or port == _PGBOUNCERS_PORT or _POOLER.search(host) is not None


def _tell_uncounted(container: Container, found: Found) -> None:
    """Note an uncounted container; warn if an object that is missing may name its database."""
    elsewhere = () if is_something_else(container) else (*container.absent, *container.files)
    absent = f", and {enumerated(elsewhere)} is not available" if elsewhere else ""
    said = (
        f"{container.where}: container {container.name} is not counted: nothing shows that "
        f"it uses PostgreSQL{absent}; --pool {container.workload}=N counts it"
    )
    (found.warnings if absent else found.notes).append(said)
    if absent:
        found.unjudged.append(_hidden(container, elsewhere))


def _missing(container: Container, why: str, hint: str) -> Missing:
    return Missing(f"{container.workload}, container {container.name}", why, hint=hint)


def _assumed(case: _Case) -> Missing:
    """A pool that is counted, but only its program's language suggests it."""
    container, title = case.container, case.known.title if case.known else ""
    why = f"only its runtime suggests {title}, and others have other pools"
    return _missing(
        container, why, f"--framework {container.workload}=NAME, or --pool {container.workload}=N"
    )


def _is_told(case: _Case) -> bool:
    return case.container.said(case.given.pool, "--pool") is not None or _told(case) is not None


def _hidden(container: Container, sources: Sequence[str]) -> Missing:
    """What is not known of a container whose variables are partly elsewhere."""
    why = f"{enumerated(sources)} may hold its connections, and is not available"
    return _missing(container, why, f"add it, or --pool {container.workload}=N")


def _libpq(container: Container, name: str) -> str | None:
    found = container.environment.get(name)
    return (found.value or None) if found is not None else None


def _application(string: ConnectionString) -> str | None:
    named = ("application_name", "applicationname", "application name")
    return next((string.parameters[one] for one in named if one in string.parameters), None)


def _mains(strings: Mapping[str, ConnectionString]) -> list[str | None]:
    """For each server that is named, the variable with its first, or best known, string."""
    names = sorted(strings, key=lambda name: name not in {"DATABASE_URL", "SPRING_DATASOURCE_URL"})
    first = {strings[name].host: name for name in reversed(names)}
    return [*reversed(first.values())] or [None]


def _host(container: Container) -> str | None:
    """The server that a variable of its own names."""
    for name, one in container.environment.items():
        if one.value and (name == "PGHOST" or _HOST.search(name)) and OF_A_DATABASE.search(name):
            return one.value
    return None


def _databases(case: _Case) -> Fact[int]:
    said = case.container.said(case.given.databases, "--databases")
    if said is not None:
        return said
    if case.main is None:
        return Fact(1, "one database")
    host = case.strings[case.main].host
    same = {one.database: name for name, one in case.strings.items() if one.host == host}
    return Fact(len(same), " and ".join(sorted(same.values())))


# The size of the pool.


def _size(case: _Case) -> tuple[Fact[Count], Fact[int]]:
    overflow = case.container.said(case.given.overflow, "--overflow")
    told = case.container.said(case.given.pool, "--pool")
    if told is not None:
        return Fact(told.value, told.source), overflow or Fact(0, "--pool counts all")
    chosen = _told(case)
    overflow = overflow or _overflow(case)
    size = _default(case) if chosen is None else _number(chosen, case.known)
    size, overflow = _by_threads(case, size, overflow)
    if overflow.value < 0:  # SQLAlchemy: -1 is no limit
        return Fact(None, overflow.source), Fact(0, overflow.source)
    if size.value is None:
        overflow = Fact(0, size.source)
    _warn_of_few(case, size, overflow)
    return size, overflow


def _by_threads(
    case: _Case, size: Fact[Count], overflow: Fact[int]
) -> tuple[Fact[Count], Fact[int]]:
    """A pool that opens on demand has no more than its threads use at once.

    Threads that nobody said do not bind: a server's own configuration file may say more.
    """
    threads, known = said_threads(case.container, case.server, case.given), case.known
    if threads is None or known is None or not known.on_demand or size.value is None:
        return size, overflow
    most = size.value + max(overflow.value, 0)
    if overflow.value >= 0 and threads.value >= most:
        return size, overflow
    allowed = "any number" if overflow.value < 0 else str(most)
    why = f"one for each thread: {threads.source}; the pool allows {allowed} ({size.source})"
    return Fact(threads.value, why), Fact(0, why)


def _told(case: _Case) -> Fact[str] | None:
    """What the container itself says: its connection string before its variables."""
    in_string = _in_string(case)
    environment, known = case.container.environment, case.known
    told = None
    if known is not None and case.server is not None:
        told = option(case.container, case.server, known.options)
    if known is not None and told is None:
        told = option_of_program(case.container, known.options)
        told = told or _of_query(variable(environment, known.variables), known)
    told = told or _named_like_a_pool(environment)
    if in_string is not None and told is not None and in_string.value != told.value:
        case.found.warnings.append(
            f"{in_string.source}={in_string.value} takes precedence over {told.value} of "
            f"{told.source}"
        )
    return in_string or told


def _in_string(case: _Case) -> Fact[str] | None:
    string, default = case.string, case.default
    if string is None or case.main is None or case.known is None:
        return None
    source = case.container.environment[case.main].source
    pooling = string.parameters.get("pooling", "").lower()
    if case.known.name == "npgsql" and pooling in {"false", "no"}:
        return Fact("0", f"{source}: pooling=false")
    # Without a version, what is there counts: nobody writes a parameter that has no effect.
    own = default.parameters if default is not None and case.version is not None else None
    for name in case.known.parameters if own is None else own:
        if name in string.parameters:
            return Fact(string.parameters[name], f"{source}: {name}")
    return None


def _of_query(told: Fact[str] | None, known: Framework) -> Fact[str] | None:
    """A variable's value; of the end of a connection string (``?pool=50``), its parameter."""
    if told is None or not told.value.startswith("?"):
        return told
    parameters = dict(parse_qsl(told.value[1:]))
    found = next((parameters[name] for name in known.parameters if name in parameters), None)
    return None if found is None else Fact(found, told.source)


def _named_like_a_pool(environment: Environment) -> Fact[str] | None:
    for name, told in environment.items():
        if told.value and _POOL.fullmatch(name):
            return Fact(told.value, f"{told.source}, by its name")
    return None


def _overflow(case: _Case) -> Fact[int]:
    known, default = case.known, case.default
    for name, one in case.container.environment.items():
        if known and one.value and any(name.endswith(end) for end in known.overflow):
            told = Fact(one.value, f"{one.source}, by its name")
            return Fact(whole(told, -1), told.source)
    if known is None or default is None or not default.overflow:
        return Fact(0, "no overflow")
    return Fact(
        default.overflow, f"default of {known.title} since {default.since} ({default.source})"
    )


def _number(told: Fact[str], known: Framework | None) -> Fact[Count]:
    number = whole(told, -1)
    if number > 0:
        return Fact(number, told.source)
    if known is not None and number in known.no_limit:
        return Fact(None, f"{told.source}={told.value}: no limit")
    raise BadValue(f"{told.source}: a pool of {number}", "Give a number above zero.")


def _default(case: _Case) -> Fact[Count]:
    """What the framework does by default; BadValue if that is unknown."""
    known, default, container = case.known, case.default, case.container
    if sources := (*container.absent, *_without_value(container)):
        case.found.unjudged.append(_hidden(container, sources))
    if known is None or default is None:
        raise _unknown(container)
    if case.version is None and len({one.rule for one in known.defaults}) > 1:
        why = f"the pool of {known.title} depends on its version, which is not known"
        name = container.workload
        hint = f"--framework {name}={known.name}:VERSION, or --pool {name}=N"
        case.found.unjudged.append(_missing(container, why, hint))
    version = case.version or f"since {default.since}"
    source = f"default of {known.title} {version} ({default.source})"
    match default.rule:
        case "fixed":
            return Fact(default.size, source)
        case "unbounded":
            return Fact(None, source)
        case "per cpu":
            return _by_cpus(case, known, default, source)
    if case.threads is not None:
        _require_threads(case)
        return Fact(case.threads.value, f"one per thread: {case.threads.source}; {default.source}")
    if case.server is None:
        raise Uncounted(
            f"{container.where}: {known.title} opens a connection per thread, and the threads of "
            f"container {container.name} are not known",
            f"Give --threads {container.workload}=N.",
        )
    return Fact(None, f"one for each request in progress, on an event loop; {source}")


def _require_threads(case: _Case) -> None:
    """Refuse a server's usual threads where a file that is not here may say more."""
    if case.server is None or said_threads(case.container, case.server, case.given) is not None:
        return
    if (file := file_of(case.container, case.server)) is not None:
        raise Uncounted(
            f"{case.container.where}: the threads of container {case.container.name} are in "
            f"{file.value}, which is not here",
            f"Give --threads {case.container.workload}=N.",
        )


def _by_cpus(case: _Case, known: Framework, default: PoolDefault, source: str) -> Fact[Count]:
    cpus, container = case.given.node_cpus, case.container
    if cpus is None:
        raise Uncounted(
            f"{container.where}: the pool of {known.title} depends on the CPUs of the node",
            f"Give --node-cpus N, or --pool {container.workload}=N.",
        )
    size = max(default.least, default.times * cpus + default.size)
    return Fact(size, f"--node-cpus {cpus}, {source}")


def _unknown(container: Container) -> Uncounted:
    named = [name for name in container.environment if OF_A_DATABASE.search(name)]
    has = f" has {named[0]}, but" if named else ""
    has = has or (f": {container.evidence}; it" if container.evidence else "")
    return Uncounted(
        f"{container.where}: container {container.name}{has} shows neither its framework nor its "
        "pool",
        f"Give --framework {container.workload}=NAME (rails, django, hikaricp and others), or "
        f"--pool {container.workload}=N; 0 if it has none.",
    )


def _warn_of_few(case: _Case, size: Fact[Count], overflow: Fact[int]) -> None:
    threads = case.threads
    if size.value is None or threads is None:
        return
    most = size.value + overflow.value
    if most < threads.value:
        case.found.warnings.append(
            f"{case.container.workload}: a pool of {most} for {threads.value} threads: up to "
            f"{threads.value - most} of them wait for a connection ({size.source}; "
            f"{threads.source})"
        )


def _tell(container: Container, known: Framework | None, found: Found) -> None:
    if known is not None and known.note:
        found.notes.append(f"{known.title}: {known.note}")
    absent = [f"{container.where}: {one}" for one in container.absent]
    found.notes += [
        f"{source} is not available: a pool size in it would win over what was read"
        for source in (*absent, *_without_value(container))
    ]


def _without_value(container: Container) -> Iterator[str]:
    """Yield the variables of a database whose values are in objects that are not here."""
    for name, one in container.environment.items():
        if one.value is None and OF_A_DATABASE.search(name) and not _NO_POOL.search(name):
            yield one.source
