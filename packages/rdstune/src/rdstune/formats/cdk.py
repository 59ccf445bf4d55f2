"""AWS CDK: a Python construct that contains the plain CloudFormation resource.

The higher-level class ``rds.ParameterGroup`` creates nothing until an instance uses it and derives
the family from an engine version; ``CfnDBParameterGroup`` names the family. Source: AWS CDK
API reference, aws_cdk.aws_rds.CfnDBParameterGroup and CfnDBClusterParameterGroup.
"""

from __future__ import annotations

import json
from typing import Final

from mrtuner.formats.line import comments
from rdstune.formats.cloudformation import NO_METHOD
from rdstune.formats.group import Group, GroupLine

_NOTES: Final = (
    "AWS CDK, Python. Use the group by name: rds.ParameterGroup.from_parameter_group_name(scope, "
    "id, construct.group.ref).",
    NO_METHOD,
)


def write(group: Group) -> str:
    """Return a module with one construct."""
    kind = "DBCluster" if group.cluster else "DB"
    name_of = "db_cluster" if group.cluster else "db"
    return (
        f"{comments((*group.notes, *_NOTES))}\n"
        "from aws_cdk import aws_rds as rds\n"
        "from constructs import Construct\n\n\n"
        f"class {group.logical_name}(Construct):\n"
        f"    def __init__(self, scope: Construct, id: str) -> None:\n"
        "        super().__init__(scope, id)\n"
        f"        self.group = rds.Cfn{kind}ParameterGroup(\n"
        "            self,\n"
        '            "Group",\n'
        f"            {name_of}_parameter_group_name={quoted(group.name)},\n"
        f"            family={quoted(group.family)},\n"
        f"            description={quoted(group.description)},\n"
        "            parameters={\n"
        f"{''.join(map(_item, group.lines))}"
        "            },\n"
        "        )\n"
    )


def _item(line: GroupLine) -> str:
    reason = f"                # {line.reason}\n" if line.reason else ""
    return f"{reason}                {quoted(line.name)}: {quoted(line.value)},\n"


def quoted(text: str) -> str:
    """Return a Python literal; JSON's is valid as long as the text has no control characters."""
    return json.dumps(text, ensure_ascii=False)
