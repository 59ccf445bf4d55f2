"""Open-loop probes of a PostgreSQL server: what a client sees while the server goes away.

Each kind of probe has a schedule of its own that does not wait for answers: a server that hangs
for a minute is seen to hang by every client that came in that minute, not by one. The connection
string is the user's own and is used as it is, so that what is measured is what its settings give;
only `Schedule.timeout` bounds an attempt from outside. Nothing here knows how or why the server
goes away.

Writes go into a table in a schema of our own, each row numbered, and what was acknowledged is
counted again at the end. The schema is dropped afterwards.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, LiteralString, TypeAlias

from mrtuner.errors import ConnectError, MrTunerError
from mrtuner.failover.observed import (
    Attempt,
    Kind,
    Ledger,
    Observation,
    Server,
    balanced,
    steady,
)
from mrtuner.postgres.connect import connect, translated

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]

APPLICATION_NAME: Final = "mrtuner-probe"
SCHEMA_PREFIX: Final = "mrtuner_probe_"

#: One round trip that also tells which server answers.
_WHO: Final[LiteralString] = "SELECT pg_postmaster_start_time(), pg_is_in_recovery()"
_INSERT: Final[LiteralString] = (
    "INSERT INTO {table} VALUES (%s) RETURNING pg_postmaster_start_time(), pg_is_in_recovery()"
)
#: How long the end of a probe may take beyond its timeout [s].
_GRACE: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How often, how patiently and in which ways to ask."""

    interval: float = 0.2  # s between two attempts of one kind
    timeout: float = 10.0  # s after which an attempt is given up and counts as failed
    kinds: tuple[Kind, ...] = tuple(Kind)
    #: Unanswered attempts of one kind at once. More are left out and counted: a server that
    #: comes back must not find every slot of max_connections taken by probes.
    at_once: int = 20


