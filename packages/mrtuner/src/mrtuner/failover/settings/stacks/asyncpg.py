"""asyncpg. It has no parameters for socket options: they are set after connecting.

When a command takes too long, it sends a cancel request of its own, and releasing the connection
waits for that: with a frozen or silent server for as long as `release` is allowed to. A release
that takes longer closes the connection and raises TimeoutError: what was committed before stays
committed, so the error must not reach the caller.
Source: asyncpg 0.32, PoolConnectionHolder.release.

Its timeout is for all hosts together, so one that does not answer leaves the next none of it.
Source: MagicStack/asyncpg, issue 1155.
"""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.python import options
from mrtuner.failover.settings.stacks.stack import Stack


def write(limits: Bounds) -> str:
    """Keyword arguments of connect() and create_pool(), and how to acquire a connection."""
    read = f"command_timeout={limits.read_timeout}, " if limits.read_timeout else ""
    connect = f'timeout={limits.connect_timeout}, {read}target_session_attrs="read-write"'
    return f"""\
import asyncio
import contextlib
import socket

FAILOVER = dict({connect})
{options(limits)}

async def limit(conn):
    sock = conn._transport.get_extra_info("socket")  # no public API
    for option in OPTIONS:
        sock.setsockopt(*option)


@contextlib.asynccontextmanager
async def acquired(pool):
    conn = await pool.acquire(timeout={limits.pool_wait})
    try:
        yield conn
    finally:  # or it waits for a dead one; then it is closed, and a statement stays committed
        with contextlib.suppress(asyncio.TimeoutError):
            await pool.release(conn, timeout=0.5)


# pool = await asyncpg.create_pool(dsn, init=limit, **FAILOVER)
# async with acquired(pool) as conn: ...
# a single connection: conn = await asyncpg.connect(dsn, **FAILOVER); await limit(conn)
"""


STACK = Stack(
    name="asyncpg", title="asyncpg", file="your program", write=write,
    sets_socket=True, read_timeout=True, read_write=True,
    next_host=False,
    verified="verified with asyncpg 0.32.0",
)  # fmt: skip
