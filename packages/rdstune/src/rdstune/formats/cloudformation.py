"""CloudFormation: a YAML template with the group as its only resource.

The resource types take names and values, but no apply method: CloudFormation's own handler sends
``immediate`` for dynamic parameters and ``pending-reboot`` for static ones. Source:
CloudFormation template reference, AWS::RDS::DBParameterGroup and AWS::RDS::DBClusterParameterGroup;
aws-cloudformation-resource-providers-rds, Translator.buildParameterWithNewValue (2021 to 2023).
"""

from __future__ import annotations

import re
from typing import Final

from mrtuner.formats import manifest
from mrtuner.formats.line import Line
from rdstune.formats.group import Group, GroupLine

NO_METHOD: Final = (
    "CloudFormation has no apply method: dynamic parameters change at once, static ones "
    "at the next reboot, which it does not start itself."
)
_KEY: Final = re.compile(r'(?P<indent> {8,})"?(?P<name>[A-Za-z_][\w.]*)"?: ["\']')


def write(group: Group) -> str:
    """Return a complete template; copy the resource into yours, or deploy it unchanged."""
    kind = "DBCluster" if group.cluster else "DB"
    properties = {
        f"{kind}ParameterGroupName": manifest.Text(group.name),
        "Family": manifest.Text(group.family),
        "Description": manifest.Text(group.description),
        "Parameters": {line.name: manifest.Text(line.value) for line in group.lines},
    }
    resource = {"Type": f"AWS::RDS::{kind}ParameterGroup", "Properties": properties}
    template = {
        "AWSTemplateFormatVersion": manifest.Text("2010-09-09"),
        "Description": manifest.Text(group.description),
        "Resources": {group.logical_name: resource},
    }
    notes = (*group.notes, NO_METHOD)
    return manifest.manifest(template, map(_line, group.lines), notes, key=_KEY)


def _line(line: GroupLine) -> Line:
    """Return a line for the YAML writer, which puts its reason above it."""
    return Line(
        name=line.name, value=line.value, quoted=True, comment=line.reason, restart=False
    )  # fmt: skip
