"""libpq: psql, and everything that takes its connection string."""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.stack import Stack


def write(limits: Bounds) -> str:
    """A service file's section."""
    rows = "\n".join(f"{name}={value}" for name, value in limits.conninfo.items())
    return (
        "# ~/.pg_service.conf; connect with service=failover, or put these in any\n"
        "# connection string. Never add keepalives=0: libpq then drops tcp_user_timeout too.\n"
        f"[failover]\n{rows}\n"
    )


STACK = Stack(
    name="libpq", title="libpq", file="~/.pg_service.conf", write=write,
    sets_socket=True, read_timeout=False, read_write=True,
    verified="verified with psql of PostgreSQL 15 and 18",
)  # fmt: skip
