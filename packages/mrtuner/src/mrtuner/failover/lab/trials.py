"""Clients of three cases, each several times, timed from their own action to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mrtuner.failover.predict.hang_times import Case
from mrtuner.failover.predict.path import Path
from mrtuner.failover.sockets import options

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

#: How often each case is tried, and at what distance [s]: no multiple of the timer wheel's steps.
TIMES: Final = 3
_APART: Final = 0.037
_LONG: Final = "SELECT pg_sleep(86400)"
#: After this a query has surely been acknowledged [s]: an acknowledgement may wait for 40 ms.
_ACKNOWLEDGED: Final = 0.2


@dataclass(slots=True)
class Attempt:
    """One client; times are from time.monotonic()."""

    case: Case
    path: Path
    began: float = 0.0
    ended: float | None = None  # None: it still hangs
    said: str = ""  # the error; empty if it was answered

    @property
    def seconds(self) -> float | None:
        return None if self.ended is None else self.ended - self.began


class Trials:
    """Connections proved open before the fault, and the queries sent over them."""

    def __init__(self, dsns: Iterator[str]) -> None:
        self._dsns = dsns
        self._idle = [self._opened() for _ in range(TIMES)]
        self._busy = [self._opened() for _ in range(TIMES)]
        self._path = _path(self._idle[0])
        self._threads: list[threading.Thread] = []
        self.attempts: list[Attempt] = []

    def before(self) -> None:
        """Send the long queries, and wait until they have surely arrived."""
        for conn in self._busy:
            self._start(Case.FLIGHT, 0.0, _path(conn), partial(conn.execute, _LONG))
        time.sleep(_ACKNOWLEDGED)

    def after(self) -> None:
        """Query over the idle connections, and open new ones."""
        for place, conn in enumerate(self._idle):
            asking = partial(conn.execute, "SELECT 1")
            self._start(Case.IDLE, place * _APART, _path(conn), asking)
        for place, _ in enumerate(self._idle):
            self._start(Case.CONNECT, place * _APART, self._path, lambda: self._opened().close())

    def wait(self, until: float) -> None:
        """Wait until all have ended or time.monotonic() reaches `until`."""
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _opened(self) -> Connection:
        import psycopg

        conn = psycopg.connect(next(self._dsns), autocommit=True, prepare_threshold=None)
        conn.execute("SELECT 1")
        return conn

    def _start(self, case: Case, after: float, path: Path, call: Callable[[], object]) -> None:
        attempt = Attempt(case, path)
        self.attempts.append(attempt)
        thread = threading.Thread(target=_timed, args=(attempt, after, call), daemon=True)
        self._threads.append(thread)
        thread.start()


def _timed(attempt: Attempt, after: float, call: Callable[[], object]) -> None:
    import psycopg

    time.sleep(after)
    attempt.began = time.monotonic()
    try:
        call()
    except psycopg.Error as error:
        attempt.said = str(error).strip().partition("\n")[0]
    attempt.ended = time.monotonic()


def _path(conn: Connection) -> Path:
    seen = options(conn.fileno())
    return Path(rtt=seen.rtt, rto=seen.rto)
