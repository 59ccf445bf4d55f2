"""`mrtuner history compare`: two periods side by side."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import click

from mrtuner.cli.common import options, prerequisites, terminal
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
    prerequisites.require("duckdb")
    from mrtuner.answers.incidents import with_ceilings
    from mrtuner.history.analysis.coverage import require_recorded
    from mrtuner.history.analysis.happened import compare
    from mrtuner.history.analysis.period import period
    from mrtuner.history.directory import history_directory
    from mrtuner.history.document import as_comparison
    from mrtuner.history.reading import open_history
    from mrtuner.history.text import comparison_lines

    with open_history(history_directory(directory)) as history:
        periods = [
            period(history, instance, since=length, until=begin + timedelta(seconds=length))
            for begin in (before, after)
        ]
        for one in periods:
            require_recorded(history, one)
        found = compare(history, *periods, top=top, cpus=cpus)
        found = replace(
            found,
            before=with_ceilings(history, found.before),
            after=with_ceilings(history, found.after),
        )
    told = as_comparison(found)
    terminal.answer(told, comparison_lines(told, terminal.width(sys.stdout)), as_json)
