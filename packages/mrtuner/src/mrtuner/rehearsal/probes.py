"""Open-loop probes of a PostgreSQL server: what clients see while the server goes away.

Each kind of probe has its own schedule, which does not wait for answers: if a server hangs for a
minute, every client that came in that minute sees it hang, not just one. The user's connection
string is used unchanged, so that its settings are what is measured; only `Schedule.timeout` limits
an attempt from outside. Nothing here knows how or why the server goes away.

Writes go into a table in our own schema, each row numbered, and acknowledged writes are counted at
the end. The schema is dropped afterwards.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from math import ceil
from typing import TYPE_CHECKING, Any, Final, LiteralString, TypeAlias

from mrtuner.errors import MrTunerError
from mrtuner.postgres.connect import connect
from mrtuner.rehearsal.ledger import LedgerTable
from mrtuner.rehearsal.observation import (
    USUAL,
    Attempt,
    Observation,
    ProbeKind,
    ServerIdentity,
    steady,
)
from mrtuner.rehearsal.server_identity import Who, permitted, server

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]

APPLICATION_NAME: Final = "mrtuner-probe"

#: How long a probe may take to end after its timeout [s].
_GRACE: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How often, how patiently and in which ways to probe."""

    interval: float = 0.2  # seconds between two attempts of one kind
    timeout: float = 10.0  # seconds after which an attempt is given up and counts as failed
    kinds: tuple[ProbeKind, ...] = USUAL
    held: int = 1  # connections that each held kind keeps open and uses in turn
    flight: float = 1.0  # seconds that a query in flight takes when all is well
    #: Most unanswered attempts of one kind at a time. Others are skipped and counted: a server
    #: that comes back must not find every slot of max_connections taken by probes.
    at_once: int = 20

    def most(self, kind: ProbeKind) -> int:
        """Most simultaneous sessions of one kind; queries in flight always need some more."""
        if kind.held:
            return self.held
        owed = ceil(self.flight / self.interval) if kind is ProbeKind.FLIGHT else 0
        return self.at_once + owed

    @property
    def sessions(self) -> int:
        return sum(self.most(kind) for kind in self.kinds)


