"""PgBouncer: its own connections to the server, and how long it lets clients wait."""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.stack import Stack


def write(limits: Bounds) -> str:
    """pgbouncer.ini; times are in s, tcp_user_timeout in ms."""
    keepalive = limits.keepalive
    read = f"query_timeout = {limits.read_timeout}\n" if limits.read_timeout else ""
    return (
        "[pgbouncer]\n"
        "tcp_keepalive = 1\n"
        f"tcp_keepidle = {keepalive.idle}\n"
        f"tcp_keepintvl = {keepalive.interval}\n"
        f"tcp_keepcnt = {keepalive.count}\n"
        f"tcp_user_timeout = {limits.user_timeout}\n"
        f"server_connect_timeout = {limits.connect_timeout}\n"
        "server_login_retry = 1\n"
        f"query_wait_timeout = {limits.pool_wait}\n"
        f"dns_max_ttl = {limits.dns_ttl}\n"
        f"{read}"
        "# A login through PgBouncer proves nothing: it succeeds while the database is dead.\n"
    )


STACK = Stack(
    name="pgbouncer", title="PgBouncer", file="pgbouncer.ini", write=write,
    sets_socket=True, read_timeout=True, read_write=False,
    stale="PgBouncer does not check whether its server is writable; RECONNECT it after a failover",
    verified="verified with PgBouncer 1.18",
)  # fmt: skip
