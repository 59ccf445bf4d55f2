"""The regions that an account may use."""

from __future__ import annotations

from typing import Any, Final

from mrtuner.aws.calls import call
from mrtuner.aws.errors import AwsError
from mrtuner.aws.session import Account, client, region_of

#: Where to ask when no region was given: every account of the aws partition has this one.
_ANYWHERE: Final = "us-east-1"


def enabled_regions(profile: str | None = None) -> tuple[str, ...]:
    """Return every region that is enabled for the account, by name.

    Raises AwsError (ec2:DescribeRegions) when the permission is missing.
    """
    answer = call(_somewhere(profile), "describe_regions")
    return tuple(sorted(row["RegionName"] for row in answer["Regions"]))


def default_region(profile: str | None = None) -> str:
    """Return the region from AWS's environment variables and files. AwsError if there is none."""
    return region_of(client("rds", Account(profile=profile)))


def _somewhere(profile: str | None) -> Any:
    """Return an EC2 client in the configured region, or else in the default one."""
    try:
        return client("ec2", Account(profile=profile))
    except AwsError:
        return client("ec2", Account(_ANYWHERE, profile))
