"""A JDBC URL of PostgreSQL, as pgjdbc 42.7 reads it. Source: Driver.parseURL, PGProperty."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Final
from urllib.parse import parse_qsl, unquote

from mrtuner.errors import UsageError
from mrtuner.failover.predict.client import Client, defaults, doubt, refuse_local, whole

PREFIX: Final = "jdbc:"
_URL: Final = re.compile(
    r"jdbc:postgresql:(?://(?P<hosts>[^/?]*)(?:/|(?=\?)|$))?(?P<database>[^?/]*)"
    r"(?:\?(?P<query>.*))?",
    re.DOTALL,
)
_HOST: Final = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>\d+))?")
#: Clients that hand their properties to pgjdbc.
_CLIENTS: Final = ("pgjdbc", "hikaricp", "wildfly")
_WRITABLE: Final = frozenset({"primary", "master"})
#: The properties that bound a hang. pgjdbc ignores a property that it does not know.
_PROPERTIES: Final = (
    "connectTimeout", "socketTimeout", "loginTimeout", "cancelSignalTimeout", "tcpKeepAlive",
    "targetServerType", "sslResponseTimeout", "gssResponseTimeout",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcUrl:
    """Its parts; `properties` may hold a password."""

    hosts: tuple[str, ...]
    ports: tuple[str, ...]
    database: str
    properties: Mapping[str, str] = field(repr=False)

    @classmethod
    def read(cls, text: str) -> JdbcUrl:
        """Parse a URL; UsageError, which quotes none of it, for anything else."""
        found = _URL.fullmatch(text)
        hosts = (found["hosts"] or "").split(",") if found else []
        places = [_HOST.fullmatch(place) for place in hosts]
        known = [place for place in places if place]
        if found is None or len(known) != len(places):
            raise UsageError(
                "cannot read the JDBC URL", "Write jdbc:postgresql://host:5432/dbname?name=value."
            )
        return cls(
            hosts=tuple(place["host"].strip("[]") or "localhost" for place in known),
            ports=tuple(place["port"] or "5432" for place in known),
            database=unquote(found["database"]),
            properties=dict(parse_qsl(found["query"] or "", keep_blank_values=True)),
        )

    def client(self, name: str) -> Client:
        """The client with the URL's limits; pgjdbc unless `name` is something on top of it.

        BadValue for a number that is none, UsageError for another driver.
        """
        name = "pgjdbc" if name == "libpq" else name
        if name not in _CLIENTS:
            raise UsageError(
                f"{defaults(name).driver.title} does not read a JDBC URL",
                f"Give --client {', '.join(_CLIENTS[:-1])} or {_CLIENTS[-1]}, or leave it out.",
            )
        base, given = defaults(name), self.properties
        refuse_local({"host": self.hosts[0]})
        connect = self._limit("connectTimeout", base.connect_timeout)
        login, bounded = self._limit("loginTimeout"), False
        if login is not None and len(self.hosts) == 1:
            bounded = connect is None or login < connect
            connect = login if bounded else connect
        names = {
            "connectTimeout": "connect_timeout", "socketTimeout": "read_timeout",
            "tcpKeepAlive": "keepalives",
        }  # fmt: skip
        return replace(
            base,
            connect_timeout=connect,
            read_timeout=self._limit("socketTimeout", base.read_timeout),
            keepalives=given.get("tcpKeepAlive", "").lower() == "true",
            addresses=len(self.hosts),
            login_timeout=self._login(login, base.login_timeout),
            read_write=given.get("targetServerType") in _WRITABLE,
            chooses=f"targetServerType = {given.get('targetServerType') or 'any'}",
            doubts=dict(self._doubts()),
            ignored=tuple(self._unknown()),
            origin={ours: "JDBC URL" for theirs, ours in names.items() if theirs in given}
            | ({"connect_timeout": "loginTimeout of the JDBC URL"} if bounded else {}),
        )

    def conninfo(self) -> str:
        """The same server as a connection string of libpq."""
        from psycopg.conninfo import make_conninfo

        login = {name: self.properties[name] for name in ("user", "password")
                 if name in self.properties}  # fmt: skip
        place = {"host": ",".join(self.hosts), "port": ",".join(self.ports)}
        return make_conninfo("", **place, **login, dbname=self.database or None)

    def _limit(self, name: str, default: float | None = None) -> float | None:
        """A time-out [s]; 0 is none."""
        asked = whole(self.properties, name)
        return default if asked is None else float(asked) or None

    def _login(self, login: float | None, usual: float | None) -> float | None:
        """The limit on a login whose server accepts and never answers [s]; None: there is none.

        Where TLS is asked for first, so is an answer to that. Source: pgjdbc's
        ConnectionFactoryImpl, enableSSL; SslMode.of.
        """
        limits = [login]
        if self.properties.get("sslmode") not in {"disable", "allow"}:
            asked = whole(self.properties, "sslResponseTimeout")  # ms; 0 is none
            limits.append(usual if asked is None else asked / 1000 or None)
        return min((one for one in limits if one is not None), default=None)

    def _doubts(self) -> Iterator[tuple[str, str]]:
        names = {"connectTimeout": "connect_timeout", "socketTimeout": "read_timeout"}
        for theirs, ours in names.items():
            if said := doubt(theirs, whole(self.properties, theirs), "pgjdbc"):
                yield ours, said

    def _unknown(self) -> Iterator[str]:
        for name in self.properties:
            close = get_close_matches(name, _PROPERTIES, n=1, cutoff=0.8)
            if close and name not in _PROPERTIES:
                yield f"{name}: ignored by pgjdbc, which knows {close[0]}"
