"""PgBouncer's configuration: how many clients it admits, how many server connections it opens.

Source of defaults: pgbouncer.ini(5), 1.8 to 1.24.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.facts import Fact, Missing
from mrtuner_pods.connections.container.connection_string import parsed
from mrtuner_pods.connections.container.container import Environment, whole
from mrtuner_pods.connections.model import Pooler, Rollout, ServerPool, Workload, server_name

_DEFAULTS: Final = {
    "max_client_conn": 100,
    "default_pool_size": 20,
    "reserve_pool_size": 0,
    "max_db_connections": 0,
    "max_user_connections": 0,
}
#: The entry that serves every database without one of its own.
ANY: Final = "*"
#: What images take from variables, in capitals; Bitnami's with a prefix.
_OF_IMAGES: Final = ("pool_mode", *_DEFAULTS)
_PREFIX: Final = "PGBOUNCER_"
_ENTRY: Final = re.compile(r"(\w+)\s*=\s*('(?:''|[^'])*'|\S+)")
#: Since this version, PgBouncer waits for its clients at SIGTERM (pgbouncer#902).
_WAITS: Final = (1, 23)


@dataclass(frozen=True, slots=True)
class Login:
    """Who connects through the pooler, as far as workloads say; None: unknown."""

    user: str | None
    database: str | None


def pooler(
    text: str, file: str, rollout: Rollout, workloads: Sequence[Workload], *,
    waits: bool = False, server: str | None = None, running: bool = False,
) -> Pooler:  # fmt: skip
    """Return the pooler that a pgbouncer.ini describes, for the workloads that go through it.

    `server` is the host whose limits are known: pools that lead elsewhere are not counted. The
    text of a `running` one lists no database that `*` stands for. Raises BadValue if it is not such
    a file, or cannot be used.
    """
    sections = _sections(text, file)
    settings = _Settings(file, sections)
    notes: list[str] = []
    unjudged: list[Missing] = []
    entries = list(_entries(sections.get("databases", {}), file))
    if not entries:
        hint = "Give its file: SHOW DATABASES does not list what * serves." if running else None
        raise BadValue(f"{file} has no [databases]", hint or "Name the databases that it serves.")
    host = _main_host(entries, server)
    behind = server_name(host)
    logins = _logins(
        one for one in workloads if behind not in {server_name(pool.host) for pool in one.pools}
    )
    if running:
        unjudged += _unlisted(logins, entries, file)
    pools: list[ServerPool] = []
    limits: dict[str, Fact[int]] = {}
    for entry in entries:
        if server_name(entry.get("host", host)) != behind:
            if {None, entry["entry"]} & {one.database for one in logins}:
                unjudged.append(_elsewhere(entry, file))
            else:
                notes.append(f"{file}: {entry['entry']} is on {entry['host']}, and is not counted")
            continue
        names = _names(entry, entries, logins, workloads)
        own = list(_pools(entry, names, settings, logins, notes))
        limit = _own(entry, "max_db_connections", settings) or settings.number("max_db_connections")
        if limit.value:
            limits |= {one.entry: limit for one in own}
        pools += own
    unjudged += [
        Missing(f"{file}: {name}", "that file was not read", hint="copy its lines into this one")
        for section in sections.values() for name in section if name.startswith("%include")
    ]  # fmt: skip
    if not waits:
        notes.append(
            "PgBouncer 1.23 and later waits for its clients when told to stop: a terminating pod "
            "then keeps its server connections; they are not counted, since its version is unknown"
        )
    return Pooler(
        where=file,
        rollout=rollout,
        processes=Fact(1, "one process per pod"),
        max_client_conn=settings.number("max_client_conn", least=1),
        pools=tuple(pools),
        database_limits=limits,
        user_limits=_user_limits(pools, settings),
        waits=waits,
        hosts=frozenset({host} - {""}),
        notes=tuple(notes),
        unjudged=tuple(unjudged),
    )


def _unlisted(
    logins: Iterable[Login], entries: Sequence[Mapping[str, str]], file: str
) -> Iterator[Missing]:
    """Yield the databases that `*` may serve: PgBouncer lists one only while it is in use."""
    listed = {one["entry"] for one in entries}
    for name in dict.fromkeys(one.database for one in logins):
        if name is not None and name not in listed:
            why = "SHOW DATABASES does not list it: * may serve it"
            yield Missing(f"{name} of {file}", why, option="--pgbouncer FILE")


def _elsewhere(entry: Mapping[str, str], file: str) -> Missing:
    return Missing(
        f"{entry['entry']} of {file}", f"it is on {entry['host']}, whose limits were not read",
        hint="check it with a --database of its own",
    )  # fmt: skip


def by_variables(environment: Environment) -> str | None:
    """Return the configuration that an image writes from its variables; None without any.

    edoburu/pgbouncer takes POOL_MODE and DB_HOST, Bitnami's the same with PGBOUNCER_ and
    POSTGRESQL_HOST. Variables without a value here are left to PgBouncer's defaults.
    """
    said = {name.removeprefix(_PREFIX): one.value for name, one in environment.items()}
    settings = [f"{name} = {said[name.upper()]}" for name in _OF_IMAGES if said.get(name.upper())]
    string = parsed(said.get("DATABASE_URL") or "")
    host = (string.host if string else None) or said.get("DB_HOST") or said.get("POSTGRESQL_HOST")
    if not settings and not host:
        return None
    name = (string.database if string else None) or said.get("DB_NAME") or said.get("DATABASE")
    entry = f"{name or ANY} ={f' host={host}' if host else ''}"
    return "\n".join(["[databases]", entry, "[pgbouncer]", *settings])


def unknown_variables(environment: Environment) -> list[str]:
    """Return those of an image's variables whose values are in objects that are not here."""
    return [
        name for name, one in environment.items()
        if one.value is None and name.removeprefix(_PREFIX).lower() in _OF_IMAGES
    ]  # fmt: skip


