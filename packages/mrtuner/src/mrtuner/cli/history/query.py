"""`mrtuner history query`: SQL on the history."""

from __future__ import annotations

import csv
import io
from math import isfinite
from pathlib import Path
from typing import Any, Final

import click

from mrtuner.cli.common import options, prerequisites, terminal
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
    prerequisites.require("duckdb")
    from mrtuner.documents import as_builtins
    from mrtuner.history.directory import history_directory
    from mrtuner.history.document import HistoryRows
    from mrtuner.history.reading import open_history
    from mrtuner.history.text import row_lines

    form = options.one_format(form, as_json)
    with open_history(history_directory(directory)) as history:
        history.require_query(sql)
        history.provide(sql)
        history.lock()
        columns, rows = history.table(sql)
    for damaged in history.damaged:
        terminal.print_note(f"left out: {damaged}")
    told = as_builtins(HistoryRows(columns=columns, rows=[_plain(row) for row in rows]))
    if form == "json":
        terminal.deliver(terminal.as_json(told), output)
    elif form == "csv":
        terminal.deliver(_csv(told["columns"], told["rows"]), output)
    else:
        terminal.deliver("".join(f"{terminal.line(text)}\n" for text in row_lines(told)), output)


def _plain(row: tuple[Any, ...]) -> list[Any]:
    """The values of a row, NaN and infinity as null: JSON has neither."""
    return [None if isinstance(one, float) and not isfinite(one) else one for one in row]


def _csv(columns: list[str], rows: list[list[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
