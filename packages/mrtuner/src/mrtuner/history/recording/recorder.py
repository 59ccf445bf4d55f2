"""Recording: a sampling thread per instance and one per machine, one for all of RDS, one writer.

Samples reach the store only through the writer; another thread moves past hours into files, which
delays no sample. A sample counts as recorded when its transaction is durable. Samples that are not
yet durable when the process is killed are lost; the next sample then covers the time since the last
durable one, so that nothing a counter counted is lost.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import TYPE_CHECKING, Final, Self

from mrtuner.errors import ConnectCause, ConnectError, MrTunerError
from mrtuner.facts import Missing
from mrtuner.history.moments import timestamp
from mrtuner.history.recording.budget import BUDGET, Pace
from mrtuner.history.recording.databases_watch import DatabasesWatch
from mrtuner.history.recording.host_watch import HostWatch
from mrtuner.history.recording.outlet import Outlet, Tell
from mrtuner.history.recording.rounds import Rounds
from mrtuner.history.recording.sampler import Sampler, SourceSample
from mrtuner.history.recording.silence import SILENCE, SilentSessions
from mrtuner.history.recording.source import CONNECTION, Source
from mrtuner.history.recording.statement_text import normalized
from mrtuner.history.store import compaction, opening, retention
from mrtuner.history.store.layout import HOUR, MICRO
from mrtuner.history.store.writer import Batch, HistoryEvent, Writer
from mrtuner.inputs import MachineInputs
from mrtuner.postgres.connect import connect, translated
from mrtuner.units import pretty_bytes

if TYPE_CHECKING:
    from mrtuner.history.recording.managed import ManagedFleet
    from mrtuner.postgres.connect import Connection

#: Publishes the files of the store that are new.
Publish = Callable[[], object]
#: How long the end of a recording waits for files to be published [s].
_LAST_PUBLISH: Final = 60.0
#: How long it waits for samples under way, before and again after giving up their sessions [s].
_LAST_SAMPLES: Final = 5.0
#: Batches an instance may be ahead of the writer; beyond that, samples are left out.
_AHEAD: Final = 120
#: Most batches that are stored in one transaction.
_AT_ONCE: Final = 200
#: Time between the first samples of two instances, and at most between the first and the last of
#: many [s]: they are large, and those of all at once would wait in memory for the writer.
APART: Final = 0.1
_LAST_BEGINS: Final = 60.0
#: Shortest and longest time between two attempts to connect [s]: it doubles each time.
_FIRST_RETRY: Final = 1.0
_LAST_RETRY: Final = 30.0
#: How often a session is asked whether its standby was promoted [s].
_PROMOTED_SINCE: Final = 60.0
#: Time between two attempts to write to a full disk [s].
_WRITE_AGAIN: Final = 5.0
#: What reading the texts of statements is called.
_TEXTS: Final = "statement_texts"
#: Delay after a full hour [µs], so that samples of its last second have arrived.
_AFTER_HOUR: Final = 60 * MICRO


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A server to record."""

    name: str  # in the store
    dsn: str = field(repr=False)
    machine: MachineInputs = field(default_factory=MachineInputs)  # what a check is told of it


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingLimits:
    """Limits on recording."""

    budget: float = BUDGET  # share of a session's time
    largest: int | None = None  # bytes of all files
    hourly: bool = False  # move the rows of each hour into files, for others to fetch
    silence: float = SILENCE  # seconds after a query's own timeout until its session is given up
    all_databases: bool = False  # sample what only shows one database in all of them
    apart: float = APART  # seconds between the first samples of two instances, less if many


