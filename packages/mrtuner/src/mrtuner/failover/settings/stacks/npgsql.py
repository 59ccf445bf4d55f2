"""Npgsql. It has its own keepalive times; it cannot set a user timeout.

When Command Timeout has passed, it opens a connection to cancel the command (Timeout), and waits
for the server to react (Cancellation Timeout, in milliseconds): both are part of the bound.

It throws NotSupportedException for Target Session Attributes with a single host.
Source: NpgsqlConnectionStringBuilder.PostProcessAndValidate.
"""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.stack import Stack


def write(limits: Bounds) -> str:
    """The connection string, and what a list of hosts wants besides."""
    several = limits.hosts > 1
    chosen = {
        "Timeout": limits.connect_timeout,
        "Tcp Keepalive": "true",
        "Tcp Keepalive Time": limits.keepalive.idle,
        "Tcp Keepalive Interval": limits.keepalive.interval,
        **({"Target Session Attributes": "read-write"} if several else {}),
        # 0 would mean no limit, which is not the default
        **(
            {"Command Timeout": limits.read_timeout, "Cancellation Timeout": 2000}
            if limits.read_timeout
            else {}
        ),
    }
    asked = ";".join(f"{name}={value}" for name, value in chosen.items())
    text = f"Host={','.join(limits.names)};Database=shop;Username=app;{asked}\n"
    if several:
        text += (
            "# NpgsqlDataSourceBuilder refuses Target Session Attributes: leave it out there, and\n"
            "# BuildMultiHost().WithTargetSession(TargetSessionAttributes.ReadWrite)\n"
        )
    return text


STACK = Stack(
    name="npgsql", title="Npgsql", file="the connection string", write=write,
    sets_socket=False, read_timeout=True, read_write=True,
    needs_list=True,
)  # fmt: skip
