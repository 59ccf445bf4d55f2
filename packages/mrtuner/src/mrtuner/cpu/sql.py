"""Workers as sessions of a server: cross joins of generated rows, on any PostgreSQL.

A session runs one DO block that waits for the common start by the server's clock, then joins rows
piece by piece and reports the time after each as a notice. Nothing is written; parallel query and
JIT are off; a statement timeout ends what hangs. If the server runs on this machine, its backends'
CPU time and run delay are read from /proc; otherwise only elapsed time is known.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any, Final

from mrtuner.cpu.crew import fastest
from mrtuner.cpu.model import CpuPlan, Usable, Worker
from mrtuner.errors import MrTunerError
from mrtuner.host.tree import Tree
from mrtuner.postgres.connect import connect, translated

if TYPE_CHECKING:
    from mrtuner.cpu.trials import Crewed
    from mrtuner.postgres.connect import Connection

#: Rows of the inner side; a step is one row of the outer side joined to all of them.
_INNER: Final = 1000

_BLOCK: Final = """
DO $$
DECLARE
    joined bigint;
BEGIN
    PERFORM pg_sleep(greatest(0, {start} - extract(epoch FROM clock_timestamp())));
    FOR piece IN 1..{pieces} LOOP
        SELECT count(*) INTO joined
        FROM generate_series(1, {count}) AS a, generate_series(1, {inner}) AS b
        WHERE a <> -b;
        RAISE NOTICE 'piece %', extract(epoch FROM clock_timestamp());
    END LOOP;
