"""A command's policy allows exactly what it calls in the lab, and IAM knows these actions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import boto3
import click
import pytest
from click.testing import CliRunner

from mrtuner.aws.iam_policy import ACTIONS_BY_COMMAND, Scope, Use, called, policy, uses
from mrtuner.cli import main
from mrtuner.errors import BadValue
from rdstune.cli import rdstune
from rdstune.lab import Lab
from rdstune.lambda_handler import template

HERE, THERE = "eu-west-1", "eu-central-1"
COPYING = Scope(source=HERE, destination=THERE, account="123456789012")
NEEDING = [name for name in ACTIONS_BY_COMMAND if ACTIONS_BY_COMMAND[name]]


def run(*arguments: str, ends: int = 0) -> None:
    done = CliRunner().invoke(rdstune, arguments)
    assert done.exit_code == ends, done.output


def seen(lab: Lab) -> set[str]:
    """The calls made, by their IAM names."""
    return {f"{service}:{action}" for service, action in lab.calls}


def rds(region: str = HERE) -> Any:
    return boto3.client("rds", region_name=region)


def make_instance(lab: Lab, name: str, **more: Any) -> None:
    rds().create_db_instance(
        DBInstanceIdentifier=name, DBInstanceClass="db.r6g.large", Engine="postgres",
        AllocatedStorage=100, MasterUsername="postgres", MasterUserPassword="only in the lab",
        **({"EngineVersion": "17"} | more),
    )  # fmt: skip
    lab.settle()


def make_group(name: str, values: dict[str, str] | None = None) -> None:
    rds().create_db_parameter_group(
        DBParameterGroupName=name, DBParameterGroupFamily="postgres17", Description="a test's"
    )
    if values:
        rds().modify_db_parameter_group(DBParameterGroupName=name, Parameters=settings(values))


def settings(values: dict[str, str]) -> list[dict[str, str]]:
    return [
        {"ParameterName": name, "ParameterValue": value, "ApplyMethod": "pending-reboot"}
        for name, value in values.items()
    ]


def make_cluster(lab: Lab, name: str = "orders", group: str | None = "ours") -> None:
    """Create an Aurora cluster with one instance; a named group gets a value."""
    if group:
        rds().create_db_cluster_parameter_group(
            DBClusterParameterGroupName=group, DBParameterGroupFamily="aurora-postgresql16",
            Description="a test's",
        )  # fmt: skip
        rds().modify_db_cluster_parameter_group(
            DBClusterParameterGroupName=group, Parameters=settings({"random_page_cost": "2"})
        )
    rds().create_db_cluster(
        DBClusterIdentifier=name, Engine="aurora-postgresql", EngineVersion="16",
        MasterUsername="postgres", MasterUserPassword="only in the lab",
        **({"DBClusterParameterGroupName": group} if group else {}),
    )  # fmt: skip
    rds().create_db_instance(
        DBInstanceIdentifier=f"{name}-1", DBInstanceClass="db.r6g.large",
        Engine="aurora-postgresql", DBClusterIdentifier=name,
    )  # fmt: skip
    lab.settle()


def copy_snapshots(lab: Lab) -> None:
    """Copy an encrypted snapshot, twice, so that the older copy is deleted."""
    make_instance(lab, "shop", StorageEncrypted=True)
    key = boto3.client("kms", region_name=THERE).create_key()["KeyMetadata"]["Arn"]
    lab.forget_calls()
    for number in range(2):
        rds().create_db_snapshot(DBSnapshotIdentifier=f"shop-{number}", DBInstanceIdentifier="shop")
        lab.settle()
        run(
            "snapshots", "copy", "--from-region", HERE, "--to-region", THERE, "--kms-key", key,
            "--keep", "1", "--poll", "0.2s",
        )  # fmt: skip


def audit_everything(lab: Lab) -> None:
    make_group("ours")
    make_instance(lab, "shop", DBParameterGroupName="ours")
    make_instance(lab, "new")
    lab.instance("new", HERE).class_name = "db.c5.large"
    make_cluster(lab)
    lab.forget_calls()
    run("audit", "--all-regions")


def compare(lab: Lab) -> None:
    make_group("ours")
    make_instance(lab, "shop", DBParameterGroupName="ours")
    make_instance(lab, "new", DBParameterGroupName="ours")
    lab.instance("new", HERE).class_name = "db.c5.large"
    make_cluster(lab)
    lab.forget_calls()
    for name in ("shop", "orders-1", "new"):
        run("diff", name, "--region", HERE)


def make_trio(lab: Lab) -> None:
    """A Multi-AZ DB cluster, which is rebooted as one."""
    rds().create_db_cluster(
        DBClusterIdentifier="trio", Engine="postgres", EngineVersion="17", StorageType="io1",
        DBClusterInstanceClass="db.r6gd.large", AllocatedStorage=100, Iops=1000,
        MasterUsername="postgres", MasterUserPassword="only in the lab",
    )  # fmt: skip
    lab.settle()


def make_targets(lab: Lab) -> None:
    """An instance and a cluster with AWS's own groups; the same with groups of ours."""
    make_instance(lab, "shop")
    make_group("ours", {"random_page_cost": "2"})
    make_instance(lab, "stock", DBParameterGroupName="ours")
    make_cluster(lab)
    make_cluster(lab, "bills", group=None)


