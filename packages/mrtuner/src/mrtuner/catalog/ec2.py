"""An instance class from EC2's DescribeInstanceTypes for the type behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from mrtuner.catalog.classes import InstanceClass, from_row, no_such_class

if TYPE_CHECKING:
    from mrtuner.aws.session import Account

#: One class by column, as in classes.json.
Row = dict[str, Any]

#: RDS omits the d of EC2's x2gd.
_RENAMED: Final = {"x2g": "x2gd"}


def class_from_ec2(name: str, account: Account) -> InstanceClass:
    """Query EC2 about a class that is not in the table; its engines remain unknown.

    Raises BadValue for a name that EC2 does not know either; AwsError where EC2 cannot be queried.
    """
    from mrtuner.aws.calls import call
    from mrtuner.aws.errors import AwsError
    from mrtuner.aws.session import client

    if name.count(".") != 2:
        raise no_such_class(name)
    types = [ec2_type(name)]
    try:
        answer = call(client("ec2", account), "describe_instance_types", InstanceTypes=types)
    except AwsError as error:
        if error.code in {"InvalidInstanceType", "InvalidParameterValue"}:
            raise no_such_class(name) from None
        raise
    return from_row(name, row(answer["InstanceTypes"][0], ()))


def ec2_type(name: str) -> str:
    """Return ``x2gd.large`` for ``db.x2g.large``."""
    _, family, size = name.split(".")
    return f"{_RENAMED.get(family, family)}.{size}"


def row(described: Mapping[str, Any], engines: Iterable[str]) -> Row:
    """Return a class's row from EC2's DescribeInstanceTypes for its type."""
    ebs = described["EbsInfo"].get("EbsOptimizedInfo", {})
    return {
        "memory_mib": described["MemoryInfo"]["SizeInMiB"],
        "vcpus": described["VCpuInfo"]["DefaultVCpus"],
        "threads_per_core": described["VCpuInfo"].get("DefaultThreadsPerCore", 1),
        "ebs_baseline_mbps": ebs.get("BaselineBandwidthInMbps"),
        "ebs_max_mbps": ebs.get("MaximumBandwidthInMbps"),
        "ebs_baseline_iops": ebs.get("BaselineIops"),
        "ebs_max_iops": ebs.get("MaximumIops"),
        "network": network(described["NetworkInfo"]),
        "engines": " ".join(sorted(engines)),
    }


def network(described: Mapping[str, Any]) -> str:
    """Return EC2's label, with baseline and peak over all network cards, if any."""
    label: str = described.get("NetworkPerformance", "not published")
    cards = [card for card in described.get("NetworkCards", []) if "PeakBandwidthInGbps" in card]
    if not cards:
        return label
    baseline = sum(card["BaselineBandwidthInGbps"] for card in cards)
    peak = sum(card["PeakBandwidthInGbps"] for card in cards)
    return f"{label}; baseline {baseline:g} Gbps; peak {peak:g} Gbps"
