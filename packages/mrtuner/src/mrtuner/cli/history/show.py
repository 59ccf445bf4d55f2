"""`mrtuner history show`: what happened to a server."""

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


@options.command("show")
@directory_option
@instance_option
@options.time_option(
    "--since",
    "Length of the period, such as 6h or 7d; it starts no earlier than the first sample.",
    most=LONGEST_PERIOD,
    default="1h",
)
@click.option(
    "--until", type=MomentType(), metavar="TIME",
    help="End of the period, in UTC, such as 2026-11-23T10:00.  [default: the last sample]",
)  # fmt: skip
@cpus_option
@top_option
@options.json_option
def command(
    directory: Path | None, instance: str | None, since: float, until: datetime | None,
    cpus: int | None, top: int, as_json: bool,
) -> None:  # fmt: skip
    """Show what happened: load by wait class, statements, checkpoints, the busiest minute, changes.

    \b
    Examples:
      mrtuner history show
      mrtuner history show --since 6h --cpus 8
      mrtuner history show --since 30min --until 2026-11-23T03:30 --instance db1:5432

    Load is the average number of active sessions. Where it exceeds the number of CPUs, sessions
    wait for each other; the letters in the chart show what they wait for.
    """
    from mrtuner.answers import history
    from mrtuner.history.text import lines

    told = history(directory, instance=instance, since=since, until=until, cpus=cpus, top=top)
    terminal.answer(told, lines(told, terminal.width(sys.stdout)), as_json)
