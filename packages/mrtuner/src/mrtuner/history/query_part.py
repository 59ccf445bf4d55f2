"""A part of a query's answer: so many rows, texts cut, within a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mrtuner.history.store.parquet import Engine

#: Types whose values are short. Source: DuckDB documentation, Data Types.
_SHORT: Final = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT",
    "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIME", "TIMESTAMP",
    "INTERVAL", "UUID",
)  # fmt: skip


def as_subquery(sql: str) -> str:
    """Return a query in parentheses, without the semicolon that may end it."""
    import duckdb

    text = sql.encode()
    for at, kind in reversed(duckdb.tokenize(sql)):
        if kind is duckdb.token_type.comment:
            continue
        if text[at : at + 1] == b";":
            text = text[:at]
            continue
        break
    return f"(\n{text.decode()}\n)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """How much of an answer is wanted."""

    rows: int
    longest: int = 2000  # characters of a text; what is cut ends in an ellipsis
    seconds: float = 10.0


def limited(con: Engine, sql: str, part: Part) -> str:
    """Return the query for that part of the answer to `sql`, which is one SELECT.

    Lists, structs and the like become texts: these have no other bound.
    """
    columns = con.execute(f"SELECT * FROM {as_subquery(sql)} LIMIT 0").description or []
    cells = []
    for number, (name, kind, *_) in enumerate(columns):
        quoted, cell = name.replace('"', '""'), f"c{number}"
        text = str(kind)
        if text.endswith("]") or text.partition("(")[0].partition(" WITH ")[0] not in _SHORT:
            cell = (
                f"CASE WHEN length({cell}::VARCHAR) > {part.longest} "
                f"THEN left({cell}::VARCHAR, {part.longest}) || '…' ELSE {cell}::VARCHAR END"
            )
        cells.append(f'{cell} AS "{quoted}"')
    names = ", ".join(f"c{number}" for number in range(len(columns)))
    return f"SELECT {', '.join(cells)} FROM {as_subquery(sql)} AS q({names}) LIMIT {part.rows}"


@contextmanager
def ended_after(con: Engine, seconds: float) -> Iterator[None]:
    """Interrupt whatever query of a connection runs after so many seconds."""
    done = Event()

    def interrupt() -> None:
        while not done.wait(seconds):  # again, in case none ran at that moment
            con.interrupt()

    Thread(target=interrupt, daemon=True).start()
    try:
        yield
    finally:
        done.set()
