"""psycopg with the generated keyword arguments: SNIPPET DSN."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import psycopg
from conversation import ENDLESS, converse

found: dict[str, Any] = {}
exec(Path(sys.argv[1]).read_text(), found)


def connect() -> psycopg.Connection[Any]:
    return psycopg.connect(sys.argv[2], autocommit=True, **found["FAILOVER"])


held, idle = connect(), connect()
converse(
    connect=connect,
    idle=lambda: idle.execute("SELECT 1"),
    flight=lambda: held.execute(ENDLESS),
)
