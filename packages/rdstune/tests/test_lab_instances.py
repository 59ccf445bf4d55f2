"""The life of lab instances: statuses, reboots, failovers, waiting changes, replicas."""

from __future__ import annotations

import pytest

from lab_calls import (
    REBOOT,
    change,
    client,
    instance,
    new_group,
    new_instance,
    one,
    refusal,
    status,
)
from rdstune.lab import Lab


@pytest.fixture(autouse=True)
def _nothing_passes_by_itself(lab: Lab) -> None:
    """Run the lab in real time, so that pending work is still pending when a busy machine looks."""
    lab.go_on_at(1)


def test_a_new_instance_is_creating_first_and_then_available(lab: Lab) -> None:
    rds = client()
    rds.create_db_instance(
        DBInstanceIdentifier="one", DBInstanceClass="db.t4g.micro", Engine="postgres",
        EngineVersion="17.6", AllocatedStorage=20,
        MasterUsername="m", MasterUserPassword="12345678",
    )  # fmt: skip
    assert status(rds) == ("creating", "in-sync")
    assert "Endpoint" not in instance(rds)
    lab.advance(seconds=31)
    assert status(rds) == ("available", "in-sync")
    assert instance(rds)["EngineVersion"] == "17.6"
    assert instance(rds)["DBParameterGroups"][0]["DBParameterGroupName"] == "default.postgres17"
    assert instance(rds)["Endpoint"]["Port"] == 5432


def test_a_dynamic_parameter_is_applying_and_then_in_sync(lab: Lab) -> None:
    rds = client()
    new_group(rds)
    new_instance(lab, rds, DBParameterGroupName="pg")
    change(rds, one("work_mem", "8192"))
    assert status(rds) == ("available", "applying")
    lab.advance(seconds=7)
    assert status(rds) == ("available", "in-sync")
    assert lab.instance("one").running["work_mem"] == "8192"


def test_a_static_parameter_waits_for_the_reboot(lab: Lab) -> None:
    rds = client()
    new_group(rds)
    new_instance(lab, rds, DBParameterGroupName="pg")
    before = lab.instance("one").running["max_connections"]
    change(rds, one("max_connections", "200", REBOOT))
    lab.settle()
    assert status(rds) == ("available", "pending-reboot")
    assert lab.instance("one").running["max_connections"] == before
    rds.reboot_db_instance(DBInstanceIdentifier="one")
    assert status(rds)[0] == "rebooting"
    lab.settle()
    assert status(rds) == ("available", "in-sync")
    assert lab.instance("one").running["max_connections"] == "200"


def test_another_group_is_named_at_once_and_none_of_its_values_runs_before_a_reboot(
    lab: Lab,
) -> None:
    rds = client()
    new_group(rds)
    change(rds, one("work_mem", "8192"))
    new_instance(lab, rds)
    rds.modify_db_instance(DBInstanceIdentifier="one", DBParameterGroupName="pg")
    assert instance(rds)["DBParameterGroups"][0]["DBParameterGroupName"] == "pg"
    lab.settle()
    assert status(rds) == ("available", "pending-reboot")
    assert "work_mem" not in lab.instance("one").running
    lab.advance(days=8)  # no maintenance window applies it
    assert status(rds) == ("available", "pending-reboot")
    rds.reboot_db_instance(DBInstanceIdentifier="one")
    lab.settle()
    assert status(rds) == ("available", "in-sync")
    assert lab.instance("one").running["work_mem"] == "8192"


def test_an_instance_that_is_rebooting_cannot_be_rebooted(lab: Lab) -> None:
    rds = client()
    new_instance(lab, rds)
    rds.reboot_db_instance(DBInstanceIdentifier="one")
    code, _, http = refusal(rds.reboot_db_instance, DBInstanceIdentifier="one")
    assert (code, http) == ("InvalidDBInstanceState", 400)


