"""Npgsql. Keepalive times are its own; it cannot set a user timeout."""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.stack import Stack


def write(limits: Bounds) -> str:
    """The connection string."""
    chosen = {
        "Timeout": limits.connect_timeout,
        "Tcp Keepalive": "true",
        "Tcp Keepalive Time": limits.keepalive.idle,
        "Tcp Keepalive Interval": limits.keepalive.interval,
        "Target Session Attributes": "read-write",
        # 0 would be no limit at all, which is not its default
        **({"Command Timeout": limits.read_timeout} if limits.read_timeout else {}),
    }
    asked = ";".join(f"{name}={value}" for name, value in chosen.items())
    return f"Host=db;Database=shop;Username=app;{asked}\n"


STACK = Stack(
    name="npgsql", title="Npgsql", file="the connection string", write=write,
    sets_socket=False, read_timeout=True, read_write=True,
)  # fmt: skip
