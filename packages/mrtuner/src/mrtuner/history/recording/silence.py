"""Sessions that get no answer: the server is frozen, or the network drops what it sends.

A server cancels what takes longer than statement_timeout, if it can. If it cannot, nothing ends its
client's wait: TCP notices only after two hours that a host is gone, and never if its kernel still
acknowledges. So one thread watches the sessions of all instances.

A server under heavy load answers late, and is worth waiting for: the wait is long, and an answer
that has arrived counts even if this process was too busy to read it.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Self

from mrtuner.errors import ConnectError

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

#: How long to wait beyond the time that a query may take at the server [s].
SILENCE: Final = 60.0
#: Interval at which the sessions are checked [s].
_LOOK: Final = 1.0


class SilentSessions:
    """Ends the wait for answers that do not come. `with SilentSessions(…) as silent:`."""

    def __init__(self, silence: float = SILENCE) -> None:
        """`silence`: how long after a query's own timeout its session is given up [s]."""
        self.silence = silence
        self._due: dict[Connection, float] = {}
        self._given_up: set[Connection] = set()
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="record silence", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give up all sessions that still have no answer."""
        self._over.set()
        self._give_up(before=float("inf"))
        self._thread.join()

    @contextmanager
    def answer(self, conn: Connection, within: float) -> Iterator[None]:
        """Give up the session if the server does not answer what the block asks.

        Args:
            conn: The session, which only this thread uses.
            within: Seconds that the server may take; `silence` is added to them.

        Raises:
            ConnectError: it was given up, or recording ends.
        """
        from psycopg import InterfaceError, OperationalError

        with self._lock:
            if self._over.is_set():
                raise ConnectError("recording ends", "Start it again.")
            self._due[conn] = time.monotonic() + within + self.silence
        try:
            yield
        except (InterfaceError, OperationalError) as error:
            with self._lock:  # held while a socket is shut, until it is in the set
                given_up = conn in self._given_up
            if given_up:
                raise ConnectError(
                    "the server does not respond", "Check whether it is frozen or cut off."
                ) from error
            raise
        finally:
            with self._lock:
                del self._due[conn]
                self._given_up.discard(conn)

    def _run(self) -> None:
        while not self._over.wait(_LOOK):
            self._give_up(before=time.monotonic())

    def _give_up(self, before: float) -> None:
        """Shut down the sockets whose time is over, so that libpq's wait for them ends."""
        with self._lock:
            for conn, due in self._due.items():
                if due < before and conn not in self._given_up and _shut_if_silent(conn):
                    self._given_up.add(conn)


def _shut_if_silent(conn: Connection) -> bool:
    """Shut down a connection if nothing has arrived; its own thread closes it."""
    import psycopg

    # An error means that it broke by itself just now.
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(conn.fileno())) as twin:
        arrived = select.poll()
        arrived.register(twin, select.POLLIN)
        if not arrived.poll(0):
            twin.shutdown(socket.SHUT_RDWR)
            return True
    return False
