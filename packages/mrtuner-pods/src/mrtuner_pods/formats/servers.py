"""The configuration files of application servers.

Sources: gunicorn's documentation, Settings: workers, worker_class, threads, worker_connections;
Puma's, Puma::DSL: workers, threads, preload_app!, wait_for_less_busy_worker; unicorn's,
Unicorn::Configurator: worker_processes, preload_app.
"""

from __future__ import annotations

from typing import Final

from mrtuner.formats.line import one_line
from mrtuner_pods.formats.model import PUMA, Application

#: A gthread worker keeps accepting while its threads are busy, and the workers race for each
#: connection (gunicorn#3433, workers/gthread.py of 20.1 and 27). With as many connections as
#: threads, only a worker with a free thread accepts.
_ONE_QUEUE: Final = (
    "# No request waits beside an idle worker. Idle connections would take the threads' places.\n"
    "worker_connections = {threads}\n"
    "keepalive = 0\n"
)
#: The plan assumes no wait. Puma 7 and 8 distribute requests by their much shorter wait.
_ACCEPT_AT_ONCE: Final = (
    "wait_for_less_busy_worker 0 # from Puma 6 on, the default delays requests by up to 5 ms\n"
)


def gunicorn(application: Application) -> str:
    """Return gunicorn.conf.py."""
    application.check_server(("gunicorn", "gthread"), "gunicorn")
    threaded = application.server == "gthread"
    return (
        f"# {one_line(application.title)}\n"
        f"workers = {application.workers}  # of each of {application.pods} pods\n"
        f'worker_class = "{"gthread" if threaded else "sync"}"\n'
        f"threads = {application.threads}\n"
        + (_ONE_QUEUE.format(threads=application.threads) if threaded else "")
    )


def puma(application: Application) -> str:
    """Return puma.rb; its last line gives the pool for database.yml."""
    application.check_server(PUMA, "puma")
    return (
        f"# {one_line(application.title)}\n"
        f"workers {application.workers} # of each of {application.pods} pods\n"
        f"threads {application.threads}, {application.threads}\n"
        "preload_app!\n"
        f"{_ACCEPT_AT_ONCE if application.server == 'puma-6' else ''}"
        f"# config/database.yml: pool: {application.pool}\n"
    )


def unicorn(application: Application) -> str:
    """Return unicorn.rb."""
    application.check_server(("unicorn",), "unicorn")
    return (
        f"# {one_line(application.title)}\n"
        f"worker_processes {application.workers} # of each of {application.pods} pods\n"
        "preload_app true\n"
    )
