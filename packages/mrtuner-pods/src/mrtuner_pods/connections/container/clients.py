"""Whether a container is a client of PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mrtuner_pods.connections.container.applications import detected, serving
from mrtuner_pods.connections.container.connection_string import (
    SQL_SERVER,
    ConnectionString,
    parsed,
)
from mrtuner_pods.connections.container.container import NOT_CLIENTS, Container, image_name

#: Variables whose presence says that a container has a database.
OF_A_DATABASE: Final = re.compile(
    r"^(?!REDIS|MONGO|MYSQL|MARIADB|SQLITE|INFLUX|CLICKHOUSE)"
    r".*?(^|_)(DATABASE|DB|POSTGRES|POSTGRESQL|PG|PSQL|JDBC|R2DBC|RDS)(_|$)"
    r"|(^|_)DB(HOST|NAME|USER|PASS|PASSWORD|URL)$|^DSN$"
    r"|^PG(HOST|HOSTADDR|DATABASE|USER|PASSWORD|SERVICE)$|^DATA_SOURCE_(NAME|URI)$"
    r"|DATASOURCE|^CONNECTIONSTRINGS?__",
    re.IGNORECASE,
)
#: Programs with which an init container waits until a server answers.
_WAITING: Final = frozenset({
    "dockerize", "nc", "pg_isready", "wait-for", "wait-for-it", "wait-for-it.sh", "wait4x",
    "wait4ports",
})  # fmt: skip
_PART: Final = re.compile(r"HOST|SERVER|USER|_NAME$|DATABASE$|_DB$", re.IGNORECASE)
_URL: Final = re.compile(r"(?:jdbc|r2dbc):[a-z]|([a-z][a-z0-9+.-]*):(?://|memory)", re.IGNORECASE)
#: Variables that say which kind of database an application uses.
_KIND: Final = re.compile(
    r"(?:^|_)(?:DB|DATABASE)_(?:TYPE|CONNECTION|CLIENT|ENGINE|DRIVER|VENDOR|ADAPTER|DIALECT)$"
    r"|^KC_DB$|_DATASOURCE_(?:DB_KIND|DRIVER_?CLASS_?NAME)$|^QUARKUS_DATASOURCE_DB_KIND$",
    re.IGNORECASE,
)
_OTHER_KIND: Final = re.compile(
    r"mysql|maria|oracle|mssql|sqlserver|sqlite|h2|mongo|db2|derby|cockroach|dev-(?:file|mem)",
    re.IGNORECASE,
)


def is_something_else(container: Container) -> bool:
    """Whether its image or its command is a server or a pooler, which is no client itself."""
    programs = {program for command in container.started for program in command.programs}
    if container.starts_first and programs & _WAITING:
        return True
    servers = [server for server, _ in serving(container)]
    other = bool(servers) and not any(server.client for server in servers)
    return image_name(container.image) in NOT_CLIENTS or other


def is_no_client(container: Container, strings: Mapping[str, ConnectionString]) -> bool:
    """Whether a container is something else, or nothing shows that it uses PostgreSQL."""
    if is_something_else(container):
        return True
    if strings:
        return False
    named = {name: one for name, one in container.environment.items() if OF_A_DATABASE.search(name)}
    if any(
        one.value and _KIND.search(name) and _OTHER_KIND.search(one.value)
        for name, one in container.environment.items()
    ):
        return True
    others = {name for name, one in named.items() if _is_of_another(one.value or "")}
    if others:  # one with an unknown value, or a host or user that is no part of these, may be ours
        theirs = tuple(name.rpartition("_")[0] + "_" for name in others)
        rest = [name for name in named if name not in others and not name.startswith(theirs)]
        return not any(named[name].value is None or _PART.search(name) for name in rest)
    if named or container.evidence:
        return False
    known = detected(container, None, strings, runtimes=False)
    return not serving(container) and (known is None or known.embedded)


def _is_of_another(text: str) -> bool:
    """Whether a value is a connection string to something else than PostgreSQL."""
    return bool(_URL.match(text) or SQL_SERVER.search(text)) and parsed(text) is None
