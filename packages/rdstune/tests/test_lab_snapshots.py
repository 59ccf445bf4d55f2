"""Snapshots of the lab: made, copied to other regions, deleted."""

from __future__ import annotations

from typing import Any

import pytest

from lab_calls import client, new_instance, refusal
from rdstune.lab import Lab

ARN = "arn:aws:rds:us-east-1:123456789012:snapshot:first"


@pytest.fixture(autouse=True)
def _nothing_passes_by_itself(lab: Lab) -> None:
    """Run the lab in real time, so that pending work is still pending when a busy machine looks."""
    lab.go_on_at(1)


def snapshot(rds: Any, name: str) -> dict[str, Any]:
    row: dict[str, Any] = rds.describe_db_snapshots(DBSnapshotIdentifier=name)["DBSnapshots"][0]
    return row


def snap(lab: Lab, rds: Any, name: str = "first", **more: Any) -> None:
    rds.create_db_snapshot(DBInstanceIdentifier="one", DBSnapshotIdentifier=name, **more)
    lab.advance(minutes=1)


@pytest.fixture
def home(lab: Lab) -> Any:
    rds = client("us-east-1")
    new_instance(lab, rds)
    snap(lab, rds, Tags=[{"Key": "team", "Value": "shop"}])
    return rds


@pytest.fixture
def away(lab: Lab) -> Any:
    return client("eu-west-1")


def copy(rds: Any, source: str = ARN, to: str = "copied", **more: Any) -> Any:
    return rds.copy_db_snapshot(
        SourceDBSnapshotIdentifier=source, TargetDBSnapshotIdentifier=to, **more
    )


def test_a_snapshot_is_creating_first(lab: Lab) -> None:
    rds = client()
    new_instance(lab, rds)
    made = rds.create_db_snapshot(DBInstanceIdentifier="one", DBSnapshotIdentifier="first")
    assert made["DBSnapshot"]["Status"] == "creating"
    assert "SnapshotCreateTime" not in made["DBSnapshot"]
    lab.advance(seconds=12)
    assert 40 <= snapshot(rds, "first")["PercentProgress"] <= 60
    lab.advance(seconds=13)
    assert snapshot(rds, "first")["Status"] == "available"
    assert snapshot(rds, "first")["PercentProgress"] == 100


def test_a_copy_arrives_in_its_time_and_tells_where_it_is_from(
    lab: Lab, home: Any, away: Any
) -> None:
    copy(away, SourceRegion="us-east-1")
    on_its_way = snapshot(away, "copied")
    assert on_its_way["Status"] == "creating"
    assert on_its_way["PercentProgress"] < 100
    lab.advance(seconds=61)
    there = snapshot(away, "copied")
    assert there["Status"] == "available"
    assert (there["SourceRegion"], there["SourceDBSnapshotIdentifier"]) == ("us-east-1", ARN)
    assert there["DBSnapshotArn"] == "arn:aws:rds:eu-west-1:123456789012:snapshot:copied"
    assert there["TagList"] == []
    told = [event.id for event in lab.events("copied", "eu-west-1")]
    assert told == ["RDS-EVENT-0059", "RDS-EVENT-0060"]


def test_tags_are_copied_when_asked_for(lab: Lab, home: Any, away: Any) -> None:
    copy(away, CopyTags=True)
    assert snapshot(away, "copied")["TagList"] == [{"Key": "team", "Value": "shop"}]


def test_a_second_copy_of_the_same_name_is_refused_by_its_code(
    lab: Lab, home: Any, away: Any
) -> None:
    copy(away)
    code, _, http = refusal(
        away.copy_db_snapshot, SourceDBSnapshotIdentifier=ARN, TargetDBSnapshotIdentifier="copied"
    )
    assert (code, http) == ("DBSnapshotAlreadyExists", 400)


def test_an_encrypted_snapshot_needs_a_key_of_the_destination(lab: Lab, away: Any) -> None:
    home = client("us-east-1")
    new_instance(lab, home, StorageEncrypted=True, KmsKeyId="arn:aws:kms:us-east-1:1:key/a")
    snap(lab, home)
    without = refusal(
        away.copy_db_snapshot, SourceDBSnapshotIdentifier=ARN, TargetDBSnapshotIdentifier="copied"
    )
    assert without[0] == "InvalidParameterCombination"
    elsewhere = refusal(
        away.copy_db_snapshot,
        SourceDBSnapshotIdentifier=ARN,
        TargetDBSnapshotIdentifier="copied",
        KmsKeyId="arn:aws:kms:us-east-1:123456789012:key/a",
    )
    assert elsewhere[0] == "KMSKeyNotAccessibleFault"
    key = "arn:aws:kms:eu-west-1:123456789012:key/b"
    copy(away, KmsKeyId=key)
    assert (snapshot(away, "copied")["Encrypted"], snapshot(away, "copied")["KmsKeyId"]) == (
        True,
        key,
    )


def test_twenty_copies_may_be_under_way_and_no_more(lab: Lab, home: Any, away: Any) -> None:
    for number in range(20):
        copy(away, to=f"copy-{number}")
    code, _, _ = refusal(
        away.copy_db_snapshot, SourceDBSnapshotIdentifier=ARN, TargetDBSnapshotIdentifier="too-many"
    )
    assert code == "SnapshotQuotaExceeded"
    lab.advance(minutes=2)
    copy(away, to="later")


def test_a_snapshot_that_is_not_there_cannot_be_copied_or_deleted(lab: Lab, away: Any) -> None:
    new_instance(lab, client("us-east-1"))
    copied = refusal(
        away.copy_db_snapshot, SourceDBSnapshotIdentifier=ARN, TargetDBSnapshotIdentifier="copied"
    )
    deleted = refusal(away.delete_db_snapshot, DBSnapshotIdentifier="copied")
    assert {copied[0], deleted[0]} == {"DBSnapshotNotFound"}


def test_a_snapshot_under_way_can_be_neither_copied_nor_deleted(
    lab: Lab, home: Any, away: Any
) -> None:
    copy(away)
    code, _, _ = refusal(away.delete_db_snapshot, DBSnapshotIdentifier="copied")
    assert code == "InvalidDBSnapshotState"
    lab.advance(minutes=2)
    away.delete_db_snapshot(DBSnapshotIdentifier="copied")
    assert away.describe_db_snapshots()["DBSnapshots"] == []


def test_snapshots_outlive_their_instance(lab: Lab, home: Any) -> None:
    home.delete_db_instance(DBInstanceIdentifier="one", FinalDBSnapshotIdentifier="last")
    lab.settle()
    names = [row["DBSnapshotIdentifier"] for row in home.describe_db_snapshots()["DBSnapshots"]]
    assert names == ["first", "last"]
    assert home.describe_db_instances()["DBInstances"] == []


def test_automated_snapshots_can_be_asked_for_and_not_deleted(lab: Lab, home: Any) -> None:
    lab.add_automated_snapshot("one")
    lab.settle()
    rows = home.describe_db_snapshots(SnapshotType="automated")["DBSnapshots"]
    assert len(rows) == 1
    assert rows[0]["DBSnapshotIdentifier"].startswith("rds:one-")
    code, _, _ = refusal(
        home.delete_db_snapshot, DBSnapshotIdentifier=rows[0]["DBSnapshotIdentifier"]
    )
    assert code == "InvalidParameterValue"
