"""`mrtuner bench init`: a plan to begin with."""

from __future__ import annotations

import click

from mrtuner.cli import options, terminal

SCHEMA = "mrtuner.bench.plan/1"


@options.command("init")
@options.json_option
def command(as_json: bool) -> None:
    """Write a plan to stdout, with every key explained.

    \b
    Examples:
      mrtuner bench init > plan.toml
    """
    from pathlib import Path
    from tomllib import loads

    from mrtuner.bench.grid.toml import TEMPLATE, plan

    if as_json:
        terminal.document({"schema": SCHEMA, "plan": plan(loads(TEMPLATE), Path()).to_dict()})
    else:
        click.echo(TEMPLATE, nl=False)
