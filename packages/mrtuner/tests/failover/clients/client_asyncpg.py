"""asyncpg's pool with the generated settings: SNIPPET DSN."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-not-found, import-untyped, unused-ignore]
from conversation import ENDLESS, converse

found: dict[str, Any] = {}
exec(Path(sys.argv[1]).read_text(), found)
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def wait(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run_coroutine_threadsafe(work, loop).result()


async def opened() -> Any:
    """A pool whose two connections have both been used."""
    pool = await asyncpg.create_pool(
        sys.argv[2], min_size=2, max_size=2, init=found["limit"], **found["FAILOVER"]
    )
    async with found["acquired"](pool) as one, found["acquired"](pool) as other:
        await one.execute("SELECT 1")
        await other.execute("SELECT 1")
    return pool


async def ask(query: str) -> None:
    async with found["acquired"](pool) as conn:
        await conn.execute(query)


async def connect() -> None:
    await asyncpg.connect(sys.argv[2], **found["FAILOVER"])


pool = wait(opened())
converse(
    connect=lambda: wait(connect()),
    idle=lambda: wait(ask("SELECT 1")),
    flight=lambda: wait(ask(ENDLESS)),
)
