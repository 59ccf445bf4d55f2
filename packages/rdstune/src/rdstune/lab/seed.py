"""Initial content of a lab: API calls, read from a file and made in order.

The file is a JSON list of steps with AWS's own names, so that any call can be used and there is
no second notation to learn::

    [{"action": "CreateDBParameterGroup", "region": "eu-west-1",
      "parameters": {"DBParameterGroupName": "shop", "DBParameterGroupFamily": "postgres18",
                     "Description": "the shop"}}]

`region` may be omitted. Two actions are the lab's own: `LabWait` waits until nothing is under
way, which also happens at the end, and `LabAddMaintenance` adds pending maintenance; its
parameters are those of `Lab.add_maintenance`, with dates in days from now:
`auto_applied_after_days`, `forced_days`.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from mrtuner.errors import MrTunerError, UsageError
from mrtuner.files import read_file
from rdstune.lab.lab import Lab
from rdstune.lab.refusals import Fault

Step = Mapping[str, Any]

_PATIENCE: Final = 120.0  # real seconds: creating a server takes a few
_SETTLED: Final = frozenset({"available", "stopped", "incompatible-parameters"})


def read(path: Path) -> list[Step]:
    """Return the steps in a file; UsageError when it is not a list of steps."""
    try:
        steps = json.loads(read_file(path))
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}", "Write a list of steps.") from None
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply", "Write a list of steps.") from None
    if not isinstance(steps, list) or not all(
        isinstance(step, dict) and isinstance(step.get("action"), str) for step in steps
    ):
        raise UsageError(
            f"{path} is not a list of steps", 'A step is {"action": "…", "parameters": {…}}.'
        )
    return steps


def plant(lab: Lab, steps: Sequence[Step]) -> None:
    """Make the calls through the lab's HTTP server, and wait for what they started."""
    for number, step in enumerate(steps, start=1):
        try:
            _OWN.get(step["action"], _call)(lab, step)
        except (MrTunerError, ValueError, TypeError) as error:
            raise MrTunerError(
                f"step {number} of the seed, {step['action']}, failed: {error}",
                "Correct the step; names and rules follow the RDS API.",
            ) from None
    _wait(lab)


def _call(lab: Lab, step: Step) -> None:
    import boto3
    from botocore import xform_name
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client(
        "rds",
        step.get("region", lab.region),
        endpoint_url=lab.endpoint_url,
        aws_access_key_id="lab",
        aws_secret_access_key="lab",  # noqa: S106  # the lab takes any
    )
    make = getattr(client, xform_name(step["action"]), None)
    if make is None:
        raise MrTunerError("the RDS API has no such action")
    try:
        make(**step.get("parameters", {}))
    except (BotoCoreError, ClientError) as error:
        raise MrTunerError(" ".join(str(error).split())) from None


def _wait(lab: Lab, _step: Step | None = None) -> None:
    limit = time.monotonic() + _PATIENCE
    while busy := [each for each in lab.instances() if each.status not in _SETTLED]:
        if time.monotonic() > limit:
            raise MrTunerError(f"{busy[0].identifier} is still {busy[0].status}")
        time.sleep(0.05)


def _add_maintenance(lab: Lab, step: Step) -> None:
    given = dict(step.get("parameters", {}))
    dates: dict[str, Any] = {
        name: lab.now() + timedelta(days=given.pop(f"{name}_days"))
        for name in ("auto_applied_after", "forced")
        if f"{name}_days" in given
    }
    try:
        lab.add_maintenance(**given, **dates, region=step.get("region"))
    except Fault as fault:
        raise MrTunerError(fault.message) from None


_OWN: Final[Mapping[str, Callable[[Lab, Step], None]]] = {
    "LabWait": _wait,
    "LabAddMaintenance": _add_maintenance,
}


def example() -> list[Step]:
    """Return a small shop: production in two zones, staging, a group with a common mistake.

    One parameter waits for a reboot, and one maintenance action for its window.
    """
    password = secrets.token_urlsafe(16)

    def instance(name: str, class_name: str, group: str, stage: str, **more: Any) -> Step:
        return {
            "action": "CreateDBInstance",
            "parameters": {
                "DBInstanceIdentifier": name,
                "DBInstanceClass": class_name,
                "Engine": "postgres",
                "EngineVersion": "18",
                "AllocatedStorage": 100,
                "MasterUsername": "shop",
                "MasterUserPassword": password,
                "DBParameterGroupName": group,
                "Tags": [{"Key": "environment", "Value": stage}],
                **more,
            },
        }

    return [
        _new_group("shop", "the shop's settings"),
        _set("shop", work_mem="{DBInstanceClassMemory/204800}", random_page_cost="1.1"),
        _new_group("too-much", "bytes where pages are meant"),
        _set("too-much", shared_buffers="{DBInstanceClassMemory/4}"),
        instance("shop-production", "db.m7g.large", "shop", "production", MultiAZ=True),
        instance("shop-staging", "db.t4g.small", "shop", "staging"),
        {"action": "LabWait"},
        _set("shop", max_connections="400"),
        _maintenance("shop-production", auto_applied_after_days=10, forced_days=30),
        _maintenance("shop-staging", action="db-upgrade", description="a minor version"),
    ]


def _new_group(name: str, description: str) -> Step:
    return {
        "action": "CreateDBParameterGroup",
        "parameters": {
            "DBParameterGroupName": name,
            "DBParameterGroupFamily": "postgres18",
            "Description": description,
        },
    }


def _set(group: str, **values: str) -> Step:
    return {
        "action": "ModifyDBParameterGroup",
        "parameters": {
            "DBParameterGroupName": group,
            "Parameters": [
                {"ParameterName": name, "ParameterValue": text, "ApplyMethod": "pending-reboot"}
                for name, text in values.items()
            ],
        },
    }


def _maintenance(identifier: str, **more: Any) -> Step:
    return {"action": "LabAddMaintenance", "parameters": {"identifier": identifier, **more}}
