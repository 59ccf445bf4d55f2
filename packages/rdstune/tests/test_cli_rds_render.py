"""`rdstune render` through the real command line."""

from __future__ import annotations

import json
from pathlib import Path

import hcl2
import pytest
import yaml
from click.testing import CliRunner, Result

from rdstune.cli import rdstune
from rdstune.cli.render import FORMATS
from rdstune.formats import GROUP_FORMATS
from rdstune.group.derive import design

ASKED = (
    "--class", "db.r6g.xlarge", "--family", "postgres17", "--workload", "oltp",
    "--connections", "200",
)  # fmt: skip


def render(*arguments: str) -> Result:
    return CliRunner().invoke(rdstune, ["render", *arguments])


def test_every_format_of_the_library_is_a_choice() -> None:
    assert (*GROUP_FORMATS, "json") == FORMATS


def test_terraform_holds_the_designed_group() -> None:
    made = design(
        family_name="postgres17", class_name="db.r6g.xlarge", workload="oltp", connections=200
    )
    result = render("--format", "terraform", *ASKED, "--name", "app-pg17")
    assert result.exit_code == 0, result.stderr
    options = hcl2.SerializationOptions(strip_string_quotes=True)
    [resource] = hcl2.loads(result.stdout, serialization_options=options)["resource"]
    group = resource["aws_db_parameter_group"]["app_pg17"]
    assert (group["name"], group["family"]) == ("app-pg17", "postgres17")
    assert [(each["name"], each["value"], each["apply_method"]) for each in group["parameter"]] == [
        (each.name, each.value.replace("${", "$${"), each.method) for each in made.settings
    ]


def test_the_head_says_what_the_group_is_for() -> None:
    head = render("--format", "aws-cli", *ASKED).stdout[:400]
    assert "MrTuner: oltp, 200 connections, drawn up for db.r6g.xlarge" in head


@pytest.mark.parametrize(
    ("family", "kind"), [("postgres17", "instance"), ("aurora-postgresql17", "cluster")]
)
def test_a_group_is_attached_to_what_it_is_for(family: str, kind: str) -> None:
    """Groups of clusters and of instances have names apart: an instance would get another one."""
    asked = [family if one == "postgres17" else one for one in ("--format", "aws-cli", *ASKED)]
    script = " ".join(render(*asked).stdout.replace("# ", "").split())
    kinds = "db-cluster" if kind == "cluster" else "db"
    assert f"aws rds create-{kinds}-parameter-group" in script
    assert (
        f"aws rds modify-db-{kind} --db-{kind}-identifier {kind.upper()} "
        f"--{kinds}-parameter-group-name GROUP"
    ) in script


@pytest.mark.parametrize("asked", [["--json"], ["--format", "json"], ["--format=json", "--json"]])
def test_json_is_a_format_with_a_short_form(asked: list[str]) -> None:
    document = json.loads(render(*asked, *ASKED).stdout)
    assert document["schema"] == "mrtuner.rds.render/2"
    assert (document["name"], document["family"]) == ("mrtuner-postgres17", "postgres17")
    connections = next(
        each for each in document["parameters"] if each["name"] == "max_connections"
    )  # fmt: skip
    assert (connections["value"], connections["method"]) == ("209", "pending-reboot")


def test_our_json_can_be_linted(tmp_path: Path) -> None:
    path = tmp_path / "group.json"
    assert render(*ASKED, "--json", "-o", str(path)).exit_code == 0
    linted = CliRunner().invoke(
        rdstune, ["lint", str(path), "--class", "db.r6g.xlarge", "--json"]
    )  # fmt: skip
    assert linted.exit_code == 0, linted.stdout
    [group] = json.loads(linted.stdout)["groups"]
    assert (group["name"], group["family"]) == ("mrtuner-postgres17", "postgres17")
    assert group["parameters"] > 5


def test_aurora_gets_a_cluster_group_unless_told_otherwise() -> None:
    asked = ("--class", "db.r7g.large", "--family", "aurora-postgresql16", "--connections", "50")
    [cluster] = yaml.safe_load(render("--format", "cloudformation", *asked).stdout)[
        "Resources"
    ].values()
    assert cluster["Type"] == "AWS::RDS::DBClusterParameterGroup"
    [instance] = yaml.safe_load(
        render("--format", "cloudformation", *asked, "--instance").stdout
    )["Resources"].values()  # fmt: skip
    assert instance["Type"] == "AWS::RDS::DBParameterGroup"
    of_cluster, of_instance = (one["Properties"]["Parameters"] for one in (cluster, instance))
    left = of_cluster.keys() - of_instance.keys()
    assert "autovacuum_work_mem" in left
    assert of_instance.items() <= of_cluster.items()
    written = render("--format", "terraform", *asked, "--instance").stdout
    assert (
        "# autovacuum_work_mem is a parameter of the cluster's group: --cluster writes" in written
    )


def test_an_instance_group_of_aurora_passes_our_lint(tmp_path: Path) -> None:
    path = tmp_path / "group.json"
    asked = ("--class", "db.r7g.large", "--family", "aurora-postgresql16", "--connections", "50")
    assert render(*asked, "--json", "--instance", "-o", str(path)).exit_code == 0
    linted = CliRunner().invoke(rdstune, ["lint", str(path), "--class", "db.r7g.large", "--json"])
    [group] = json.loads(linted.stdout)["groups"]
    assert "cluster-level" not in {one["check"] for one in group["findings"]}
    assert group["parameters"] > 3


def test_a_file_is_written_and_named(tmp_path: Path) -> None:
    path = tmp_path / "parameters.tf"
    result = render("--format", "terraform", *ASKED, "-o", str(path))
    assert result.stdout == ""
    assert result.stderr == f"written: {path}\n"
    assert path.read_text().startswith("# MrTuner: oltp")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (ASKED, "no format is given"),
        (("--format", "cdk", "--json", *ASKED), "--json and --format cdk cannot be used together"),
        (("--json", "--name", "a--b", *ASKED), "is not a valid name for a parameter group"),
        (("--format", "ansible", *ASKED), "'ansible' is not one of"),
        (
            ("--format", "terraform", *ASKED, "--name", "a--b"),
            "is not a valid name for a parameter group",
        ),
        (
            ("--format", "terraform", "--class", "db.x", "--family", "postgres17"),
            "unknown instance class",
        ),
        (("--format", "terraform", "--class", "db.r6g.large", "--family", "pg17"), "unknown"),
    ],
)
def test_what_cannot_be_rendered_is_a_mistake_of_usage(
    arguments: tuple[str, ...], message: str
) -> None:
    result = render(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
