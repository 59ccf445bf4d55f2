"""Rows that are in no Parquet file yet, copied from SQLite into DuckDB.

A copy is made once, and afterwards only what is new is added: a viewer asks for the last hour again
and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mrtuner.history.source import Type
from mrtuner.history.store import layout, parquet

if TYPE_CHECKING:
    import sqlite3

    from mrtuner.history.source import Source
    from mrtuner.history.store.parquet import Engine


@dataclass(frozen=True, slots=True)
class _State:
    """Up to where a copy has the rows of its table.

    Rows leave a table only for a file, and only then can the number of a row be given again.
    """

    columns: Sequence[str]
    files: Sequence[int]  # the numbers of the source's files
    last: int  # the number of the newest row


@dataclass(slots=True)
class RecentRows:
    """Tables of DuckDB, each with the recent rows of a source: of an instance, or of all (None)."""

    con: Engine
    instances: list[str | None] = field(default_factory=list)
    _states: dict[str, _State] = field(default_factory=dict)  # by the name of the table
    _texts: int | None = None  # how many were copied

    def copy(
        self, db: sqlite3.Connection, source: Source, instance: str | None, files: Sequence[int]
    ) -> str:
        """Bring a copy up to date, and return the name of its table.

        Args:
            db: The store as it is to be seen.
            source: Whose rows.
            instance: Of which server; None for all.
            files: The numbers of all files of this source.
        """
        if instance not in self.instances:
            self.instances.append(instance)
        name = f"copy_{self.instances.index(instance)}_{source.name}"
        table, kinds = layout.hot_table(source), layout.stored_columns(source)
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        last = db.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] if columns else 0
        state, before = _State(columns, files, last or 0), self._states.get(name)
        query, parameters = _query(source, columns, instance)
        if before is None or (before.columns, before.files) != (columns, files):
            parquet.load(self.con, name, kinds, db, query, parameters)
        elif before.last < state.last:
            new = (*parameters, before.last)
            parquet.load(self.con, "new_rows", kinds, db, f"{query} AND rowid > ?", new)
            self.con.execute(f'INSERT INTO "{name}" FROM new_rows; DROP TABLE new_rows')
        self._states[name] = state
        return name

    def texts(self, db: sqlite3.Connection) -> str:
        """The same for the texts of statements, of which none is ever deleted."""
        (number,) = db.execute("SELECT count(*) FROM statement_text").fetchone()
        if number != self._texts:
            parquet.load(
                self.con, "texts", (("query_id", Type.INTEGER), ("text", Type.TEXT)), db,
                "SELECT 0 AS time, '' AS instance, query_id, text FROM statement_text",
            )  # fmt: skip
            self._texts = number
        return "texts"

    def clear(self) -> None:
        """Forget all copies of rows."""
        for name in self._states:
            self.con.execute(f'DROP TABLE "{name}"')
        self._states.clear()
        self.instances.clear()


def _query(
    source: Source, columns: Sequence[str], instance: str | None
) -> tuple[str, Sequence[str]]:
    """The query for these rows, with nulls for columns that the table does not have yet."""
    names = ", ".join(
        f'"{name}"' if name in columns else f'NULL AS "{name}"'
        for name in layout.column_names(source)
    )
    if not columns:
        return f"SELECT {names} WHERE false", ()
    rows = f"SELECT {names} FROM {layout.hot_table(source)} WHERE"
    return (f"{rows} true", ()) if instance is None else (f"{rows} instance = ?", (instance,))
