"""Short ways to talk to the lab in tests: plain boto3, nothing of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from rdstune.lab import Lab

IMMEDIATE, REBOOT = "immediate", "pending-reboot"


def client(region: str | None = None, service: str = "rds", attempts: int = 1) -> Any:
    """A client of the lab whose environment is set; it does not retry unless told to."""
    retries = Config(retries={"total_max_attempts": attempts, "mode": "standard"})
    return boto3.client(service, region_name=region, config=retries)


def refusal(call: Callable[..., Any], **arguments: Any) -> tuple[str, str, int]:
    """Code, message and HTTP status of a call that must be refused."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    answer = caught.value.response
    return (
        answer["Error"]["Code"],
        answer["Error"]["Message"],
        answer["ResponseMetadata"]["HTTPStatusCode"],
    )


def new_group(rds: Any, name: str = "pg", family: str = "postgres17") -> None:
    rds.create_db_parameter_group(
        DBParameterGroupName=name, DBParameterGroupFamily=family, Description="of a test"
    )


def one(name: str, value: str, method: str = IMMEDIATE) -> dict[str, str]:
    return {"ParameterName": name, "ParameterValue": value, "ApplyMethod": method}


def change(rds: Any, *parameters: dict[str, str], group: str = "pg") -> None:
    rds.modify_db_parameter_group(DBParameterGroupName=group, Parameters=list(parameters))


def shown(rds: Any, group: str = "pg", **more: Any) -> dict[str, dict[str, Any]]:
    """The parameters of a group by name, all pages."""
    pages = rds.get_paginator("describe_db_parameters").paginate(DBParameterGroupName=group, **more)
    return {row["ParameterName"]: row for page in pages for row in page["Parameters"]}


def new_instance(lab: Lab, rds: Any, identifier: str = "one", **more: Any) -> None:
    """An instance, available at once on the lab's clock."""
    arguments = {
        "DBInstanceIdentifier": identifier,
        "DBInstanceClass": "db.m7g.large",
        "Engine": "postgres",
        "EngineVersion": "17",
        "AllocatedStorage": 100,
        "MasterUsername": "master",
        "MasterUserPassword": "correct horse",
    }
    rds.create_db_instance(**arguments | more)
    lab.settle()


def instance(rds: Any, identifier: str = "one") -> dict[str, Any]:
    row: dict[str, Any] = rds.describe_db_instances(DBInstanceIdentifier=identifier)["DBInstances"][
        0
    ]
    return row


def status(rds: Any, identifier: str = "one") -> tuple[str, str]:
    """The status of the instance, and of its parameter group."""
    row = instance(rds, identifier)
    return row["DBInstanceStatus"], row["DBParameterGroups"][0]["ParameterApplyStatus"]
