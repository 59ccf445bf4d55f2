"""Rows that are in no Parquet file yet, copied from SQLite into DuckDB.

A copy is made once, and afterwards only new rows are added: a viewer asks for the last hour again
and again. Rows of all instances may be counted by SQLite instead: hundreds of instances have
millions of rows an hour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mrtuner.history.recording.source import Type
from mrtuner.history.store import layout, parquet
from mrtuner.history.store.layout import HOUR
from mrtuner.postgres.secret_settings import shown_in_duckdb

if TYPE_CHECKING:
    import sqlite3

    from mrtuner.history.recording.source import Source
    from mrtuner.history.store.parquet import Engine


@dataclass(frozen=True, slots=True)
class _State:
    """How far a copy has the rows of its table.

    Rows leave a table only for a file, and only then can SQLite reuse the number of a row.
    """

    columns: Sequence[str]
    files: Sequence[int]  # the numbers of the source's files
    last: int  # the number of the newest row

    def continues(self, before: _State) -> bool:
        """Whether a copy in the state `before` lacks only rows that were added since."""
        return (self.columns, self.files) == (before.columns, before.files)


@dataclass(slots=True)
class HourCount:
    """Recent rows of an instance in an hour; times in microseconds since 1970."""

    rows: int  # that meet the condition
    first: int  # of all rows
    last: int

    def add(self, rows: int, first: int, last: int) -> None:
        self.rows += rows
        self.first, self.last = min(self.first, first), max(self.last, last)


#: By instance and hour, in microseconds since 1970.
HourCounts = Mapping[tuple[str, int], HourCount]


@dataclass(slots=True)
class RecentRows:
    """Tables of DuckDB, each with the recent rows of a source: of an instance, or of all (None)."""

    con: Engine
    #: Instances that have copies of their own.
    instances: list[str] = field(default_factory=list)
    _states: dict[str, _State] = field(default_factory=dict)  # by the name of the table
    _counts: dict[tuple[str, str], tuple[_State, dict[tuple[str, int], HourCount]]] = field(
        default_factory=dict
    )  # by source and condition
    _texts: int | None = None  # how many were copied

    def copy(
        self, db: sqlite3.Connection, source: Source, instance: str | None, files: Sequence[int]
    ) -> str:
        """Bring a copy up to date, and return the name of its table.

        Args:
            db: The store, in the state that is to be seen.
            source: Whose rows.
            instance: Of which server; None for all.
            files: The numbers of all files of this source.
        """
        if instance is not None and instance not in self.instances:
            self.instances.append(instance)
        which = "all" if instance is None else self.instances.index(instance)
        name = f"copy_{which}_{source.name}"
        state, before = _state(db, source, files), self._states.get(name)
        query, parameters = _query(source, state.columns, instance)
        if before is None or not state.continues(before):
            self._load(name, source, db, query, parameters)
        elif before.last < state.last:
            new = (*parameters, before.last)
            self._load("new_rows", source, db, f"{query} AND rowid > ?", new)
            self.con.execute(f'INSERT INTO "{name}" FROM new_rows; DROP TABLE new_rows')
        self._states[name] = state
        return name

    def _load(
        self, table: str, source: Source, db: sqlite3.Connection, query: str,
        parameters: Sequence[Any],
    ) -> None:  # fmt: skip
        parquet.load(self.con, table, layout.stored_columns(source), db, query, parameters)
        if source.name == "settings":  # older recorders stored more, and a query can name a copy
            rows = shown_in_duckdb(f'FROM "{table}"')
            self.con.execute(f'CREATE OR REPLACE TABLE "{table}" AS {rows}')

    def counts(
        self, db: sqlite3.Connection, source: Source, where: str, files: Sequence[int]
    ) -> HourCounts:
        """Count the rows that meet a condition, which is SQL for SQLite; count only new rows again.

        An hour that has only other rows counts as 0. `db` and `files` are as for `copy`.
        """
        state = _state(db, source, files)
        before, counted = self._counts.get((source.name, where), (None, {}))
        if before is None or not state.continues(before):
            before, counted = _State(state.columns, files, 0), {}
        if before.last < state.last:
            query, _ = _query(source, state.columns, None)
            new = db.execute(
                f"""SELECT instance, time / {HOUR} * {HOUR}, count(*) FILTER (WHERE {where}),
                           min(time), max(time)
                    FROM ({query} AND rowid > ?) GROUP BY 1, 2""",
                (before.last,),
            ).fetchall()
            for instance, hour, *found in new:
                counted.setdefault((instance, hour), HourCount(0, *found[1:])).add(*found)
        self._counts[source.name, where] = state, counted
        return counted

    def texts(self, db: sqlite3.Connection) -> str:
        """Return the table with the texts of statements; copy it again if texts were added."""
        (number,) = db.execute("SELECT count(*) FROM statement_text").fetchone()
        if number != self._texts:
            parquet.load(
                self.con, "texts", (("query_id", Type.INTEGER), ("text", Type.TEXT)), db,
                "SELECT 0 AS time, '' AS instance, query_id, text FROM statement_text",
            )  # fmt: skip
            self._texts = number
        return "texts"

    def clear(self) -> None:
        """Forget the copies of single instances."""
        for name in [one for one in self._states if not one.startswith("copy_all_")]:
            self.con.execute(f'DROP TABLE "{name}"')
            del self._states[name]
        self.instances.clear()


def _state(db: sqlite3.Connection, source: Source, files: Sequence[int]) -> _State:
    """Return the current state of a source's table."""
    table = layout.hot_table(source)
    columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    last = db.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] if columns else 0
    return _State(columns, files, last or 0)


def nothing(source: Source) -> str:
    """Return a query with a source's columns and no rows."""
    columns = ", ".join(
        f'NULL::{layout.PARQUET[kind]} AS "{name}"'
        for name, kind in (("instance", Type.TEXT), *layout.stored_columns(source))
    )
    return f"FROM (SELECT NULL::TIMESTAMP AS time, {columns} WHERE false) AS n"


def _query(
    source: Source, columns: Sequence[str], instance: str | None
) -> tuple[str, Sequence[str]]:
    """Return a query for these rows, with nulls for columns that the table does not have yet."""
    names = ", ".join(
        f'"{name}"' if name in columns else f'NULL AS "{name}"'
        for name in layout.column_names(source)
    )
    if not columns:
        return f"SELECT {names} WHERE false", ()
    rows = f"SELECT {names} FROM {layout.hot_table(source)} WHERE"
    return (f"{rows} true", ()) if instance is None else (f"{rows} instance = ?", (instance,))
