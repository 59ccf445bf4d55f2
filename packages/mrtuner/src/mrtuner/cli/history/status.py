"""`mrtuner history status`: whether a recorder is running."""

from __future__ import annotations

import time
from pathlib import Path

import click

from mrtuner.cli.common import check_option, options, terminal
from mrtuner.cli.history.store_options import directory_option
from mrtuner.facts import Missing


@options.command("status")
@directory_option
@click.option("--instance", metavar="NAME", help="Show only this one, with each of its sources.")
@check_option.checks(
    "no recorder is running, nothing was sampled, an instance is unreachable, or a source is late"
)
@options.json_option
def command(
    directory: Path | None,
    instance: str | None,
    check: check_option.Check,
    as_json: bool,
) -> None:
    """Show whether a recorder is running, and how long ago each source was sampled.

    \b
    Examples:
      mrtuner history status
      mrtuner history status --instance db1:5432
      mrtuner history status --check --dir /var/lib/mrtuner      for a health check

    A source is late after three of its intervals, and an instance that cannot be reached at once.
    What a role may not read is named, with the grant that would help. The cost is the share of one
    session's time that sampling takes. Of several instances, a line each is shown.
    """
    from mrtuner.history.directory import history_directory
    from mrtuner.history.store.status import status
    from mrtuner.history.text import status_lines

    told = status(history_directory(directory), time.time(), instance)
    terminal.answer(told, status_lines(told), as_json)
    unjudged = [
        Missing(f"{one.instance}, {one.source}", one.why, hint=one.hint)
        for one in told.sources if one.why is not None and not one.late
    ]  # fmt: skip
    late = not told.sources or any(one.late for one in told.sources)
    check.conclude(found=late or not told.recording, unjudged=unjudged)
