"""A client's settings: its driver's defaults, its connection string, or a live socket's."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mrtuner.catalog.timers import Driver, driver
from mrtuner.errors import BadValue, UsageError
from mrtuner.failover.predict.kernel import Kernel
from mrtuner.failover.predict.tcp_timers import Keepalive
from mrtuner.postgres.connect import SESSION_ATTRS, resolved
from mrtuner.units import pretty_duration
from mrtuner.wording import enumerated

#: Values of target_session_attrs with which libpq skips a read-only server.
_WRITABLE = frozenset({"read-write", "primary"})
#: From this major on libpq uses connect_timeout=1 as it is; psycopg and older ones make it 2.
_ONE_SECOND = 17

#: Linux's maximum for each; the minimum is 1. Source: tcp.h, MAX_TCP_KEEPIDLE and others.
_KEEPALIVE: Final = {
    "keepalives_idle": 32_767, "keepalives_interval": 32_767, "keepalives_count": 127,
}  # fmt: skip
_HINTS: Final = {
    "tcp_user_timeout": "Give it in milliseconds.", "keepalives_count": "Give a number of probes.",
}  # fmt: skip
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The limits in force for one connection, in seconds except `user_timeout`; None: no limit."""

    driver: Driver
    connect_timeout: float | None
    keepalives: bool
    idle: int | None = None  # None: the kernel's default
    interval: int | None = None
    count: int | None = None
    user_timeout: int = 0  # ms, as passed to the socket
    read_timeout: float | None = None
    pool_wait: float | None = None
    addresses: int = 1
    named: bool = False  # whether a host is a name, which may have several addresses
    read_write: bool = False  # whether it refuses a read-only server when connecting
    chooses: str = "target_session_attrs = any"  # the setting that says which servers it takes
    dns_ttl: float = 5.0  # assumed, as of RDS's names, unless `origin` says who gave it
    dns_cache: float = 0.0  # on top of it, in the client's own runtime
    login_timeout: float | None = None  # on the login alone, where the driver has one
    #: What a value means whose unit looks mistaken, by the parameter's name.
    doubts: Mapping[str, str] = field(default_factory=dict)
    #: Settings that were given but have no effect, with the reason.
    ignored: tuple[str, ...] = ()
    #: Where each value that is not the driver's default comes from.
    origin: Mapping[str, str] = field(default_factory=dict, compare=False)

    def keepalive(self, kernel: Kernel) -> Keepalive | None:
        """The socket's keepalive, with gaps filled from the kernel; None if it is off."""
        if not self.keepalives:
            return None
        return Keepalive(
            idle=self.idle or kernel.tcp_keepalive_time,
            interval=self.interval or kernel.tcp_keepalive_intvl,
            count=self.count or kernel.tcp_keepalive_probes,
        )

    @property
    def login(self) -> float | None:
        """How long a login hangs at a server that accepts and never answers [s]; None: forever."""
        if self.pool_wait is not None:
            return self.pool_wait  # its caller waits no longer
        if self.driver.covers_login:
            return self.connect_timeout
        limits = (self.login_timeout, self.read_timeout)
        return min((one for one in limits if one is not None), default=None)

    def with_origin(self, name: str, value: object) -> str:
        """Format as ``connect_timeout = 3 (connection string)``."""
        return f"{name} = {value} ({self.origin.get(name, f'default of {self.driver.title}')})"


def defaults(name: str) -> Client:
    """A client of this driver, with nothing configured."""
    known = driver(name)
    return Client(
        driver=known,
        connect_timeout=known.connect_timeout,
        keepalives=known.keepalives,
        idle=known.keepalives_idle,
        interval=known.keepalives_interval,
        read_timeout=known.read_timeout,
        pool_wait=known.pool_wait,
        dns_cache=known.dns_cache,
        login_timeout=known.login_timeout,
    )


