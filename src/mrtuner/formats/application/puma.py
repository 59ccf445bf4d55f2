"""Puma: a configuration file.

Source: Puma's documentation, Puma::DSL: workers, threads, preload_app!.
"""

from __future__ import annotations

from mrtuner.formats.application.model import Application, ApplicationFormat
from mrtuner.formats.line import one_line


def write(application: Application) -> str:
    """Return puma.rb; the pool of database.yml is to be that of the threads."""
    application.check_server(("puma",), FORMAT.name)
    return (
        f"# {one_line(application.title)}\n"
        f"workers {application.workers} # of each of {application.pods} pods\n"
        f"threads {application.threads}, {application.threads}\n"
        "preload_app!\n"
        f"# config/database.yml: pool: {application.pool}\n"
    )


FORMAT = ApplicationFormat(name="puma", summary="config/puma.rb", write=write)
