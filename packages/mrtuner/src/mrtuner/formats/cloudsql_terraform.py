"""Cloud SQL for PostgreSQL in Terraform and OpenTofu: blocks of the Google provider.

Source: Google provider, google_sql_database_instance, settings.database_flags (name and value).
"""

from __future__ import annotations

from collections.abc import Sequence

from mrtuner.catalog.platforms import platform
from mrtuner.formats import managed
from mrtuner.formats.cloudsql import PLATFORM, divided
from mrtuner.formats.line import Format, Line, comments, restarts
from mrtuner.formats.managed import quoted

__all__ = ["FORMAT", "PLATFORM"]


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return an instance's flags, to be copied into the existing resource."""
    ours, left_out = divided(lines)
    notes = comments([
        title,
        "Move the database_flags blocks into the settings of your instance. The blocks "
        "are the complete list: a flag without one is reset to its default.",
        *restarts(ours, "Applying restarts the instance for"),
        *left_out,
    ])  # fmt: skip
    blocks = "\n".join(_block(line) for line in ours)
    head = 'resource "google_sql_database_instance" "postgres" {\n  settings {\n'
    return f"{notes}{head}{blocks}  }}\n}}\n"


def _block(line: Line) -> str:
    reason = f"    # {line.reason}\n" if line.reason else ""
    return (
        f"{reason}    database_flags {{\n"
        f"      name  = {quoted(line.name)}\n"
        f"      value = {quoted(line.value)}\n"
        "    }\n"
    )


def read(text: str) -> dict[str, str]:
    """Return the flags of every block, in PostgreSQL's notation."""
    return managed.shown(platform(PLATFORM), managed.hcl_pairs(text, r"\bdatabase_flags"))


FORMAT = Format(
    name="cloudsql-terraform", summary="Cloud SQL: database_flags of a Terraform resource",
    write=write, read=read, standbys=managed.REPLICAS, linux=True,
)  # fmt: skip
