"""pgjdbc. It cannot set a user timeout or keepalive times: the kernel's settings are used."""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.stack import Stack


def properties(limits: Bounds) -> dict[str, str]:
    """The driver's properties."""
    chosen = {
        "connectTimeout": str(limits.connect_timeout),
        "loginTimeout": str(limits.connect_timeout * limits.hosts),
        "cancelSignalTimeout": str(limits.connect_timeout),
        "tcpKeepAlive": "true",
        "targetServerType": "primary",
    }
    if limits.read_timeout:
        chosen["socketTimeout"] = str(limits.read_timeout)
    return chosen


def write(limits: Bounds) -> str:
    """The URL, and the JVM's own DNS cache."""
    asked = "&".join(f"{name}={value}" for name, value in properties(limits).items())
    return (
        f"jdbc:postgresql://{','.join(limits.names)}/shop?{asked}\n"
        f"# JVM, in java.security or before the first look-up: networkaddress.cache.ttl="
        f"{limits.dns_ttl}\n"
    )


STACK = Stack(
    name="pgjdbc", title="pgjdbc", file="the JDBC URL", write=write,
    sets_socket=False, read_timeout=True, read_write=True,
    verified="verified with pgjdbc 42.7.4 on Java 17",
)  # fmt: skip
