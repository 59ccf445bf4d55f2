"""Pending maintenance in the lab: dates, opt-ins, windows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from lab_calls import client, instance, new_instance, refusal
from rdstune.lab import Lab

WINDOW = "wed:04:00-wed:04:30"


def pending(rds: Any) -> list[dict[str, Any]]:
    rows = rds.describe_pending_maintenance_actions()["PendingMaintenanceActions"]
    return [detail for row in rows for detail in row["PendingMaintenanceActionDetails"]]


def is_window(moment: datetime) -> bool:
    return (moment.strftime("%a"), moment.hour, moment.minute) == ("Wed", 4, 0)


@pytest.fixture
def rds(lab: Lab) -> Any:
    rds = client()
    new_instance(lab, rds, PreferredMaintenanceWindow=WINDOW)
    return rds


def opt_in(rds: Any, kind: str) -> Any:
    return rds.apply_pending_maintenance_action(
        ResourceIdentifier="arn:aws:rds:us-east-1:123456789012:db:one",
        ApplyAction="system-update",
        OptInType=kind,
    )


def test_an_action_without_dates_is_optional_and_never_done_by_itself(lab: Lab, rds: Any) -> None:
    lab.add_maintenance("one")
    assert "CurrentApplyDate" not in pending(rds)[0]
    lab.advance(days=60)
    assert [each["Action"] for each in pending(rds)] == ["system-update"]


def test_an_action_is_done_in_the_first_window_after_its_date(lab: Lab, rds: Any) -> None:
    after = lab.now() + timedelta(days=10)
    lab.add_maintenance("one", auto_applied_after=after)
    planned = pending(rds)[0]["CurrentApplyDate"]
    assert is_window(planned)
    assert after < planned <= after + timedelta(days=7)
    lab.advance(planned - lab.now() - timedelta(minutes=5))
    assert len(pending(rds)) == 1
    lab.advance(minutes=30)
    assert pending(rds) == []
    down, back = (
        next(event.date for event in lab.events("one") if event.id == f"RDS-EVENT-{number}")
        for number in ("0026", "0027")
    )
    assert is_window(down.replace(minute=0))
    assert down < back


def test_a_forced_date_does_not_wait_for_the_window(lab: Lab, rds: Any) -> None:
    forced = lab.now() + timedelta(hours=1)
    later = forced + timedelta(days=30)
    lab.add_maintenance("one", auto_applied_after=later, forced=forced)
    assert pending(rds)[0]["CurrentApplyDate"] == forced
    lab.advance(hours=2)
    assert pending(rds) == []


def test_the_next_window_can_be_opted_in_to_and_out_of(lab: Lab, rds: Any) -> None:
    lab.add_maintenance("one")
    opt_in(rds, "next-maintenance")
    assert pending(rds)[0]["OptInStatus"] == "next-maintenance"
    assert is_window(pending(rds)[0]["CurrentApplyDate"])
    opt_in(rds, "undo-opt-in")
    assert "OptInStatus" not in pending(rds)[0]
    assert "CurrentApplyDate" not in pending(rds)[0]


def test_an_immediate_opt_in_begins_now_and_cannot_be_undone(lab: Lab, rds: Any) -> None:
    lab.add_maintenance("one")
    opt_in(rds, "immediate")
    lab.advance(seconds=1)
    assert instance(rds)["DBInstanceStatus"] == "maintenance"
    code, _, _ = refusal(
        rds.apply_pending_maintenance_action,
        ResourceIdentifier="arn:aws:rds:us-east-1:123456789012:db:one",
        ApplyAction="system-update",
        OptInType="undo-opt-in",
    )
    assert code == "InvalidDBInstanceState"
    lab.settle()
    assert pending(rds) == []
    assert instance(rds)["DBInstanceStatus"] == "available"


def test_a_multi_az_instance_fails_over_once(lab: Lab) -> None:
    rds = client()
    new_instance(lab, rds, MultiAZ=True)
    zone = instance(rds)["AvailabilityZone"]
    lab.add_maintenance("one", opted="immediate")
    lab.settle()
    assert instance(rds)["AvailabilityZone"] != zone
    numbers = [event.id for event in lab.events("one")]
    assert numbers.count("RDS-EVENT-0049") == 1
    assert "RDS-EVENT-0047" in numbers


def test_what_is_not_there_is_not_found(lab: Lab, rds: Any) -> None:
    code, _, http = refusal(
        rds.apply_pending_maintenance_action,
        ResourceIdentifier="arn:aws:rds:us-east-1:123456789012:db:one",
        ApplyAction="db-upgrade",
        OptInType="immediate",
    )
    assert (code, http) == ("ResourceNotFoundFault", 404)


def test_actions_are_listed_by_resource(lab: Lab, rds: Any) -> None:
    new_instance(lab, rds, "two")
    lab.add_maintenance("one")
    lab.add_maintenance("two", "db-upgrade")
    arn = "arn:aws:rds:us-east-1:123456789012:db:two"
    rows = rds.describe_pending_maintenance_actions(ResourceIdentifier=arn)
    assert [row["ResourceIdentifier"] for row in rows["PendingMaintenanceActions"]] == [arn]
    by_filter = rds.describe_pending_maintenance_actions(
        Filters=[{"Name": "db-instance-id", "Values": ["one"]}]
    )
    assert len(by_filter["PendingMaintenanceActions"]) == 1
