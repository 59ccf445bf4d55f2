"""Check that a connection string leads to the instance to be changed.

PostgreSQL on RDS does not know its instance's name, and what it does know (settings, version,
data_directory, even the system identifier after a restore) may be the same on another instance.
Only the endpoint identifies an instance. So a session counts as proved when

- the server is Aurora and names one of the instances itself;
- it was opened to the endpoint's port at an address that the endpoint's name resolves to;
- it uses the endpoint's name and `sslmode=verify-full`, so that TLS proved the name, through
  whatever tunnel;
- or, behind a tunnel or an alias, the server's own address and port are the endpoint's.

A server of another major version than the instance's is always the wrong one.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import Refused, UsageError
from mrtuner.postgres.connect import connect, translated
from rdstune.live.target import Target

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

Resolve = Callable[[str], frozenset[str]]

_PORT: Final = 5432

#: to_regproc: servers other than Aurora lack the function, and this avoids an error.
_SERVER: Final = """
SELECT host(pg_catalog.inet_server_addr()), pg_catalog.inet_server_port(),
       pg_catalog.to_regproc('aurora_db_instance_identifier') IS NOT NULL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of an instance or a cluster, according to RDS."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a session reveals about where it leads."""

    host: str  # as given, which may be a socket's directory
    address: str  # the address it was opened to; "" where libpq does not know
    port: int
    verified: bool  # TLS proved that the server is `host`
    server_address: str | None  # as the server sees itself; None over a socket
    server_port: int | None
    major: int
    aurora_instance: str | None


def require(dsn: str, target: Target) -> None:
    """Refuse a connection string that is not proved to lead to the target.

    Raises UsageError for an empty one, with which libpq would connect to a local server, and
    ConnectError when there is no session. Only reads, and makes no AWS calls.
    """
    require_named(dsn)
    with connect(dsn) as conn, translated():
        seen = _seen(conn)
    if proof(seen, target) is None:
        raise Refused(_elsewhere(seen, target), _hint(target))


def require_named(dsn: str) -> None:
    """Raise UsageError for an empty connection string, such as from an unset variable."""
    if not dsn.strip():
        raise UsageError(
            "the connection string is empty",
            "Give the instance's endpoint, or leave out --connect.",
        )


def resolve(host: str) -> frozenset[str]:
    """Return every address of a host name; none if it does not exist."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return frozenset()
    return frozenset(_plain(str(address[0])) for *_, address in found)


def proof(seen: Session, target: Target, resolved: Resolve = resolve) -> str | None:
    """Return the proof that a session leads to a member of the target, in words, else None."""
    if seen.major != target.writer.major:
        return None
    if seen.aurora_instance in {one.identifier for one in target.members}:
        return f"the server says that it is {seen.aurora_instance}"
    for endpoint in endpoints(target):
        named = seen.host.lower().rstrip(".") == endpoint.host.lower()
        if named and seen.verified:
            return f"TLS proved that it is {endpoint.host}"
        addresses = resolved(endpoint.host)
        if seen.port == endpoint.port and seen.address in addresses:
            return f"it was opened to {endpoint}"
        if _is_there(seen, endpoint, addresses):
            return f"the server's own address is that of {endpoint}"
    return None


def _is_there(seen: Session, endpoint: Endpoint, addresses: frozenset[str]) -> bool:
    """Whether the server's own address is the endpoint's.

    Every machine has its own loopback, so that counts only where we connected to loopback.
    """
    if seen.server_address not in addresses or seen.server_port != endpoint.port:
        return False
    if not ip_address(seen.server_address).is_loopback:
        return True
    return bool(seen.address) and ip_address(seen.address).is_loopback


def endpoints(target: Target) -> tuple[Endpoint, ...]:
    """Return the distinct addresses of the target and its members."""
    found = [Endpoint(host=one.host, port=one.port or _PORT) for one in target.members if one.host]
    if target.host:
        found.insert(0, Endpoint(host=target.host, port=target.port or _PORT))
    return tuple(dict.fromkeys(found))


def _seen(conn: Connection) -> Session:
    row: Any = conn.execute(_SERVER).fetchone()
    address, port, aurora = row
    name = None
    if aurora:
        (name,) = conn.execute("SELECT aurora_db_instance_identifier()").fetchone() or (None,)
    info = conn.info
    verified = info.get_parameters().get("sslmode") == "verify-full" and conn.pgconn.ssl_in_use
    return Session(
        host=info.host,
        address=_plain(info.hostaddr),
        port=info.port,
        verified=verified,
        server_address=_plain(address) if address else None,
        server_port=port,
        major=info.server_version // 10_000,
        aurora_instance=name,
    )


def _plain(address: str) -> str:
    """Strip an address's zone, and unwrap an IPv4 address mapped into IPv6."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return ""  # a socket's directory
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)


def _elsewhere(seen: Session, target: Target) -> str:
    where = f"{seen.host}:{seen.port}" if seen.address else f"a socket in {seen.host}"
    known = ", ".join(map(str, endpoints(target))) or "no endpoint yet"
    return (
        f"the connection string leads to {where}, which cannot be verified to be {target} ({known})"
    )


def _hint(target: Target) -> str:
    found = endpoints(target)
    if not found:
        return "Wait until it is available, or leave out --connect."
    return (
        f"Use host={found[0].host} port={found[0].port}. Through a tunnel: host={found[0].host} "
        "hostaddr=127.0.0.1 port=… sslmode=verify-full, with RDS's certificates as sslrootcert."
    )
