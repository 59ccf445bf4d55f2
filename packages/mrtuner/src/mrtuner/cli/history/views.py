"""`mrtuner history views`: what can be queried."""

from __future__ import annotations

from pathlib import Path

import click

from mrtuner.cli.common import options, terminal
from mrtuner.cli.history.store_options import directory_option


@options.command("views")
@click.argument("view", required=False)
@directory_option
@options.json_option
def command(view: str | None, directory: Path | None, as_json: bool) -> None:
    """List the views of the history, or the columns of one.

    \b
    Examples:
      mrtuner history views
      mrtuner history views statements
    """
    from mrtuner.answers import history_views
    from mrtuner.history.text import row_lines

    told = history_views(view, directory)
    terminal.answer(told, row_lines(told.columns, told.rows), as_json)
