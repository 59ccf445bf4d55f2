"""The regions that an account may use."""

from __future__ import annotations

import os
from typing import Final

from mrtuner.aws.calls import call
from mrtuner.aws.errors import translated
from mrtuner.aws.session import Account, client

#: Where to ask when nobody named a region: the one that every account of the aws partition has.
_ANYWHERE: Final = "us-east-1"


def enabled_regions(profile: str | None = None) -> tuple[str, ...]:
    """Every region that is enabled for the account, in order of name.

    AwsError (ec2:DescribeRegions) when that may not be asked.
    """
    ec2 = client("ec2", Account(default_region(profile) or _ANYWHERE, profile))
    answer = call(ec2, "describe_regions")
    return tuple(sorted(row["RegionName"] for row in answer["Regions"]))


def default_region(profile: str | None = None) -> str | None:
    """The region that AWS's own environment and files name, if they name one.

    AWS_REGION goes first, as in `session.client`: boto3 itself does not know it.
    """
    named = os.environ.get("AWS_REGION")
    if named:
        return named
    import boto3

    with translated("the AWS configuration"):
        name: str | None = boto3.Session(profile_name=profile).region_name
    return name
