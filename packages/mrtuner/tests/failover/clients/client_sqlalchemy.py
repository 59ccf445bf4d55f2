"""SQLAlchemy's engine from the generated program: SNIPPET."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from conversation import ENDLESS, converse
from sqlalchemy import create_engine


def engine() -> Any:
    found: dict[str, Any] = {"create_engine": create_engine}
    exec(Path(sys.argv[1]).read_text(), found)
    return found["engine"]


def ask(asked: Any) -> None:
    with asked.connect() as connection:
        connection.exec_driver_sql("SELECT 1")


known = engine()
held, *others = [known.connect() for _ in range(4)]
for other in others:
    other.close()
converse(
    connect=lambda: ask(engine()),
    idle=lambda: ask(known),
    flight=lambda: held.exec_driver_sql(ENDLESS),
)
