"""Terraform and OpenTofu: a resource of the AWS provider.

In a quoted template ``${`` and ``%{`` begin an interpolation; doubling the sign makes them text.
Source: HashiCorp Configuration Language, native syntax specification, "Quoted templates"; AWS
provider, aws_db_parameter_group and aws_rds_cluster_parameter_group (apply_method defaults to
immediate, which AWS refuses for static parameters: so it is always written).
"""

from __future__ import annotations

import re
from typing import Final

from mrtuner.formats.parameter_group import Group, GroupFormat, GroupLine, comments

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


def quoted(text: str) -> str:
    """Return a quoted template that evaluates to exactly this text.

    >>> print(quoted("GREATEST(${DBInstanceVCPU*2},8)"))
    "GREATEST($${DBInstanceVCPU*2},8)"
    """
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    # a sign before an escaped one would be read as part of it
    apart = re.sub(r"([$%])(?=\1\{)", lambda sign: f"\\u{ord(sign[1]):04x}", plain)
    return '"' + re.sub(r"([$%])\{", r"\1\1{", apart) + '"'


FORMAT = GroupFormat(
    name="terraform", summary="Terraform and OpenTofu: a resource of the AWS provider", write=write
)
