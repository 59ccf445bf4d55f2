"""A page that takes as long as its request says.

Half of its CPU time, a statement over Django's connection, sleep (another service), the other half.
X-Worker of the answer is the process that served it.
"""

from __future__ import annotations

import os
import time

from django.db import connection
from django.http import HttpRequest, HttpResponse

#: Between two looks at the clock [s], of a process that runs.
_STEP = 50e-6


def page(request: HttpRequest) -> HttpResponse:
    """Do what the headers ask for; times in seconds."""
    cpu, database, sleep = (
        float(request.headers.get(f"X-{part}", "0")) for part in ("CPU", "Database", "Sleep")
    )
    _burn(cpu / 2)
    if database:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(%s)", [database])
    if sleep:
        time.sleep(sleep)
    _burn(cpu / 2)
    return HttpResponse("ok\n", content_type="text/plain", headers={"X-Worker": str(os.getpid())})


def _burn(seconds: float) -> None:
    """Use CPU time; longer steps of the clock are times in which the process did not run."""
    before = time.perf_counter()
    while seconds > 0:
        now = time.perf_counter()
        if now - before < _STEP:
            seconds -= now - before
        before = now
