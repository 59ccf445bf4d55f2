"""Pulumi: a Python program. Source: Pulumi registry, AWS Classic, rds.ParameterGroup."""

from __future__ import annotations

from mrtuner.formats.line import comments
from rdstune.formats.cdk import quoted
from rdstune.formats.group import Group, GroupLine


def write(group: Group) -> str:
    """Return a module with one resource."""
    kind = "ClusterParameterGroup" if group.cluster else "ParameterGroup"
    parameters = "".join(_parameter(line, kind) for line in group.lines)
    notes = comments(group.notes)
    return (
        f"{notes}{chr(10) if notes else ''}"
        "import pulumi_aws as aws\n\n"
        f"{group.identifier} = aws.rds.{kind}(\n"
        f"    {quoted(group.name)},\n"
        f"    name={quoted(group.name)},\n"
        f"    family={quoted(group.family)},\n"
        f"    description={quoted(group.description)},\n"
        "    parameters=[\n"
        f"{parameters}"
        "    ],\n"
        ")\n"
    )


def _parameter(line: GroupLine, kind: str) -> str:
    reason = f"        # {line.reason}\n" if line.reason else ""
    return (
        f"{reason}"
        f"        aws.rds.{kind}ParameterArgs(\n"
        f"            name={quoted(line.name)},\n"
        f"            value={quoted(line.value)},\n"
        f"            apply_method={quoted(line.method)},\n"
        "        ),\n"
    )
