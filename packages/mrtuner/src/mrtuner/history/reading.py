"""Reading a store with SQL: rows in SQLite and in Parquet files form one view per source.

A store is read as it was at one moment, while a recorder may write. Damaged files are left out and
reported.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from mrtuner.errors import BadValue, UsageError
from mrtuner.history.meanings import SHARED, meaning_of
from mrtuner.history.moments import about_now, hour_of, micro, moment
from mrtuner.history.query_part import Part, ended_after, limited
from mrtuner.history.recording.source import Source
from mrtuner.history.store import layout, opening, parquet, summaries
from mrtuner.history.store.lake import Lake, LocalLake
from mrtuner.history.store.layout import HOUR, MICRO
from mrtuner.history.store.own_sources import SAMPLES
from mrtuner.history.store.parquet import File
from mrtuner.history.store.recent import HourCounts
from mrtuner.history.time_zones import has_zones, in_utc
from mrtuner.history.workspace import DAMAGED, WORD, Views, Workspace

Answer = TypeVar("Answer")
#: The rows of a query's result, each by the names of its columns.
Rows = list[dict[str, Any]]
#: SQL condition for samples of sessions.
BEATS: Final = "source = 'sessions'"
#: Periods are widened to multiples of this [µs], so that similar ones share their views.
_ABOUT: Final = 300 * MICRO
#: What stands before the statement that is explained: comments, the word, its options.
_EXPLAIN: Final = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*EXPLAIN\b\s*(?:ANALYZE\b\s*)?(?:\([^)]*\)\s*)?", re.I | re.S
)


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
    #: Answers to be reused: the store stays as it was when it was opened.
    known: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Leave out files that an earlier history found damaged."""
        damaged: dict[File, str] = self.work.known.get(DAMAGED, {})
        self._leave_out({one: damaged[one] for one in self.files if one in damaged})

    def rows(
        self, sql: str, parameters: dict[str, Any] | None = None, *, inside: bool = False
    ) -> Rows:
        """Return the rows of a query over the views, by the names of their columns.

        Args:
            sql: The query.
            parameters: Its parameters.
            inside: The query reads only times from `begin` to before `end` of its parameters. Then
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
            return self._asked(self._views(parameters or {}, inside=inside), sql, parameters or {})
        except duckdb.Error as error:
            self._refuse(sql, error)
        return self.table(sql, parameters, inside=inside)

    def part(self, sql: str, part: Part) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return a part of the answer to one SELECT, or the plan of one; see `table`."""
        import duckdb

        con = self.work.views(None, None).con
        (statement,) = con.extract_statements(sql)
        with ended_after(con, part.seconds):
            if statement.type != duckdb.StatementType.SELECT:
                return self.table(sql)
            try:
                wanted = limited(con, sql, part)
            except duckdb.Error as error:
                self._refuse(sql, error)
                wanted = limited(con, sql, part)
            return self.table(wanted)

    def _asked(
        self, views: Views, sql: str, parameters: dict[str, Any]
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        views.provide(self, sql)
        named = {name: value for name, value in parameters.items() if f"${name}" in sql}
        found = views.con.execute(sql, named) if named else views.con.execute(sql)
        columns = found.description or []
        if has_zones(columns):
            return [column[0] for column in columns], in_utc(views.con, sql, named, columns)
        return [column[0] for column in columns], found.fetchall()

    def _refuse(self, sql: str, error: Exception) -> None:
        """Raise why a query failed; return if it can be retried without damaged files."""
        import duckdb

        if failure := self.lake.failure():
            raise failure from None
        if isinstance(error, duckdb.InterruptException):
            raise BadValue(
                "the query took too long, and was ended", "Ask for less, or for a view by hour."
            ) from None
        if not self._left_out(sql):
            raise _failed(error) from None

    def sealed(
        self, sql: str, source: str, parameters: dict[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the answer from files alone, which is kept until that time has other files.

        Args:
            sql: A query.
            source: The source whose rows it reads.
            parameters: Its parameters. It reads only times from `begin` to before `end`.
        """
        given = {"begin": datetime.min, "end": datetime.max} | (parameters or {})
        return self.work.keep(
            ("sealed", sql, repr(given)), self._numbers(source, given["begin"], given["end"]),
            lambda: self._sealed(sql, given),
        )  # fmt: skip

    def _sealed(self, sql: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        import duckdb

        span = self._span(parameters)
        try:
            with self.work.sealed_views(parameters.get("instance"), span) as views:
                return self._asked(views, sql, parameters)[1]
        except duckdb.Error as error:
            self._refuse(sql, error)
        return self._sealed(sql, parameters)

    def during(self, sql: str, source: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Return the answer from all rows, which is kept until that time has other rows."""
        return self.kept(
            source, (sql, repr(parameters)), lambda: self.table(sql, parameters, inside=True)[1],
            begin=parameters["begin"], end=parameters["end"],
        )  # fmt: skip

    def kept(
        self, source: str, key: Any, ask: Callable[[], Answer], *,
        begin: datetime = datetime.min, end: datetime = datetime.max,
    ) -> Answer:  # fmt: skip
        """Return the answer of `ask`, kept until the source has other rows of this time."""
        return self.work.keep((source, key), self.version(source, begin, end), ask)

    def version(
        self, source: str, begin: datetime, end: datetime, instance: str | None = None
    ) -> Any:
        """Return a value that changes when the rows of a source in these whole hours change.

        Rows leave SQLite only for a file, so while the files are the same, rows are only added.
        """
        if not self.has(source):
            return None
        files = self.once(("files", source, begin, end), lambda: self._numbers(source, begin, end))
        first, last = micro(begin), micro(end)
        hours = self.recent_hours(source, "true").items()
        return files, sum(
            one.rows for (name, hour), one in hours
            if (instance is None or name == instance) and first - HOUR < hour < last
        )  # fmt: skip

    def latest(
        self, sql: str, source: str, keys: int, *, instance: str | None, end: datetime
    ) -> list[tuple[Any, ...]]:
        """Return the newest row before `end` for each key of a source.

        The answer from files of past days is kept, so that a year is not read again each time.

        Args:
            sql: A query with one row for each key, of the time from `$begin` to before `$end`.
            source: The source whose rows it reads.
            keys: The number of columns, the first ones, that make up a key.
            instance: Whose rows; None for those of all instances.
            end: Only rows before this time count.
        """
        parameters = {"instance": instance, "begin": datetime.min, "end": end}
        oldest = min(end, self._oldest(source, instance))
        day = oldest.replace(hour=0, minute=0, second=0, microsecond=0)
        past = self.sealed(sql, source, parameters | {"end": day})
        _, fresh = self.table(sql, parameters | {"begin": day}, inside=True)
        found = {row[:keys]: row for row in past}
        return list((found | {row[:keys]: row for row in fresh}).values())

    def _oldest(self, source: str, instance: str | None) -> datetime:
        table = self.recent(self.source(source), instance)
        ((oldest,),) = self.work.con.execute(f'SELECT min(time) FROM "{table}"').fetchall()
        return oldest or datetime.max

    def source(self, name: str) -> Source:
        """The source with this name; UsageError if there is none."""
        for source in self.sources:
            if source.name == name:
                return source
        raise UsageError(f"the store has no {name}", "Record them, or name another directory.")

    def _numbers(self, source: str, begin: datetime, end: datetime) -> tuple[int, ...]:
        """Return the numbers of the files of a source and its summaries that overlap a time."""
        first, last = micro(begin), micro(end) + HOUR  # in which the last step ends
        views = summaries.views_of(self.source(source))
        return tuple(
            file.number for file in self.files
            if file.view in views and file.last >= first and file.first < last
        )  # fmt: skip

    def has(self, source: str, column: str | None = None) -> bool:
        """Whether a source was recorded, and had this column: older recorders stored fewer."""
        return any(
            one.name == source and (column is None or column in {each.name for each in one.columns})
            for one in self.sources
        )

    def row(
        self, sql: str, parameters: dict[str, Any] | None = None, *, inside: bool = False
    ) -> dict[str, Any]:
        return self.rows(sql, parameters, inside=inside)[0]

    def once(self, key: Any, ask: Callable[[], Answer]) -> Answer:
        """Return the answer of `ask`, which is called once while the store is open."""
        if key not in self.known:
            self.known[key] = ask()
        found: Answer = self.known[key]
        return found

    def spans(self) -> dict[str, tuple[datetime, datetime]]:
        """Return by instance the first and the last hour in which it was sampled, UTC."""
        return self.once("spans", self._spans)

    def _spans(self) -> dict[str, tuple[datetime, datetime]]:
        found = {
            name: (first, last)
            for name, first, last in self.sealed(
                "SELECT instance, min(time), max(time) FROM samples_by_hour GROUP BY 1",
                SAMPLES.name,
            )
        }
        for name, times in self.once("sampled since", self._sampled_since).items():
            first, last = (moment(at // HOUR * HOUR) for at in times)
            before = found.get(name, (first, last))
            found[name] = (min(first, before[0]), max(last, before[1]))
        return {name: (first, hour_of(self._until_now(name, last)))
                for name, (first, last) in found.items()}  # fmt: skip

    def _sampled_since(self) -> dict[str, tuple[int, int]]:
        """Return by instance the first and the last sample that is in no file [µs since 1970]."""
        found: dict[str, tuple[int, int]] = {}
        for (name, _), hour in self.recent_hours(SAMPLES.name, BEATS).items():
            first, last = found.get(name, (hour.first, hour.last))
            found[name] = min(first, hour.first), max(last, hour.last)
        return found

    def recent_hours(self, source: str, where: str) -> HourCounts:
        """Count rows that are in no file, by instance and hour.

        `where`: a condition in SQL that SQLite understands; other rows are not counted.
        """
        of = self.source(source)
        return self.once(
            ("hours", source, where),
            lambda: self.work.recent.counts(self.db, of, where, self._listed(of)),
        )

    def newest(self) -> datetime | None:
        """When anything was sampled last; None if nothing was. UTC, like all times in the views."""
        return self.once("newest", self._newest)

    def _newest(self) -> datetime | None:
        recent = self.once("sampled since", self._sampled_since)
        if recent:
            return max(self._until_now(name, moment(last)) for name, (_, last) in recent.items())
        views = {SAMPLES.name, layout.rollup_view(SAMPLES)}
        last = max((file.last for file in self.files if file.view in views), default=None)
        return None if last is None else moment(last)

    def first_sample(self, instance: str) -> datetime | None:
        """When an instance was sampled first: only the hour, if that is no longer kept as sampled.

        None if it never was.
        """
        return self.once(("first", instance), lambda: self._first_sample(instance))

    def _first_sample(self, instance: str) -> datetime | None:
        if instance not in self.spans():
            return None
        hour, _ = self.spans()[instance]
        return self._end_of_hour(instance, hour, "min") or hour

    def _end_of_hour(self, instance: str, hour: datetime, end: str) -> datetime | None:
        found: datetime | None = self.row(
            f"""SELECT {end}(time) AS found FROM samples
                WHERE instance = $instance AND time >= $begin AND time < $end""",
            {"instance": instance, "begin": hour, "end": hour + timedelta(hours=1)}, inside=True,
        )["found"]  # fmt: skip
        return found

    def last_sample(self, instance: str) -> datetime | None:
        """When an instance was sampled last; None if it never was."""
        return self.once(("last", instance), lambda: self._last_sample(instance))

    def recently_sampled(self, instance: str) -> datetime | None:
        """Return when an instance was sampled last, if that sample is in no file; else None."""
        recent = self.once("sampled since", self._sampled_since).get(instance)
        return None if recent is None else self._until_now(instance, moment(recent[1]))

    def _until_now(self, instance: str, last: datetime) -> datetime:
        """Return the last sample that is not in the future, where the recorder's clock put some.

        A store whose samples are all in the future is one of another clock, and left as it is.
        """
        now = self.once("now", about_now)
        if last <= now:
            return last
        found = self.once(("until now", instance), lambda: self.row(
            "SELECT max(time) AS last FROM samples WHERE instance = $instance AND time <= $now",
            {"instance": instance, "now": now},
        ))  # fmt: skip
        return found["last"] or last

    def _last_sample(self, instance: str) -> datetime | None:
        if (recent := self.recently_sampled(instance)) is not None:
            return recent
        if instance not in self.spans():
            return None
        _, hour = self.spans()[instance]
        return self._until_now(instance, self._end_of_hour(instance, hour, "max") or hour)

    def _views(self, parameters: dict[str, Any], *, inside: bool) -> Views:
        """Return views over roughly the time of these parameters, which other charts share."""
        span = self._span(parameters) if inside else None
        return self.work.views(parameters.get("instance"), span)

    def _span(self, parameters: dict[str, Any]) -> tuple[int, int]:
        begin, end = (micro(parameters[name]) for name in ("begin", "end"))
        return begin // _ABOUT * _ABOUT, -(-end // _ABOUT) * _ABOUT

    def recent(self, source: Source, instance: str | None) -> str:
        """The table of DuckDB with the rows that are not in a file yet."""

        return self.once(
            ("recent", source.name, instance),
            lambda: self.work.recent.copy(self.db, source, instance, self._listed(source)),
        )

    def _listed(self, source: Source) -> list[int]:
        """Return the numbers of a source's files: if they change, rows have left its table."""
        return [file.number for file in self.work.files if file.view == source.name]

    def sound(self, files: list[File]) -> list[File]:
        """Return the files that can be read, and leave out the others for good."""
        flaws = self.lake.flaws(files)
        if flaws:
            self._leave_out(flaws)
        return [file for file in files if file not in flaws]

    def _leave_out(self, flaws: Mapping[File, str]) -> None:
        self.files = tuple(file for file in self.files if file not in flaws)
        self.damaged += tuple(f"{file.path} {flaw}" for file, flaw in flaws.items())

    def _left_out(self, sql: str) -> bool:
        """Leave out a query's files that are not as they were written; return if there are any.

        Called only when a query has failed, since it reads the files from end to end.
        """
        words = set(WORD.findall(sql.lower()))
        words |= {one.of for one in summaries.SUMMARIES if one.view in words}
        broken = {
            file: "has changed since it was written" for file in self.files
            if file.view in words and not self.lake.is_as_written(file)
        }  # fmt: skip
        self._leave_out(broken)
        damaged = self.work.known.get(DAMAGED, {}) | broken
        gone = {file.view for file in broken}
        gone |= {one.view for one in summaries.SUMMARIES if one.of in gone}
        self.work.forget(gone)
        self.work.known[DAMAGED] = damaged
        return bool(broken)

    def lock(self) -> None:
        """Restrict later queries to the store: they cannot read other files or change settings."""
        lake = parquet.quoted(self.lake.root)
        self.work.con.execute(f"SET allowed_directories = [{lake}]")
        self.work.con.execute("SET enable_external_access = false")
        self.work.con.execute("SET lock_configuration = true")

    def require_query(self, sql: str) -> None:
        """Raise BadValue unless `sql` is a single query, which can only read."""
        import duckdb

        def statements(text: str) -> list[duckdb.Statement]:
            try:
                return self.work.con.extract_statements(text)
            except duckdb.Error as error:
                raise _failed(error) from None

        found = statements(sql)
        if [one.type for one in found] == [duckdb.StatementType.EXPLAIN]:
            # EXPLAIN ANALYZE runs what it explains.
            found = statements(_EXPLAIN.sub("", found[0].query, count=1))
        if [one.type for one in found] != [duckdb.StatementType.SELECT]:
            raise BadValue(
                "only a single query can be run, and it can only read",
                "Write a single SELECT; see the views with mrtuner history views.",
            )

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
        } | SHARED
        if (further := summaries.named(view)) is not None:
            about |= {name: ("", meaning) for name, _, meaning in further.columns}
        # DESCRIBE "databases" would list DuckDB's own.
        rows = self.rows(f'SELECT column_name, column_type FROM (DESCRIBE FROM "{view}")')
        return [
            [name, row["column_type"].lower(), *meaning_of(about, name)]
            for row in rows
            for name in [row["column_name"]]
        ]

    def provide(self, sql: str) -> None:
        """Create the views that a query names, and the tables below them.

        Only those, since rows in SQLite have to be copied.
        """
        import duckdb

        whole = self.work.views(None, None)
        try:
            whole.provide(self, sql)
        except duckdb.Error as error:
            self._refuse(sql, error)
            whole.provide(self, sql)


def _failed(error: Exception) -> BadValue:
    return BadValue(
        f"the query failed: {str(error).partition(chr(10))[0]}",
        "See the views with mrtuner history views.",
    )


@contextmanager
def open_history(
    directory: Path, lake: Lake | None = None, *, name: str | None = None,
    work: Workspace | None = None,
) -> Iterator[History]:  # fmt: skip
    """Open a store for reading, as it is now.

    Args:
        directory: The store.
        lake: Where its Parquet files are, if not in the directory.
        name: Its name, if not that of the directory.
        work: The workspace of an earlier history of this store, to be reused; it stays open.

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
