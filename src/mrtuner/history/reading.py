"""Reading a store with SQL: rows in SQLite and in Parquet files as one view a source.

A store is read as it was at one moment, while a recorder may write. Damaged files are left out and
named.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import BadValue
from mrtuner.history.source import Source, Type
from mrtuner.history.store import layout, opening, parquet
from mrtuner.history.store.lake import Lake, LocalLake
from mrtuner.history.store.parquet import File

if TYPE_CHECKING:
    from mrtuner.history.store.parquet import Engine

#: What a query takes: names and rows.
Rows = list[dict[str, Any]]
_WORD: Final = re.compile(r"\w+")


@dataclass(slots=True)
class History:
    """A store that is open for reading; see `open_history`."""

    con: Engine
    db: sqlite3.Connection
    name: str  # of the store: its directory, or its address on S3
    lake: Lake
    files: tuple[File, ...]
    damaged: tuple[str, ...]  # files that are left out, each with the reason
    sources: tuple[Source, ...]
    made: set[str] = field(default_factory=set)  # tables and views that DuckDB has by now

    def rows(self, sql: str, parameters: dict[str, Any] | None = None) -> Rows:
        """Return the rows of a query over the views, by the names of their columns.

        Raises:
            BadValue: DuckDB refuses it.
        """
        names, rows = self.table(sql, parameters)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def table(
        self, sql: str, parameters: dict[str, Any] | None = None
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of the columns, and the rows."""
        import duckdb

        self.provide(sql)
        try:
            found = self.con.execute(sql, parameters) if parameters else self.con.execute(sql)
            return [column[0] for column in found.description or ()], found.fetchall()
        except duckdb.Error as error:
            if failure := self.lake.failure():
                raise failure from None
            if self._left_out(sql):
                return self.table(sql, parameters)
            raise _failed(error) from None

    def has(self, source: str) -> bool:
        """Whether the store has a source of this name."""
        return any(one.name == source for one in self.sources)

    def row(self, sql: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the only row of a query."""
        return self.rows(sql, parameters)[0]

    def _left_out(self, sql: str) -> bool:
        """Leave out the files of a query that are not as they were written; whether there are any.

        Only asked when a query failed, since it reads the files from end to end.
        """
        words = set(_WORD.findall(sql))
        broken = [
            file for file in self.files
            if file.view in words and not self.lake.is_as_written(file)
        ]  # fmt: skip
        self.files = tuple(file for file in self.files if file not in broken)
        self.damaged += tuple(f"{file.path} is not as it was written" for file in broken)
        for source in self.sources:
            views = {source.name, layout.rollup_view(source)}
            if any(file.view in views for file in broken):
                for view in views:
                    self.con.execute(f'DROP VIEW IF EXISTS "{view}"')
                self.made -= views
        return bool(broken)

    def lock(self) -> None:
        """From now on queries read the store and nothing else: no other file, no setting."""
        lake = parquet.quoted(self.lake.root)
        self.con.execute(f"SET allowed_directories = [{lake}]")
        self.con.execute("SET enable_external_access = false")
        self.con.execute("SET lock_configuration = true")

    def views(self) -> Iterator[tuple[str, str]]:
        """Name and meaning of each view."""
        for source in self.sources:
            yield source.name, source.help
            yield layout.rollup_view(source), f"the same, by {source.rollup}"
        yield "statement_texts", "texts of statements, without literals"

    def described(self, view: str) -> list[list[str]]:
        """Name, type, unit and meaning of a view's columns.

        Raises:
            BadValue: there is no such view.
        """
        if view not in dict(self.views()):
            raise BadValue(f"the history has no view {view}", "Run mrtuner history views.")
        about = {
            column.name: (column.unit or "", column.help)
            for source in self.sources
            if view in {source.name, layout.rollup_view(source)}
            for column in source.columns
        } | _SHARED
        # DESCRIBE "databases" would list DuckDB's own.
        rows = self.rows(f'SELECT column_name, column_type FROM (DESCRIBE FROM "{view}")')
        return [
            [name, row["column_type"].lower(), *_about(about, name)]
            for row in rows
            for name in [row["column_name"]]
        ]

    def provide(self, sql: str) -> None:
        """Make the views that a query names, and the tables below them.

        Only those: what is in SQLite has to be copied.
        """
        import duckdb

        try:
            self._provide(sql)
        except duckdb.Error as error:
            if failure := self.lake.failure():
                raise failure from None
            if not self._left_out(sql):
                raise _failed(error) from None
            self._provide(sql)

    def _provide(self, sql: str) -> None:
        words = set(_WORD.findall(sql))
        for source in self.sources:
            # Each view apart: DuckDB looks into every file of a view when it is made.
            wanted = (words & {source.name, layout.rollup_view(source)}) - self.made
            if wanted and layout.hot_table(source) not in self.made:
                self._load_recent(source)
            for view in wanted:
                self._view(view, self._recent(source, view))
        if "statement_texts" in words - self.made:
            self._make_texts()

    def _load_recent(self, source: Source) -> None:
        """Copy the rows that are not in a file yet."""
        table = layout.hot_table(source)
        known = {row[1] for row in self.db.execute(f"PRAGMA table_info({table})")}
        names = ", ".join(
            f'"{name}"' if name in known else f'NULL AS "{name}"'
            for name in layout.column_names(source)
        )
        recent = f"SELECT {names} " + (f"FROM {table}" if known else "WHERE false")
        parquet.load(self.con, table, layout.stored_columns(source), self.db, recent)
        self.made.add(table)

    def _recent(self, source: Source, view: str) -> str:
        """The query of a view over rows that are not in a file yet."""
        rows = f"FROM {layout.hot_table(source)}"
        if view == source.name:
            return rows
        return parquet.rollup(
            rows, source.rollup_by, layout.step(source.rollup), dict(layout.rollup_columns(source))
        )

    def _view(self, name: str, recent: str) -> None:
        files = self._sound([file for file in self.files if file.view == name])
        sealed = parquet.union(self.lake.root, files) if files else ""
        whole = f"({sealed}) UNION ALL BY NAME ({recent})" if files else recent
        self.con.execute(f'CREATE OR REPLACE VIEW "{name}" AS {whole}')
        self.made.add(name)

    def _sound(self, files: list[File]) -> list[File]:
        """Leave out those that cannot be read, for good."""
        flaws = self.lake.flaws(files)
        if flaws:
            self.files = tuple(file for file in self.files if file not in flaws)
            self.damaged += tuple(f"{file.path} {flaw}" for file, flaw in flaws.items())
        return [file for file in files if file not in flaws]

    def _make_texts(self) -> None:
        parquet.load(
            self.con, "texts", (("query_id", Type.INTEGER), ("text", Type.TEXT)), self.db,
            "SELECT 0 AS time, '' AS instance, query_id, text FROM statement_text",
        )  # fmt: skip
        self.con.execute("CREATE VIEW statement_texts AS SELECT query_id, text FROM texts")
        self.made.add("statement_texts")


def _failed(error: Exception) -> BadValue:
    return BadValue(
        f"the query failed: {str(error).partition(chr(10))[0]}",
        "See the views with mrtuner history views.",
    )


#: Columns that every view has.
_SHARED: Final = {
    "time": ("", "when it was sampled, UTC; of a summary, when the step begins"),
    "instance": ("", "the server"),
    "seconds": ("s", "time since the sample before, over which counters have grown"),
    "samples": ("", "rows that were summarized"),
    "text": ("", "the statement, without literals"),
}
#: What the columns of a summary say more.
_SUMMARY: Final = {
    "_peak": " (highest a second)", "_min": " (lowest)", "_max": " (highest)",
    "_avg": " (average)", "_last": " (last)",
}  # fmt: skip


def _about(known: dict[str, tuple[str, str]], name: str) -> tuple[str, str]:
    if name in known:
        return known[name]
    for suffix, more in _SUMMARY.items():
        stem = name.removesuffix(suffix)
        if stem in known:
            unit, meaning = known[stem]
            return unit, meaning + more
    return "", ""


@contextmanager
def open_history(
    directory: Path, lake: Lake | None = None, *, name: str | None = None
) -> Iterator[History]:
    """Open a store for reading, as it is now.

    Args:
        directory: The store.
        lake: Where its Parquet files are, if not in the directory.
        name: What it is called, if not as the directory.

    Raises:
        UsageError: there is none, or it is damaged.
        Refused: it is of a newer version.
        MissingPart: DuckDB is not installed.
    """
    directory = directory.absolute()
    lake = lake or LocalLake(directory / layout.LAKE)
    with closing(opening.for_reading(directory)) as db, opening.explained(directory):
        con = parquet.engine()
        try:
            # From here on, this connection sees one state of the store.
            db.execute("BEGIN")
            files = opening.listed(db)
            flaws = {file: lake.flaw(file) for file in files}
            lake.enter(con)
            yield History(
                con=con,
                db=db,
                name=name or str(directory),
                lake=lake,
                files=tuple(file for file, flaw in flaws.items() if flaw is None),
                damaged=tuple(f"{file.path} {flaw}" for file, flaw in flaws.items() if flaw),
                sources=tuple(opening.sources(db)),
            )
        finally:
            con.close()
