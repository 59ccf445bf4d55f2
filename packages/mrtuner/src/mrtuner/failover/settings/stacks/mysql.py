"""MySQL: Connector/J, and the same for PyMySQL."""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.stack import Stack


def write(limits: Bounds) -> str:
    """The URL; times are in ms, in Python in seconds."""
    connect, read = limits.connect_timeout, limits.read_timeout
    asked = f"connectTimeout={connect * 1000}&tcpKeepAlive=true"
    python = f"connect_timeout={connect}"
    if read:
        asked += f"&socketTimeout={read * 1000}"
        python += f", read_timeout={read}, write_timeout={read}"
    return (
        f"jdbc:mysql://{','.join(limits.names)}/shop?{asked}\n# PyMySQL: connect({python})\n"
        f"# JVM: networkaddress.cache.ttl={limits.dns_ttl}\n"
        "# A login to a frozen server is ended only by the limit on answers, not by connect's.\n"
    )


STACK = Stack(
    name="mysql", title="MySQL", file="the JDBC URL", write=write,
    sets_socket=False, read_timeout=True, read_write=False,
    stale="check @@global.read_only when a connection is taken",
    verified="verified with Connector/J 9.1.0 and PyMySQL 1.2.4 on MariaDB 10.11",
)  # fmt: skip
