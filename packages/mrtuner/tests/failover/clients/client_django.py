"""Django with the generated database settings and the server's host: SNIPPET HOST."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from conversation import ENDLESS, converse
from django.conf import settings  # type: ignore[import-untyped]
from django.db import connections  # type: ignore[import-untyped]

found: dict[str, Any] = {}
exec(Path(sys.argv[1]).read_text(), found)
where = {"HOST": sys.argv[2], "NAME": "postgres", "USER": "postgres"}
settings.configure(DATABASES={"default": {**found["DATABASES"]["default"], **where}})


def connection() -> Any:
    made = connections.create_connection("default")
    made.inc_thread_sharing()
    return made


def request(made: Any, query: str = "SELECT 1") -> None:
    """Do what Django does at the start of a request, then run a query."""
    made.close_if_unusable_or_obsolete()
    with made.cursor() as cursor:
        cursor.execute(query)


held, idle = connection(), connection()
request(held)
request(idle)
converse(
    connect=lambda: request(connection()),
    idle=lambda: request(idle),
    flight=lambda: request(held, ENDLESS),
)
