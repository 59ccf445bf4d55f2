"""The same table read from AWS's own calls, which moto answers here with EC2's real figures.

moto's RDS answers are old and few (Aurora only), so a region's offer is tested as a subset.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from refresh_classes import from_aws

from mrtuner.aws.session import Account
from mrtuner.catalog.classes import instance_class
from mrtuner.catalog.ec2 import class_from_ec2
from mrtuner.catalog.load import table
from mrtuner.errors import BadValue


@pytest.fixture(autouse=True)
def _aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from moto import mock_aws

    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_RDS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield


ACCOUNT = Account(region="us-east-1")


def test_asking_aws_adds_to_the_table_and_takes_nothing_away() -> None:
    old = table("classes.json")
    text = from_aws(old, ["us-east-1"], None)
    found = json.loads(text)
    assert found["sources"]["live"].startswith(
        "DescribeOrderableDBInstanceOptions and DescribeInstanceTypes, us-east-1, 20"
    )
    assert found["columns"] == old["columns"]
    for name, values in old["classes"].items():
        before, after = values[-1].split(), found["classes"][name][-1].split()
        assert values[:-1] == found["classes"][name][:-1]
        assert set(before) <= set(after)


def test_a_class_that_the_table_lacks_is_asked_for_at_ec2() -> None:
    """db.m5.large is in the table, too, so the answer can be compared: all but the engines."""
    found, known = class_from_ec2("db.m5.large", ACCOUNT), instance_class("db.m5.large")
    assert found.engines == frozenset()
    assert (found.memory, found.vcpus) == (known.memory, known.vcpus)
    assert (found.ebs_max_mbps, found.network) == (known.ebs_max_mbps, known.network)
    assert class_from_ec2("db.c5.xlarge", ACCOUNT).vcpus == 4


@pytest.mark.parametrize("name", ["db.m5.huge", "m5", "db.serverless"])
def test_a_class_that_ec2_does_not_know_either_is_refused(name: str) -> None:
    with pytest.raises(BadValue, match="unknown instance class"):
        class_from_ec2(name, ACCOUNT)
