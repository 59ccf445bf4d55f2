"""gunicorn: a configuration file.

Source: gunicorn's documentation, Settings: workers, worker_class, threads, worker_connections. A
gthread worker keeps accepting while its threads are busy, and the workers race for each connection
(gunicorn#3433, workers/gthread.py of 20.1 and 27). With as many connections as threads, only a
worker with a free thread accepts.
"""

from __future__ import annotations

from typing import Final

from mrtuner.formats.line import one_line
from mrtuner_pods.formats.model import Application, ApplicationFormat

_ONE_QUEUE: Final = (
    "# No request waits beside an idle worker. Idle connections would take the threads' places.\n"
    "worker_connections = {threads}\n"
    "keepalive = 0\n"
)


def write(application: Application) -> str:
    """Return gunicorn.conf.py."""
    application.check_server(("gunicorn", "gthread"), FORMAT.name)
    threaded = application.server == "gthread"
    return (
        f"# {one_line(application.title)}\n"
        f"workers = {application.workers}  # of each of {application.pods} pods\n"
        f'worker_class = "{"gthread" if threaded else "sync"}"\n'
        f"threads = {application.threads}\n"
        + (_ONE_QUEUE.format(threads=application.threads) if threaded else "")
    )


FORMAT = ApplicationFormat(name="gunicorn", summary="gunicorn.conf.py", write=write)
