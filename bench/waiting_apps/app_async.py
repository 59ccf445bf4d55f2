"""app.py as an event loop, for uvicorn: requests wait for a connection of its pool."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from app import _burn
from psycopg_pool import AsyncConnectionPool

_Message = MutableMapping[str, Any]
_POOLS: list[AsyncConnectionPool] = []


async def app(
    scope: _Message,
    receive: Callable[[], Awaitable[_Message]],
    send: Callable[[_Message], Awaitable[None]],
) -> None:
    """Do what the request asks for; times in seconds."""
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    headers = dict(scope["headers"])
    cpu, database, sleep = (
        float(headers.get(f"x-{part}".encode(), b"0")) for part in ("cpu", "database", "sleep")
    )
    _burn(cpu / 2)
    if database:
        await _in_database(database, sleep, cpu / 2)
    else:
        await asyncio.sleep(sleep)
        _burn(cpu / 2)
    await send(
        {
            "type": "http.response.start", "status": 200,
            "headers": [(b"content-length", b"3"), (b"x-worker", str(os.getpid()).encode())],
        }
    )  # fmt: skip
    await send({"type": "http.response.body", "body": b"ok\n"})


async def _in_database(database: float, sleep: float, cpu: float) -> None:
    """Hold a connection from the statement to the end, as the simulation assumes."""
    async with _POOLS[0].connection() as session:
        await session.execute("SELECT pg_sleep(%s)", (database,))
        if sleep:
            await asyncio.sleep(sleep)
        _burn(cpu)


async def _live(
    receive: Callable[[], Awaitable[_Message]], send: Callable[[_Message], Awaitable[None]]
) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            size = int(os.environ["POOL"])
            pool = AsyncConnectionPool(
                os.environ["DATABASE_URL"], min_size=size, max_size=size, open=False, timeout=600,
                kwargs={"autocommit": True, "prepare_threshold": None},
            )  # fmt: skip
            await pool.open(wait=True)
            _POOLS.append(pool)
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await _POOLS[0].close()
            await send({"type": "lifespan.shutdown.complete"})
            return