def record(
    writer: Writer, instances: Sequence[Instance], stop: threading.Event, *,
    managed: ManagedFleet | None = None, publish: Publish | None = None,
    limits: RecordingLimits | None = None, tell: Tell | None = None,
) -> None:  # fmt: skip
    """Record these instances until `stop` is set, then store everything that was read.

    For `managed` ones, what CloudWatch and RDS report is recorded. `publish` is called in a thread
    of its own after files were written.

    An instance that cannot be reached, or does not answer, is tried again until it does. A full
    disk stops the recording until there is space; `tell` gets one sentence about either.

    Raises:
        MrTunerError: `stop` was set while nothing could be written; it says what was lost.
    """
    limits = limits or RecordingLimits()
    tell = tell or (lambda _: None)
    known = managed.instances if managed else ()
    with suppress(sqlite3.OperationalError):  # a full disk: the next start forgets them
        writer.forget_all_but([*(one.name for one in instances), *(one.name for one in known)])
    queue: Queue[Batch] = Queue(maxsize=_AHEAD * (len(instances) + len(known)))
    sampled = [source for source in writer.sources if source.queries or source.program]
    silent = SilentSessions(limits.silence)
    apart = min(limits.apart, _LAST_BEGINS / max(1, len(instances)))
    watches = [
        _Watch(
            one, sampled, queue, stop, tell,
            silent=silent, limits=limits, begin_after=number * apart,
        )
        for number, one in enumerate(instances)
    ]  # fmt: skip
    runs: dict[str, Callable[[], None]] = {one.instance.name: one.run for one in watches}
    runs |= {
        f"databases of {one.instance.name}": one.databases.run for one in watches if one.databases
    }
    if managed:
        from mrtuner.history.recording.managed import CloudWatchThread

        since = {one.name: writer.last_sample(one.name, "cloudwatch") for one in known}
        runs["from CloudWatch"] = CloudWatchThread(managed, queue, stop, tell, since=since).run
    threads = [
        threading.Thread(target=run, name=f"record {name}", daemon=True)
        for name, run in runs.items()
    ]
    for thread in threads:
        thread.start()
    publisher = _Publisher(publish, tell) if publish else None
    with _Upkeep(writer, tell, limits, publisher) as upkeep:
        upkeep.turn()
        with silent:
            for _ in _while_any_runs(threads, stop):
                upkeep.turn()
                _store(writer, _taken(queue), stop, tell, upkeep)
        for watch in watches:
            watch.host.end()
        for _ in _while_any_runs(threads, stop):
            _store(writer, _taken(queue), stop, tell, upkeep)
        while batches := _taken(queue):
            _store(writer, batches, stop, tell, upkeep)
    if publisher:
        publisher.finish()


def _while_any_runs(threads: Sequence[threading.Thread], stop: threading.Event) -> Iterator[None]:
    """Yield until `stop`, then until all threads have ended, for `_LAST_SAMPLES` at most."""
    while not stop.is_set():
        yield
    end = time.monotonic() + _LAST_SAMPLES
    while time.monotonic() < end and any(thread.is_alive() for thread in threads):
        yield


def _taken(queue: Queue[Batch]) -> list[Batch]:
    """Return up to `_AT_ONCE` waiting batches; wait up to a second for the first one."""
    found = []
    with suppress(Empty):
        found.append(queue.get(timeout=1.0))
        while len(found) < _AT_ONCE:
            found.append(queue.get_nowait())
    return found


# The writer's side.


def _store(
    writer: Writer, batches: Sequence[Batch], stop: threading.Event, tell: Tell, upkeep: _Upkeep
) -> None:  # fmt: skip
    """Store the batches; while the disk is full, make room and keep trying."""
    failed: tuple[int, str] | None = None  # since when, and why
    while batches:
        try:
            with _named(writer):
                writer.commit([*batches, *(_full(batches, *failed) if failed else ())])
        except sqlite3.OperationalError as error:
            if stop.is_set():
                raise MrTunerError(
                    f"{len(batches)} batches of samples could not be stored: {error}",
                    "Make room on the disk; what was counted meanwhile is in the next sample.",
                ) from None
            if failed is None:
                tell(f"nothing can be stored: {error}; trying again")
                failed = timestamp(), str(error)
            upkeep.turn(full=True)
            stop.wait(_WRITE_AGAIN)
        else:
            break
    if failed:
        tell("samples are stored again")


def _full(batches: Sequence[Batch], since: int, why: str) -> Iterator[Batch]:
    """Yield for each instance the event that nothing could be stored."""
    seconds = (timestamp() - since) / MICRO
    for instance in dict.fromkeys(batch.instance for batch in batches):
        event = HistoryEvent(
            at=since, instance=instance, kind="full",
            detail=f"nothing could be stored for {seconds:.0f} s: {why}",
        )  # fmt: skip
        yield Batch(instance=instance, events=(event,))


@contextmanager
def _named(writer: Writer) -> Iterator[None]:
    """Name the database if it is damaged; temporary errors are raised unchanged."""
    try:
        yield
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        with opening.explained(writer.directory):
            raise


