"""`mrtuner history compare`: two periods side by side."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

import click

from mrtuner.cli.common import options, terminal
from mrtuner.cli.history.store_options import (
    LONGEST_PERIOD,
    MomentType,
    cpus_option,
    directory_option,
    instance_option,
    top_option,
)


@options.command("compare")
@directory_option
@instance_option
@click.option(
    "--before", type=MomentType(), required=True, metavar="TIME",
    help="Beginning of the first period, in UTC, such as 2026-11-22T10:00.",
)  # fmt: skip
@click.option(
    "--after", type=MomentType(), required=True, metavar="TIME",
    help="Beginning of the second period, in UTC.",
)  # fmt: skip
@options.time_option("--length", "Length of both periods.", most=LONGEST_PERIOD, default="1h")
@cpus_option
@top_option
@options.json_option
def command(
    directory: Path | None, instance: str | None, before: datetime, after: datetime, length: float,
    cpus: int | None, top: int, as_json: bool,
) -> None:  # fmt: skip
    """Compare two periods: load, checkpoints, WAL, and each statement's calls and time.

    \b
    Examples:
      mrtuner history compare --before 2026-11-22T10:00 --after 2026-11-23T10:00
      mrtuner history compare --before 2026-11-16T09:00 --after 2026-11-23T09:00 --length 8h

    Statements are matched by their texts, since their identifiers may change with an upgrade.
    """
    from mrtuner.answers import compare_periods
    from mrtuner.history.text import comparison_lines

    told = compare_periods(
        before, after, directory, length=length, instance=instance, cpus=cpus, top=top
    )
    terminal.answer(told, comparison_lines(told, terminal.width(sys.stdout)), as_json)
