"""`mrtuner history size`: what the history takes on disk."""

from __future__ import annotations

from pathlib import Path

from mrtuner.cli.common import options, terminal
from mrtuner.cli.history.store_options import directory_option


@options.command("size")
@directory_option
@options.json_option
def command(directory: Path | None, as_json: bool) -> None:
    """Show the disk space of each view, and of the whole history once old rows are deleted.

    \b
    Examples:
      mrtuner history size
      mrtuner history size --dir /var/lib/mrtuner --json
    """
    from mrtuner.history.directory import history_directory
    from mrtuner.history.store.status import size
    from mrtuner.history.text import size_lines

    told = size(history_directory(directory))
    terminal.answer(told, size_lines(told), as_json)
