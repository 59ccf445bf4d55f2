"""`mrtuner history compact`: maintain the files by hand."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from mrtuner.cli.common import options, prerequisites, terminal
from mrtuner.cli.history.store_options import directory_option


@options.command("compact")
@directory_option
@click.option("--all", "everything", is_flag=True, help="Move the rows of the last day as well.")
@click.option("--max-size", metavar="SIZE", help="Delete the oldest rows beyond this size.")
@options.json_option
def command(directory: Path | None, everything: bool, max_size: str | None, as_json: bool) -> None:
    """Move rows into Parquet files, merge small files and delete rows past their retention.

    \b
    Examples:
      mrtuner history compact
      mrtuner history compact --all                  everything into files, to copy them elsewhere
      mrtuner history compact --max-size 5GB

    A recorder does the same every hour, so this is for a store that no recorder writes to.
    """
    prerequisites.require("duckdb")
    from mrtuner.history.directory import history_directory
    from mrtuner.history.document import HistoryCompacted
    from mrtuner.history.moments import timestamp
    from mrtuner.history.store import compaction, opening, retention
    from mrtuner.history.store.writer import Writer
    from mrtuner.units import parse_bytes, pretty_bytes

    place = history_directory(directory)
    largest = None if max_size is None else int(parse_bytes(max_size))
    with closing(opening.for_reading(place)) as db:
        sources = [source for source in opening.sources(db) if source.declaration]
    now = timestamp()
    with Writer(place, sources) as writer:
        moved = compaction.move_to_parquet(writer, now, everything=everything)
        merged = compaction.compact(writer, now)
        expired = retention.delete_past_retention(writer, now, largest=largest)
        compaction.sweep(writer, now)
    told = HistoryCompacted(directory=str(place), moved=moved, merged=merged, deleted=expired)
    if largest is not None and (recent := retention.recent_bytes(place)) >= largest:
        terminal.print_note(
            f"the database alone takes {pretty_bytes(recent)}, more than --max-size: no file is "
            "deleted for it"
        )
    line = f"{moved:,} rows moved, {merged} files merged, {expired} files deleted"
    terminal.answer(told, (line,), as_json)