def change(lab: Lab) -> None:
    """Apply fully, and where AWS refuses a step; for a class that we do not know, our advice."""
    make_targets(lab)
    make_trio(lab)
    make_instance(lab, "new")
    lab.instance("new", HERE).class_name = "db.c5.large"
    lab.forget_calls()
    lab.deny("rds:ModifyDBInstance", "rds:ModifyDBCluster")
    apply("new", given=False, ends=1)
    for name in ("shop", "bills"):
        apply(name, ends=1)
    lab.allow()
    for name in ("shop", "bills", "trio"):
        apply(name)
    lab.deny("rds:RebootDBInstance")
    for name in ("stock", "orders"):
        apply(name, ends=1)


def change_back(lab: Lab) -> None:
    """Undo what an apply did, and what a failed one left behind."""
    make_targets(lab)
    make_instance(lab, "users")
    make_cluster(lab, "carts", group=None)
    make_trio(lab)
    for name in ("stock", "orders", "users", "carts", "trio"):
        apply(name)
    lab.deny(
        "rds:ModifyDBInstance", "rds:DeleteDBParameterGroup",
        "rds:ModifyDBCluster", "rds:DeleteDBClusterParameterGroup",
    )  # fmt: skip
    for name in ("shop", "bills"):
        apply(name, ends=1)
    lab.allow()
    lab.forget_calls()
    for name in ("shop", "bills", "stock", "orders", "users", "carts", "trio"):
        undo(name)


def apply(name: str, *, given: bool = True, ends: int = 0) -> None:
    """Apply two settings, one of which needs a reboot; or our advice."""
    settings = ("--from", str(SETTINGS)) if given else ()
    run("apply", name, *settings, *AT_ONCE, ends=ends)


def undo(name: str) -> None:
    run("undo", name, *AT_ONCE)


AT_ONCE = ("--region", HERE, "--yes", "--reboot", "now", "--poll", "0.05s")
SETTINGS = Path(__file__).with_name("two_settings.json")


def check_groups(lab: Lab) -> None:
    make_group("ours")
    make_cluster(lab)
    lab.forget_calls()
    run("lint", "ours", "--region", HERE)
    run("lint", "ours", "--region", HERE, "--cluster")


def look_at_maintenance(lab: Lab) -> None:
    make_instance(lab, "shop")
    make_cluster(lab)
    lab.forget_calls()
    run("maintenance", "shop", "--region", HERE)
    run("maintenance", "orders-1", "--region", HERE)


def look_for_limits(lab: Lab) -> None:
    """A command of mrtuner, whose policy rdstune knows. Nothing is in CloudWatch."""
    make_instance(lab, "shop")
    lab.forget_calls()
    done = CliRunner().invoke(main, ["limits", "--all", "--all-regions", "--since", "6h"])
    assert done.exit_code == 0, done.output