class _Upkeep:
    """Looks after the files each hour, in a thread of its own. `with _Upkeep(…) as upkeep:`."""

    def __init__(
        self, writer: Writer, tell: Tell, limits: RecordingLimits, publisher: _Publisher | None
    ) -> None:  # fmt: skip
        self.writer, self.tell, self.limits = writer, tell, limits
        self.publisher = publisher
        self.due = 0
        self.pool = ThreadPoolExecutor(1, "record upkeep")
        self.running: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown()
        if self.running is not None:
            self.running.result()

    def turn(self, *, full: bool = False) -> None:
        """Start the upkeep when it is due, or what makes room on a full disk.

        Let the files be published when it has just finished.

        Raises:
            MrTunerError: the database is damaged.
        """
        now = timestamp()
        if self.running is None and full:
            self.running = self.pool.submit(self._make_room, now)
        elif self.running is None and now >= self.due:
            self.due = (now // HOUR + 1) * HOUR + _AFTER_HOUR
            self.running = self.pool.submit(self._maintain, now)
        if self.running is None or not self.running.done():
            return
        done, self.running = self.running, None
        done.result()
        if self.publisher:
            self.publisher.wake()

    def _make_room(self, now: int) -> None:
        """Delete files: first those whose deletion needs no room. It is tried again if it fails."""
        again = suppress(OSError, sqlite3.OperationalError)
        with again, _named(self.writer), self.writer.another() as writer:
            compaction.sweep(writer, now)
            retention.delete_past_retention(writer, now, self.limits.largest)

    def _maintain(self, now: int) -> None:
        """Move past hours into files, merge and delete files; report failures, to be retried.

        Each step runs even if the one before failed: a file that cannot be merged must not keep
        others from being deleted.
        """
        import duckdb  # it raises its own errors, even for a full disk

        steps: dict[str, Callable[[Writer], int]] = {
            "rows of past hours stay in SQLite for now":
                lambda writer: compaction.move_to_parquet(writer, now, hourly=self.limits.hourly),
            "files are not merged for now": lambda writer: compaction.compact(writer, now),
            "old files stay for now":
                lambda writer: retention.delete_past_retention(writer, now, self.limits.largest),
            "unused files stay for now": lambda writer: compaction.sweep(writer, now),
        }  # fmt: skip
        largest, recent = self.limits.largest, retention.recent_bytes(self.writer.directory)
        if largest is not None and recent >= largest:
            self.tell(
                f"the database alone takes {pretty_bytes(recent)}, more than --max-size: no file "
                "is deleted for it"
            )
        for failure, step in steps.items():
            try:
                with _named(self.writer), self.writer.another() as writer:
                    step(writer)
            except (OSError, sqlite3.OperationalError, duckdb.Error) as error:
                self.tell(f"{failure}: {error}")


class _Publisher:
    """Publishes in a thread of its own, so that a hanging network delays no sample."""

    def __init__(self, publish: Publish, tell: Tell) -> None:
        self.publish, self.tell = publish, tell
        self.wanted, self.over = threading.Event(), False
        self.thread = threading.Thread(target=self._run, name="record publish", daemon=True)
        self.wanted.set()
        self.thread.start()

    def wake(self) -> None:
        self.wanted.set()

    def finish(self) -> None:
        """Publish once more, and wait for that, but at most `_LAST_PUBLISH`."""
        self.over = True
        self.wanted.set()
        self.thread.join(_LAST_PUBLISH)

    def _run(self) -> None:
        while not self.over or self.wanted.is_set():
            self.wanted.wait()
            self.wanted.clear()
            try:
                self.publish()
            except (MrTunerError, OSError, sqlite3.Error) as error:
                self.tell(f"nothing was published: {error}; it will be tried again in an hour")


# The side of one instance.


class _Watch:
    """Samples one instance in a thread of its own."""

    def __init__(
        self, instance: Instance, sources: Iterable[Source], queue: Queue[Batch],
        stop: threading.Event, tell: Tell, *, silent: SilentSessions, limits: RecordingLimits,
        begin_after: float,
    ) -> None:  # fmt: skip
        self.instance, self.stop, self.silent, self.tell = instance, stop, silent, tell
        self.begin_after = begin_after
        self.outlet = Outlet(instance.name, queue)
        every = tuple(sources)
        inside = [one for one in every if limits.all_databases and one.per_database]
        share = limits.budget
        self.rounds = Rounds(
            (one for one in every if one.program is None and one not in inside), share
        )
        self.host = HostWatch(
            instance.name, (one for one in every if one.program is not None), queue, stop,
            share=share,
        )  # fmt: skip
        self.databases = DatabasesWatch(
            instance.name, instance.dsn, inside, queue, stop, silent=silent, share=share,
            begin_after=begin_after,
        ) if inside else None  # fmt: skip
        self.known_texts: set[int] = set()
        self.texts_due = 0.0
        if statements := self.rounds.sources.get("statements"):
            # The server reads all texts that it keeps, however few are asked for.
            self.rounds.budget.paces[_TEXTS] = Pace(statements.interval)

    def run(self) -> None:
        """Connect and sample until told to stop; after each loss, connect again."""
        retry, lost, reported = _FIRST_RETRY, False, True
        self.stop.wait(self.begin_after)
        while not self.stop.is_set():
            try:
                with connect(self.instance.dsn) as conn, translated():
                    if lost:
                        self.tell(f"{self.instance.name}: connected again")
                    self.outlet.note("connected", "recording")
                    retry, lost = _FIRST_RETRY, False
                    self._sample_until_stopped(conn)
            except MrTunerError as error:
                lack = Missing(CONNECTION, error.message, hint=error.hint)
                if isinstance(error, ConnectError) and error.cause is ConnectCause.STARTING:
                    retry = _FIRST_RETRY  # soon, it accepts connections
            except Exception as error:  # a bug of ours must not end the recording of this server
                lack = Missing(CONNECTION, f"{type(error).__name__}: {error}")
            else:
                return
            if self.stop.is_set():
                return
            if not lost:
                self.tell(f"{self.instance.name}: {lack.why}; trying again")
                self.outlet.note("lost", lack.why)
                reported = False
            lost = True
            reported = reported or self.outlet.send(missing=[lack, *self._missing_elsewhere()])
            self.stop.wait(retry)
            retry = min(retry * 2, _LAST_RETRY)

    def _sample_until_stopped(self, conn: Connection) -> None:
        sampler = Sampler(conn, self.silent)
        identity, asked = sampler.prepare(), time.monotonic()
        self.outlet.meet(identity)
        self.host.meet(sampler.place())
        self.rounds.begin()
        while not self.stop.wait(self.rounds.wait):
            if time.monotonic() - asked >= _PROMOTED_SINCE:
                before, identity, asked = identity, sampler.identity(), time.monotonic()
                if identity != before:
                    self.outlet.meet(identity)
            due = self.rounds.due()
            samples, texts = list[SourceSample](), dict[int, str]()
            try:
                for source in due:
                    if sample := self.rounds.sampled(source, sampler.sample):
                        samples.append(sample)
                texts = self._texts(sampler, samples)
            finally:  # what was read before a session breaks is kept
                self.rounds.done(due)
                missing = [*sampler.missing.values(), *self._missing_elsewhere()]
                if not self.outlet.send(samples, texts, missing):
                    self.known_texts -= texts.keys()
            self.rounds.adjust(self.outlet)

    def _missing_elsewhere(self) -> Iterator[Missing]:
        """Yield what the other threads of this instance cannot read."""
        yield from self.host.missing
        if self.databases is not None:
            yield from self.databases.missing

    def _texts(self, sampler: Sampler, samples: Iterable[SourceSample]) -> dict[int, str]:
        """The texts of statements that were not seen before, as often as the budget allows."""
        begin = time.monotonic()
        if begin < self.texts_due:
            return {}
        ids = {
            row.values[place]
            for sample in samples
            if sample.source.name == "statements"
            for place in [[one.name for one in sample.source.columns].index("query_id")]
            for row in sample.rows
        }
        if not ids:
            return {}
        fresh = ids - self.known_texts
        found: dict[int, str] | None = {}
        if fresh:
            found = sampler.texts(fresh)
            self.rounds.budget.took(_TEXTS, time.monotonic() - begin)
        # Due with a sample of statements, which may come a little sooner than an interval later.
        pace = self.rounds.budget.paces[_TEXTS]
        self.texts_due = begin + pace.actual - pace.interval / 2
        if found is None:
            return {}
        # Forget those that the server has evicted, or this set would grow without end.
        self.known_texts = self.known_texts & ids | fresh
        return {number: normalized(text) for number, text in found.items()}
