"""Amazon EC2: the hardware behind an RDS class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mrtuner.aws.errors import translated
from mrtuner.aws.session import region_of
from mrtuner.units import Bytes, MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One EC2 type. Source: shape InstanceTypeInfo."""

    name: str  # r6g.xlarge
    memory: Bytes
    vcpus: int


def instance_type(client: Any, name: str) -> InstanceType:
    """Return a type by its EC2 name. AwsError (InvalidInstanceType) if the region lacks it."""
    with translated("ec2:DescribeInstanceTypes", region_of(client)):
        answer = client.describe_instance_types(InstanceTypes=[name])
    row = answer["InstanceTypes"][0]
    return InstanceType(
        name=name,
        memory=Bytes(row["MemoryInfo"]["SizeInMiB"] * MiB),
        vcpus=row["VCpuInfo"]["DefaultVCpus"],
    )
