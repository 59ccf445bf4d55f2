"""DuckDB's views over the files and recent rows of a store, kept until its files change."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mrtuner.history.recording.source import Source
from mrtuner.history.store import layout, parquet, summaries
from mrtuner.history.store.layout import HOUR
from mrtuner.history.store.parquet import File
from mrtuner.history.store.recent import RecentRows, nothing
from mrtuner.postgres.secret_settings import shown_in_duckdb

if TYPE_CHECKING:
    from mrtuner.history.reading import History
    from mrtuner.history.store.parquet import Engine

Answer = TypeVar("Answer")
#: Key in `Workspace.known` for the files that queries could not read, and why.
DAMAGED: Final = "damaged"
#: A word of a query: views are created when a query names them.
WORD: Final = re.compile(r"\w+")
#: Number of periods, the last used ones, whose views are kept: a screen needs up to five.
_PERIODS: Final = 32
#: Number of instances whose recent rows are kept in memory.
_INSTANCES: Final = 8
#: Number of answers that are kept.
_KEPT: Final = 2048
#: A word that may be the name of a view: `samples` is a column of each summary, too.
_NAME: Final = re.compile(r"(?<!sum\()(?<!AS )\b\w+")


@dataclass(slots=True)
class Workspace:
    """What DuckDB has read of a store, kept for the next history that opens it.

    The views are dropped when the store's files change. Rows that are in no file are copied once,
    and new ones are added.
    """

    con: Engine = field(default_factory=parquet.engine)
    recent: RecentRows = field(init=False)
    known: dict[Any, Any] = field(default_factory=dict)  # about the files
    files: Sequence[File] = ()  # all that are on the list
    _sources: Sequence[Source] = ()
    _made: dict[tuple[str | None, tuple[int, int] | None], Views] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)
    #: The state that an answer depends on, and the answer; the least recently used comes first.
    _kept: dict[Any, tuple[Any, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.recent = RecentRows(self.con)

    def enter(self, files: Sequence[File], sources: Sequence[Source]) -> None:
        """Note the store's files and sources; drop the views if they have changed."""
        many = len(self.recent.instances) > _INSTANCES
        if many or (self.files, self._sources) != (files, sources):
            for key in list(self._made):
                self._made.pop(key).drop()
            self.known.clear()
        if many:
            self.recent.clear()
        self.files, self._sources = files, sources

    def views(self, instance: str | None, span: tuple[int, int] | None) -> Views:
        """Return views over the rows of one instance or all, of a period or of all time."""
        key = instance, span
        found = self._made.pop(key, None)
        if found is None:
            while len(self._made) >= _PERIODS:
                self._made.pop(next(iter(self._made))).drop()
            found = Views.of(self.con, instance, span, next(self._numbers))
        self._made[key] = found  # at the end: the first is the least recently used
        return found

    def keep(self, key: Any, state: Any, ask: Callable[[], Answer]) -> Answer:
        """Return the answer of `ask`, which is called again when `state` has changed."""
        damaged = self.known.get(DAMAGED)
        kept = self._kept.pop(key, None)
        answer: Answer = kept[1] if kept is not None and kept[0] == state else ask()
        if self.known.get(DAMAGED) == damaged:  # Else it is from fewer files than `state` says.
            self._kept[key] = state, answer
        while len(self._kept) > _KEPT:
            self._kept.pop(next(iter(self._kept)))
        return answer

    @contextmanager
    def sealed_views(self, instance: str | None, span: tuple[int, int]) -> Iterator[Views]:
        """Yield views over only the rows in files, for one query whose answer is kept."""
        views = Views.of(self.con, instance, span, next(self._numbers), sealed=True)
        try:
            yield views
        finally:
            views.drop()

    def close(self) -> None:
        for made in self._made.values():
            made.con.close()
        self.con.close()

    def forget(self, views: set[str]) -> None:
        """Rebuild these when they are requested again."""
        self.known.clear()
        for made in self._made.values():
            made.forget(views)