def waits_for_clients(image: str) -> bool:
    """Whether an image's tag says that PgBouncer waits for its clients when it is told to end.

    >>> waits_for_clients("edoburu/pgbouncer:v1.23.1-p2"), waits_for_clients("pgbouncer:1.18")
    (True, False)
    """
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    found = re.match(r"v?(\d+)\.(\d+)", tag)
    return found is not None and (int(found[1]), int(found[2])) >= _WAITS


# Reading.


def _sections(text: str, file: str) -> dict[str, dict[str, str]]:
    parser = ConfigParser(
        interpolation=None, delimiters=("=",), comment_prefixes=(";", "#"), strict=False,
        allow_no_value=True, default_section="\0", empty_lines_in_values=False,
    )  # fmt: skip
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        # PgBouncer has no continuation lines: leading blanks mean nothing.
        parser.read_string("\n".join(line.strip() for line in text.splitlines()), file)
    except ConfigError as error:
        raise BadValue(
            f"{file} is not a pgbouncer.ini: {str(error).splitlines()[0]}",
            "Give the file that PgBouncer is started with.",
        ) from None
    found = {
        name: {key: value or "" for key, value in parser.items(name)} for name in parser.sections()
    }
    if "pgbouncer" not in found and "databases" not in found:
        raise BadValue(
            f"{file} is not a pgbouncer.ini: it has neither [databases] nor [pgbouncer]",
            "Give the file that PgBouncer is started with.",
        )
    return found


class _Settings:
    """The settings of [pgbouncer] and [users]."""

    def __init__(self, file: str, sections: Mapping[str, Mapping[str, str]]) -> None:
        self.file = file
        self.own = sections.get("pgbouncer", {})
        self.users = {name: _words(value) for name, value in sections.get("users", {}).items()}

    def text(self, name: str, default: str) -> str:
        return self.own.get(name, default).strip()

    def number(self, name: str, *, least: int = 0) -> Fact[int]:
        if name not in self.own:
            return Fact(_DEFAULTS[name], f"default of PgBouncer, {name}")
        source = f"{self.file} [pgbouncer] {name}"
        return Fact(whole(Fact(self.own[name], source), least), source)

    def mode(self, user: str | None, entry: Mapping[str, str]) -> str:
        """The pool_mode for a user of a database: the user's own comes first."""
        own = self.users.get(user or "", {}).get("pool_mode") or entry.get("pool_mode")
        return own or self.text("pool_mode", "session")

    def of_user(self, user: str | None, name: str) -> Fact[int] | None:
        """A setting of a user from [users]; None if there is none."""
        value = self.users.get(user or "", {}).get(name)
        if value is None:
            return None
        source = f"{self.file} [users] {user}, {name}"
        return Fact(whole(Fact(value, source), 0), source)


