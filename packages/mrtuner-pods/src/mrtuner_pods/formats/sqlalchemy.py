"""SQLAlchemy: the size of its pool.

Source: SQLAlchemy's documentation, Connection Pooling: QueuePool, pool_size and max_overflow.
"""

from __future__ import annotations

from mrtuner.formats.line import one_line
from mrtuner_pods.formats.model import Application, ApplicationFormat


def write(application: Application) -> str:
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


FORMAT = ApplicationFormat(name="sqlalchemy", summary="SQLAlchemy's create_engine()", write=write)
