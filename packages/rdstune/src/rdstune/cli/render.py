"""`rdstune render`: the parameter group for a class, in infrastructure-as-code formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli.common import options, terminal
from mrtuner.errors import UsageError
from mrtuner.wording import first_few
from rdstune.cli.group_options import GROUP_OPTIONS

if TYPE_CHECKING:
    from rdstune.group.derive import Design

FORMATS: Final = ("terraform", "cloudformation", "cdk", "pulumi", "aws-cli", "json")


@options.command("render")
@options.format_option(FORMATS)
@GROUP_OPTIONS
@click.option("--name", metavar="NAME", help="Name of the group.  [default: mrtuner-FAMILY]")
@click.option("--description", metavar="TEXT", help="Description of the group.")
@click.option(
    "--cluster/--instance", default=None,
    help="Write a DB cluster parameter group or an instance's.  [default: cluster for Aurora]",
)  # fmt: skip
@options.json_option
@options.output_option
def command(
    form: str | None,
    name: str | None,
    description: str | None,
    cluster: bool | None,
    as_json: bool,
    output: Path | None,
    **wanted: Any,
) -> None:
    """Write the group of `rdstune show` as Terraform, CloudFormation, CDK, Pulumi or AWS CLI calls.

    \b
    Examples:
      rdstune render --format terraform --class db.r6g.xlarge --family postgres17 \\
          --workload oltp --connections 200 --name app-pg17 -o parameters.tf
      rdstune render --format cloudformation --class db.m7g.large --family postgres16
      rdstune render --format cdk --class db.r7g.large --family aurora-postgresql16
      rdstune render --format aws-cli --class db.t4g.medium --family postgres17 | sh
      rdstune render --json --class db.r6g.xlarge --family postgres17 -o group.json

    CDK and Pulumi output is Python. CloudFormation and CDK cannot state an apply method: dynamic
    parameters change at once, static ones at the next reboot.
    """
    from rdstune.group.derive import design

    form = options.one_format(form, as_json, default="")
    if not form:
        raise UsageError("no format is given", f"Use --format {FORMATS[0]}, for example.")
    made = design(**wanted)
    name = name or f"mrtuner-{made.family.name}"
    cluster = made.request.aurora if cluster is None else cluster
    terminal.deliver(_written(made, form, name, description or _asked(made), cluster), output)


def _written(made: Design, form: str, name: str, description: str, cluster: bool) -> str:
    from rdstune.formats import GroupLine, render_group
    from rdstune.formats.group import checked_name

    if form == "json":
        from rdstune.group.document import render_document

        return terminal.as_json(render_document(made, checked_name(name), cluster=cluster))
    lines = [
        GroupLine(name=one.name, value=one.value, method=one.method, comment=one.reason)
        for one in made.of_group(cluster=cluster)
    ]
    return render_group(
        form, lines, name=name, family=made.family.name, description=description,
        cluster=cluster, notes=_notes(made, cluster),
    )  # fmt: skip


def _asked(made: Design) -> str:
    """What the group is for. AWS accepts only letters, digits and plain punctuation."""
    many = made.request.connections
    sessions = f", {many} connections" if many else ""
    return f"MrTuner: {made.request.workload}{sessions}, drawn up for {made.instance_class.name}"


def _notes(made: Design, cluster: bool) -> list[str]:
    notes = [
        f"{_asked(made)}. The formulas hold on other classes too; rdstune show --all-classes lists "
        "their values."
    ]
    if made.too_small:
        notes.append(f"Too small for these sessions: {first_few(made.too_small, 5)}.")
    notes += [f"{name} is left unchanged: {why}." for name, why in made.without.items()]
    taken = made.of_group(cluster=cluster)
    notes += [
        f"{one.name} is a parameter of the cluster's group: --cluster writes it."
        for one in made.settings if one not in taken
    ]  # fmt: skip
    if made.sessions is not None:
        notes += [f"{made.sessions.promise}.", made.sessions.buys]
    return notes
