"""A lake made from a store, the queries of the analyses on it, and a comparison of two answers.

Engines that see only files have no texts of statements, so those get a file of their own here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import sqlglot
from history_data import MIDNIGHT, SECOND
from history_story import CHEAP, DEAR, INSTANCE, of_source, story

from mrtuner.history.analysis.changes import changes
from mrtuner.history.analysis.happened import summary
from mrtuner.history.analysis.incidents import incidents
from mrtuner.history.analysis.not_looked_for import not_looked_for
from mrtuner.history.analysis.peaks import peaks
from mrtuner.history.analysis.period import HistoryPeriod, instances
from mrtuner.history.analysis.statements import statement_changes
from mrtuner.history.reading import History, open_history
from mrtuner.history.recording.sampler import Row, SourceSample
from mrtuner.history.recording.source import built_in
from mrtuner.history.store import compaction
from mrtuner.history.store.writer import Batch, HistoryEvent, Writer

#: Instances besides that of the story; one has a name that only a user would choose.
OTHERS = ("shop", "naïve'😀", "x.example:5433")
DAY = 86_400
HALF_AN_HOUR = 1800
STATEMENTS = 60
#: Relative, for floats: engines add up in different orders.
TOLERANCE = 1e-9

TWO = datetime(2026, 11, 23, 2, tzinfo=UTC)


def period(begin: int, end: int, instance: str = INSTANCE) -> HistoryPeriod:
    """Minutes after two o'clock."""
    return HistoryPeriod(
        instance=instance, begin=TWO + timedelta(minutes=begin), end=TWO + timedelta(minutes=end)
    )


@dataclass(frozen=True, slots=True)
class Question:
    """A query as it was sent to DuckDB, and the answer."""

    sql: str
    parameters: Mapping[str, Any]
    rows: Sequence[Sequence[Any]]

    def written_for(self, dialect: str) -> str:
        """The query in another dialect, with its parameters."""
        text = self.sql
        for name, value in self.parameters.items():
            text = text.replace(f"${name}", _literal(value))
        (found,) = sqlglot.transpile(
            text, read="duckdb", write=dialect, unsupported_level=sqlglot.ErrorLevel.RAISE
        )
        return found


def _literal(value: Any) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'"
    return "'" + str(value).replace("'", "''") + "'"