def test_a_failover_swaps_the_zones_and_tells_its_events(lab: Lab) -> None:
    rds = client()
    new_instance(lab, rds, MultiAZ=True)
    before = instance(rds)
    rds.reboot_db_instance(DBInstanceIdentifier="one", ForceFailover=True)
    lab.settle()
    after = instance(rds)
    assert after["AvailabilityZone"] == before["SecondaryAvailabilityZone"]
    assert after["SecondaryAvailabilityZone"] == before["AvailabilityZone"]
    told = [event.id.removeprefix("RDS-EVENT-") for event in lab.events("one")]
    assert told == ["0005", "0013", "0004", "0006", "0049", "0015"]
    start, end = lab.events("one")[1].date, lab.events("one")[-1].date
    assert 60 <= (end - start).total_seconds() <= 120  # the User Guide's figure


def test_a_single_zone_cannot_fail_over(lab: Lab) -> None:
    rds = client()
    new_instance(lab, rds)
    code, _, _ = refusal(rds.reboot_db_instance, DBInstanceIdentifier="one", ForceFailover=True)
    assert code == "InvalidParameterCombination"


def test_a_failover_right_after_another_is_abandoned(lab: Lab) -> None:
    rds = client()
    new_instance(lab, rds, MultiAZ=True)
    rds.reboot_db_instance(DBInstanceIdentifier="one", ForceFailover=True)
    lab.advance(seconds=76)
    zone = instance(rds)["AvailabilityZone"]
    rds.reboot_db_instance(DBInstanceIdentifier="one", ForceFailover=True)
    lab.settle()
    assert instance(rds)["AvailabilityZone"] == zone
    assert lab.events("one")[-1].id == "RDS-EVENT-0034"


def test_too_much_memory_ends_in_incompatible_parameters_and_a_reset_leads_out(lab: Lab) -> None:
    """{DBInstanceClassMemory/4} as shared_buffers counts pages of 8 kB: 2048 times the memory."""
    rds = client()
    new_group(rds)
    change(rds, one("shared_buffers", "{DBInstanceClassMemory/4}", REBOOT))
    new_instance(lab, rds)
    rds.modify_db_instance(DBInstanceIdentifier="one", DBParameterGroupName="pg")
    lab.settle()
    rds.reboot_db_instance(DBInstanceIdentifier="one")
    lab.settle()
    assert status(rds)[0] == "incompatible-parameters"
    assert lab.events("one")[-1].id == "RDS-EVENT-0035"
    code, _, _ = refusal(rds.modify_db_instance, DBInstanceIdentifier="one", MultiAZ=True)
    assert code == "InvalidDBInstanceState"
    rds.reset_db_parameter_group(DBParameterGroupName="pg", ResetAllParameters=True)
    rds.reboot_db_instance(DBInstanceIdentifier="one")
    lab.settle()
    assert status(rds) == ("available", "in-sync")


def test_a_change_waits_for_the_window_unless_it_is_to_be_immediate(lab: Lab) -> None:
    rds = client()
    new_instance(lab, rds, PreferredMaintenanceWindow="wed:04:00-wed:04:30")
    rds.modify_db_instance(DBInstanceIdentifier="one", DBInstanceClass="db.m7g.xlarge")
    assert instance(rds)["PendingModifiedValues"] == {"DBInstanceClass": "db.m7g.xlarge"}
    assert instance(rds)["DBInstanceClass"] == "db.m7g.large"
    lab.advance(days=7)
    lab.settle()
    assert instance(rds)["PendingModifiedValues"] == {}
    assert instance(rds)["DBInstanceClass"] == "db.m7g.xlarge"
    changed = next(event for event in lab.events("one") if event.id == "RDS-EVENT-0014")
    assert (changed.date.strftime("%a"), changed.date.hour) == ("Wed", 4)
    rds.modify_db_instance(
        DBInstanceIdentifier="one", DBInstanceClass="db.m7g.large", ApplyImmediately=True
    )
    assert status(rds)[0] == "modifying"
    lab.settle()
    assert instance(rds)["DBInstanceClass"] == "db.m7g.large"


