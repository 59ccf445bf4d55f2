"""The AWS command line: a shell script that creates and fills a group, 20 parameters per call.

Parameters are given as JSON: the shorthand ``ParameterName=…,ParameterValue=…`` cannot express
the braces and commas of a formula. Source: AWS CLI reference, rds modify-db-parameter-group; shape
ModifyDBParameterGroupMessage (20 parameters at most).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from mrtuner.aws.rds import BATCH
from mrtuner.formats.line import comments
from rdstune.formats.group import Group, GroupLine

_NOTES: Final = (
    "Each call succeeds or fails as a whole, but the calls together are not atomic. "
    "rdstune apply keeps a journal and can undo the change.",
)
_ATTACH: Final = (
    "Attach the group to an instance: aws rds modify-db-instance --db-instance-identifier "
    "INSTANCE --db-parameter-group-name GROUP. All values then take effect at the next "
    "reboot."
)
#: Two name spaces. Source: AWS CLI reference, rds modify-db-cluster.
_ATTACH_TO_CLUSTER: Final = (
    "Attach the group to a cluster: aws rds modify-db-cluster --db-cluster-identifier CLUSTER "
    "--db-cluster-parameter-group-name GROUP. All values then take effect when each instance is "
    "rebooted."
)


def write(group: Group) -> str:
    """Return a script for sh that stops at the first call that fails."""
    kind = "db-cluster" if group.cluster else "db"
    named = f"--{kind}-parameter-group-name {shlex.quote(group.name)}"
    notes = (*group.notes, *_NOTES, _ATTACH_TO_CLUSTER if group.cluster else _ATTACH)
    parts = [
        f"#!/bin/sh\n{comments(notes)}set -eu\nexport AWS_PAGER=\n",
        f"aws rds describe-{kind}-parameter-groups {named} >/dev/null 2>&1 ||\n"
        f"aws rds create-{kind}-parameter-group {named} \\\n"
        f"  --db-parameter-group-family {shlex.quote(group.family)} \\\n"
        f"  --description {shlex.quote(group.description)}\n",
        *(_call(kind, named, batch) for batch in _batches(group.lines)),
    ]
    return "\n".join(parts)


def _batches(lines: Sequence[GroupLine]) -> Iterator[Sequence[GroupLine]]:
    return (lines[at : at + BATCH] for at in range(0, len(lines), BATCH))


def _call(kind: str, named: str, batch: Sequence[GroupLine]) -> str:
    reasons = "".join(f"# {line.name}: {line.reason}\n" for line in batch if line.reason)
    rows = ",\n".join(json.dumps(_parameter(line), ensure_ascii=False) for line in batch)
    return (
        f"{reasons}"
        f"aws rds modify-{kind}-parameter-group {named} \\\n"
        f"  --parameters {shlex.quote(f'[{chr(10)}{rows}{chr(10)}]')}\n"
    )


def _parameter(line: GroupLine) -> dict[str, str]:
    return {
        "ParameterName": line.name,
        "ParameterValue": line.value,
        "ApplyMethod": line.method,
    }
