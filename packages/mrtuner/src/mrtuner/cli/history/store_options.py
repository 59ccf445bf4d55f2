"""Options that the commands of `mrtuner history` share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import click

from mrtuner.cli.common.options import path_option
from mrtuner.errors import BadValue

#: The longest period that may be asked for [s]: longer than summaries are kept.
LONGEST_PERIOD: Final = 10 * 366 * 86_400.0

directory_option = path_option(
    "--dir", "DIR",
    "Directory of the history.  [default: MRTUNER_HISTORY_DIR, or the user's data directory]",
    name="directory",
)  # fmt: skip
place_option = click.option(
    "--dir", "--store", "place", metavar="DIR|s3://BUCKET/PREFIX",
    help="Directory of the history, or where recorders publish it on S3.  "
    "[default: MRTUNER_HISTORY_DIR, or the user's data directory]",
)  # fmt: skip
instance_option = click.option(
    "--instance", metavar="NAME", help="Instance to show.  [default: the only one]"
)
cpus_option = click.option(
    "--cpus", type=click.IntRange(1), metavar="N",
    help="Number of CPUs of the server, to compare its load with.",
)  # fmt: skip
top_option = click.option(
    "--top", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N",
    help="Number of statements shown.",
)  # fmt: skip


class MomentType(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """A time: ISO 8601, in UTC unless it names an offset."""

    name = "moment"

    def convert(
        self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None
    ) -> datetime:
        """Return the time in UTC."""
        try:
            found = datetime.fromisoformat(str(value))
        except ValueError:
            raise BadValue(
                f"{str(value)!r} is not a time", "Write 2026-11-23T10:00, in UTC, or with +01:00."
            ) from None
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