class Probes:
    """Probes that run from entering the block until `finish`, in their own thread.

    Entering raises ConnectError or UsageError if the server cannot be reached or the table for
    writes cannot be created, in which case nothing should be started. Leaving the block stops the
    probes and drops the schema, whatever happened; `tell` gets its name if that fails and no
    observation will name it.
    """

    def __init__(
        self,
        dsn: str,
        schedule: Schedule | None = None,
        *,
        tell: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.dsn = dsn
        self.schedule = schedule or Schedule()
        self.tell = tell
        self.book = LedgerTable(dsn)
        self._loop: asyncio.AbstractEventLoop | None = None  # while the thread runs
        self._stop = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._began, self._began_at = time.monotonic(), datetime.now(UTC)
        self._attempts: list[Attempt] = []
        self._skipped = 0
        self._held: dict[ProbeKind, deque[Connection | None]] = {
            kind: deque([None] * self.schedule.held) for kind in ProbeKind if kind.held
        }
        self._who = Who()
        self._broken: BaseException | None = None

    def __enter__(self) -> Probes:
        self._prepare()
        self._loop = asyncio.new_event_loop()
        self._began, self._began_at = time.monotonic(), datetime.now(UTC)
        self._thread = threading.Thread(target=self._work, args=(self._loop,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._halt()
            self.book.drop()
        except BaseException as error:  # of an outage, or a second interruption
            ours = isinstance(error, MrTunerError)
            if self.book.made and (kind is not None or not ours):
                self.tell(f"schema {self.book.schema} could not be dropped; drop it yourself")
            if not ours:
                raise

    def _prepare(self) -> None:
        with connect(self.dsn, through_pooler=True) as conn:
            self._who = permitted(conn)
        if any(kind.writes for kind in self.schedule.kinds):
            self.book.make()

    def now(self) -> float:
        """Seconds since the probes began."""
        return time.monotonic() - self._began

    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts that have ended so far. Raises the error that stopped the probes, if any."""
        if self._broken is not None:
            raise self._broken
        return tuple(self._attempts)

    def wait_until_steady(self, seconds: float, *, patience: float) -> bool:
        """Wait until every kind got good answers for `seconds`; False after `patience` [s]."""
        end = self.now() + patience
        while not self._steady_for(seconds):
            if self.now() >= end:
                return False
            time.sleep(min(0.05, self.schedule.interval))
        return True

    def _steady_for(self, seconds: float) -> bool:
        since = self.now() - seconds
        return since >= 0 and steady(self.attempts(), self.schedule.kinds, since=since)

    def finish(self) -> Observation:
        """Stop, count the ledger, drop the schema, and return everything that was seen."""
        self._halt()
        seconds = self.now()
        ledger, left_behind = self.book.close()
        return Observation(
            began=self._began_at,
            seconds=seconds,
            interval=self.schedule.interval,
            timeout=self.schedule.timeout,
            kinds=self.schedule.kinds,
            attempts=tuple(sorted(self.attempts(), key=lambda one: (one.due, one.kind))),
            skipped=self._skipped,
            ledger=ledger,
            left_behind=left_behind,
        )

    # The thread.

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_until_complete(self._probe())
            loop.run_until_complete(loop.shutdown_default_executor())
        except BaseException as error:  # raised again in the caller's thread
            self._broken = error
        finally:
            loop.close()

    def _halt(self) -> None:
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            return
        with suppress(RuntimeError):  # the loop has just closed by itself
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(2 * self.schedule.timeout + _GRACE)

    async def _probe(self) -> None:
        """Probe until told to stop; then wait for pending attempts."""
        kinds = self.schedule.kinds
        try:
            async with asyncio.TaskGroup() as group:
                for place, kind in enumerate(kinds):
                    offset = self.schedule.interval * place / len(kinds)
                    group.create_task(self._ask_regularly(kind, offset, group))
        finally:
            await self._let_go()

    async def _ask_regularly(
        self, kind: ProbeKind, offset: float, group: asyncio.TaskGroup
    ) -> None:
        """Follow the schedule of one kind: attempt n is due at offset + n * interval."""
        limit = self.schedule.most(kind)
        under_way: Counter[ProbeKind] = Counter()
        for number in count():
            due = offset + number * self.schedule.interval
            if await self._stopped_before(due):
                return
            if under_way[kind] >= limit:
                self._skipped += not kind.held  # a session can run only one query at a time
                continue
            under_way[kind] += 1
            task = group.create_task(self._attempt(kind, due))
            task.add_done_callback(lambda _: under_way.subtract([kind]))

    async def _stopped_before(self, due: float) -> bool:
        """Sleep until `due`; return True as soon as the probes should stop."""
        try:
            async with asyncio.timeout(max(0.0, due - self.now())):
                await self._stop.wait()
        except TimeoutError:
            return False
        return True

    async def _attempt(self, kind: ProbeKind, due: float) -> None:
        import psycopg

        one = _Asking(sent=self.now())
        error, sqlstate, given_up = None, None, False
        try:
            await self._ask(kind, one)
        except TimeoutError:
            error, given_up = f"no answer within {self.schedule.timeout:g} s", True
        except (psycopg.Error, OSError) as problem:
            error, sqlstate = _first_line(problem), getattr(problem, "sqlstate", None)
        self._attempts.append(
            Attempt(
                kind=kind, due=due + self._owed(kind), sent=one.sent, asked=one.asked,
                ended=self.now(), error=error, server=one.server, sqlstate=sqlstate,
                given_up=given_up, fresh=one.fresh,
            )
        )  # fmt: skip

    def _owed(self, kind: ProbeKind) -> float:
        """Seconds that the query takes when all is well."""
        return self.schedule.flight if kind is ProbeKind.FLIGHT else 0.0

    async def _ask(self, kind: ProbeKind, one: _Asking) -> None:
        """Connect if necessary, run the query, and record on `one` how far it came."""
        if kind.held:
            async with self._lent(kind, one) as conn:
                await self._put(kind, conn, one)
            return
        conn = await self._connect()
        try:
            await self._put(kind, conn, one)
        finally:
            await conn.close()

    @asynccontextmanager
    async def _lent(self, kind: ProbeKind, one: _Asking) -> AsyncIterator[Connection]:
        """Lend a connection like a pool without checks: only a failure makes it reconnect."""
        pool = self._held[kind]
        conn = pool.popleft()
        one.fresh = conn is None
        try:
            conn = conn or await self._connect()
            yield conn
        except BaseException:
            if conn is not None:
                await conn.close()
            conn = None
            raise
        finally:
            pool.append(conn)

    async def _put(self, kind: ProbeKind, conn: Connection, one: _Asking) -> None:
        """Run this kind's query over a connection."""
        one.asked = self.now()
        columns = self._who.columns
        if kind.writes:
            number = self.book.number()
            insert: LiteralString = "INSERT INTO {table} VALUES (%s) RETURNING "
            statement = self.book.named(insert + columns)
            self.book.sent += 1
            one.server = await self._query(conn, statement, (number,))
            self.book.acknowledge(number)
        elif kind is ProbeKind.FLIGHT:
            asleep = f"SELECT {columns} FROM pg_sleep(%s)"  # noqa: S608 - columns are ours
            owed = self.schedule.flight
            one.server = await self._query(conn, asleep, (owed,), owed=owed)
        else:
            one.server = await self._query(conn, "SELECT " + columns)

    async def _let_go(self) -> None:
        for pool in self._held.values():
            while pool:
                if (conn := pool.popleft()) is not None:
                    await conn.close()

    async def _connect(self) -> Connection:
        from psycopg import AsyncConnection

        async with asyncio.timeout(self.schedule.timeout):
            return await AsyncConnection.connect(
                self.dsn, autocommit=True, prepare_threshold=None,
                application_name=APPLICATION_NAME,
            )  # fmt: skip

    async def _query(
        self,
        conn: Connection,
        statement: Any,
        values: tuple[Any, ...] = (),
        *,
        owed: float = 0.0,
    ) -> ServerIdentity:
        """Return one answer. On timeout, hang up: a cancel would wait for the server again."""
        import psycopg

        began, patience = self.now(), self.schedule.timeout + owed
        guard = asyncio.get_running_loop().call_later(patience, _hang_up, conn)
        try:
            row = await (await conn.execute(statement, values or None)).fetchone()
        except psycopg.Error:
            if self.now() - began >= patience:
                raise TimeoutError from None
            raise
        finally:
            guard.cancel()
        return server(row, conn.info.hostaddr or None)


@dataclass(slots=True)
class _Asking:
    """How far an attempt has come."""

    sent: float
    fresh: bool = True
    asked: float | None = None
    server: ServerIdentity | None = None


def _hang_up(conn: Connection) -> None:
    """Shut down the socket, so that anyone waiting for an answer on it is notified immediately."""
    with suppress(OSError), socket.socket(fileno=os.dup(conn.fileno())) as ours:
        ours.shutdown(socket.SHUT_RDWR)


def _first_line(error: Exception) -> str:
    """The first line of the error from libpq or the server; it never contains a password."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].removeprefix("connection failed: ") if lines else type(error).__name__
