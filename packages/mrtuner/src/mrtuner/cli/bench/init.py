"""`mrtuner bench init`: a plan to begin with."""

from __future__ import annotations

import click

from mrtuner.cli.common import options, terminal


@options.command("init")
@options.json_option
def command(as_json: bool) -> None:
    """Write a plan to stdout, with every key explained.

    \b
    Examples:
      mrtuner bench init > plan.toml
      mrtuner bench init --json
    """
    from pathlib import Path
    from tomllib import loads

    from mrtuner.bench.plan.toml import plan, template_text

    text = template_text()
    if not as_json:
        click.echo(text, nl=False)
        return
    from mrtuner.bench.plan.document import PlanDocument

    made = plan(loads(text), Path())
    terminal.document(PlanDocument(plan=made))
