"""Times in time zones, which DuckDB hands to Python only if pytz is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from mrtuner.history.query_part import as_subquery
from mrtuner.history.store.layout import MICRO

if TYPE_CHECKING:
    from mrtuner.history.store.parquet import Engine

#: DuckDB's type of a time in a time zone, and what the names of types with one in them contain.
_TIME_ZONED: Final = "TIMESTAMP WITH TIME ZONE"
_ZONED: Final = "WITH TIME ZONE"


def has_zones(columns: Iterable[tuple[Any, ...]]) -> bool:
    """Whether a column of a result has times in time zones, as its description says."""
    return any(_ZONED in str(column[1]) for column in columns)


def in_utc(
    con: Engine, sql: str, named: Mapping[str, Any], columns: Sequence[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    """Return the rows of a query with times in time zones, which DuckDB gives only with pytz."""
    kinds = [str(column[1]) for column in columns]
    cells = [
        f"epoch_us(c{n})" if kind == _TIME_ZONED else f"c{n}::VARCHAR" if _ZONED in kind
        else f"c{n}"
        for n, kind in enumerate(kinds)
    ]  # fmt: skip
    names = ", ".join(f"c{n}" for n in range(len(kinds)))
    query = f"SELECT {', '.join(cells)} FROM {as_subquery(sql)} AS q({names})"
    rows = (con.execute(query, dict(named)) if named else con.execute(query)).fetchall()
    zoned = [kind == _TIME_ZONED for kind in kinds]
    return [
        tuple(
            datetime.fromtimestamp(value / MICRO, UTC) if zone and value is not None else value
            for value, zone in zip(row, zoned, strict=True)
        )
        for row in rows
    ]
