"""Clusters of the lab: Aurora, and Multi-AZ DB clusters of three."""

from __future__ import annotations

from typing import Any

import pytest

from lab_calls import REBOOT, client, instance, one, refusal
from rdstune.lab import Lab


@pytest.fixture(autouse=True)
def _nothing_passes_by_itself(lab: Lab) -> None:
    """Run the lab in real time, so that pending work is still pending when a busy machine looks."""
    lab.go_on_at(1)


def cluster(rds: Any, name: str = "three") -> dict[str, Any]:
    row: dict[str, Any] = rds.describe_db_clusters(DBClusterIdentifier=name)["DBClusters"][0]
    return row


def writer(rds: Any, name: str = "three") -> str:
    members = cluster(rds, name)["DBClusterMembers"]
    (found,) = [each["DBInstanceIdentifier"] for each in members if each["IsClusterWriter"]]
    return str(found)


def member_status(rds: Any, name: str = "three") -> set[str]:
    return {
        each["DBClusterParameterGroupStatus"] for each in cluster(rds, name)["DBClusterMembers"]
    }


def three(lab: Lab, rds: Any) -> None:
    rds.create_db_cluster(
        DBClusterIdentifier="three", Engine="postgres", EngineVersion="17",
        DBClusterInstanceClass="db.m6gd.large", AllocatedStorage=100, Iops=1000,
        MasterUsername="m", MasterUserPassword="12345678",
    )  # fmt: skip
    lab.settle()


def aurora(lab: Lab, rds: Any, *members: str) -> None:
    rds.create_db_cluster(
        DBClusterIdentifier="aurora", Engine="aurora-postgresql", EngineVersion="17",
        MasterUsername="m", MasterUserPassword="12345678",
    )  # fmt: skip
    for name in members:
        rds.create_db_instance(
            DBInstanceIdentifier=name, DBInstanceClass="db.r6g.large",
            Engine="aurora-postgresql", DBClusterIdentifier="aurora",
        )  # fmt: skip
    lab.settle()


def cluster_group(rds: Any, family: str, *parameters: dict[str, str]) -> None:
    rds.create_db_cluster_parameter_group(
        DBClusterParameterGroupName="cpg", DBParameterGroupFamily=family, Description="x"
    )
    if parameters:
        rds.modify_db_cluster_parameter_group(
            DBClusterParameterGroupName="cpg", Parameters=list(parameters)
        )


def attach(lab: Lab, rds: Any, name: str) -> None:
    rds.modify_db_cluster(
        DBClusterIdentifier=name, DBClusterParameterGroupName="cpg", ApplyImmediately=True
    )
    lab.settle()


def test_a_multi_az_cluster_makes_its_three_members_in_three_zones(lab: Lab) -> None:
    rds = client()
    three(lab, rds)
    assert cluster(rds)["Status"] == "available"
    names = [each["DBInstanceIdentifier"] for each in cluster(rds)["DBClusterMembers"]]
    assert len(names) == 3
    assert len({instance(rds, name)["AvailabilityZone"] for name in names}) == 3


def test_its_members_take_values_from_the_cluster_group_only(lab: Lab) -> None:
    rds = client()
    three(lab, rds)
    cluster_group(rds, "postgres17", one("work_mem", "8192"))
    attach(lab, rds, "three")
    assert member_status(rds) == {"pending-reboot"}
    rds.reboot_db_cluster(DBClusterIdentifier="three")
    lab.settle()
    assert member_status(rds) == {"in-sync"}
    assert lab.instance(writer(rds)).running["work_mem"] == "8192"


def test_a_dynamic_change_of_the_cluster_group_reaches_every_member(lab: Lab) -> None:
    rds = client()
    three(lab, rds)
    cluster_group(rds, "postgres17")
    attach(lab, rds, "three")
    rds.reboot_db_cluster(DBClusterIdentifier="three")
    lab.settle()
    rds.modify_db_cluster_parameter_group(
        DBClusterParameterGroupName="cpg", Parameters=[one("work_mem", "8192")]
    )
    assert member_status(rds) == {"applying"}
    lab.settle()
    assert member_status(rds) == {"in-sync"}
    for member in cluster(rds)["DBClusterMembers"]:
        assert lab.instance(member["DBInstanceIdentifier"]).running["work_mem"] == "8192"


def test_a_cluster_fails_over_to_a_reader_within_documented_time(lab: Lab) -> None:
    """Under 35 seconds: RDS User Guide, Multi-AZ DB clusters."""
    rds = client()
    three(lab, rds)
    before = writer(rds)
    rds.failover_db_cluster(DBClusterIdentifier="three")
    assert cluster(rds)["Status"] == "failing-over"
    lab.settle()
    assert cluster(rds)["Status"] == "available"
    assert writer(rds) != before
    events = {event.id: event.date for event in lab.events("three")}
    took = events["RDS-EVENT-0071"] - events["RDS-EVENT-0073"]
    assert took.total_seconds() < 35


def test_an_aurora_cluster_has_no_reboot_of_its_own(lab: Lab) -> None:
    rds = client()
    aurora(lab, rds, "a", "b")
    code, _, _ = refusal(rds.reboot_db_cluster, DBClusterIdentifier="aurora")
    assert code == "InvalidParameterCombination"


def test_an_aurora_member_waits_for_its_own_reboot(lab: Lab) -> None:
    rds = client()
    aurora(lab, rds, "a", "b")
    cluster_group(rds, "aurora-postgresql17", one("max_connections", "200", REBOOT))
    attach(lab, rds, "aurora")
    rds.reboot_db_instance(DBInstanceIdentifier="a")
    lab.settle()
    states = {
        each["DBInstanceIdentifier"]: each["DBClusterParameterGroupStatus"]
        for each in cluster(rds, "aurora")["DBClusterMembers"]
    }
    assert states == {"a": "in-sync", "b": "pending-reboot"}
    assert lab.instance("a").running["max_connections"] == "200"


def test_a_cluster_group_that_is_not_there_has_a_code_of_its_own(lab: Lab) -> None:
    rds = client()
    aurora(lab, rds, "a")
    code, _, http = refusal(
        rds.modify_db_cluster, DBClusterIdentifier="aurora", DBClusterParameterGroupName="nowhere"
    )
    assert (code, http) == ("DBClusterParameterGroupNotFound", 404)


def test_an_aurora_failover_goes_where_it_is_sent(lab: Lab) -> None:
    rds = client()
    aurora(lab, rds, "a", "b", "c")
    rds.failover_db_cluster(DBClusterIdentifier="aurora", TargetDBInstanceIdentifier="c")
    lab.settle()
    assert writer(rds, "aurora") == "c"


def test_an_aurora_cluster_with_members_is_not_deleted(lab: Lab) -> None:
    rds = client()
    aurora(lab, rds, "a")
    code, _, _ = refusal(
        rds.delete_db_cluster, DBClusterIdentifier="aurora", SkipFinalSnapshot=True
    )
    assert code == "InvalidDBClusterStateFault"
    rds.delete_db_instance(DBInstanceIdentifier="a", SkipFinalSnapshot=True)
    lab.settle()
    rds.delete_db_cluster(DBClusterIdentifier="aurora", SkipFinalSnapshot=True)
    lab.settle()
    assert rds.describe_db_clusters()["DBClusters"] == []
