"""`mrtuner history verify`: whether the history is intact."""

from __future__ import annotations

from pathlib import Path

import click

from mrtuner.cli.common import exit_codes, options, terminal
from mrtuner.cli.history.store_options import directory_option


@options.command("verify")
@directory_option
@options.json_option
@click.pass_context
def command(ctx: click.Context, /, directory: Path | None, as_json: bool) -> None:
    """Read every file and compare it with its checksum; check the SQLite file as well.

    \b
    Examples:
      mrtuner history verify
      mrtuner history verify --dir /var/lib/mrtuner

    Damaged files are named, and the exit code is 1; other commands skip them and continue.
    """
    from mrtuner.history.directory import history_directory
    from mrtuner.history.store.status import verify
    from mrtuner.history.text import check_lines

    told = verify(history_directory(directory))
    terminal.answer(told, check_lines(told), as_json)
    if told.problems:
        ctx.exit(exit_codes.FAILED)
