"""`rdstune snapshots`, `audit` and `policy` through the real command line, against the lab."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result

from rdstune.cli import rdstune
from rdstune.lab import Lab

HERE, THERE = "eu-west-1", "eu-central-1"
COPY = ("snapshots", "copy", "--from-region", HERE, "--to-region", THERE)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(rdstune, arguments)


def make(lab: Lab, name: str, region: str = HERE, *, too_much: bool = False, **more: Any) -> None:
    """Create an instance and its snapshot; `too_much` means 1,000 connections of 64 MB each."""
    rds = boto3.client("rds", region_name=region)
    if too_much:
        more |= {"DBParameterGroupName": _too_much(rds)}
    rds.create_db_instance(
        DBInstanceIdentifier=name, DBInstanceClass="db.r6g.xlarge", Engine="postgres",
        EngineVersion="17", AllocatedStorage=100, MasterUsername="postgres",
        MasterUserPassword="only in the lab", **more,
    )  # fmt: skip
    lab.settle()
    rds.create_db_snapshot(DBSnapshotIdentifier=f"{name}-1", DBInstanceIdentifier=name)
    lab.settle()


def _too_much(rds: Any) -> str:
    """A group whose worst case is 125 GB on any class."""
    group = {"DBParameterGroupName": "too-much"}
    rds.create_db_parameter_group(**group, DBParameterGroupFamily="postgres17", Description="x")
    values = {"max_connections": "1000", "work_mem": "65536"}
    rds.modify_db_parameter_group(
        **group,
        Parameters=[
            {"ParameterName": name, "ParameterValue": value, "ApplyMethod": "pending-reboot"}
            for name, value in values.items()
        ],
    )
    return "too-much"


def test_copies_are_listed_and_progress_goes_to_stderr(lab: Lab) -> None:
    make(lab, "shop")
    done = run(*COPY, "--poll", "0.2s")
    assert done.exit_code == 0
    words = done.stdout.split()
    assert words[:4] == ["shop", "copied", "shop-1", "->"]
    assert words[4].startswith("mrtuner-eu-west-1-shop-1-")
    assert done.stderr.splitlines()[-1].strip() == "1 of 1 done, 0 under way"


def test_copies_as_a_document(lab: Lab) -> None:
    make(lab, "shop")
    done = run(*COPY, "--no-wait", "--keep", "7", "--json")
    document = json.loads(done.stdout)
    assert document["schema"] == "mrtuner.rds.snapshots/1"
    assert (document["from"], document["to"], document["keep"]) == (HERE, THERE, 7)
    assert [copy["outcome"] for copy in document["copies"]] == ["started"]
    assert document["ok"] is True


def test_one_failure_does_not_hide_the_copies_and_ends_with_1(lab: Lab) -> None:
    make(lab, "open")
    make(lab, "closed", StorageEncrypted=True)
    done = run(*COPY, "--no-wait")
    assert done.exit_code == 1
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["closed", "failed"],
        ["open", "started"],
    ]
    assert "error: closed-1: an encrypted snapshot needs a key in eu-central-1" in done.stderr
    assert "HINT: Name one with --kms-key" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from-region", HERE, "--to-region", HERE], "source and destination are both eu-west-1"),
        (["--from-region", HERE], "missing option '--to-region'"),
        (["--from-region", HERE, "--to-region", THERE, "--keep", "0"], "'--keep'"),
    ],
)
def test_copies_that_cannot_be_meant_are_refused(arguments: list[str], message: str) -> None:
    done = run("snapshots", "copy", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_without_credentials_there_is_one_error_and_a_hint(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    for arguments in (COPY, ("audit",)):
        done = run(*arguments)
        assert done.exit_code == 1
        assert done.stdout == ""
        assert "error: no AWS credentials found" in done.stderr
        assert "HINT: " in done.stderr


def test_the_template_is_written_to_a_file(tmp_path: Path) -> None:
    target = tmp_path / "snapshots.yaml"
    assert run("snapshots", "template", "-o", str(target)).exit_code == 0
    assert target.read_text(encoding="utf-8") == run("snapshots", "template").stdout
    assert "AWS::Serverless::Function" in target.read_text(encoding="utf-8")


def test_the_audit_is_a_table_with_a_summary(lab: Lab) -> None:
    make(lab, "shop", too_much=True)
    done = run("audit", "--region", HERE)
    assert done.exit_code == 0
    header, row, blank, *summary = done.stdout.splitlines()
    assert header.split() == [
        "region", "instance", "class", "group", "memory", "drift", "findings",
    ]  # fmt: skip
    assert row.split()[:4] == [HERE, "shop", "db.r6g.xlarge", "too-much"]
    assert row.split()[-1] == "memory"
    assert blank == ""
    assert summary[0] == "1 instance in 1 region"
    assert "      1  memory: the worst case exceeds 90% of memory" in summary
    assert "[1/1] eu-west-1; 1 instance so far" in done.stderr


def test_the_audit_with_check_ends_with_3_when_somebody_should_see_to_something(lab: Lab) -> None:
    make(lab, "shop", too_much=True)
    assert run("audit", "--region", HERE, "--check").exit_code == 3
    assert run("audit", "--region", THERE, "--check").exit_code == 0


def test_the_audit_of_all_regions_as_a_document(lab: Lab) -> None:
    """moto's list of regions is EC2's."""
    make(lab, "shop")
    make(lab, "users", region="sa-east-1")
    done = run("audit", "--all-regions", "--json")
    document = json.loads(done.stdout)
    assert document["schema"] == "mrtuner.rds.audit/1"
    assert [one["instance"] for one in document["instances"]] == ["shop", "users"]
    assert {"eu-west-1", "sa-east-1", "us-west-2"} <= set(document["regions"])
    assert document["failures"] == []


def test_a_region_that_fails_is_told_below_the_table_and_ends_with_1(lab: Lab) -> None:
    make(lab, "shop")
    lab.fail_region(THERE, "closed")
    done = run("audit", "--region", HERE, "--region", THERE)
    assert done.exit_code == 1
    assert "shop" in done.stdout
    assert "eu-central-1" in done.stderr.splitlines()[-2]
    assert done.stderr.splitlines()[-1].startswith("HINT: ")


def test_without_a_region_the_audit_asks_for_one_and_all_regions_are_found(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(lab, "shop")
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    alone = run("audit")
    assert alone.exit_code == 1
    assert alone.stderr == "error: no AWS region is set\nHINT: Use --region or set AWS_REGION.\n"
    assert "shop" in run("audit", "--all-regions").stdout


def test_a_missing_permission_is_named(lab: Lab) -> None:
    lab.deny("rds:DescribeDBInstances")
    done = run("audit", "--region", HERE)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert "error: AWS denies rds:DescribeDBInstances in eu-west-1" in done.stderr
    assert "HINT: Allow rds:DescribeDBInstances" in done.stderr


def test_all_regions_and_one_exclude_each_other() -> None:
    done = run("audit", "--all-regions", "--region", HERE)
    assert done.exit_code == 2
    assert "--all-regions and --region cannot be used together" in done.stderr


def test_a_policy_is_a_document_for_iam_and_its_notes_go_to_stderr() -> None:
    done = run(
        "policy",
        "audit",
        "--region",
        HERE,
        "--without",
        "clusters",
        "--without=a class unknown to us",
    )
    assert json.loads(done.stdout) == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": [
                    "rds:DescribeDBInstances",
                    "rds:DescribeDBParameters",
                    "ec2:DescribeRegions",
                ],
                "Resource": "*",
                "Condition": {"StringEquals": {"aws:RequestedRegion": [HERE]}},
            }
        ],
    }
    assert done.stderr == "note: ec2:DescribeRegions is needed only for --all-regions\n"


def test_a_policy_with_its_notes_in_one_document() -> None:
    document = json.loads(run("policy", "snapshots", "copy", "--json").stdout)
    assert document["schema"] == "mrtuner.rds.policy/1"
    assert document["command"] == "snapshots copy"
    assert document["policy"]["Version"] == "2012-10-17"
    assert "rds:DeleteDBSnapshot is needed only for --keep" in document["notes"]


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["fly"], "unknown command 'fly'", "Use one of: "),
        (["evaluate"], "evaluate makes no AWS calls", "It needs no policy."),
        (
            ["audit", "--without", "wings"],
            "no permission of audit is needed only for 'wings'",
            "--all",
        ),
    ],
)
def test_a_policy_that_cannot_be_made_says_why(
    arguments: list[str], message: str, hint: str
) -> None:
    done = run("policy", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert hint in done.stderr
