"""gunicorn: a configuration file.

Source: gunicorn's documentation, Settings: workers, worker_class, threads.
"""

from __future__ import annotations

from mrtuner.formats.application.model import Application, ApplicationFormat
from mrtuner.formats.line import one_line


def write(application: Application) -> str:
    """Return gunicorn.conf.py."""
    application.check_server(("gunicorn", "gthread"), FORMAT.name)
    kind = "gthread" if application.server == "gthread" else "sync"
    return (
        f"# {one_line(application.title)}\n"
        f"workers = {application.workers}  # of each of {application.pods} pods\n"
        f'worker_class = "{kind}"\n'
        f"threads = {application.threads}\n"
    )


FORMAT = ApplicationFormat(name="gunicorn", summary="gunicorn.conf.py", write=write)
