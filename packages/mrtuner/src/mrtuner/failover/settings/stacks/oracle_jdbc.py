"""Oracle JDBC thin: written from its reference manual; only logins were run, without a server.

Its properties count milliseconds; CONNECT_TIMEOUT of the descriptor counts seconds, for each
address.
"""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.oracle import addresses
from mrtuner.failover.settings.stacks.stack import Stack


def write(limits: Bounds) -> str:
    """The URL, and connection properties."""
    seconds = limits.connect_timeout
    read = f"oracle.jdbc.ReadTimeout={limits.read_timeout * 1000}\n" if limits.read_timeout else ""
    places = "".join(line.strip() for line in addresses(limits).replace(" = ", "=").splitlines())
    return (
        "# the JDBC URL\n"
        f"jdbc:oracle:thin:@(DESCRIPTION=(CONNECT_TIMEOUT={seconds})"
        f"(TRANSPORT_CONNECT_TIMEOUT={seconds})(RETRY_COUNT=0){places}"
        "(CONNECT_DATA=(SERVICE_NAME=SHOP)))\n"
        "# connection properties\n"
        f"oracle.net.CONNECT_TIMEOUT={seconds * 1000}\n"
        "oracle.net.keepAlive=true\n"
        f"{read}"
        f"# JVM: networkaddress.cache.ttl={limits.dns_ttl}\n"
    )


STACK = Stack(
    name="oracle-jdbc", title="Oracle JDBC thin", file="the JDBC URL and its properties",
    write=write, sets_socket=False, read_timeout=True, read_write=False,
    stale="check OPEN_MODE of v$database when a connection is taken",
)  # fmt: skip
