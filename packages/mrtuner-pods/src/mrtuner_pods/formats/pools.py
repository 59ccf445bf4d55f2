"""The sizes of connection pools.

Sources: PgBouncer's documentation, Configuration: pool_mode, default_pool_size, max_client_conn (a
pool belongs to one user and one database, in one process); HikariCP's README: maximumPoolSize,
and minimumIdle is best left equal to it; SQLAlchemy's documentation, Connection Pooling:
QueuePool, pool_size and max_overflow.
"""

from __future__ import annotations

from mrtuner.errors import Refused
from mrtuner.formats.line import one_line
from mrtuner_pods.formats.model import Application


def pgbouncer(application: Application) -> str:
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


def hikaricp(application: Application) -> str:
    """Return hikari.properties, for each process."""
    return (
        f"# {one_line(application.title)}\n"
        f"# of each of {application.pods * application.workers} processes\n"
        f"maximumPoolSize={application.pool}\n"
        f"minimumIdle={application.pool}\n"
    )


def sqlalchemy(application: Application) -> str:
    """Return create_engine() with its pool, for each process."""
    return (
        f"# {one_line(application.title)}\n"
        "engine = create_engine(\n"
        "    url,\n"
        f"    pool_size={application.pool},  # of each of "
        f"{application.pods * application.workers} processes\n"
        "    max_overflow=0,  # so that no more can be reached\n"
        ")\n"
    )