END
$$
"""

_NOW: Final = b"SELECT extract(epoch FROM clock_timestamp())::float8"


@dataclass(frozen=True, slots=True)
class StatementTimeout:
    """A statement times out after `times` its expected duration plus `seconds`."""

    times: float = 5
    seconds: float = 10

    def of(self, expected: float) -> float:
        """Return the timeout for this duration [s]."""
        return self.seconds + self.times * expected


class Sessions:
    """A site whose workers are sessions of one server."""

    def __init__(
        self,
        dsn: str,
        usable: Usable,
        postmaster: int | None,
        *,
        patience: StatementTimeout | None = None,
    ) -> None:
        self.tree = Tree(pid=postmaster)
        self.cpus: Sequence[int] = usable.cpus if postmaster is not None else ()
        self._dsn, self._usable, self._local = dsn, usable, postmaster is not None
        self._patience = patience or StatementTimeout()

    @contextmanager
    def workers(self, count: int) -> Iterator[Crewed]:
        """Yield this many sessions, each with a local thread that waits for it."""
        speed = self.speed  # measured before other sessions run
        stop = threading.Event()
        with ExitStack() as stack:
            sessions = [
                stack.enter_context(_session(self._dsn, self._tree(), stop)) for _ in range(count)
            ]
            slowed = max(1.0, count / max(0.01, self._usable.count))
            yield _Started(sessions, speed, slowed, self._patience)
            stop.set()

    def _tree(self) -> Tree | None:
        return self.tree if self._local else None

    @cached_property
    def speed(self) -> float:
        """Steps per second of one session, the fastest of three tries."""
        with _session(self._dsn, self._tree(), threading.Event()) as alone:
            return fastest(alone.timed, 10)


class _Started:
    def __init__(
        self, sessions: Sequence[_Session], speed: float, slowed: float, patience: StatementTimeout
    ) -> None:
        self._sessions, self._speed, self._slowed = sessions, speed, slowed
        self._patience = patience

    @property
    def pids(self) -> Sequence[int]:
        return [session.pid for session in self._sessions]

    def work(self, plan: CpuPlan) -> tuple[Worker, ...]:
        count = max(1, round(self._speed * plan.seconds / plan.pieces))
        patience = self._patience.of(plan.seconds * self._slowed)
        start = self._sessions[0].now() + 0.1 + 0.02 * len(self._sessions)
        for session in self._sessions:
            session.begin(start, plan.pieces, count, patience)
        return tuple(session.result(2 * patience) for session in self._sessions)


class _Session:
    """One connection; its thread runs the work, then keeps burning CPU until told to stop."""

    def __init__(self, conn: Connection, tree: Tree | None, stop: threading.Event) -> None:
        self._conn, self._tree, self._stop = conn, tree, stop
        self._marks: list[float] = []
        self._done: Queue[Worker | Exception] = Queue()
        self._thread: threading.Thread | None = None
        conn.add_notice_handler(self._mark)

    @property
    def pid(self) -> int:
        return self._conn.info.backend_pid

    def now(self) -> float:
        """Return the server's clock [s since 1970]."""
        with translated():
            row = self._conn.execute(_NOW).fetchone()
        return float(row[0]) if row else 0.0

    def timed(self, count: int) -> float:
        """Return how long one piece of `count` steps takes [s], in CPU time if visible."""
        done = self._run(self.now(), 1, count)
        return done.cpu or done.wall

    def begin(self, start: float, pieces: int, count: int, patience: float) -> None:
        with translated():
            self._conn.execute(f"SET statement_timeout = {1000 * patience:.0f}".encode())
        self._thread = threading.Thread(target=self._live, args=(start, pieces, count), daemon=True)
        self._thread.start()

    def result(self, patience: float) -> Worker:
        """Return the finished work; MrTunerError if the server ended it or does not answer."""
        try:
            done = self._done.get(timeout=patience)
        except Empty:
            raise MrTunerError("a session does not respond", "Is the server overloaded?") from None
        if isinstance(done, Exception):
            raise _ended(done)
        return done

    def end(self) -> None:
        if self._thread is not None:
            self._stop.set()
            self._conn.cancel()
            self._thread.join(10)

    def _live(self, start: float, pieces: int, count: int) -> None:
        try:
            self._done.put(self._run(start, pieces, count))
            while not self._stop.is_set():
                self._run(0, 1, max(1, count // 8))
        except Exception as error:
            self._done.put(error)

    def _run(self, start: float, pieces: int, count: int) -> Worker:
        self._marks = [start]
        before = self._account()
        block = _BLOCK.format(start=f"{start:.6f}", pieces=pieces, count=count, inner=_INNER)
        self._conn.execute(block.encode())
        after = self._account()
        cpu, delay, switches = (
            None if a is None or b is None else a - b for a, b in zip(after, before, strict=True)
        )
        marks = self._marks
        return Worker(
            pieces=tuple(end - begun for begun, end in pairwise(marks)),
            cpu=cpu,
            delay=delay,
            switches=None if switches is None else int(switches),
            cpus=(),
        )

    def _account(self) -> tuple[float | None, float | None, float | None]:
        """Return our backend's CPU [s], run delay [s] and involuntary switches, where visible."""
        if self._tree is None:
            return None, None, None
        fields = (self._tree.peek(f"/proc/{self.pid}/schedstat") or "").split()
        if len(fields) < 2:
            return None, None, None
        status = self._tree.peek(f"/proc/{self.pid}/status") or ""
        switches = re.search(r"^nonvoluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)
        return int(fields[0]) / 1e9, int(fields[1]) / 1e9, int(switches[1]) if switches else None

    def _mark(self, notice: Any) -> None:
        said = re.fullmatch(r"piece (\d+\.?\d*)", notice.message_primary or "")
        if said:
            self._marks.append(float(said[1]))


def _ended(error: Exception) -> Exception:
    """Return what ended a session's work, as one of our errors."""
    from psycopg.errors import QueryCanceled

    if isinstance(error, QueryCanceled):
        return MrTunerError(
            f"the server cancelled a session's work: {error.diag.message_primary}",
            "It is overloaded or limits the time of statements: use fewer workers or a shorter "
            "time (--seconds).",
        )
    try:
        with translated():
            raise error
    except Exception as translation:
        return translation


@contextmanager
def _session(dsn: str, tree: Tree | None, stop: threading.Event) -> Iterator[_Session]:
    with connect(dsn) as conn:
        with translated():
            for statement in _SETTINGS:
                conn.execute(statement)
        session = _Session(conn, tree, stop)
        try:
            with translated():
                yield session
        finally:
            session.end()


_SETTINGS: Final = (
    b"SET max_parallel_workers_per_gather = 0",
    b"SET jit = off",
    b"SET client_min_messages = notice",
    b"SET default_transaction_read_only = on",
    b"SET statement_timeout = '60s'",
)
