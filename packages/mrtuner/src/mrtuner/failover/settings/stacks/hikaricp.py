"""HikariCP over pgjdbc."""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.pgjdbc import properties
from mrtuner.failover.settings.stacks.stack import Stack


def write(limits: Bounds) -> str:
    """hikari.properties; times are in ms."""
    driver = "\n".join(f"dataSource.{key}={value}" for key, value in properties(limits).items())
    return (
        f"# A final check may start just before this ends: {limits.pool_wait} s in total.\n"
        f"connectionTimeout={(limits.pool_wait - limits.validation) * 1000}\n"
        f"validationTimeout={limits.validation * 1000}\n"
        "keepaliveTime=30000\n"
        "maxLifetime=600000\n"
        f"{driver}\n"
        f"# JVM: networkaddress.cache.ttl={limits.dns_ttl}\n"
    )


STACK = Stack(
    name="hikaricp", title="HikariCP", file="hikari.properties", write=write,
    sets_socket=False, read_timeout=True, read_write=True,
    verified="verified with HikariCP 5.1.0 over pgjdbc 42.7.4 on Java 17",
)  # fmt: skip
