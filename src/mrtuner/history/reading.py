"""Reading a store with SQL: rows in SQLite and in Parquet files as one view a source.

A store is read as it was at one moment, while a recorder may write. Damaged files are left out and
named.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mrtuner.errors import BadValue
from mrtuner.history.source import Source
from mrtuner.history.store import layout, opening, parquet, summaries
from mrtuner.history.store.lake import Lake, LocalLake
from mrtuner.history.store.layout import HOUR, MICRO
from mrtuner.history.store.own import SAMPLES
from mrtuner.history.store.parquet import File
from mrtuner.history.store.recent import RecentRows

if TYPE_CHECKING:
    from mrtuner.history.store.parquet import Engine

Answer = TypeVar("Answer")
#: What a query takes: names and rows.
Rows = list[dict[str, Any]]
_WORD: Final = re.compile(r"\w+")
#: Periods whose views are kept: that of a screen, and one to compare it with, and those before.
_PERIODS: Final = 16
#: Instances whose recent rows are kept in memory.
_INSTANCES: Final = 8
#: Since which format rows in files are in the further summaries.
_SUMMARIZED: Final = 2
#: Periods that begin and end within the same so many microseconds are read as one.
_ABOUT: Final = 300 * MICRO


@dataclass(slots=True)
class History:
    """A store that is open for reading; see `open_history`."""

    work: Workspace
    db: sqlite3.Connection
    name: str  # of the store: its directory, or its address on S3
    lake: Lake
    files: tuple[File, ...]
    damaged: tuple[str, ...]  # files that are left out, each with the reason
    sources: tuple[Source, ...]
    #: What was asked and will be asked again: the store stays as it was when it was opened.
    known: dict[Any, Any] = field(default_factory=dict)

    def rows(
        self, sql: str, parameters: dict[str, Any] | None = None, *, inside: bool = False
    ) -> Rows:
        """Return the rows of a query over the views, by the names of their columns.

        Args:
            sql: The query.
            parameters: Its parameters.
            inside: It reads no time but that from `begin` to before `end` of its parameters. Then
                other files and rows are not even looked at.

        Raises:
            BadValue: DuckDB refuses it.
        """
        names, rows = self.table(sql, parameters, inside=inside)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def table(
        self, sql: str, parameters: dict[str, Any] | None = None, *, inside: bool = False
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of the columns, and the rows; see `rows`."""
        import duckdb

        try:
            views = self._views(parameters or {}, inside=inside)
            views.provide(self, sql)
            named = {name: value for name, value in (parameters or {}).items() if f"${name}" in sql}
            found = views.con.execute(sql, named) if named else views.con.execute(sql)
            return [column[0] for column in found.description or ()], found.fetchall()
        except duckdb.Error as error:
            if failure := self.lake.failure():
                raise failure from None
            if self._left_out(sql):
                return self.table(sql, parameters, inside=inside)
            raise _failed(error) from None

    def latest(
        self, sql: str, source: str, keys: int, *, instance: str, end: datetime
    ) -> list[tuple[Any, ...]]:
        """Return the newest row for each key that a source has of an instance before `end`.

        What files say of days that are over is kept, so that a year is not read again for each
        answer.

        Args:
            sql: A query with one row for each key, of the time from `$begin` to before `$end`.
            source: Whose rows it reads.
            keys: Of how many columns a key consists, the first ones.
        """
        parameters = {"instance": instance, "begin": datetime.min, "end": end}
        day = min(end, self._oldest(source, instance)).replace(hour=0, minute=0, second=0)
        key = (sql, instance, day)
        if key not in self.work.known:
            self.work.known[key] = self.table(sql, parameters | {"end": day})[1]
        _, fresh = self.table(sql, parameters | {"begin": day}, inside=True)
        found = {row[:keys]: row for row in self.work.known[key]}
        return list((found | {row[:keys]: row for row in fresh}).values())

    def _oldest(self, source: str, instance: str) -> datetime:
        """The oldest row that is not in a file."""
        (found,) = (one for one in self.sources if one.name == source)
        table = self.recent(found, instance)
        ((oldest,),) = self.work.con.execute(f'SELECT min(time) FROM "{table}"').fetchall()
        return oldest or datetime.max

    def has(self, source: str) -> bool:
        """Whether the store has a source of this name."""
        return any(one.name == source for one in self.sources)

    def row(
        self, sql: str, parameters: dict[str, Any] | None = None, *, inside: bool = False
    ) -> dict[str, Any]:
        """Return the only row of a query."""
        return self.rows(sql, parameters, inside=inside)[0]

    def once(self, key: Any, ask: Callable[[], Answer]) -> Answer:
        """What `ask` gives, which is asked once while the store is open."""
        if key not in self.known:
            self.known[key] = ask()
        found: Answer = self.known[key]
        return found

    def spans(self) -> dict[str, tuple[datetime, datetime]]:
        """By instance the first and the last hour in which it was sampled, UTC."""
        return self.once("spans", self._spans)

    def _spans(self) -> dict[str, tuple[datetime, datetime]]:
        table = layout.hot_table(SAMPLES)
        recent = self.db.execute(
            f"SELECT instance, min(time), max(time) FROM {table} GROUP BY 1"
        ).fetchall()
        oldest = min((first for _, first, _ in recent), default=None)
        view = layout.rollup_view(SAMPLES)
        sealed_until = max((file.last for file in self.files if file.view == view), default=0)
        # What is in files is mostly older than all that is in SQLite, which then is not copied.
        end = _moment(oldest) if oldest is not None and sealed_until < oldest else datetime.max
        if ("spans", end) not in self.work.known:
            _, self.work.known["spans", end] = self.table(
                "SELECT instance, min(time), max(time) FROM samples_by_hour GROUP BY 1",
                {"begin": datetime.min, "end": end}, inside=True,
            )  # fmt: skip
        sealed = self.work.known["spans", end]
        found = {name: (first, last) for name, first, last in sealed}
        for name, *times in recent:
            first, last = (_moment(at // HOUR * HOUR) for at in times)
            before = found.get(name)
            found[name] = (before[0], max(last, before[1])) if before else (first, last)
        return found

    def newest(self) -> datetime | None:
        """When anything was sampled last; None if nothing was. UTC, like all times in the views."""
        return self.once("newest", self._newest)

    def _newest(self) -> datetime | None:
        (recent,) = self.db.execute(f"SELECT max(time) FROM {layout.hot_table(SAMPLES)}").fetchone()
        if recent is not None:
            return _moment(recent)
        views = {SAMPLES.name, layout.rollup_view(SAMPLES)}
        last = max((file.last for file in self.files if file.view in views), default=None)
        return None if last is None else _moment(last)

    def last_sample(self, instance: str) -> datetime | None:
        """When an instance was sampled last; None if it never was."""
        return self.once(("last", instance), lambda: self._last_sample(instance))

    def _last_sample(self, instance: str) -> datetime | None:
        (recent,) = self.db.execute(
            f"SELECT max(time) FROM {layout.hot_table(SAMPLES)} WHERE instance = ?", (instance,)
        ).fetchone()
        if recent is not None:
            return _moment(recent)
        if instance not in self.spans():
            return None
        _, hour = self.spans()[instance]
        found = self.row(
            """SELECT max(time) AS last FROM samples
               WHERE instance = $instance AND time >= $begin AND time < $end""",
            {"instance": instance, "begin": hour, "end": hour + timedelta(hours=1)}, inside=True,
        )  # fmt: skip
        last: datetime = found["last"] or hour
        return last

    def _views(self, parameters: dict[str, Any], *, inside: bool) -> _Views:
        """The views over about the time of these parameters: other charts use them as well."""
        span = None
        if inside:
            begin = _micro(parameters["begin"]) // _ABOUT * _ABOUT
            span = begin, -(-_micro(parameters["end"]) // _ABOUT) * _ABOUT
        return self.work.views(parameters.get("instance"), span)

    def recent(self, source: Source, instance: str | None) -> str:
        """The table of DuckDB with the rows that are not in a file yet."""

        def copied() -> str:
            numbers = [file.number for file in self.work.files if file.view == source.name]
            return self.work.recent.copy(self.db, source, instance, numbers)

        return self.once(("recent", source.name, instance), copied)

    def sound(self, files: list[File]) -> list[File]:
        """Leave out those that cannot be read, for good."""
        flaws = self.lake.flaws(files)
        if flaws:
            self.files = tuple(file for file in self.files if file not in flaws)
            self.damaged += tuple(f"{file.path} {flaw}" for file, flaw in flaws.items())
        return [file for file in files if file not in flaws]

    def _left_out(self, sql: str) -> bool:
        """Leave out the files of a query that are not as they were written; whether there are any.

        Only asked when a query failed, since it reads the files from end to end.
        """
        words = set(_WORD.findall(sql))
        words |= {one.of for one in summaries.SUMMARIES if one.view in words}
        broken = [
            file for file in self.files
            if file.view in words and not self.lake.is_as_written(file)
        ]  # fmt: skip
        self.files = tuple(file for file in self.files if file not in broken)
        self.damaged += tuple(f"{file.path} is not as it was written" for file in broken)
        gone = {file.view for file in broken}
        gone |= {one.view for one in summaries.SUMMARIES if one.of in gone}
        self.work.forget(gone)
        return bool(broken)

    def lock(self) -> None:
        """From now on queries read the store and nothing else: no other file, no setting."""
        lake = parquet.quoted(self.lake.root)
        self.work.con.execute(f"SET allowed_directories = [{lake}]")
        self.work.con.execute("SET enable_external_access = false")
        self.work.con.execute("SET lock_configuration = true")

    def views(self) -> Iterator[tuple[str, str]]:
        """Name and meaning of each view."""
        for source in self.sources:
            yield source.name, source.help
            yield layout.rollup_view(source), f"the same, by {source.rollup}"
            yield from ((one.view, one.help) for one in summaries.of_source(source.name))
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
            if view in summaries.views_of(source)
            for column in source.columns
        } | _SHARED
        if (further := summaries.named(view)) is not None:
            about |= {name: ("", meaning) for name, _, meaning in further.columns}
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

        whole = self.work.views(None, None)
        try:
            whole.provide(self, sql)
        except duckdb.Error as error:
            if failure := self.lake.failure():
                raise failure from None
            if not self._left_out(sql):
                raise _failed(error) from None
            whole.provide(self, sql)


@dataclass(slots=True)
class Workspace:
    """DuckDB, and what it has of one store: for one history after another.

    What it has is kept until the store has other files, so that a store which is opened again and
    again is not read again and again.
    """

    con: Engine = field(default_factory=parquet.engine)
    recent: RecentRows = field(init=False)
    known: dict[Any, Any] = field(default_factory=dict)  # about the files
    files: Sequence[File] = ()  # all that are on the list
    _sources: Sequence[Source] = ()
    _made: dict[tuple[str | None, tuple[int, int] | None], _Views] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.recent = RecentRows(self.con)

    def enter(self, files: Sequence[File], sources: Sequence[Source]) -> None:
        """From now on the store has these."""
        many = len(self.recent.instances) > _INSTANCES
        if many or (self.files, self._sources) != (files, sources):
            for key in list(self._made):
                self._made.pop(key).drop()
            self.known.clear()
        if many:
            self.recent.clear()
        self.files, self._sources = files, sources

    def views(self, instance: str | None, span: tuple[int, int] | None) -> _Views:
        """The views over all rows of an instance or of all, or over those of a period."""
        key = instance, span
        if key not in self._made:
            while len(self._made) >= _PERIODS:
                self._made.pop(next(iter(self._made))).drop()
            self._made[key] = _Views.of(self.con, instance, span, next(self._numbers))
        return self._made[key]

    def close(self) -> None:
        """Forget everything."""
        for made in self._made.values():
            made.con.close()
        self.con.close()

    def forget(self, views: set[str]) -> None:
        """Make these anew when they are asked for again."""
        self.known.clear()
        for made in self._made.values():
            made.forget(views)


@dataclass(slots=True, kw_only=True)
class _Views:
    """The views over a store, or over a part of it, each made when a query names it."""

    con: Engine
    schema: str
    instance: str | None = None  # None: all
    span: tuple[int, int] | None = None  # in microseconds since 1970; None: all there is
    made: set[str] = field(default_factory=set)  # tables and views that DuckDB has by now

    @classmethod
    def of(
        cls, engine: Engine, instance: str | None, span: tuple[int, int] | None, number: int
    ) -> _Views:
        """Views in a schema of their own; of all there is, those that a user's query names."""
        con = engine.cursor()
        schema = "main" if instance is None and span is None else f"views_{number}"
        con.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        con.execute(f"SET search_path = '{schema},main'")
        return cls(con=con, schema=schema, instance=instance, span=span)

    def drop(self) -> None:
        """Forget them all."""
        self.forget(set(self.made))
        if self.schema != "main":
            self.con.execute(f"DROP SCHEMA {self.schema} CASCADE")
        self.con.close()

    def forget(self, views: set[str]) -> None:
        """Make these anew when they are asked for again."""
        for view in views & self.made:
            self.con.execute(f'DROP VIEW IF EXISTS {self.schema}."{view}"')
        self.made -= views

    def provide(self, history: History, sql: str) -> None:
        """Make the views that a query names, and bring the tables below them up to date."""
        words = set(_WORD.findall(sql))
        for source in history.sources:
            named = words.intersection(summaries.views_of(source))
            if named:
                rows = self._recent_rows(history.recent(source, self.instance))
                # Each view apart: DuckDB looks into every file of a view when it is made.
                for view in named - self.made:
                    self._view(history, view, self._recent(history, source, view, rows))
        if "statement_texts" in words:
            self._make_texts(history)

    def _recent_rows(self, table: str) -> str:
        """The rows that are not in a file yet, from a table with more of them."""
        rows = f'FROM main."{table}"'
        if self.span is None:
            return rows
        # The last step of a summary goes on after the period.
        begin, end = self.span[0], self.span[1] + HOUR
        return f"{rows} WHERE time >= make_timestamp({begin}) AND time < make_timestamp({end})"

    def _recent(self, history: History, source: Source, view: str, rows: str) -> str:
        """The query of a view over rows that are not in a file yet."""
        if view == source.name:
            return rows
        summary = parquet.rollup(
            rows, source.rollup_by, layout.step(source.rollup), dict(layout.rollup_columns(source))
        )
        further = summaries.named(view)
        if further is None:
            return summary
        # Files of an earlier format are in none of these summaries.
        files = self._files(history, further.of, HOUR)
        old = [file for file in files if file.format < _SUMMARIZED]
        recent = rows if further.of == source.name else summary
        return further.query(self._with_files(history, old, recent))

    def _view(self, history: History, name: str, recent: str) -> None:
        whole = self._with_files(history, self._files(history, name), recent)
        self.con.execute(f'CREATE OR REPLACE VIEW {self.schema}."{name}" AS {whole}')
        self.made.add(name)

    def _files(self, history: History, view: str, longer: int = 0) -> list[File]:
        """The files of a view in this time, and so many microseconds after it."""
        begin, end = self.span or (0, sys.maxsize)
        return [
            file for file in history.files
            if file.view == view and file.last >= begin and file.first < end + longer
        ]  # fmt: skip

    def _with_files(self, history: History, files: list[File], recent: str) -> str:
        """The query of rows in files and of recent ones."""
        sound = history.sound(files)
        if not sound:
            return recent
        sealed = parquet.union(history.lake.root, sound)
        return f"({sealed}) UNION ALL BY NAME ({recent})"

    def _make_texts(self, history: History) -> None:
        """Of no time and no instance."""
        table = history.once("texts", lambda: history.work.recent.texts(history.db))
        if "statement_texts" not in self.made:
            view = f'{self.schema}."statement_texts"'
            self.con.execute(f"CREATE VIEW {view} AS SELECT query_id, text FROM main.{table}")
            self.made.add("statement_texts")


def _moment(at: int) -> datetime:
    return datetime.fromtimestamp(at / MICRO, UTC).replace(tzinfo=None)


def _micro(at: datetime) -> int:
    """Microseconds since 1970 of a time that is UTC without saying so."""
    return round((at - datetime(1970, 1, 1)) / timedelta(microseconds=1))


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
    directory: Path, lake: Lake | None = None, *, name: str | None = None,
    work: Workspace | None = None,
) -> Iterator[History]:  # fmt: skip
    """Open a store for reading, as it is now.

    Args:
        directory: The store.
        lake: Where its Parquet files are, if not in the directory.
        name: What it is called, if not as the directory.
        work: What an earlier history of this store has left, to go on with; it stays open.

    Raises:
        UsageError: there is none, or it is damaged.
        Refused: it is of a newer version.
        MissingPart: DuckDB is not installed.
    """
    directory = directory.absolute()
    lake = lake or LocalLake(directory / layout.LAKE)
    with (
        closing(opening.for_reading(directory)) as db, opening.explained(directory),
        nullcontext(work) if work else closing(Workspace()) as used,
    ):  # fmt: skip
        # From here on, this connection sees one state of the store.
        db.execute("BEGIN")
        files, sources = opening.listed(db), tuple(opening.sources(db))
        flaws = {file: lake.flaw(file) for file in files}
        lake.enter(used.con)
        used.enter(files, sources)
        yield History(
            work=used,
            db=db,
            name=name or str(directory),
            lake=lake,
            files=tuple(file for file, flaw in flaws.items() if flaw is None),
            damaged=tuple(f"{file.path} {flaw}" for file, flaw in flaws.items() if flaw),
            sources=sources,
        )
