"""`mrtuner bench report`: what a run shows."""

from __future__ import annotations

from pathlib import Path

import click

from mrtuner.cli.bench import running
from mrtuner.cli.common import options, prerequisites, terminal


@options.command("report")
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--against", type=click.Path(path_type=Path, file_okay=False), metavar="RUN",
    help="Compare with an earlier run on the same machine and versions.",
)  # fmt: skip
@options.html_option("Write all charts and figures as one HTML page.")
@options.json_option
def command(run: Path, against: Path | None, html: Path | None, as_json: bool) -> None:
    """Judge a run from its record: verdicts cell by cell, adjusted for their number.

    \b
    Examples:
      mrtuner bench report run1
      mrtuner bench report run1 --html run1.html
      mrtuner bench report run2 --against run1
      mrtuner bench report run1 --json

    Runs on different hosts, kernels or versions are not compared.
    """
    from mrtuner.bench.record.archive import load

    prerequisites.require("scipy", page=html)
    record = load(run)
    other = load(against) if against else None
    running.show(record, as_json, other)
    if html is not None:
        from mrtuner.bench.report.page import page

        terminal.save_and_tell(html, page(record, other))