def configured(
    name: str,
    parameters: Mapping[str, Any],
    origins: Mapping[str, str] | None = None,
    *,
    libpq: int = 18,
) -> Client:
    """A client of this driver with libpq's parameters; `libpq` is the library's major version.

    `origins` says who gave each parameter; by default all are in the connection string.

    UsageError for a Unix socket, which no network outage affects, and for a driver that does not
    accept libpq's parameters; BadValue for what libpq or the kernel refuses.
    """
    base = defaults(name)
    if not base.driver.sets_libpq:
        raise UsageError(
            f"{base.driver.title} does not accept libpq's parameters",
            "Leave out the connection string, or give --client libpq.",
        )
    refuse_local(parameters)
    origin = dict(origins or dict.fromkeys(parameters, "connection string"))
    ignored = []
    waits = base.connect_timeout is not None  # by itself, as psycopg, which knows no services
    if waits and origin.get("connect_timeout", "").startswith("service "):
        parameters = {key: value for key, value in parameters.items() if key != "connect_timeout"}
        ignored.append(
            f"connect_timeout: ignored by {base.driver.title} in {origin.pop('connect_timeout')}"
        )
    attrs = parameters.get("target_session_attrs")
    if attrs and attrs not in SESSION_ATTRS:
        raise BadValue(
            f"target_session_attrs = {attrs!r}: libpq refuses it",
            f"Use {enumerated(SESSION_ATTRS, 'or')}.",
        )
    on = str(parameters.get("keepalives", "1")) != "0"
    asked = whole(parameters, "tcp_user_timeout") or 0
    if asked and not on:
        ignored.append("tcp_user_timeout: ignored by libpq with keepalives=0")
    seconds = _connect_timeout(parameters, base, libpq)
    doubts = dict(_doubts(parameters))
    if seconds == 2 and whole(parameters, "connect_timeout") == 1:
        doubts["connect_timeout"] = "connect_timeout=1 means 2 s before libpq 17, and in psycopg"
    return replace(
        base,
        connect_timeout=seconds,
        keepalives=on,
        idle=_keepalive(parameters, "keepalives_idle", on=on),
        interval=_keepalive(parameters, "keepalives_interval", on=on),
        count=_keepalive(parameters, "keepalives_count", on=on),
        user_timeout=asked if on else 0,
        addresses=len(str(parameters.get("hostaddr") or parameters.get("host") or "").split(",")),
        named=bool(host_names(parameters)),
        read_write=attrs in _WRITABLE,
        chooses=f"target_session_attrs = {attrs or 'any'}",
        doubts=doubts,
        ignored=tuple(ignored),
        origin=origin,
    )


def client_with(name: str, dsn: str) -> Client:
    """A client of this driver with all that libpq finds for a connection string.

    Errors are those of `configured`, and those of `postgres.connect.resolved`.
    """
    from psycopg import pq

    known = resolved(dsn)
    values = {parameter: each.value for parameter, each in known.items()}
    origins = {parameter: each.origin for parameter, each in known.items()}
    return configured(name, values, origins, libpq=pq.version() // 10_000)


def refuse_local(parameters: Mapping[str, Any]) -> None:
    """Raise UsageError for a connection that does not cross a network."""
    host = str(parameters.get("hostaddr") or parameters.get("host") or "")
    if not host or host.startswith(("/", "@")):
        raise UsageError(
            "the connection string uses a Unix socket, which no network outage affects",
            "Give a host: postgresql://user@host/dbname, PGHOST, or a service that names one.",
        )


def host_names(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The hosts of a connection string that are names, not addresses or sockets.

    >>> host_names({"host": "db.example.org,10.0.0.1,/run/postgresql"})
    ('db.example.org',)
    """
    if parameters.get("hostaddr"):
        return ()
    hosts = str(parameters.get("host") or "").split(",")
    return tuple(host for host in dict.fromkeys(hosts) if host and not _literal(host))


def _literal(host: str) -> bool:
    if host.startswith(("/", "@")):
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def whole(parameters: Mapping[str, Any], name: str) -> int | None:
    """Return a parameter as a whole number; BadValue if it is not one."""
    value = parameters.get(name)
    text = "" if value is None else str(value).strip()
    if not text:
        return None
    if _WHOLE.fullmatch(text) is None:
        raise BadValue(
            f"{name} = {text!r} is not a whole number",
            _HINTS.get(name, "Give it in seconds."),
        )
    return max(0, int(text))


def doubt(name: str, seconds: int | None, who: str) -> str | None:
    """What round thousands of seconds are, which look like milliseconds; None for other values."""
    if not seconds or seconds % 1000:
        return None
    return f"{name} = {seconds} is {pretty_duration(seconds)}: {who} counts seconds"


def _doubts(parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What looks like another unit; fewer milliseconds than a second has are taken for seconds."""
    for name in ("connect_timeout", "keepalives_idle", "keepalives_interval"):
        if said := doubt(name, whole(parameters, name), "libpq"):
            yield name, said
    if 0 < (asked := whole(parameters, "tcp_user_timeout") or 0) < 1000:
        yield "tcp_user_timeout", f"tcp_user_timeout = {asked} is {asked} ms, not seconds"


def _keepalive(parameters: Mapping[str, Any], name: str, *, on: bool) -> int | None:
    """One of the keepalive's numbers; None: the kernel's default.

    libpq passes it to the kernel unchanged. The kernel refuses 0, whatever libpq's manual says, and
    then the connection fails. Source: fe-connect.c (setKeepalivesIdle), tcp.c (keepidle).
    """
    asked = whole(parameters, name)
    if asked is None or not on:
        return None
    if not 1 <= asked <= _KEEPALIVE[name]:
        raise BadValue(
            f"{name} = {asked}: Linux rejects it, so libpq cannot connect",
            f"Give 1 to {_KEEPALIVE[name]}, or leave it out for the kernel's default.",
        )
    return asked


def _connect_timeout(parameters: Mapping[str, Any], base: Client, libpq: int) -> float | None:
    """The time-out in force [s]: 0 is the driver's default; only libpq from 17 on obeys 1."""
    asked = whole(parameters, "connect_timeout")
    if asked is None:
        return base.connect_timeout
    if asked == 0:
        return base.driver.connect_timeout
    if asked == 1 and (libpq < _ONE_SECOND or base.driver.name != "libpq"):
        return 2.0
    return float(asked)
