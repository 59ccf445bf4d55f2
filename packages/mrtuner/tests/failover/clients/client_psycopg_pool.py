"""psycopg's pool, made as the generated comment says: SNIPPET DSN."""

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
    """The pool, with all its connections open; the snippet opens them when needed."""
    return eval(made, found)


def ask(asked: Any) -> None:
    with asked.connection() as connection:
        connection.execute("SELECT 1")


known = pool()
known.wait()
held = known.getconn()
converse(connect=lambda: ask(pool()), idle=lambda: ask(known), flight=lambda: held.execute(ENDLESS))
