"""`rdstune show`: the parameter group for a class, and its values on every other class."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mrtuner.cli.common import check_option, options, terminal
from rdstune.cli.group_options import GROUP_OPTIONS


@options.command("show")
@GROUP_OPTIONS
@click.option("--all-classes", is_flag=True, help="Show a table of the values on every class.")
@options.html_option("Write an HTML page with the group, every class and a chart.")
@check_option.checks("the values do not fit on some class")
@options.json_option
def command(
    all_classes: bool,
    html: Path | None,
    check: check_option.Check,
    as_json: bool,
    **wanted: Any,
) -> None:
    """Show the parameter group for a class: formulas and their values.

    Values that scale with the machine are formulas that hold on every class of the engine, so the
    group stays right when the instance grows or a replica is smaller.

    \b
    Examples:
      rdstune show --class db.r6g.xlarge --family postgres17 --workload oltp --connections 200
      rdstune show --class db.t4g.medium --family postgres16 --connections 50 --all-classes
      rdstune show --class db.r7g.large --family aurora-postgresql16 --json
      rdstune show --class db.r6g.xlarge --family postgres17 --html group.html
    """
    from rdstune.group import page
    from rdstune.group.derive import design
    from rdstune.group.sizes import on_class, sizes

    made = design(**wanted)
    here = on_class(made.values, made.request, made.instance_class)
    everywhere = sizes(made.values, made.request)
    if html is not None:
        terminal.save(html, page.page(made, here, everywhere))
    if as_json:
        from rdstune.group.document import group_document

        terminal.document(group_document(made, here, everywhere))
    else:
        look = terminal.look(sys.stdout)
        terminal.print_lines(page.screen(made, here, everywhere, look))
        if all_classes:
            terminal.print_line()
            terminal.print_lines(page.every_class(made, everywhere, look))
    if html is not None:
        terminal.print_note(f"page written to {html}")
    check.conclude(found=not all(size.holds for size in everywhere), unjudged=())
