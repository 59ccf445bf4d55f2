"""`mrtuner history fetch`: a copy of what recorders published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrtuner.cli.common import options, prerequisites, terminal
from mrtuner.cli.common.aws_options import account_options
from mrtuner.cli.history.store_options import LONGEST_PERIOD, directory_option

if TYPE_CHECKING:
    from mrtuner.aws.session import Account


@options.command("fetch")
@click.argument("url", metavar="URL")
@directory_option
@options.time_option(
    "--since", "Fetch only files with rows of this period, such as 30d.  [default: all]",
    most=LONGEST_PERIOD,
)  # fmt: skip
@account_options
@options.json_option
def command(
    url: str, directory: Path | None, since: float | None, account: Account, as_json: bool
) -> None:
    """Copy what mrtuner record --publish wrote to S3 into a local directory.

    \b
    Examples:
      mrtuner history fetch s3://company-history/postgres --dir fleet
      mrtuner history fetch s3://company-history/postgres --dir fleet --since 30d
      mrtuner history show --dir fleet --instance shop

    Files that are already there are not fetched again: repeat the command to bring the copy up to
    date. Nothing can be recorded into a copy.
    """
    prerequisites.require("duckdb", "boto3")
    import time

    from mrtuner.aws.session import client
    from mrtuner.history.directory import history_directory
    from mrtuner.history.document import HistoryFetched
    from mrtuner.history.store import s3
    from mrtuner.history.text import fetched_lines

    place = history_directory(directory)
    oldest = 0 if since is None else round((time.time() - since) * 1_000_000)
    found = s3.fetch(s3.place_of(url), place, client("s3", account), since=oldest)
    told = HistoryFetched(
        directory=str(place), writers=found.writers, files=found.files, bytes=found.bytes
    )
    terminal.answer(told, fetched_lines(told), as_json)
