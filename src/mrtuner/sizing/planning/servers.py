"""Application servers: who accepts a request, and whether its threads compute at the same time.

Sources: gunicorn 27, workers/sync.py and workers/gthread.py (a gthread worker accepts while its
threads are busy, gunicorn#3433, unless worker_connections keeps it from that, as the plan's
configuration does); Puma 5.6 to 7, thread_pool.rb (accepts with a free thread only); unicorn 6.0,
http_server.rb.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.sizing.waiting.queues import Layout
from mrtuner.sizing.waiting.turns import PYTHON_TURN, RUBY_TURN

#: Servers of event loops: they have no queue in front of workers that could be planned.
EVENT_LOOPS: Final = ("uvicorn", "hypercorn", "daphne")


def event_loop_refused(title: str) -> BadValue:
    """Return the error for a server that takes any number of requests at once."""
    return BadValue(
        f"{title} takes any number of requests at once, which wait in its pool and for its event "
        "loop: it cannot be planned for",
        "Count its connections with mrtuner pods check; another server is planned with --server.",
    )


class Server(StrEnum):
    """A kind of application server."""

    GUNICORN = "gunicorn"
    GTHREAD = "gthread"
    UNICORN = "unicorn"
    PUMA = "puma"
    JVM = "jvm"

    @property
    def facts(self) -> ServerFacts:
        """What it does."""
        return _FACTS[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What an application server does with requests."""

    title: str
    threads: bool  # a worker may have several
    #: A worker accepts with a free thread only: when nobody says otherwise. Planned ones all do.
    accept_when_idle: bool = True
    lock: bool = True  # one of them computes at a time
    turn: float = inf  # for as long as this, while another waits [s]
    #: One thread accepts for the others (ThreadWorker.accept; Server.handle_servers).
    hands_over: bool = False
    one_process: bool = False

    def layout(self, pods: int, workers: int, threads: int) -> Layout:
        """Return so many pods of it, configured as the plan says."""
        return Layout(pods=pods, workers=workers, threads=threads)

    def layout_by_default(self, pods: int, workers: int, threads: int) -> Layout:
        """Return so many pods of it as they are without that."""
        return replace(self.layout(pods, workers, threads), accept_when_idle=self.accept_when_idle)


_FACTS: Final = {
    Server.GUNICORN: ServerFacts(title="gunicorn, sync", threads=False),
    Server.GTHREAD: ServerFacts(
        title="gunicorn, gthread", accept_when_idle=False, threads=True, turn=PYTHON_TURN,
        hands_over=True,
    ),
    Server.UNICORN: ServerFacts(title="unicorn", threads=False),
    Server.PUMA: ServerFacts(title="Puma", threads=True, turn=RUBY_TURN, hands_over=True),
    Server.JVM: ServerFacts(
        title="one process of threads", threads=True, lock=False, one_process=True
    ),
}  # fmt: skip
