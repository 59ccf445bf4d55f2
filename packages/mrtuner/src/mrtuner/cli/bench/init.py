"""`mrtuner bench init`: a plan to begin with."""

from __future__ import annotations

import click

from mrtuner.cli.common import options, terminal


@options.command("init")
@click.option(
    "--example", type=click.Choice(("containers-2014",)), metavar="NAME",
    help="Name of an example plan: containers-2014 (PostgreSQL on the host and in containers).",
)  # fmt: skip
@options.json_option
def command(example: str | None, as_json: bool) -> None:
    """Write a plan to stdout, with every key explained.

    \b
    Examples:
      mrtuner bench init > plan.toml
      mrtuner bench init --example containers-2014 > plan.toml
    """
    from pathlib import Path
    from tomllib import loads

    from mrtuner.bench.plan.toml import example_text, plan

    text = example_text(example or "template")
    if not as_json:
        click.echo(text, nl=False)
        return
    from mrtuner.bench.plan.document import PlanDocument

    made = plan(loads(text), Path())
    terminal.document(PlanDocument(plan=made))
