"""Writing a store: what a recorder read, in one transaction.

Rows are kept in SQLite with synchronous=FULL: once `Writer.commit` returns, they survive the
process and the machine. Only one process may write.
"""

from __future__ import annotations

import copy
import fcntl
import json
import os
import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from mrtuner.errors import Refused, UsageError
from mrtuner.facts import Missing
from mrtuner.history.moments import timestamp
from mrtuner.history.recording.events import change_of, events_between
from mrtuner.history.recording.growth import Key, by_key, grown
from mrtuner.history.recording.sampler import Identity, Row, SourceSample
from mrtuner.history.recording.source import Source
from mrtuner.history.store import layout, opening, own_sources
from mrtuner.history.store.layout import HOUR, MICRO
from mrtuner.history.store.opening import last_identity, listed
from mrtuner.history.store.parquet import File

#: A jump of the clock by more than this [s] is reported; less may be NTP's slewing.
_JUMP: Final = 2.0
#: Kinds of events that are stored at most once in this time [µs]: they recur while a cause lasts.
_RECURRING: Final = {"eviction": HOUR}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEvent:
    """Something that happened to an instance or to its recording."""

    at: int
    instance: str
    kind: str  # restart, crash, failover, upgrade, reset, eviction, clock, lost, connected, full
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What was read of one instance at about one time."""

    instance: str
    samples: tuple[SourceSample, ...] = ()
    identity: Identity | None = None  # after a connection was made
    texts: Mapping[int, str] = field(default_factory=dict)
    events: tuple[HistoryEvent, ...] = ()
    missing: tuple[Missing, ...] | None = None  # sources that cannot be read; None: as before


@dataclass(frozen=True, slots=True)
class _Clocks:
    """What the recorder's clocks showed: how a jump of one is noticed."""

    #: Of each instance's and source's last sample: microseconds since 1970, and monotonic seconds.
    last: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)
    #: By instance: the difference of both after the last jump [s].
    jumped_to: dict[str, float] = field(default_factory=dict)

    def copied(self) -> _Clocks:
        return _Clocks(dict(self.last), dict(self.jumped_to))