def test_a_password_that_waits_is_not_shown(lab: Lab) -> None:
    rds = client()
    new_instance(lab, rds)
    rds.modify_db_instance(DBInstanceIdentifier="one", MasterUserPassword="a new secret")
    assert instance(rds)["PendingModifiedValues"] == {"MasterUserPassword": "****"}


def test_a_replica_takes_its_primarys_class_and_group_and_no_lower_limit(lab: Lab) -> None:
    """A standby needs at least the primary's max_connections; RDS raises it (User Guide)."""
    rds = client()
    new_group(rds, "much")
    change(rds, one("max_connections", "500", REBOOT), group="much")
    new_group(rds, "little")
    change(rds, one("max_connections", "100", REBOOT), group="little")
    new_instance(lab, rds, DBParameterGroupName="much")
    rds.create_db_instance_read_replica(
        DBInstanceIdentifier="two", SourceDBInstanceIdentifier="one", DBParameterGroupName="little"
    )
    lab.settle()
    assert instance(rds, "two")["ReadReplicaSourceDBInstanceIdentifier"] == "one"
    assert instance(rds)["ReadReplicaDBInstanceIdentifiers"] == ["two"]
    assert lab.instance("two").running["max_connections"] == "500"


def test_unknown_instances_classes_and_versions_are_refused_by_code(lab: Lab) -> None:
    rds = client()
    new_instance(lab, rds)
    code, _, http = refusal(rds.describe_db_instances, DBInstanceIdentifier="nobody")
    assert (code, http) == ("DBInstanceNotFound", 404)
    good = {
        "DBInstanceIdentifier": "two", "DBInstanceClass": "db.m7g.large", "Engine": "postgres",
        "AllocatedStorage": 100, "MasterUsername": "m", "MasterUserPassword": "12345678",
    }  # fmt: skip
    wrong = {
        "InvalidParameterValue": {"DBInstanceClass": "db.x9.huge"},
        "InvalidParameterCombination": {"EngineVersion": "9.6"},
        "DBInstanceAlreadyExists": {"DBInstanceIdentifier": "one"},
        "DBParameterGroupNotFound": {"DBParameterGroupName": "nowhere"},
    }
    for expected, part in wrong.items():
        assert refusal(rds.create_db_instance, **good | part)[0] == expected


def test_windows_may_not_overlap(lab: Lab) -> None:
    rds = client()
    new_instance(lab, rds)
    code, _, _ = refusal(
        rds.modify_db_instance,
        DBInstanceIdentifier="one",
        PreferredBackupWindow="04:50-05:20",
        PreferredMaintenanceWindow="sun:05:00-sun:05:30",
    )
    assert code == "InvalidParameterValue"


def test_regions_know_nothing_of_one_another(lab: Lab) -> None:
    new_instance(lab, client("eu-west-1"))
    assert client("us-east-1").describe_db_instances()["DBInstances"] == []
    found = client("eu-west-1").describe_db_instances()["DBInstances"]
    assert found[0]["DBInstanceArn"] == "arn:aws:rds:eu-west-1:123456789012:db:one"


def test_events_of_the_last_hour_are_shown_unless_more_is_asked_for(lab: Lab) -> None:
    rds = client()
    new_instance(lab, rds)
    lab.advance(hours=3)
    assert rds.describe_events()["Events"] == []
    events = rds.describe_events(Duration=14 * 24 * 60)["Events"]
    assert [event["Message"] for event in events] == ["DB instance created"]
    lab.advance(days=15)
    assert rds.describe_events(Duration=20 * 24 * 60)["Events"] == []


def test_a_protected_instance_stays(lab: Lab) -> None:
    rds = client()
    new_instance(lab, rds, DeletionProtection=True)
    code, _, _ = refusal(rds.delete_db_instance, DBInstanceIdentifier="one", SkipFinalSnapshot=True)
    assert code == "InvalidParameterCombination"