@dataclass  # with slots, super() would not find its class
class _Listening(History):
    """A store that remembers what it is asked."""

    asked: list[Question] = field(default_factory=list)

    def table(
        self, sql: str, parameters: dict[str, Any] | None = None, *, inside: bool = False
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Answer, and remember."""
        names, rows = super().table(sql, parameters, inside=inside)
        self.asked.append(Question(sql, parameters or {}, rows))
        return names, rows


def questions(directory: Path, *, old: bool = False) -> list[Question]:
    """Return the analyses' queries of a lake; of an `old` one, only what summaries can answer."""
    asked: list[Question] = []
    with open_history(directory) as found:
        given = {one.name: getattr(found, one.name) for one in fields(History) if one.init}
        history = _Listening(**given, asked=asked)
        instances(history)
        statement_changes(history, period(0, 20), period(30, 50), top=10)
        for instance in (INSTANCE, *OTHERS[:2]):
            about = period(0, 60, instance)
            summary(history, about)
            incidents(history, about, changes(history, about))
            not_looked_for(history, about)
        if not old:
            peaks(history, period(0, 60))
            peaks(history, period(0, 600, OTHERS[1]))
            for view, sql in _whole_views(found):
                assert history.table(sql)[1][0][0], f"{view} is empty"
    return list({(one.sql, str(one.parameters)): one for one in asked}.values())


def _whole_views(history: History) -> Iterator[tuple[str, str]]:
    """Yield for each view a query of its row count, and of each column's count and extremes."""
    for view in sorted({file.view for file in history.files}):
        columns = [row[0] for row in history.described(view)]
        parts = ", ".join(
            f'count("{name}") AS n{n}, min("{name}") AS a{n}, max("{name}") AS z{n}'
            for n, name in enumerate(columns)
        )
        yield view, f'SELECT count(*) AS n, {parts} FROM "{view}" AS v'


def make_lake(directory: Path, *, old: bool = False) -> list[str]:
    """Record, move everything into files, one for each day, and return the views that have files.

    `old`: a sample follows 40 days later, so that the analyses read summaries of the story.
    """
    story(directory)
    with Writer(directory, built_in().values()) as writer:
        writer.commit(_others())
        restart = HistoryEvent(
            at=MIDNIGHT + 9000 * SECOND, instance=INSTANCE, kind="restart", detail="é"
        )
        writer.commit([Batch(instance=INSTANCE, events=(restart,))])
        end = 3
        if old:
            end = 41
            late = _sample("wal", 40 * DAY, of_source("wal", bytes=1))
            writer.commit([Batch(instance=INSTANCE, samples=(late,))])
        compaction.move_to_parquet(writer, MIDNIGHT + end * DAY * SECOND, everything=True)
        compaction.compact(writer, MIDNIGHT + (end + 40) * DAY * SECOND)
        # Merged files are no longer listed, but engines that see only files would still read them.
        writer.db.execute("UPDATE file SET retired = 1 WHERE retired IS NOT NULL")
        compaction.sweep(writer, MIDNIGHT + (end + 40) * DAY * SECOND)
        views = sorted({file.view for file in writer.files()})
    with open_history(directory) as history:
        history.provide("statement_texts")
        history.work.con.execute(
            f"COPY (FROM statement_texts) TO '{texts_file(directory)}' (FORMAT parquet)"
        )
    return views


def texts_file(directory: Path) -> Path:
    """Where `make_lake` puts the texts of statements."""
    return directory / "statement_texts.parquet"


def files_of(directory: Path, view: str) -> str:
    """The files of a view, as docs/reference/history-format.md names them to other engines."""
    return f"{directory}/lake/{view}/*/*.parquet"


def _others() -> Iterator[Batch]:
    """Two days of the other instances, with numbers too varied for a dictionary in Parquet."""
    noise = random.Random(13)
    for number, instance in enumerate(OTHERS):
        calls = [0] * STATEMENTS
        took = [0.0] * STATEMENTS
        written = 0
        for step in range(2 * DAY // HALF_AN_HOUR):
            at = step * HALF_AN_HOUR + number
            for n in range(STATEMENTS):
                calls[n] += noise.randrange(1, 100_000)
                took[n] += noise.uniform(0.001, 90_000)
            written += noise.randrange(1, 2**40)
            samples = [
                _sample("statements", at, *(
                    of_source("statements", database="app", role="wéb", query_id=key,
                              toplevel=True, calls=calls[n], exec_ms=round(took[n], 3))
                    for n, key in enumerate(_query_ids())
                )),
                _sample("wal", at, of_source("wal", bytes=written, buffers_full=step)),
                _sample("checkpoints", at, of_source(
                    "checkpoints", timed=step, requested=step // 3, write_ms=step * 1.5)),
                _sample("databases", at, *(
                    of_source("databases", database=name, commits=calls[0], temp_bytes=written // 7,
                              active_ms=round(took[1], 3))
                    for name in ("app", 'o"dd', "")
                )),
                _sample("connections", at, of_source(
                    "connections", clients=noise.randrange(5, 300), active=2, maximum=400,
                    ordinary=400)),
                _sample("sessions", at, of_source(
                    "sessions", pid=step, backend_type="client backend", state="active",
                    query_id=CHEAP)),
                _sample("relations", at, of_source(
                    "relations", database="app", schema="public", name="orders", kind="table",
                    file=50 + step // 40)),
                _sample("machine", at, of_source(
                    "machine", name="cpus", value=str(4 + step // 50), origin="/proc")),
            ]  # fmt: skip
            yield Batch(instance=instance, samples=tuple(samples))


def _query_ids() -> list[int]:
    """The story's identifiers, and others over the whole range of bigint."""
    wide = random.Random(26)
    return [CHEAP, DEAR, *(wide.randrange(-(2**63), 2**63) for _ in range(STATEMENTS - 2))]


def _sample(name: str, second: int, *rows: Row) -> SourceSample:
    return SourceSample(
        source=built_in()[name], at=MIDNIGHT + second * SECOND, monotonic=float(second), rows=rows,
        cost=0.001,
    )  # fmt: skip


def differences(ours: Iterable[Sequence[Any]], theirs: Iterable[Sequence[Any]]) -> list[str]:
    """Return where two answers differ, regardless of the order of their rows."""
    mine, other = (sorted((tuple(map(_plain, row)) for row in rows), key=_order)
                   for rows in (ours, theirs))  # fmt: skip
    if len(mine) != len(other):
        return [f"{len(mine)} rows instead of {len(other)}"]
    return [
        f"{one} is not {two}"
        for one, two in zip(mine, other, strict=True)
        if len(one) != len(two) or not all(map(_same, one, two))
    ]


def _plain(value: Any) -> Any:
    """Convert a value so that engines can be compared: no decimals, times in UTC without zone."""
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).replace(tzinfo=None)
        case date() | datetime():
            return value
    return value


def _order(row: tuple[Any, ...]) -> list[str]:
    """A sort key: exact values first, floats last."""
    exact = ["" if isinstance(value, float) else repr(value) for value in row]
    return [*exact, *(f"{value:.6g}" for value in row if isinstance(value, float))]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        return (
            one is not None and other is not None
            and math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        )  # fmt: skip
    return type(one) is type(other) and bool(one == other)
