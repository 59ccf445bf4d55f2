"""PgBouncer: the part of its configuration that a plan decides.

Source: PgBouncer's documentation, Configuration: pool_mode, default_pool_size, max_client_conn. A
pool belongs to one user and one database, in one process.
"""

from __future__ import annotations

from mrtuner.errors import Refused
from mrtuner.formats.line import one_line
from mrtuner_pods.formats.model import Application, ApplicationFormat


def write(application: Application) -> str:
    """Return the section [pgbouncer]; Refused where the time in the database is not known."""
    size = application.server_connections
    if size is None:
        raise Refused(
            "the size of a pooler's pool depends on the time requests spend in the database",
            "Give --database-time as well.",
        )
    return (
        f"; {one_line(application.title)}\n"
        "; For one process, one user and one database: divide the pool by their number.\n"
        "[pgbouncer]\n"
        "pool_mode = transaction\n"
        f"default_pool_size = {size}\n"
        "; old and new pods together, while they are rolled out\n"
        f"max_client_conn = {application.clients}\n"
    )


FORMAT = ApplicationFormat(name="pgbouncer", summary="pgbouncer.ini", write=write)