class Probes:
    """Probes that run from entering the block until `finish`, in a thread of their own.

    Entering raises ConnectError or UsageError when the server cannot be reached or the table for
    writes cannot be made: nothing is worth starting then. Leaving the block stops the probes and
    drops the schema, whatever happened.
    """

    def __init__(self, dsn: str, schedule: Schedule | None = None) -> None:
        self.dsn = dsn
        self.schedule = schedule or Schedule()
        self._schema = SCHEMA_PREFIX + secrets.token_hex(4)
        self._loop: asyncio.AbstractEventLoop | None = None  # while the thread runs
        self._stop = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._began, self._began_at = time.monotonic(), datetime.now(UTC)
        self._attempts: list[Attempt] = []
        self._skipped = 0
        self._numbers = count(1)
        self._sent = 0
        self._acknowledged: set[int] = set()
        self._held: Connection | None = None
        self._broken: BaseException | None = None
        self._made = False

    def __enter__(self) -> Probes:
        self._make_ledger()
        self._loop = asyncio.new_event_loop()
        self._began, self._began_at = time.monotonic(), datetime.now(UTC)
        self._thread = threading.Thread(target=self._work, args=(self._loop,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._halt()
        with suppress(MrTunerError):
            self._drop_ledger()

    def now(self) -> float:
        """Seconds since the probes began."""
        return time.monotonic() - self._began

    def attempts(self) -> tuple[Attempt, ...]:
        """Those that have ended so far. Raises what broke the probes themselves, if anything."""
        if self._broken is not None:
            raise self._broken
        return tuple(self._attempts)

    def wait_until_steady(self, seconds: float, *, patience: float) -> bool:
        """Wait until every kind was well answered for so long; False when patience [s] ends."""
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
        """Stop, count the ledger, drop the schema, and give everything that was seen."""
        self._halt()
        seconds = self.now()
        ledger, left_behind = self._closed_ledger()
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

    # The ledger, over a session of its own.

    def _make_ledger(self) -> None:
        with connect(self.dsn, through_pooler=True) as conn, translated():
            if Kind.WRITE not in self.schedule.kinds:
                return
            conn.execute(
                self._named("CREATE SCHEMA {schema} CREATE TABLE ledger (id int PRIMARY KEY)")
            )
            self._made = True

    def _closed_ledger(self) -> tuple[Ledger | None, str | None]:
        """The count, if it could be taken, and the schema's name, if it is still there."""
        ledger = None
        try:
            ledger = self._counted() if self._made else None
            self._drop_ledger()
        except ConnectError:
            return ledger, self._schema
        return ledger, None

    def _counted(self) -> Ledger:
        with connect(self.dsn, through_pooler=True) as conn, translated():
            rows = conn.execute(self._named("SELECT id FROM {table}")).fetchall()
        return balanced(self._sent, self._acknowledged, {row[0] for row in rows})

    def _drop_ledger(self) -> None:
        if not self._made:
            return
        with connect(self.dsn, through_pooler=True) as conn, translated():
            conn.execute(self._named("DROP SCHEMA IF EXISTS {schema} CASCADE"))
        self._made = False

    def _named(self, statement: LiteralString) -> Any:
        from psycopg.sql import SQL, Identifier

        return SQL(statement).format(
            schema=Identifier(self._schema), table=Identifier(self._schema, "ledger")
        )

    # The thread.

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_until_complete(self._probe())
            loop.run_until_complete(loop.shutdown_default_executor())
        except BaseException as error:  # the caller's thread raises it again
            self._broken = error
        finally:
            loop.close()

    def _halt(self) -> None:
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            return
        with suppress(RuntimeError):  # it ended by itself just now
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(2 * self.schedule.timeout + _GRACE)

    async def _probe(self) -> None:
        """Until told to stop; then wait for the attempts under way."""
        kinds = self.schedule.kinds
        try:
            async with asyncio.TaskGroup() as group:
                for place, kind in enumerate(kinds):
                    offset = self.schedule.interval * place / len(kinds)
                    group.create_task(self._ask_regularly(kind, offset, group))
        finally:
            await self._let_go()

    async def _ask_regularly(self, kind: Kind, offset: float, group: asyncio.TaskGroup) -> None:
        """Keep the schedule of one kind: attempt n is due at offset + n * interval."""
        limit = 1 if kind is Kind.HELD else self.schedule.at_once
        under_way: Counter[Kind] = Counter()
        for number in count():
            due = offset + number * self.schedule.interval
            if await self._stopped_before(due):
                return
            if under_way[kind] >= limit:
                self._skipped += kind is not Kind.HELD  # one session can ask one thing at a time
                continue
            under_way[kind] += 1
            task = group.create_task(self._attempt(kind, due))
            task.add_done_callback(lambda _: under_way.subtract([kind]))

    async def _stopped_before(self, due: float) -> bool:
        """Sleep until `due`; True as soon as the probes are to stop."""
        try:
            async with asyncio.timeout(max(0.0, due - self.now())):
                await self._stop.wait()
        except TimeoutError:
            return False
        return True

    async def _attempt(self, kind: Kind, due: float) -> None:
        import psycopg

        sent = self.now()
        server, error = None, None
        try:
            server = await self._asker(kind)()
        except TimeoutError:
            error = f"no answer within {self.schedule.timeout:g} s"
        except (psycopg.Error, OSError) as problem:
            error = _said(problem)
        self._attempts.append(
            Attempt(
                kind=kind, due=due, sent=sent, ended=self.now(), error=error, server=server
            )
        )  # fmt: skip

    def _asker(self, kind: Kind) -> Callable[[], Awaitable[Server]]:
        match kind:
            case Kind.READ:
                return self._read
            case Kind.HELD:
                return self._read_held
            case Kind.WRITE:
                return self._write

    async def _read(self) -> Server:
        conn = await self._connect()
        try:
            return await self._query(conn, _WHO)
        finally:
            await conn.close()

    async def _write(self) -> Server:
        number = next(self._numbers)
        conn = await self._connect()
        try:
            self._sent += 1
            server = await self._query(conn, self._named(_INSERT), (number,))
        finally:
            await conn.close()
        self._acknowledged.add(number)
        return server

    async def _read_held(self) -> Server:
        """As a pool without a check would: ask, and only a failure makes it connect anew."""
        if self._held is None:
            self._held = await self._connect()
        try:
            return await self._query(self._held, _WHO)
        except BaseException:
            await self._let_go()
            raise

    async def _let_go(self) -> None:
        if self._held is not None:
            await self._held.close()
            self._held = None

    async def _connect(self) -> Connection:
        from psycopg import AsyncConnection

        async with asyncio.timeout(self.schedule.timeout):
            return await AsyncConnection.connect(
                self.dsn, autocommit=True, prepare_threshold=None,
                application_name=APPLICATION_NAME,
            )  # fmt: skip

    async def _query(
        self, conn: Connection, statement: Any, values: tuple[Any, ...] = ()
    ) -> Server:
        """One answer. Patience ends by hanging up: a cancel would wait for the server again."""
        import psycopg

        began = self.now()
        guard = asyncio.get_running_loop().call_later(self.schedule.timeout, _hang_up, conn)
        try:
            row = await (await conn.execute(statement, values or None)).fetchone()
        except psycopg.Error:
            if self.now() - began >= self.schedule.timeout:
                raise TimeoutError from None
            raise
        finally:
            guard.cancel()
        started, standby = row or (None, None)
        return Server(started, bool(standby), conn.info.hostaddr or None)


def _hang_up(conn: Connection) -> None:
    """Shut the socket down, so that whoever waits for an answer on it is told at once."""
    with suppress(OSError), socket.socket(fileno=os.dup(conn.fileno())) as ours:
        ours.shutdown(socket.SHUT_RDWR)


def _said(error: Exception) -> str:
    """The first line of what libpq or the server says; it never holds a password."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].removeprefix("connection failed: ") if lines else type(error).__name__
