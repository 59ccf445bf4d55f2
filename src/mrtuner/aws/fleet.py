"""The regions that an account may use."""

from __future__ import annotations

from typing import Any, Final

from mrtuner.aws.calls import call
from mrtuner.aws.errors import AwsError
from mrtuner.aws.session import Account, client, region_of

#: Where to ask when nobody named a region: the one that every account of the aws partition has.
_ANYWHERE: Final = "us-east-1"


def enabled_regions(profile: str | None = None) -> tuple[str, ...]:
    """Every region that is enabled for the account, in order of name.

    AwsError (ec2:DescribeRegions) when that may not be asked.
    """
    answer = call(_somewhere(profile), "describe_regions")
    return tuple(sorted(row["RegionName"] for row in answer["Regions"]))


def default_region(profile: str | None = None) -> str:
    """The region that AWS's own environment and files name. AwsError when they name none."""
    return region_of(client("rds", Account(profile=profile)))


def _somewhere(profile: str | None) -> Any:
    """A client of EC2 in the region that is named, or else in any."""
    try:
        return client("ec2", Account(profile=profile))
    except AwsError:
        return client("ec2", Account(_ANYWHERE, profile))
