"""The commands of `mrtuner history`: one file per command."""

from __future__ import annotations

from mrtuner.cli.common.commands import Commands

command = Commands(
    "history",
    {
        "show": "Show what happened: load, statements, checkpoints, changes.",
        "compare": "Compare two periods.",
        "query": "Run SQL on the history.",
        "views": "List what can be queried, with its columns.",
        "status": "Show whether a recorder is running and how far behind it is.",
        "size": "Show the disk space of the history, now and later.",
        "verify": "Check every file against its checksum.",
        "fetch": "Fetch what recorders published to S3.",
        "compact": "Move rows into files, merge files and delete old ones.",
        "example": "Write a generated history to try things on.",
    },
    package="mrtuner.cli.history",
    help="""Read what `mrtuner record` recorded.

    \b
    Examples:
      mrtuner history show --since 6h
      mrtuner history compare --before 2026-11-22T10:00 --after 2026-11-23T10:00 --length 1h
      mrtuner history query 'SELECT time, clients FROM connections ORDER BY time DESC LIMIT 5'
      mrtuner history status --check
    """,
)