def _words(text: str) -> dict[str, str]:
    return {name: value.strip("'").replace("''", "'") for name, value in _ENTRY.findall(text)}


def _entries(databases: Mapping[str, str], file: str) -> Iterator[dict[str, str]]:
    for name, text in databases.items():
        if name.startswith("%include"):
            raise BadValue(
                f"{file}: its databases are in another file: {name}", "Put them into one file."
            )
        yield {"file": file, "entry": name.strip('"'), **_words(text)}


def _main_host(entries: Sequence[Mapping[str, str]], server: str | None) -> str:
    """The host that `server` names, else that of most databases; the others are elsewhere."""
    hosts = [entry.get("host", "") for entry in entries]
    own = [one for one in hosts if one and server_name(one) == server_name(server)]
    return own[0] if own else max(dict.fromkeys(hosts), key=hosts.count)


# Pools.


def _logins(workloads: Iterable[Workload]) -> tuple[Login, ...]:
    found = {
        Login(pool.role, pool.database): None for workload in workloads for pool in workload.pools
    }
    return tuple(found) or (Login(None, None),)


def _pools(
    entry: Mapping[str, str], names: Sequence[str | None], settings: _Settings,
    logins: Sequence[Login], notes: list[str],
) -> Iterator[ServerPool]:  # fmt: skip
    """A pool for each user of each database name that clients use; None: an unknown name.

    An entry may force one user, and lead all names to one database. What a user has of its own
    comes before what the entry says. Source: server.c of PgBouncer, pool_pool_size.
    """
    for name in names:
        forced = entry.get("user")
        clients: list[str | None] = [None]
        if not forced:
            clients = _users(name, logins, notes, settings.file)
        asks = entry.get("auth_user") or settings.text("auth_user", "")
        if asks and asks not in {*clients, forced}:
            clients = [*clients, asks]
        for client in clients:
            user = client or forced
            size = settings.of_user(user, "pool_size") or _own(entry, "pool_size", settings)
            reserve = (
                settings.of_user(user, "reserve_pool_size")
                or _own(entry, "reserve_pool", settings)
                or _own(entry, "reserve_pool_size", settings)
            )
            yield ServerPool(
                entry=name or ANY,
                database=entry.get("dbname", name),
                client=client,
                user=user,
                size=size or settings.number("default_pool_size"),
                reserve=reserve or settings.number("reserve_pool_size"),
                mode=settings.mode(user, entry),
            )


def _names(
    entry: Mapping[str, str], entries: Sequence[Mapping[str, str]], logins: Sequence[Login],
    workloads: Sequence[Workload],
) -> list[str | None]:  # fmt: skip
    """The database names that clients use for an entry; for ``*``, all those without an entry.

    Where a workload has more databases than are named, the others are None.
    """
    if entry["entry"] != ANY:
        return [entry["entry"]]
    own = {one["entry"] for one in entries}
    names = list(dict.fromkeys(one.database for one in logins if one.database not in own))
    most = max((pool.databases.value for one in workloads for pool in one.pools), default=1)
    return names + [None] * (most - len(names) - len(own - {ANY}))


def _users(
    name: str | None, logins: Sequence[Login], notes: list[str], file: str
) -> list[str | None]:
    """The users whose clients use this name; if unknown, one user is assumed."""
    users = [login.user for login in logins if name is None or login.database in {None, name}]
    if None in users or not users:
        note = (
            f"{file}: the user of {name or 'its databases'} is not known; one is assumed "
            "(--role names it)"
        )
        if note not in notes:
            notes.append(note)
    return list(dict.fromkeys(users)) or [None]


def _own(entry: Mapping[str, str], name: str, settings: _Settings) -> Fact[int] | None:
    if name not in entry:
        return None
    source = f"{settings.file} [databases] {entry['entry']}, {name}"
    return Fact(whole(Fact(entry[name], source), 0), source)


def _user_limits(pools: Iterable[ServerPool], settings: _Settings) -> dict[str, Fact[int]]:
    found = {}
    for pool in pools:
        limit = settings.of_user(pool.user, "max_user_connections") or settings.number(
            "max_user_connections"
        )
        if limit.value:
            found[pool.user or ""] = limit
    return found
