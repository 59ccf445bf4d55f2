"""Sampling one server: what a query of a source returned, and the server's identity."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import MrTunerError
from mrtuner.facts import Missing
from mrtuner.history.moments import steady, timestamp
from mrtuner.history.recording.program import Place, Rows
from mrtuner.history.recording.source import HIDES, Source, Type
from mrtuner.history.recording.statement_text import normalized
from mrtuner.postgres.connect import accept_any_bytes, ended_session
from mrtuner.postgres.local import postmaster
from mrtuner.postgres.missing_grants import SAME_ENCODING, refused
from mrtuner.postgres.named_queries import rows_of, with_schema
from mrtuner.postgres.sql import query

if TYPE_CHECKING:
    from mrtuner.history.recording.silence import SilentSessions
    from mrtuner.postgres.connect import Connection

#: Values of a row in the order of the source's columns.
Values = tuple[Any, ...]
_LOCK_TIMEOUT: Final = "100ms"
#: Name of what is missing if texts of statements cannot be read, and what helps.
_TEXTS: Final = "statement_texts"
#: Timeout of what a server answers from memory [s].
_PROMPT: Final = 5.0
#: Timeout of reading the texts of statements, which are all in one file on the server [s].
_TEXTS_TIMEOUT: Final = 10.0
_TEXTS_AGAIN: Final = "They will be tried again, less often if that takes long."
#: Decimals of floats: microseconds if the unit is ms. More are noise and do not compress.
DECIMALS: Final = 3
_BEYOND: Final = 2**63
#: Characters of a statement that are kept.
_STATEMENT: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which server answers. Counters of two samples are compared only if it stays the same."""

    version_num: int
    started: str  # of the postmaster
    system: str | None  # system identifier; None: the role may not see it
    standby: bool
    checkpointer: str | None = None  # its start; a crash restarts it. None: the role may not see it
    recovered: bool = field(default=False, compare=False)  # started without a shutdown before


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a sample: its values, and when its counters were reset."""

    values: Values
    reset: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSample:
    """What one query of a source returned."""

    source: Source
    at: int  # microseconds since 1970
    monotonic: float  # seconds on a clock that never jumps
    rows: tuple[Row, ...]
    cost: float  # seconds until the rows arrived


@dataclass(slots=True)
class Sampler:
    """Samples the server at one connection, and remembers what it cannot read."""

    conn: Connection
    silent: SilentSessions | None = None  # None: wait for an answer however long it takes
    missing: dict[str, Missing] = field(default_factory=dict)
    _usable: dict[str, Callable[[], tuple[Row, ...] | None]] = field(default_factory=dict)
    _programs: Programs | None = None  # made when a program is first sampled

    def prepare(self) -> Identity:
        """Make the session harmless and return which server it is.

        It is read-only, waits for locks only briefly, and starts neither workers nor JIT.
        """
        with self._answer(_PROMPT):
            self.conn.execute(
                "SELECT set_config(name, value, false) FROM pg_catalog.pg_settings "
                "JOIN unnest(%s::text[], %s::text[]) AS wanted (name, value) USING (name)",
                (list(_SESSION), list(_SESSION.values())),
            )
            accept_any_bytes(self.conn)
        return self.identity()

    def identity(self) -> Identity:
        """Return which server answers; within a session, only a promotion changes that."""
        with self._answer(_PROMPT):
            return Identity(**self._dicts("recorder_identity")[0])

    def sample(self, source: Source) -> SourceSample | None:
        """Return the rows of a source, or None where it cannot be read; `missing` says why.

        Raises psycopg.OperationalError when the session breaks.
        """
        if source.program is not None:
            if self._programs is None:
                self._programs = Programs(self.place(), self.missing)
            return self._programs.sample(source)
        if source.name not in self._usable and not self._choose(source):
            return None
        return _timed(source, self._usable[source.name], self.missing)

    def texts(self, query_ids: Iterable[int]) -> dict[int, str] | None:
        """Return the texts of these statements as pg_stat_statements keeps them.

        Texts of other roles are left out if the role may not read them. None means that the server
        refused, or took too long; `missing` says why. It converts the texts of all databases to the
        encoding of the connected one, and refuses if one cannot be converted.
        """
        from psycopg import DatabaseError, errors

        try:
            with self._answer(_TEXTS_TIMEOUT), self.conn.transaction():
                self._limit(_TEXTS_TIMEOUT)
                text = query("statement_texts", self.conn.info.server_version)
                rows = self.conn.execute(
                    with_schema(self.conn, text), (list(query_ids),)
                ).fetchall()
        except DatabaseError as error:
            if ended_session(error):
                raise
            hint = SAME_ENCODING if isinstance(error, errors.DataError) else _TEXTS_AGAIN
            self.missing[_TEXTS] = Missing(_TEXTS, refused(error), hint=hint)
            return None
        self.missing.pop(_TEXTS, None)
        return dict(rows)

    def _answer(self, within: float) -> AbstractContextManager[None]:
        """Give up the session if the server is silent in the block for too long."""
        return self.silent.answer(self.conn, within) if self.silent else nullcontext()

    def _limit(self, seconds: float) -> None:
        """Let the server cancel statements that take longer, in this transaction."""
        timeout = f"{round(seconds * 1000)}ms"
        self.conn.execute("SELECT set_config('statement_timeout', %s, true)", (timeout,))

    def _choose(self, source: Source) -> bool:
        """Find the newest query of the source that the server understands."""
        if source.extension and not self._has(source.extension):
            self._lacks(
                source, f"the extension {source.extension} is not installed in this database",
                f"CREATE EXTENSION {source.extension}, and add it to shared_preload_libraries.",
            )  # fmt: skip
            return False
        if source.grant == HIDES and not self._may(HIDES):
            self._lacks(
                source, "the server hides what other roles do, so the figures would be false",
                f"GRANT {HIDES} TO the role.",
            )  # fmt: skip
            return False
        queries = source.for_version(self.conn.info.server_version)
        if not queries:
            since = min(source.queries) // 10000
            self._lacks(source, f"needs PostgreSQL {since} or later")
            return False
        reasons = []
        for text in queries:
            if self._try(source, text) is not None:
                self._usable[source.name] = partial(self._try, source, text)
                return True
            reasons.append(self.missing[source.name])
        # Report the newest query's reason: older ones also lack columns.
        self.missing[source.name] = reasons[0]
        return False

    def place(self) -> Place:
        """Where the server runs."""
        with self._answer(_PROMPT):
            backend = self._dicts("backend")[0]
            found = self.conn.execute(
                "SELECT setting FROM pg_settings WHERE name = 'data_directory'"
            ).fetchone()
        return Place(
            postmaster=postmaster(backend["pid"], backend["age"]),
            data_directory=found[0] if found else None,
        )

    def _may(self, role: str) -> bool:
        with self._answer(_PROMPT):
            found = self.conn.execute("SELECT pg_catalog.pg_has_role(%s, 'USAGE')", (role,))
        return bool(found.fetchone() == (True,))

    def _has(self, extension: str) -> bool:
        with self._answer(_PROMPT):
            found = self.conn.execute(
                "SELECT FROM pg_catalog.pg_extension WHERE extname = %s", (extension,)
            )
        return bool(found.fetchall())

    def _try(self, source: Source, text: str) -> tuple[Row, ...] | None:
        """Run a query of the source; None if the server refuses it, and why in `missing`."""
        from psycopg import DatabaseError, errors
        from psycopg.rows import dict_row

        try:
            with self._answer(source.timeout), self.conn.transaction():
                self._limit(source.timeout)
                if source.of_user:
                    self.conn.execute(
                        query("role_search_path", self.conn.info.server_version),
                        (source.extension,),
                    )
                chosen = with_schema(self.conn, text.encode())
                with self.conn.cursor(row_factory=dict_row) as cursor:
                    found = cursor.execute(chosen).fetchall()
            return tuple(_row(source, row) for row in found)
        except (errors.QueryCanceled, errors.LockNotAvailable) as error:
            self._lacks(source, refused(error), "It will be tried again at the next sample.")
        except errors.InsufficientPrivilege as error:
            grant = source.grant or "pg_monitor"
            self._lacks(source, refused(error), f"GRANT {grant} TO the role.")
        except DatabaseError as error:
            if ended_session(error):
                raise
            self._lacks(source, refused(error))
        except UnicodeDecodeError:
            self._lacks(source, "a name of a column does not match the database's encoding")
        except _Unfit as error:
            self._lacks(source, str(error))
        return None

    def _lacks(self, source: Source, why: str, hint: str | None = None) -> None:
        self.missing[source.name] = Missing(source.name, why, hint=hint)

    def _dicts(self, name: str) -> list[dict[str, Any]]:
        return rows_of(self.conn, name, self.conn.info.server_version)


@dataclass(slots=True)
class Programs:
    """Samples with programs, at a place and without a connection."""

    place: Place
    missing: dict[str, Missing] = field(default_factory=dict)
    _opened: dict[str, Rows] = field(default_factory=dict)

    def sample(self, source: Source) -> SourceSample | None:
        """Return the rows of a source, or None where it cannot be read; `missing` says why."""
        if source.name not in self._opened and not self._open(source):
            return None
        return _timed(source, partial(self._run, source), self.missing)

    def _open(self, source: Source) -> bool:
        """Let a program find what it samples; False if it cannot, and why in `missing`."""
        try:
            rows = None if source.program is None else source.program.open(self.place)
        except Exception as error:  # third-party code may raise anything
            self._failed(source, error)
            return False
        if rows is None:
            self._lacks(source, "there is nothing it could sample here")
            return False
        self._opened[source.name] = rows
        return True

    def _run(self, source: Source) -> tuple[Row, ...] | None:
        """Call a program for its rows; None if it fails, and why in `missing`."""
        try:
            return tuple(_row(source, row) for row in self._opened[source.name]())
        except Exception as error:  # third-party code may raise anything
            self._failed(source, error)
            return None

    def _failed(self, source: Source, error: Exception) -> None:
        if isinstance(error, MrTunerError):
            self._lacks(source, error.message, error.hint)
        else:
            self._lacks(source, f"{type(error).__name__}: {error}")

    def _lacks(self, source: Source, why: str, hint: str | None = None) -> None:
        self.missing[source.name] = Missing(source.name, why, hint=hint)


def _timed(
    source: Source, read: Callable[[], tuple[Row, ...] | None], missing: dict[str, Missing]
) -> SourceSample | None:
    """Return what was read, with its times; None if nothing was, and `missing` says why."""
    at, passed, begin = timestamp(), steady(), time.monotonic()
    rows = read()
    if rows is None:
        return None
    missing.pop(source.name, None)
    cost = time.monotonic() - begin
    return SourceSample(source=source, at=at, monotonic=passed, rows=rows, cost=cost)


#: The recorder's session only reads, waits for locks only briefly and uses one process. What ends
#: the sessions of a role that idle, or query for long, must not end this one: each of its queries
#: has a timeout. Not every version has each of these settings.
_SESSION: Final[Mapping[str, str]] = {
    "application_name": "mrtuner record",
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "default_transaction_read_only": "on",
    "lock_timeout": _LOCK_TIMEOUT,
    "idle_in_transaction_session_timeout": "1min",
    "idle_session_timeout": "0",
    "transaction_timeout": "0",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
}


class _Unfit(ValueError):
    """The query and the header of a source do not agree."""


def _row(source: Source, row: Mapping[str, Any]) -> Row:
    names = {column.name for column in source.columns}
    if lacking := sorted(names - row.keys()):
        raise _Unfit(f"the query returns no column {lacking[0]}")
    values = tuple(_value(column.type, row[column.name]) for column in source.columns)
    return Row(values=values, reset=row.get(source.reset) if source.reset else None)


def _value(kind: Type, value: Any) -> Any:
    """Convert a value as psycopg returns it to the column's type; None stays None."""
    if value is None:
        return None
    try:
        match kind:
            case Type.INTEGER:
                return _integer(value)
            case Type.FLOAT:
                return round(float(value), DECIMALS)
            case Type.BOOLEAN:
                return bool(value)
            case Type.TEXT:
                return str(value)
            case Type.STATEMENT:
                return normalized(str(value)[:_STATEMENT]) or None
    except (TypeError, ValueError, OverflowError):
        raise _Unfit(f"a value is no {kind}") from None


def _integer(value: Any) -> int:
    """Convert to an integer of 64 bits; OverflowError if it is larger, or infinite."""
    number = int(value)
    if not -_BEYOND <= number < _BEYOND:
        raise OverflowError
    return number