@dataclass(slots=True, kw_only=True)
class Views:
    """The views over a store, or over a part of it, each made when a query names it."""

    con: Engine
    schema: str
    instance: str | None = None  # None: all
    span: tuple[int, int] | None = None  # in microseconds since 1970; None: all there is
    made: set[str] = field(default_factory=set)  # tables and views that DuckDB has by now
    sealed: bool = False  # without rows that are in no file

    @classmethod
    def of(
        cls, engine: Engine, instance: str | None, span: tuple[int, int] | None, number: int,
        *, sealed: bool = False,
    ) -> Views:  # fmt: skip
        """Return views in their own schema; views over everything are in `main`, for users."""
        con = engine.cursor()
        schema = "main" if instance is None and span is None else f"views_{number}"
        con.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        con.execute(f"SET search_path = '{schema},main'")
        return cls(con=con, schema=schema, instance=instance, span=span, sealed=sealed)

    def drop(self) -> None:
        self.forget(set(self.made))
        if self.schema != "main":
            self.con.execute(f"DROP SCHEMA {self.schema} CASCADE")
        self.con.close()

    def forget(self, views: set[str]) -> None:
        """Rebuild these when they are requested again."""
        for view in views & self.made:
            self.con.execute(f'DROP VIEW IF EXISTS {self.schema}."{view}"')
        self.made -= views

    def provide(self, history: History, sql: str) -> None:
        """Create the views that a query names, and bring the tables below them up to date."""
        words = {word.lower() for word in _NAME.findall(sql)}
        for source in history.sources:
            named = words.intersection(summaries.views_of(source))
            if named:
                rows = self._rows(history, source)
                # Only named views: DuckDB looks into every file of a view when it is created.
                for view in named - self.made:
                    self._view(history, view, self._recent(source, view, rows))
        if "statement_texts" in words:
            self._make_texts(history)

    def _rows(self, history: History, source: Source) -> str:
        """Return a query for the rows that are not in a file yet; if sealed, it has none."""
        if self.sealed:
            return nothing(source)
        return self._recent_rows(history.recent(source, self.instance))

    def _recent_rows(self, table: str) -> str:
        """Return a query for those rows of a table of recent rows that are in the period."""
        rows = f'FROM main."{table}"'
        if self.span is None:
            return rows
        # The last step of a summary may end after the period.
        begin, end = self.span[0], self.span[1] + HOUR
        return f"{rows} WHERE time >= make_timestamp({begin}) AND time < make_timestamp({end})"

    def _recent(self, source: Source, view: str, rows: str) -> str:
        """Return the query of a view over rows that are not in a file yet."""
        if view == source.name:
            return rows
        summary = parquet.rollup(
            rows, source.rollup_by, layout.step(source.rollup), dict(layout.rollup_columns(source))
        )
        further = summaries.named(view)
        if further is None:
            return summary
        return further.query(rows if further.of == source.name else summary)

    def _view(self, history: History, name: str, recent: str) -> None:
        whole = self._with_files(history, self._files(history, name), recent)
        if name == "settings":  # older recorders stored more
            whole = shown_in_duckdb(whole)
        self.con.execute(f'CREATE OR REPLACE VIEW {self.schema}."{name}" AS {whole}')
        self.made.add(name)

    def _files(self, history: History, view: str) -> list[File]:
        begin, end = self.span or (0, sys.maxsize)
        return [
            file for file in history.files
            if file.view == view and file.last >= begin and file.first < end
        ]  # fmt: skip

    def _with_files(self, history: History, files: list[File], recent: str) -> str:
        """Return the query for rows in files and recent ones."""
        sound = history.sound(files)
        if not sound:
            return recent
        sealed = parquet.union(history.lake.root, sound)
        return f"({sealed}) UNION ALL BY NAME ({recent})"

    def _make_texts(self, history: History) -> None:
        """Create the view of statement texts, which have neither time nor instance."""
        table = history.once("texts", lambda: history.work.recent.texts(history.db))
        if "statement_texts" not in self.made:
            view = f'{self.schema}."statement_texts"'
            self.con.execute(f"CREATE VIEW {view} AS SELECT query_id, text FROM main.{table}")
            self.made.add("statement_texts")
