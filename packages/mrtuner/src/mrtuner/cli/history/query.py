"""`mrtuner history query`: SQL on the history."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Final

import click

from mrtuner.cli.common import options, terminal
from mrtuner.cli.history.store_options import directory_option

FORMATS: Final = ("text", "json", "csv")


@options.command("query")
@click.argument("sql")
@directory_option
@options.format_option(FORMATS, "  [default: text]")
@options.json_option
@options.output_option
def command(
    sql: str, directory: Path | None, form: str | None, as_json: bool, output: Path | None
) -> None:
    """Run SQL on the history, in DuckDB's dialect; see the views with `mrtuner history views`.

    \b
    Examples:
      mrtuner history query 'SELECT time, clients, active FROM connections ORDER BY time'
      mrtuner history query 'SELECT time, instance, bytes FROM wal_by_hour' --format csv
      mrtuner history query "SELECT wait_event, sum(samples) FROM sessions_by_minute
                             WHERE wait_type = 'IO' GROUP BY 1 ORDER BY 2 DESC"

    Times are in UTC. The query can read the history and nothing else.
    """
    from mrtuner.answers import query
    from mrtuner.documents import as_builtins
    from mrtuner.history.text import row_lines

    form = options.one_format(form, as_json)
    found = query(sql, directory)
    for damaged in found.damaged:
        terminal.print_note(f"left out: {damaged}")
    told = as_builtins(found)
    if form == "json":
        terminal.deliver(terminal.as_json(told), output)
    elif form == "csv":
        terminal.deliver(_csv(told["columns"], told["rows"]), output)
    else:
        shown = row_lines(told["columns"], told["rows"])
        terminal.deliver("".join(f"{terminal.line(text)}\n" for text in shown), output)


def _csv(columns: list[str], rows: list[list[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
