"""Application servers: who accepts a request, and whether its threads compute at the same time.

Sources: gunicorn 27, workers/sync.py and workers/gthread.py (a gthread worker accepts while its
threads are busy, gunicorn#3433, unless worker_connections keeps it from that, as the plan's
configuration does); unicorn 6.0, http_server.rb; Puma 5.6, server.rb and thread_pool.rb (accepts
with a free thread only, and from 6 on after wait_for_less_busy_worker, puma#2940, unless that is 0,
as in the plan's configuration); Puma 7 and 8, server.rb and cluster_accept_loop_delay.rb (accepts
while all threads are busy, puma#3678 and #3961; before that, a worker sleeps for 0.2 ms times its
requests for each thread, so that the least busy one is first; that sleep is not modelled).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Final

from mrtuner.errors import BadValue
from mrtuner_pods.waiting.queues import Accepting, Layout
from mrtuner_pods.waiting.turns import PYTHON_TURN, RUBY_TURN

#: Servers of event loops: they have no queue in front of workers that could be planned.
EVENT_LOOPS: Final = ("uvicorn", "hypercorn", "daphne")


def event_loop_refused(title: str) -> BadValue:
    """Return the error for a server that takes any number of requests at once."""
    return BadValue(
        f"{title} takes any number of requests at once, which wait in its pool and for its event "
        "loop: it cannot be planned",
        "Count its connections with mrtuner pods check; another server is planned with --server.",
    )


class Server(StrEnum):
    """A kind of application server."""

    GUNICORN = "gunicorn"
    GTHREAD = "gthread"
    UNICORN = "unicorn"
    PUMA = "puma"
    PUMA_6 = "puma-6"
    JVM = "jvm"

    @property
    def facts(self) -> ServerFacts:
        return _FACTS[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What an application server does with requests."""

    title: str
    threads: bool  # a worker may have several
    accepting: Accepting = Accepting.FREE  # as it is planned
    accepting_by_default: Accepting | None = None  # if different
    accept_delay_by_default: float = 0.0  # [s]; 0 as it is planned
    lock: bool = True  # one thread computes at a time
    turn: float = inf  # how long one computes while another waits [s]
    #: One thread accepts for the others (ThreadWorker.accept; Server.handle_servers).
    hands_over: bool = False
    one_process: bool = False

    def layout(self, pods: int, workers: int, threads: int) -> Layout:
        return Layout(pods=pods, workers=workers, threads=threads, accepting=self.accepting)

    def layout_by_default(self, pods: int, workers: int, threads: int) -> Layout:
        """Return that many pods of it with its default configuration."""
        return replace(
            self.layout(pods, workers, threads),
            accepting=self.accepting_by_default or self.accepting,
            accept_delay=self.accept_delay_by_default,
        )


_PUMA: Final = ServerFacts(
    title="Puma", threads=True, turn=RUBY_TURN, hands_over=True, accepting=Accepting.LEAST_BUSY
)
_FACTS: Final = {
    Server.GUNICORN: ServerFacts(title="gunicorn, sync", threads=False),
    Server.GTHREAD: ServerFacts(
        title="gunicorn, gthread", accepting_by_default=Accepting.ANY, threads=True,
        turn=PYTHON_TURN, hands_over=True,
    ),
    Server.UNICORN: ServerFacts(title="unicorn", threads=False),
    Server.PUMA: _PUMA,
    Server.PUMA_6: replace(
        _PUMA, title="Puma 5 or 6", accepting=Accepting.FREE, accept_delay_by_default=0.005
    ),
    Server.JVM: ServerFacts(
        title="one process of threads", threads=True, lock=False, one_process=True
    ),
}  # fmt: skip
