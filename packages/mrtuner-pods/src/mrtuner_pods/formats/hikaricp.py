"""HikariCP: the size of its pool.

Source: HikariCP's README: maximumPoolSize; minimumIdle is best left equal to it.
"""

from __future__ import annotations

from mrtuner.formats.line import one_line
from mrtuner_pods.formats.model import Application, ApplicationFormat


def write(application: Application) -> str:
    """Return hikari.properties, for each process."""
    return (
        f"# {one_line(application.title)}\n"
        f"# of each of {application.pods * application.workers} processes\n"
        f"maximumPoolSize={application.pool}\n"
        f"minimumIdle={application.pool}\n"
    )


FORMAT = ApplicationFormat(name="hikaricp", summary="hikari.properties", write=write)