def check_instances(lab: Lab) -> None:
    """Also a command of mrtuner. No server is behind the instances, so nothing passes."""
    make_group("ours")
    make_instance(lab, "shop", DBParameterGroupName="ours")
    make_instance(lab, "new")
    lab.instance("new", HERE).class_name = "db.c5.large"
    make_cluster(lab)
    lab.forget_calls()
    for name in ("shop", "new", "orders-1"):
        done = CliRunner().invoke(main, ["check", f"rds:{name}", "--region", HERE])
        assert done.exit_code == 3, done.output


#: Runs in which a command needs every permission; the test's own calls are subtracted.
SCENARIOS: dict[str, Callable[[Lab], None]] = {
    "snapshots copy": copy_snapshots,
    "audit": audit_everything,
    "diff": compare,
    "apply": change,
    "undo": change_back,
    "lint": check_groups,
    "maintenance": look_at_maintenance,
    "limits": look_for_limits,
    "check": check_instances,
}
BY_THE_TEST = {"snapshots copy": {"rds:CreateDBSnapshot"}}


@pytest.mark.parametrize("command", SCENARIOS)
def test_a_command_calls_exactly_what_its_policy_allows(
    command: str, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MRTUNER_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("MRTUNER_CACHE_DIR", str(tmp_path))
    SCENARIOS[command](lab)
    assert seen(lab) - BY_THE_TEST.get(command, set()) == called(command)


def test_a_rehearsal_calls_exactly_what_its_policy_allows(server_lab: Lab) -> None:
    make_instance(server_lab, "shop", EngineVersion="18", DBName="shop")
    server_lab.add_maintenance("shop", "system-update", region=HERE)
    server_lab.forget_calls()
    for more in ((), ("--action", "system-update")):
        run(
            "maintenance", "rehearse", "shop", "--connect", server_lab.dsn("shop", HERE), "--yes",
            "--region", HERE, "--steady", "0.5s", "--start-timeout", "5s", "--every", "0.1s", *more,
        )  # fmt: skip
    assert seen(server_lab) == called("maintenance rehearse") - {"rds:DescribeDBClusters"}


def test_a_rehearsal_asks_for_the_cluster_of_a_member(lab: Lab) -> None:
    """The rehearsal is refused, because nobody has agreed."""
    make_cluster(lab)
    lab.forget_calls()
    refused = ("maintenance", "rehearse", "orders-1", "--connect", "host=nowhere", "--region", HERE)
    run(*refused, ends=4)
    assert "rds:DescribeDBClusters" in seen(lab)
    assert seen(lab) < called("maintenance rehearse")


@pytest.mark.parametrize(
    "words",
    [
        "show --class db.r6g.large --family postgres17",
        "evaluate {DBInstanceClassMemory/32768} --class db.r6g.large",
        "render --class db.r6g.large --family postgres17 --format terraform",
        "snapshots template",
        "policy audit",
    ],
)
def test_a_command_that_needs_no_policy_calls_nothing(words: str, lab: Lab) -> None:
    run(*words.split())
    assert lab.calls == ()


def test_every_command_of_rdstune_has_its_entry() -> None:
    known = {name.split()[0] for name in ACTIONS_BY_COMMAND} - {
        "check",
        "limits",
        "serve",
        "history",
    }  # of mrtuner
    assert known == set(rdstune.list_commands(click.Context(rdstune)))


@cache
def iam() -> Any:
    """Every AWS action and what can restrict it, as cfn-lint copied it from AWS."""
    path = files("cfnlint") / "data" / "AdditionalSpecs" / "Policies.json"
    return json.loads(path.read_text(encoding="utf-8"))


def _kind(service: str, resource: str) -> str:
    """The type of a resource, as the Service Authorization Reference names it."""
    if service == "s3":
        return "object" if "/" in resource else "bucket"
    return "key" if service == "kms" else resource.split(":")[5]


@pytest.mark.parametrize("command", NEEDING)
def test_iam_knows_every_action_and_can_narrow_it_so(command: str) -> None:
    known = iam()
    for use in ACTIONS_BY_COMMAND[command]:
        service, _, name = use.action.partition(":")
        action = known[service]["Actions"][name.lower()]
        for resource in use.on:
            if resource != "*":
                kind = _kind(service, resource)
                assert kind in action["Resources"], (use.action, resource)


def test_what_changes_something_is_never_allowed_on_everything() -> None:
    loose = [
        use.action
        for command in NEEDING
        for use in ACTIONS_BY_COMMAND[command]
        if "*" in use.on and not use.action.partition(":")[2].startswith(("Describe", "Get"))
    ]
    assert loose == []


@pytest.mark.parametrize("scope", [Scope(source=HERE), Scope(destination=THERE)])
def test_a_copy_from_or_to_any_region_is_not_bound_to_the_one_that_is_named(scope: Scope) -> None:
    made = policy("snapshots copy", scope)
    assert "RequestedRegion" not in json.dumps(made.document)


def test_a_copy_between_regions_needs_both_of_them() -> None:
    """Written by hand from the User Guide: both regions, the source and the target."""
    made = policy("snapshots copy", COPYING, without=("--keep", "--kms-key"))
    both = {"StringEquals": {"aws:RequestedRegion": [HERE, THERE]}}
    copies = f"arn:aws:rds:{THERE}:123456789012:snapshot:mrtuner-{HERE}-*"
    assert statements(made.document) == statements(
        {
            "Statement": [
                {
                    "Effect": "Allow",
                    "Action": ["rds:DescribeDBInstances", "rds:DescribeDBSnapshots"],
                    "Resource": "*",
                    "Condition": both,
                },
                {
                    "Effect": "Allow",
                    "Action": ["rds:CopyDBSnapshot"],
                    "Resource": [f"arn:aws:rds:{HERE}:123456789012:snapshot:*", copies],
                    "Condition": both,
                },
                {
                    "Effect": "Allow",
                    "Action": ["rds:AddTagsToResource"],
                    "Resource": copies,
                    "Condition": both,
                },
            ]
        }
    )


def statements(document: Any) -> list[str]:
    """The statements as JSON, sorted for comparison."""
    return sorted(json.dumps(one, sort_keys=True) for one in document["Statement"])


def test_the_functions_template_allows_what_the_policy_of_the_command_does() -> None:
    key = f"arn:aws:kms:{THERE}:123456789012:key/11111111-2222-3333-4444-555555555555"
    scope = Scope(source=HERE, destination=THERE, account="123456789012", kms_key=key)
    assert statements({"Statement": in_template(key)}) == statements(
        policy("snapshots copy", scope).document
    )


def in_template(key: str) -> list[Any]:
    """The template's statements as CloudFormation would have them."""
    import yaml

    values = {
        "SourceRegion": HERE, "AWS::Region": THERE, "AWS::AccountId": "123456789012",
        "AWS::Partition": "aws", "KmsKeyArn": key,
    }  # fmt: skip

    class Loader(yaml.SafeLoader):
        """Knows the short forms of the functions that the template uses."""

    def ref(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
        name = str(loader.construct_scalar(node))
        return values.get(name, name)

    def sub(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
        text = str(loader.construct_scalar(node))
        return re.sub(r"\$\{([^}]+)\}", lambda match: values[match[1]], text)

    def chosen(loader: yaml.SafeLoader, node: yaml.SequenceNode) -> Any:
        return loader.construct_sequence(node, deep=True)[1]

    def rest(loader: yaml.SafeLoader, _suffix: str, node: yaml.Node) -> None:
        return None

    Loader.add_constructor("!Ref", ref)
    Loader.add_constructor("!Sub", sub)
    Loader.add_constructor("!If", chosen)
    Loader.add_multi_constructor("!", rest)
    document = yaml.load(template(), Loader)
    properties = document["Resources"]["CopySnapshots"]["Properties"]
    return list(properties["Policies"][0]["Statement"])


def test_the_functions_template_is_one_that_cloudformation_takes() -> None:
    from cfnlint import api

    found = api.lint(template(), regions=[HERE, "us-east-1"])
    assert [f"{one.rule.id} {one.message}" for one in found] == []


def test_a_policy_is_narrowed_to_what_is_named() -> None:
    scope = Scope(regions=(HERE,), account="123456789012", instance="shop", group="shop-pg17")
    document = policy("apply", scope, without=("clusters", "--reboot now")).document
    resources = {
        action: one["Resource"] for one in document["Statement"] for action in one["Action"]
    }
    group = f"arn:aws:rds:{HERE}:123456789012:pg:shop-pg17"
    assert resources["rds:ModifyDBParameterGroup"] == group
    assert resources["rds:ModifyDBInstance"] == [
        f"arn:aws:rds:{HERE}:123456789012:db:shop", group
    ]  # fmt: skip
    assert "rds:RebootDBInstance" not in resources


@pytest.mark.parametrize(
    ("region", "partition"),
    [("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn"), ("eu-west-1", "aws")],
)
def test_other_partitions_have_their_own_arns(region: str, partition: str) -> None:
    document = policy("apply", Scope(regions=(region,))).document
    assert f'"arn:{partition}:rds:{region}:*:pg:*"' in json.dumps(document)


@pytest.mark.parametrize(
    ("key", "resource"),
    [
        (None, "arn:aws:kms:eu-central-1:123456789012:key/*"),
        ("alias/copies", "arn:aws:kms:eu-central-1:123456789012:key/*"),
        ("1234-5678", "arn:aws:kms:eu-central-1:123456789012:key/1234-5678"),
        (
            "arn:aws:kms:eu-central-1:123456789012:key/1",
            "arn:aws:kms:eu-central-1:123456789012:key/1",
        ),
        (
            "arn:aws:kms:eu-central-1:123456789012:alias/a",
            "arn:aws:kms:eu-central-1:123456789012:key/*",
        ),
    ],
)
def test_iam_understands_keys_by_their_ids_only(key: str | None, resource: str) -> None:
    scope = Scope(source=HERE, destination=THERE, account="123456789012", kms_key=key)
    document = policy("snapshots copy", scope).document
    described = [
        one["Resource"] for one in document["Statement"] if one["Action"] == ["kms:DescribeKey"]
    ]
    assert resource in described


def test_what_nobody_saw_is_marked() -> None:
    notes = policy("snapshots copy", COPYING).notes
    assert "rds:AddTagsToResource: checked by AWS when tags are set on creation " in notes[-3]
    assert "kms:CreateGrant: used by RDS on your behalf (documented, not observed)" in notes


def test_what_an_option_needs_can_be_left_out() -> None:
    assert Use("ec2:DescribeRegions", when="--all-regions") in uses("audit")
    assert "ec2:DescribeRegions" not in {use.action for use in uses("audit", ("--all-regions",))}


@pytest.mark.parametrize("command", ["fly", "render", "show"])
def test_a_command_that_needs_nothing_or_is_none_is_refused(command: str) -> None:
    with pytest.raises(BadValue):
        policy(command)


@pytest.mark.parametrize(
    "named",
    [
        ("--region", 'x"y'),
        ("--region", "eu-west-1,*"),
        ("--account", "12345"),
        ("--instance", "shop/../*"),
        ("--group", "a group"),
        ("--from-region", "Ireland"),
        ("--to-region", ""),
        ("--kms-key", 'k"'),
    ],
)
def test_a_policy_is_not_made_of_names_that_aws_does_not_have(named: tuple[str, str]) -> None:
    done = CliRunner().invoke(rdstune, ["policy", "snapshots", "copy", *named])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "HINT: " in done.stderr


@pytest.mark.parametrize("region", ["eu-central-1", "us-gov-west-1", "cn-north-1", "mx-central-1"])
def test_regions_of_every_partition_are_taken(region: str) -> None:
    assert Scope(regions=(region,)).requested == (region,)