class Writer:
    """The one process that writes a store. `with Writer(directory, sources) as writer:`."""

    def __init__(
        self, directory: Path, sources: Iterable[Source], *, copy_of: str | None = None
    ) -> None:
        """Open or create a store. A copy of a lake elsewhere is written only by fetching.

        Raises:
            Refused: another process writes it, it is of a newer version, or `copy_of` differs from
                what it is a copy of (None: it is not a copy).
            UsageError: the directory holds something else, or cannot be written.
        """
        self.directory = directory
        self.sources = tuple(sources)
        opening.make_directory(directory)
        self._lock = _locked(directory / layout.LOCK)
        try:
            self.db = opening.for_writing(directory / layout.DATABASE, self.sources)
        except BaseException:
            os.close(self._lock)
            raise
        self._missing: dict[str, tuple[Missing, ...]] = {}
        self._clocks = _Clocks()
        try:
            self.id = self._id(copy_of)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database and let others write."""
        self.db.close()
        os.close(self._lock)

    @contextmanager
    def another(self) -> Iterator[Self]:
        """Yield the same store with a connection of its own, for another thread of this process.

        Each waits only for the other's transactions.
        """
        twin = copy.copy(self)
        twin.db = opening.again(self.directory / layout.DATABASE)
        with closing(twin.db):
            yield twin

    def _id(self, copy_of: str | None) -> str:
        """Return the store's ID, which is part of file names so that several can share a lake."""
        with self.transaction():
            found = self.db.execute("SELECT id FROM writer").fetchone()
            copied = self.db.execute("SELECT of FROM copy").fetchone()
            if found is not None and copy_of != (copied and copied[0]):
                raise Refused(
                    f"{self.directory} holds a copy of {copied[0]}" if copied
                    else f"{self.directory} holds a recording made here",
                    "Give another directory with --dir.",
                )  # fmt: skip
            if found is None and copy_of is not None:
                self.db.execute("INSERT INTO copy VALUES (?)", (copy_of,))
            if found is None:
                found = (secrets.token_hex(4),)
                self.db.execute("INSERT INTO writer VALUES (?, ?)", (found[0], time.time_ns()))
        return str(found[0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction that is durable when the block ends, and undone if it fails."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            self._missing.clear()
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    def commit(self, batches: Iterable[Batch]) -> None:
        """Store what was read; all of it or, with an exception, nothing.

        Raises:
            sqlite3.OperationalError: the disk is full, or the like. It may be tried again.
        """
        clocks = self._clocks.copied()
        with self.transaction():
            for batch in batches:
                if batch.identity is not None:
                    self._meet(batch.instance, batch.identity)
                for sample in batch.samples:
                    self._store(batch.instance, sample, clocks)
                self._events(batch.events)
                self._note_missing(batch)
                self.db.executemany(
                    "INSERT OR IGNORE INTO statement_text VALUES (?, ?)", batch.texts.items()
                )
        self._clocks = clocks

    def last_sample(self, instance: str, source: str) -> int | None:
        """When a source was last sampled [µs since 1970]; None if never."""
        found = self.db.execute(
            "SELECT at FROM last_sample WHERE instance = ? AND source = ?", (instance, source)
        ).fetchone()
        return None if found is None else int(found[0])

    def files(self) -> list[File]:
        return listed(self.db)

    def forget_all_but(self, instances: Collection[str]) -> None:
        """Forget when others were last sampled: nobody records them any more, so none is late.

        Their rows stay, and what they had last, which counters are compared with.
        """
        names = ", ".join("?" * len(instances))
        with self.transaction():
            for table in ("last_sample", "missing"):
                self.db.execute(
                    f"DELETE FROM {table} WHERE instance NOT IN ({names})", [*instances]
                )

    # The parts of a commit.

    def _meet(self, instance: str, now: Identity) -> None:
        """Note which server responds; if it is a different one, its counters start again."""
        before = last_identity(self.db, instance)
        if before == now:
            return
        self.db.execute(
            "INSERT OR REPLACE INTO last_identity "
            "(instance, version_num, started, system, standby, checkpointer) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (instance, now.version_num, now.started, now.system, now.standby, now.checkpointer),
        )
        last = self._last_answer(instance)
        if before is not None and (changed := change_of(before, now, last)) is not None:
            kept = [source.name for source in self.sources if source.survives_restart]
            others = f"source NOT IN ({', '.join('?' * len(kept))})"
            for table in ("last_row", "last_sample"):
                self.db.execute(
                    f"DELETE FROM {table} WHERE instance = ? AND {others}", (instance, *kept)
                )
            # It happened since the last sample, whatever the server's clock shows.
            at = timestamp() if changed.at is None else min(max(changed.at, last or 0), timestamp())
            self._events([
                HistoryEvent(at=at, instance=instance, kind=changed.kind, detail=changed.detail)
            ])  # fmt: skip

    def _last_answer(self, instance: str) -> int | None:
        """When the server itself was last sampled [µs since 1970]; None if it never was.

        Samples that a clock put into the future do not count.
        """
        asked = [source.name for source in self.sources if source.queries]
        ((found,),) = self.db.execute(
            "SELECT max(at) FROM last_sample WHERE instance = ? AND at <= ? "
            f"AND source IN ({', '.join('?' * len(asked))})", (instance, timestamp(), *asked),
        )  # fmt: skip
        return None if found is None else int(found)

    def _store(self, instance: str, sample: SourceSample, clocks: _Clocks) -> None:
        source = sample.source
        seconds = self._elapsed(instance, sample, clocks)
        if source.compared:
            after = by_key(source, sample.rows)
            before = self._last_rows(instance, source)
            rows = grown(source, before, after)
            for kind, detail in events_between(source, before, after):
                self._happened(
                    HistoryEvent(at=sample.at, instance=instance, kind=kind, detail=detail)
                )
            self._remember(instance, source, before or {}, after)
        else:
            rows = (row.values for row in sample.rows)
        at = sample.at // layout.RESOLUTION * layout.RESOLUTION
        self._insert(source, [(at, instance, seconds, *values) for values in rows])
        # Two digits: more would take most of the room of these rows.
        cost = float(f"{sample.cost * 1000:.2g}")
        self._insert(
            own_sources.SAMPLES,
            [(at, instance, seconds, source.name, len(sample.rows), cost)],
        )

    def _elapsed(self, instance: str, sample: SourceSample, clocks: _Clocks) -> float | None:
        """Return seconds since the previous sample, by the monotonic clock if possible, or None."""
        name = sample.source.name
        before = self.last_sample(instance, name)
        self.db.execute(
            "INSERT OR REPLACE INTO last_sample VALUES (?, ?, ?)", (instance, name, sample.at)
        )
        clock = clocks.last.get((instance, name))
        clocks.last[instance, name] = (sample.at, sample.monotonic)
        if before is None:
            return None
        by_wall = (sample.at - before) / MICRO
        if clock is None or clock[0] != before:
            return _rounded(by_wall) if by_wall > 0 else None
        elapsed = sample.monotonic - clock[1]
        if abs(by_wall - elapsed) > _JUMP:
            self._jumped(instance, sample, by_wall - elapsed, clocks)
        return _rounded(elapsed)

    def _jumped(self, instance: str, sample: SourceSample, by: float, clocks: _Clocks) -> None:
        """Store that the clock jumped, once: each source notices it at its own next sample."""
        now = sample.at / MICRO - sample.monotonic
        known = clocks.jumped_to.get(instance)
        if known is None or abs(now - known) > _JUMP:
            clocks.jumped_to[instance] = now
            detail = f"the recorder's clock jumped by {by:+.1f} s"
            self._events(
                [HistoryEvent(at=sample.at, instance=instance, kind="clock", detail=detail)]
            )

    def _last_rows(self, instance: str, source: Source) -> dict[Key, Row] | None:
        """Return the rows of the previous sample, or None if there is none with these columns."""
        known = self.db.execute(
            "SELECT row FROM last_row WHERE instance = ? AND source = ? AND key = ''",
            (instance, source.name),
        ).fetchone()
        if known is None or known[0] != _shape(source):
            return None
        rows = self.db.execute(
            "SELECT key, reset, row FROM last_row WHERE instance = ? AND source = ? AND key <> ''",
            (instance, source.name),
        )
        return {
            tuple(json.loads(key)): Row(values=tuple(json.loads(row)), reset=reset)
            for key, reset, row in rows
        }

    def _remember(
        self, instance: str, source: Source, before: Mapping[Key, Row], after: Mapping[Key, Row]
    ) -> None:
        """Keep the rows for the next sample; the one with the empty key holds their columns."""
        changed = [
            (instance, source.name, json.dumps(key), row.reset, json.dumps(row.values))
            for key, row in after.items()
            if before.get(key) != row
        ]
        changed.append((instance, source.name, "", None, _shape(source)))
        self.db.executemany("INSERT OR REPLACE INTO last_row VALUES (?, ?, ?, ?, ?)", changed)
        gone = [(instance, source.name, json.dumps(key)) for key in before.keys() - after.keys()]
        self.db.executemany(
            "DELETE FROM last_row WHERE instance = ? AND source = ? AND key = ?", gone
        )

    def _happened(self, event: HistoryEvent) -> None:
        """Store an event, unless it is one that recurs and was stored a short time ago."""
        since = event.at - _RECURRING.get(event.kind, 0)
        if not self.db.execute(
            f"SELECT 1 FROM {layout.hot_table(own_sources.EVENTS)} "
            "WHERE instance = ? AND kind = ? AND time > ? AND time <= ?",
            (event.instance, event.kind, since, event.at),
        ).fetchone():
            self._events([event])

    def _events(self, events: Iterable[HistoryEvent]) -> None:
        rows = [(one.at, one.instance, None, one.kind, one.detail) for one in events]
        self._insert(own_sources.EVENTS, rows)

    def _note_missing(self, batch: Batch) -> None:
        if batch.missing is None or batch.missing == self._missing.get(batch.instance):
            return
        self._missing[batch.instance] = batch.missing
        self.db.execute("DELETE FROM missing WHERE instance = ?", (batch.instance,))
        self.db.executemany(
            "INSERT OR REPLACE INTO missing VALUES (?, ?, ?, ?)",
            [(batch.instance, one.name, one.why, one.hint) for one in batch.missing],
        )

    def _insert(self, source: Source, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            names = layout.column_list(source)
            marks = ", ".join("?" * len(rows[0]))
            table = layout.hot_table(source)
            self.db.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)


def _shape(source: Source) -> str:
    """Return the columns as text, to detect rows of an earlier version of the source."""
    return " ".join(f"{column.name}:{column.kind}" for column in source.columns)


def _rounded(seconds: float) -> float:
    """Round to 10 ms, or 1 ms up to half a second: few different values take little room."""
    return round(seconds, 2 if seconds > 0.5 else 3)


def _locked(path: Path) -> int:
    """Return a descriptor that holds the lock of this store until it is closed."""
    try:
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(
            f"cannot write {path.parent}: {error.strerror}", "Name another directory with --dir."
        ) from None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(number)
        raise Refused(
            f"another process records into {path.parent}",
            "Stop it first, or give another directory with --dir.",
        ) from None
    return number
