"""What gunicorn serves in the benchmarks of waiting: a request says how it spends its time.

Half of its CPU time, the database, sleep, the other half: the order that the simulation assumes.
The header X-Worker of the answer is the PID of the process that served it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

_OF_THREAD = threading.local()
#: Longest step between two looks at the clock in which the thread was running [s].
_STEP = 50e-6


def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Do what the request asks for; times in seconds."""
    cpu, database, sleep = (
        float(environ.get(f"HTTP_X_{part}", "0")) for part in ("CPU", "DATABASE", "SLEEP")
    )
    _burn(cpu / 2)
    if database:
        _ask(database)
    if sleep:
        time.sleep(sleep)
    _burn(cpu / 2)
    headers = [("Content-Length", "3"), ("X-Worker", str(os.getpid()))]
    start("200 OK", headers)
    return [b"ok\n"]


def _burn(seconds: float) -> None:
    """Use CPU time as an application does.

    The thread's CPU clock is not read: that makes the kernel account for the time at once, so that
    a quota would stop the process to the microsecond, not at a tick. A longer step of the other
    clock is a time in which the thread did not run.
    """
    before = time.perf_counter()
    while seconds > 0:
        now = time.perf_counter()
        if now - before < _STEP:
            seconds -= now - before
        before = now


def _ask(seconds: float) -> None:
    """Run a statement that takes that long, over the thread's own connection."""
    import psycopg

    session = getattr(_OF_THREAD, "session", None)
    if session is None:
        session = _OF_THREAD.session = psycopg.connect(
            os.environ["DATABASE_URL"], autocommit=True, prepare_threshold=None
        )
    session.execute("SELECT pg_sleep(%s)", (seconds,))
