"""Calls of RDS in the lab: pages read to their end, rows typed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from mrtuner.aws import rds
from mrtuner.aws.errors import AwsError
from mrtuner.aws.rows import Scope
from mrtuner.aws.session import Account
from mrtuner.aws.session import client as aws_client
from rdstune.lab import Lab


@pytest.fixture(scope="module")
def _lab() -> Iterator[Lab]:
    with Lab(speed=600) as lab:
        yield lab


def create(client: Any, identifier: str, **more: Any) -> None:
    client.create_db_instance(
        DBInstanceIdentifier=identifier,
        DBInstanceClass="db.r6g.large",
        Engine="postgres",
        EngineVersion="17",
        AllocatedStorage=100,
        MasterUsername="master",
        MasterUserPassword="not a secret at all",
        **more,
    )


def test_more_groups_than_a_page_holds_are_all_listed(client: Any) -> None:
    """100 is the most that one answer has."""
    for number in range(105):
        rds.create_group(client, f"g{number}", "postgres17", "one of many")
    names = {one.name for one in rds.groups(client) if not one.default}
    assert names == {f"g{number}" for number in range(105)}


def test_a_group_lists_every_parameter_of_its_family_with_source_and_bounds(client: Any) -> None:
    rds.create_group(client, "shop", "postgres17", "x")
    rds.modify_group(client, "shop", [("work_mem", "8192", "immediate")])
    found = {row.name: row for row in rds.parameters(client, "shop")}
    assert len(found) > 200
    work_mem, buffers = found["work_mem"], found["shared_buffers"]
    assert (work_mem.value, work_mem.source, work_mem.apply_type) == ("8192", "user", "dynamic")
    assert (buffers.value, buffers.source) == ("{DBInstanceClassMemory/32768}", "system")
    assert (buffers.apply_type, buffers.allowed) == ("static", "16-1073741823")
    assert [row.name for row in rds.parameters(client, "shop", source="user")] == ["work_mem"]


def test_reset_takes_a_parameter_back_to_the_familys_default(client: Any) -> None:
    rds.create_group(client, "shop", "postgres17", "x")
    rds.modify_group(client, "shop", [("work_mem", "8192", "immediate")])
    rds.reset_group(client, "shop", [("work_mem", "immediate")])
    assert rds.parameters(client, "shop", source="user") == ()


def test_an_instance_is_a_typed_row(client: Any, lab: Lab) -> None:
    create(client, "db1", MultiAZ=True, Tags=[{"Key": "env", "Value": "test"}])
    lab.settle()
    found = rds.instance(client, "db1")
    assert (found.class_name, found.engine, found.major) == ("db.r6g.large", "postgres", 17)
    assert (found.status, found.multi_az, found.allocated_storage) == ("available", True, 100)
    assert found.groups[0].name == "default.postgres17"
    assert found.tags == {"env": "test"}
    assert found.arn == "arn:aws:rds:us-east-1:123456789012:db:db1"
    assert list(rds.instances(client, engine="postgres")) == [found]
    assert list(rds.instances(client, engine="aurora-postgresql")) == []


def test_cluster_groups_are_a_kind_of_their_own(client: Any) -> None:
    rds.create_group(client, "both", "aurora-postgresql17", "x", Scope.CLUSTER)
    assert rds.group(client, "both", Scope.CLUSTER).scope is Scope.CLUSTER
    with pytest.raises(AwsError) as missing:
        rds.group(client, "both")
    assert missing.value.not_found


def test_what_happened_is_told_in_order(client: Any, lab: Lab) -> None:
    create(client, "db1")
    lab.settle()
    found = list(
        rds.events(
            client, source="db1", source_type="db-instance", since=lab.now() - timedelta(days=1)
        )
    )
    assert "DB instance created" in [one.message for one in found]
    assert [one.at for one in found] == sorted(one.at for one in found)


def test_a_default_group_is_refused_by_rds_itself(client: Any, lab: Lab) -> None:
    create(client, "db1")
    with pytest.raises(AwsError) as refused:
        rds.modify_group(client, "default.postgres17", [("work_mem", "8192", "immediate")])
    assert refused.value.action == "rds:ModifyDBParameterGroup"
    lab.settle()


def test_another_region_has_other_instances(client: Any, lab: Lab) -> None:
    create(client, "db1")
    lab.settle()
    elsewhere = aws_client("rds", Account(region="eu-central-1"))
    with pytest.raises(AwsError, match="db1 not found in eu-central-1"):
        rds.instance(elsewhere, "db1")
