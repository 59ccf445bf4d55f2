"""asyncpg's pool with the generated settings, when the server pauses after a commit: SNIPPET DSN.

Prints ``done``, or the error that reaches the caller.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-not-found, import-untyped, unused-ignore]

PAUSE = 0.8
found: dict[str, Any] = {}
exec(Path(sys.argv[1]).read_text(), found)


async def main() -> None:
    pool = await asyncpg.create_pool(
        sys.argv[2], min_size=1, max_size=1, init=found["limit"], **found["FAILOVER"]
    )
    async with found["acquired"](pool) as conn:
        await conn.execute("CREATE TABLE committed AS SELECT 1")
        backend = await conn.fetchval("SELECT pg_backend_pid()")
        os.kill(backend, signal.SIGSTOP)
        asyncio.get_running_loop().call_later(PAUSE, os.kill, backend, signal.SIGCONT)
    async with found["acquired"](pool) as conn:  # the pool goes on
        await conn.execute("SELECT 1")


try:
    asyncio.run(main())
    print("done")
except Exception as error:
    print(type(error).__name__, error)
