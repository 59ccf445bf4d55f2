"""node-postgres. It cannot set a user timeout: the kernel's limits are used for case 2."""

from __future__ import annotations

from mrtuner.failover.bounds import Bounds
from mrtuner.failover.snippets.stack import Stack


def write(limits: Bounds) -> str:
    """The pool's options; times are in ms."""
    query = f"  query_timeout: {limits.read_timeout * 1000},\n" if limits.read_timeout else ""
    return (
        "const pool = new Pool({\n"
        "  keepAlive: true,\n"
        f"  keepAliveInitialDelayMillis: {limits.keepalive.idle * 1000},\n"
        f"  connectionTimeoutMillis: {limits.connect_timeout * 1000},\n"
        f"{query}"
        "})\n"
        "// After an error of a query give the client back for good: client.release(true).\n"
        "// Otherwise the pool hands the dead connection out again.\n"
    )


STACK = Stack(
    name="node-postgres", title="node-postgres", file="your program", write=write,
    sets_socket=False, read_timeout=True, read_write=False,
)  # fmt: skip
