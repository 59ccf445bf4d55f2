"""PyMySQL with the generated arguments, which a comment gives: SNIPPET HOST."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pymysql  # type: ignore[import-untyped]
from conversation import converse

(arguments,) = re.findall(r"# PyMySQL: connect\((.*)\)", Path(sys.argv[1]).read_text())


def connect() -> Any:
    where = {"host": sys.argv[2], "port": 5432, "user": "root", "database": "mysql"}
    return eval(f"connect(**where, {arguments})", {"connect": pymysql.connect, "where": where})


def ask(connection: Any, query: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(query)


held, idle = connect(), connect()
converse(
    connect=connect,
    idle=lambda: ask(idle, "SELECT 1"),
    flight=lambda: ask(held, "SELECT SLEEP(60)"),
)
