"""Terraform and OpenTofu: a resource of the AWS provider.

Source: AWS provider, aws_db_parameter_group and aws_rds_cluster_parameter_group (apply_method
defaults to immediate, which AWS refuses for static parameters: so it is always written).
"""

from __future__ import annotations

from typing import Final

from mrtuner.formats.line import comments
from mrtuner.formats.managed import quoted
from rdstune.formats.group import Group, GroupLine

_RESOURCE: Final = {False: "aws_db_parameter_group", True: "aws_rds_cluster_parameter_group"}


def write(group: Group) -> str:
    """Return one resource; formulas are text, not interpolations."""
    head = f'resource "{_RESOURCE[group.cluster]}" "{group.identifier}" {{\n'
    what = (
        f"  name        = {quoted(group.name)}\n"
        f"  family      = {quoted(group.family)}\n"
        f"  description = {quoted(group.description)}\n"
    )
    body = "".join(f"\n{_parameter(line)}" for line in group.lines)
    return f"{comments(group.notes)}{head}{what}{body}}}\n"


def _parameter(line: GroupLine) -> str:
    reason = f"  # {line.reason}\n" if line.reason else ""
    return (
        f"{reason}"
        "  parameter {\n"
        f"    name         = {quoted(line.name)}\n"
        f"    value        = {quoted(line.value)}\n"
        f"    apply_method = {quoted(line.method)}\n"
        "  }\n"
    )
