"""Connection strings in the forms that applications take; they are never shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

#: A JDBC or R2DBC driver may wrap another one: jdbc:aws-wrapper:postgresql://…
_URL: Final = re.compile(
    r"(?:(jdbc:|r2dbc:)(?:[\w-]+:)*)?((?:postgres(?:ql)?|ecto|postgis|psql|pgsql|pgx5?)(?:\+\w+)?)://",
    re.IGNORECASE,
)
_MYSQLS_PORT: Final = "3306"
_PAIRS: Final = re.compile(r"\s*([A-Za-z_][\w ]*?)\s*=\s*('[^']*'|\"[^\"]*\"|[^;]*?)\s*(?:;|$)")
_WORDS: Final = re.compile(r"([a-z_]+)\s*=\s*('(?:\\.|[^'\\])*'|\S+)")
#: What only a connection string to SQL Server has.
SQL_SERVER: Final = re.compile(
    r"initial catalog|data source|trusted_connection|trustservercertificate|integrated security",
    re.IGNORECASE,
)
_HOST: Final = frozenset({"host", "server", "hostaddr"})
_DATABASE: Final = frozenset({"dbname", "database", "db"})
_USER: Final = frozenset({"user", "username", "user id", "userid", "uid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionString:
    """The parts of a connection string that matter here; parameter names are in lower case."""

    scheme: str = ""  # postgresql+asyncpg, jdbc:postgresql; empty if it is not a URL
    host: str | None = None
    port: str | None = None
    database: str | None = None
    user: str | None = None
    parameters: dict[str, str] = field(default_factory=dict)
    text: str = field(default="", repr=False)


def parsed(text: str) -> ConnectionString | None:
    """Parse a connection string to PostgreSQL: a URL, JDBC's, .NET's or libpq's; None for others.

    >>> parsed("postgres://app:secret@db/shop?pool=5").parameters
    {'pool': '5'}
    >>> parsed("Host=db;Database=shop;Maximum Pool Size=20").parameters["maximum pool size"]
    '20'
    >>> parsed("redis://cache:6379")
    """
    text = text.strip()
    if SQL_SERVER.search(text):
        return None
    if match := _URL.match(text):
        url = _url(text, match)
        # Ecto's generator writes the same scheme for MySQL.
        return None if url.port == _MYSQLS_PORT else url
    for pattern in (_PAIRS, _WORDS) if ";" in text else (_WORDS,):
        found = {name.lower(): value.strip("'\"") for name, value in pattern.findall(text)}
        if _HOST & found.keys() and (_DATABASE | _USER) & found.keys():
            return ConnectionString(
                host=_first(found, _HOST), port=found.get("port"),
                database=_first(found, _DATABASE), user=_first(found, _USER), parameters=found,
                text=text,
            )  # fmt: skip
    return None


def _url(text: str, match: re.Match[str]) -> ConnectionString:
    scheme = f"{match[1] or ''}{match[2]}".lower()
    try:
        parts = urlsplit(text[match.start(2) :])
        host, port = parts.hostname, parts.port
    except ValueError:  # an unescaped bracket in a password, or a port that is none
        return ConnectionString(scheme=scheme, text=text)
    query = {name.lower(): value for name, value in parse_qsl(parts.query)}
    return ConnectionString(
        scheme=scheme,
        host=host,
        port=None if port is None else str(port),
        database=unquote(parts.path.strip("/")) or query.get("dbname"),
        user=unquote(parts.username) if parts.username else query.get("user"),
        parameters=query,
        text=text,
    )


def _first(found: dict[str, str], names: frozenset[str]) -> str | None:
    return next((found[name] for name in sorted(names) if name in found), None)
