"""pg8000 with the generated function: SNIPPET HOST."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from conversation import ENDLESS, converse

found: dict[str, Any] = {}
exec(Path(sys.argv[1]).read_text(), found)


def connect() -> Any:
    connection = found["connect"](sys.argv[2], user="postgres", database="postgres")
    connection.autocommit = True
    return connection


def ask(connection: Any, query: str) -> None:
    connection.cursor().execute(query)


held, idle = connect(), connect()
ask(held, "SELECT 1")
ask(idle, "SELECT 1")
converse(
    connect=connect,
    idle=lambda: ask(idle, "SELECT 1"),
    flight=lambda: ask(held, ENDLESS),
)
