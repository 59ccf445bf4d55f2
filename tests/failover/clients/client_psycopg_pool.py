"""psycopg's pool, as the generated comment makes it: SNIPPET DSN."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from conversation import ENDLESS, converse
from psycopg_pool import ConnectionPool

text = Path(sys.argv[1]).read_text()
found: dict[str, Any] = {"ConnectionPool": ConnectionPool, "dsn": sys.argv[2]}
exec(text, found)
_, call = text.split("# ConnectionPool(")
made = "ConnectionPool(" + call.replace("\n#", "\n")


def pool() -> Any:
    """With all its connections open, which the snippet leaves to its moment."""
    return eval(made, found)


def ask(asked: Any) -> None:
    with asked.connection() as connection:
        connection.execute("SELECT 1")


known = pool()
known.wait()
held = known.getconn()
converse(connect=lambda: ask(pool()), idle=lambda: ask(known), flight=lambda: held.execute(ENDLESS))
