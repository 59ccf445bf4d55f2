"""`mrtuner history views`: what can be queried."""

from __future__ import annotations

from pathlib import Path

import click

from mrtuner.cli.common import options, prerequisites, terminal
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
    prerequisites.require("duckdb")
    from mrtuner.history.directory import history_directory
    from mrtuner.history.document import HistoryRows
    from mrtuner.history.reading import open_history
    from mrtuner.history.text import row_lines

    with open_history(history_directory(directory)) as history:
        if view is None:
            found = HistoryRows(
                columns=["view", "what"], rows=[list(one) for one in history.views()]
            )
        else:
            found = HistoryRows(
                columns=["column", "type", "unit", "what"], rows=history.described(view)
            )
    terminal.answer(found, row_lines(found.columns, found.rows), as_json)
