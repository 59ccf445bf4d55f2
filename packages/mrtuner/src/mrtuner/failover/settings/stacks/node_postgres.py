"""node-postgres. It cannot set a user timeout: for case 2 the kernel's limits are used.

Node's runtime sets an interval of 1 s and a count of 10 with every keepalive, whatever the kernel's
settings. Source: libuv, src/unix/tcp.c, uv__tcp_keepalive; measured with Node 20: 11.3 s for 1 s
idle.
"""

from __future__ import annotations

from typing import Final

from mrtuner.failover.predict.tcp_timers import Keepalive
from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.stack import Stack

_INTERVAL: Final = 1
_COUNT: Final = 10


def keepalive(limits: Bounds) -> Keepalive:
    """Only the idle time can be chosen: what the ten probes leave of the requested time."""
    spare = int(limits.within) - _COUNT * _INTERVAL - 1
    idle = max(1, min(limits.keepalive.idle, spare))
    return Keepalive(idle=idle, interval=_INTERVAL, count=_COUNT)


def write(limits: Bounds) -> str:
    """The pool's options; times are in ms."""
    query = f"  query_timeout: {limits.read_timeout * 1000},\n" if limits.read_timeout else ""
    return (
        "const pool = new Pool({\n"
        "  keepAlive: true,\n"
        f"  keepAliveInitialDelayMillis: {keepalive(limits).idle * 1000},\n"
        f"  connectionTimeoutMillis: {limits.connect_timeout * 1000},\n"
        f"{query}"
        "})\n"
        "// Without these two a connection that is lost, idle or in use, ends the whole process.\n"
        'pool.on("error", () => {})\n'
        'pool.on("connect", (client) => client.on("error", () => {}))\n'
        "// After a failed query, destroy the client: client.release(true).\n"
        "// Otherwise the pool hands the dead connection out again.\n"
    )


STACK = Stack(
    name="node-postgres", title="node-postgres", file="your program", write=write,
    sets_socket=False, read_timeout=True, read_write=False,
    next_host=False,
    keepalive=keepalive,
    verified="verified with pg 8.23.1 on Node 20",
)  # fmt: skip
