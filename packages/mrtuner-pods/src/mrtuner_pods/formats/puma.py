"""Puma: a configuration file.

Source: Puma's documentation, Puma::DSL: workers, threads, preload_app!, wait_for_less_busy_worker.
"""

from __future__ import annotations

from typing import Final

from mrtuner.formats.line import one_line
from mrtuner_pods.formats.model import PUMA, Application, ApplicationFormat

#: The plan assumes no wait. Puma 7 and 8 distribute requests by their much shorter wait.
_ACCEPT_AT_ONCE: Final = (
    "wait_for_less_busy_worker 0 # from Puma 6 on, the default delays requests by up to 5 ms\n"
)


def write(application: Application) -> str:
    """Return puma.rb; its last line gives the pool for database.yml."""
    application.check_server(PUMA, FORMAT.name)
    return (
        f"# {one_line(application.title)}\n"
        f"workers {application.workers} # of each of {application.pods} pods\n"
        f"threads {application.threads}, {application.threads}\n"
        "preload_app!\n"
        f"{_ACCEPT_AT_ONCE if application.server == 'puma-6' else ''}"
        f"# config/database.yml: pool: {application.pool}\n"
    )


FORMAT = ApplicationFormat(name="puma", summary="config/puma.rb", write=write)
