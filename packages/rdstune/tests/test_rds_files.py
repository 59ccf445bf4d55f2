"""Parameter groups read from files as people write them, with line numbers."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mrtuner.errors import BadValue, UsageError
from mrtuner.files import LARGEST, read_stream
from rds_flows import new_group
from rdstune.formats import GroupLine, render_group
from rdstune.group.read import GroupEntry, WrittenGroup, is_file, read, read_live, read_text
from rdstune.lint.check import lint

TERRAFORM = """\
variable "memory" {}

resource "aws_db_parameter_group" "app" {
  name   = "app-pg17"
  family = "postgres17"

  # parameter { name = "work_mem" }
  parameter {
    name         = "shared_buffers"
    value        = "{DBInstanceClassMemory/32768}"
    apply_method = "pending-reboot"
  }
  parameter {
    name  = "max_parallel_workers"
    value = "GREATEST($${DBInstanceVCPU/2},8)"
  }
  parameter {
    name  = "jit"
    value = 0
  }
  parameter {
    name  = "random_page_cost"
    value = 1.1
  }
  parameter {
    name  = "work_mem"
    value = var.memory
  }
  parameter {
    name  = "application_name"
    value = "a \\"b\\" \\\\ ${var.memory}"
  }
  dynamic "parameter" {
    for_each = var.more
    content {
      name  = parameter.key
      value = parameter.value
    }
  }
}

resource "aws_rds_cluster_parameter_group" "aurora" {
  family = "aurora-postgresql16"
  parameter {
    name  = "log_min_duration_statement"
    value = "1000"
  }
}

resource "aws_instance" "other" {
  parameter {
    name  = "work_mem"
    value = "1"
  }
}
"""

CLOUDFORMATION = """\
AWSTemplateFormatVersion: "2010-09-09"
Parameters:
  Sessions: {Type: Number}
Resources:
  Bucket: {Type: "AWS::S3::Bucket"}
  Group:
    Type: AWS::RDS::DBParameterGroup
    Properties:
      Description: the application's
      Family: postgres16
      Parameters:
        shared_buffers: "{DBInstanceClassMemory/32768}"
        max_connections: !Ref Sessions
        work_mem: !Sub "4096"
        temp_buffers: !Sub "${Sessions}"
        jit: 0
        jit: 1
  Cluster:
    Type: AWS::RDS::DBClusterParameterGroup
    Properties:
      DBClusterParameterGroupName: aurora
      Description: the cluster's
      Family: !Ref Sessions
      Parameters: {rds.force_ssl: 1}
"""


def terraform(text: str = TERRAFORM) -> tuple[WrittenGroup, ...]:
    return read_text(text, suffix=".tf", source="main.tf")


def yaml(text: str) -> tuple[WrittenGroup, ...]:
    return read_text(text, suffix=".yaml", source="t.yaml")


def values(group: WrittenGroup) -> dict[str, str | None]:
    return {entry.name: entry.value for entry in group.entries}


def test_terraform_resources_are_read_with_their_lines() -> None:
    app, aurora = terraform()
    assert (app.name, app.family, app.cluster, app.line) == ("app-pg17", "postgres17", False, 3)
    assert (aurora.name, aurora.family, aurora.cluster) == ("aurora", "aurora-postgresql16", True)
    assert app.entries[0] == GroupEntry(
        name="shared_buffers",
        value="{DBInstanceClassMemory/32768}",
        method="pending-reboot",
        line=10,
    )


def test_terraform_literals_are_texts_and_references_are_not_known() -> None:
    app, _ = terraform()
    assert values(app) == {
        "shared_buffers": "{DBInstanceClassMemory/32768}",
        "max_parallel_workers": "GREATEST(${DBInstanceVCPU/2},8)",
        "jit": "0",
        "random_page_cost": "1.1",
        "work_mem": None,
        "application_name": None,
    }
    assert app.entries[4].unknown == "var.memory"
    assert app.unread == ("dynamic parameter blocks on line 33",)


@pytest.mark.parametrize(
    "given", ["!If [IsProd, {jit: 0}, {}]", "!Ref Values", "{'Fn::FindInMap': [A, b, c]}"]
)
def test_parameters_that_a_template_computes_are_not_read(given: str) -> None:
    (group,) = yaml(
        "Resources:\n  G:\n    Type: AWS::RDS::DBParameterGroup\n    Properties:\n"
        f"      Family: postgres17\n      Parameters: {given}\n"
    )
    assert (group.entries, group.unread) == ((), ("Parameters on line 6",))


def test_terraform_in_json_says_what_it_does_not_know() -> None:
    text = (
        '{"locals": {"f": "postgres17"}, "resource": {"aws_db_parameter_group": {\n'
        '"a": {"family": "${var.f}", "parameter": [{"name": "jit", "value": "0"}],\n'
        '"dynamic": {"parameter": [{"for_each": "${var.more}"}]}},\n'
        '"b": {"family": "${local.f}"}}}}'
    )
    first, second = read_text(text, suffix=".json", source="main.tf.json")
    assert (first.family, first.unknown_family) == (None, "${var.f}")
    assert first.unread == ("dynamic parameter blocks on line 3",)
    assert (second.family, second.unknown_family, second.unread) == ("postgres17", "", ())


def test_an_element_of_a_modules_list_that_is_not_known_is_said() -> None:
    text = """\
module "db" {
  source = "terraform-aws-modules/rds/aws"
  family = "postgres17"
  parameters = [
    var.big ? { name = "work_mem", value = "65536" } : { name = "work_mem", value = "4096" },
    { name = "jit", value = "0" },
  ]
}
"""
    (group,) = terraform(text)
    assert values(group) == {"jit": "0"}
    (unread,) = group.unread
    assert unread.startswith("an element of parameters on line 4: ")


def test_terraform_applies_immediately_where_nothing_is_said() -> None:
    """The provider's own default."""
    app, _ = terraform()
    assert [entry.method for entry in app.entries[:2]] == ["pending-reboot", "immediate"]


def test_a_list_of_parameters_given_to_a_module_is_read() -> None:
    text = """\
module "db" {
  source = "terraform-aws-modules/rds/aws"
  family = "postgres16"
  parameters = [
    {
      name  = "work_mem"
      value = "4096"
    },
    { name = "max_connections", value = 200, apply_method = "pending-reboot" },
  ]
}

module "other" {
  source = "./other"
}
"""
    [group] = terraform(text)
    assert (group.name, group.family, group.line) == ("db", "postgres16", 1)
    assert group.entries == (
        GroupEntry(name="work_mem", value="4096", method="immediate", line=6),
        GroupEntry(name="max_connections", value="200", method="pending-reboot", line=9),
    )


def test_a_module_whose_list_is_a_variable_says_so() -> None:
    [group] = terraform('module "db" {\n  family = "postgres16"\n  parameters = var.all\n}\n')
    assert group.unread == ("parameters on line 3",)


def test_terraforms_json_is_read() -> None:
    document = {
        "resource": {
            "aws_db_parameter_group": {
                "app": {
                    "family": "postgres17",
                    "parameter": [
                        {"name": "work_mem", "value": "4096"},
                        {"name": "jit", "value": "$${x}", "apply_method": "pending-reboot"},
                        {"name": "temp_buffers", "value": "${var.x}"},
                    ],
                }
            }
        }
    }
    [group] = read_text(json.dumps(document), suffix=".json", source="main.tf.json")
    assert (group.name, group.family) == ("app", "postgres17")
    assert values(group) == {"work_mem": "4096", "jit": "${x}", "temp_buffers": None}
    assert [entry.method for entry in group.entries] == ["immediate", "pending-reboot", "immediate"]


def test_cloudformation_is_read_with_duplicates_and_lines() -> None:
    group, cluster = yaml(CLOUDFORMATION)
    assert (group.name, group.family, group.cluster, group.line) == (
        "Group",
        "postgres16",
        False,
        6,
    )
    assert [(entry.name, entry.value, entry.line) for entry in group.entries] == [
        ("shared_buffers", "{DBInstanceClassMemory/32768}", 12),
        ("max_connections", None, 13),
        ("work_mem", "4096", 14),
        ("temp_buffers", None, 15),
        ("jit", "0", 16),
        ("jit", "1", 17),
    ]
    assert group.entries[1].unknown == "!Ref Sessions"
    assert {entry.method for entry in group.entries} == {None}
    assert (cluster.name, cluster.family, cluster.cluster) == ("aurora", None, True)


def test_cloudformation_in_json_is_read_the_same() -> None:
    document = {
        "Resources": {
            "Group": {
                "Type": "AWS::RDS::DBParameterGroup",
                "Properties": {
                    "Family": "postgres16",
                    "Parameters": {"work_mem": {"Ref": "X"}, "jit": 0},
                },
            }
        }
    }
    text = json.dumps(document, indent="\t")
    [group] = read_text(text, suffix=".json", source="t.json")
    assert [(entry.name, entry.value, entry.line) for entry in group.entries] == [
        ("work_mem", None, 8),
        ("jit", "0", 11),
    ]
    assert group.entries[0].unknown == "Ref: …"


ANSWER = {
    "Parameters": [
        {
            "ParameterName": "shared_buffers",
            "ParameterValue": "{DBInstanceClassMemory/4}",
            "Source": "user",
            "ApplyType": "static",
            "DataType": "integer",
            "AllowedValues": "16-1073741823",
            "IsModifiable": True,
            "ApplyMethod": "pending-reboot",
        },
        {"ParameterName": "work_mem", "Source": "engine-default", "IsModifiable": True},
        {"ParameterName": "port", "ParameterValue": "{EndPointPort}", "Source": "system"},
    ]
}


@pytest.mark.parametrize("document", [ANSWER, ANSWER["Parameters"]], ids=["answer", "list"])
@pytest.mark.parametrize("indent", [None, 4, "\t"], ids=["one line", "spaces", "tabs"])
def test_of_awss_answer_what_a_user_has_set_is_read(document: object, indent: int | str) -> None:
    text = json.dumps(document, indent=indent)
    [group] = read_text(text, suffix=".json", source="answer.json")
    [entry] = group.entries
    assert (entry.name, entry.value) == ("shared_buffers", "{DBInstanceClassMemory/4}")
    assert (entry.apply_type, entry.allowed, entry.modifiable) == ("static", "16-1073741823", True)
    assert entry.method == "pending-reboot"
    assert group.family is None


def test_escapes_of_json_are_read() -> None:
    text = r'[{"ParameterName": "a", "ParameterValue": "\/ \ud83d\udc18 \u00fc \" \\"}]'
    [group] = read_text(text, suffix=".json", source="x")
    assert group.entries[0].value == json.loads(text)[0]["ParameterValue"] == '/ 🐘 ü " \\'


def test_the_input_of_the_aws_command_line_says_whose_group_it_is() -> None:
    document = {"DBClusterParameterGroupName": "aurora", "Parameters": ANSWER["Parameters"]}
    [group] = read_text(json.dumps(document), suffix=".json", source="input.json")
    assert (group.name, group.cluster) == ("aurora", True)


@pytest.mark.parametrize("cluster", [False, True], ids=["instance", "cluster"])
@pytest.mark.parametrize(
    ("format", "suffix", "methods"),
    [("terraform", ".tf", True), ("cloudformation", ".yaml", False)],
)
def test_what_we_render_is_read_back(
    format: str, suffix: str, methods: bool, cluster: bool
) -> None:
    lines = [
        GroupLine(name="shared_buffers", value="{DBInstanceClassMemory/32768}", method="immediate"),
        GroupLine(
            name="max_worker_processes",
            value="GREATEST(${DBInstanceVCPU*2},8)",
            method="pending-reboot",
            comment='it\'s "so"',
        ),
    ]
    text = render_group(format, lines, name="app", family="postgres17", cluster=cluster)
    [group] = read_text(text, suffix=suffix, source="x")
    assert (group.name, group.family, group.cluster) == ("app", "postgres17", cluster)
    assert [(entry.name, entry.value) for entry in group.entries] == [
        (line.name, line.value) for line in lines
    ]
    expected = [line.method if methods else None for line in lines]
    assert [entry.method for entry in group.entries] == expected


@pytest.mark.parametrize(
    ("suffix", "text", "message"),
    [
        (".tf", 'resource "x" {', r"cannot read x:?\d* as Terraform"),
        (".tf", "", "no parameter group in x"),
        (".json", '{"a": ', "cannot read x:"),
        (".json", "[]", "no parameter group in x"),
        (".yaml", "a: [", r"cannot read x:"),
        (".yaml", "", "x is empty"),
        (".yaml", "just text", "no parameter group in x"),
        (".yaml", "a: 1\n---\nb: 2\n", "cannot read x"),
        (".ini", "", "unknown file format: x"),
    ],
)
def test_what_is_no_group_is_refused_in_a_sentence(suffix: str, text: str, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        read_text(text, suffix=suffix, source="x")


def test_files_are_read_and_missing_ones_said(tmp_path: Path) -> None:
    path = tmp_path / "main.tf"
    path.write_text("\ufeff" + TERRAFORM, encoding="utf-8")
    assert [group.name for group in read(path)] == ["app-pg17", "aurora"]
    with pytest.raises(UsageError, match=r"cannot read missing\.tf"):
        read(Path("missing.tf"))
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadValue, match="is not text"):
        read(path)


def test_a_name_is_a_file_by_its_ending_or_by_being_there(tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    odd.touch()
    assert is_file("main.tf")
    assert is_file("missing.json")
    assert is_file(str(odd))
    assert not is_file("app-pg17")
    assert not is_file("default.postgres17")


def test_a_group_in_aws_gives_what_somebody_set_there(client: Any) -> None:
    new_group(client, "app", shared_buffers="{DBInstanceClassMemory/32768}")
    group = read_live(client, "app")
    assert (group.name, group.family, group.source) == ("app", "postgres17", "group app")
    [entry] = group.entries
    assert (entry.name, entry.value) == ("shared_buffers", "{DBInstanceClassMemory/32768}")
    assert (entry.apply_type, entry.method, entry.modifiable) == ("static", "pending-reboot", True)


# Input that cannot be parameter groups (issue 10, point 1.12).

DEEP = 30_000


def deep(before: str, after: str = "", middle: str = "1", depth: int = DEEP) -> str:
    return before * depth + middle + after * depth


def is_refused(text: str, path: Path) -> None:
    """Lint the text in a separate process, because it used to crash with a segmentation fault."""
    path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", "from rdstune.cli import rdstune; rdstune()", "lint", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert "HINT: " in done.stderr


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".json", deep("[", "]")),
        (".json", deep('{"a":', "}")),
        (".json", deep("[")),
        (".yaml", deep("- ")),
        (".yaml", "a: " + deep("[", "]")),
    ],
)
def test_what_is_nested_30_000_deep_is_refused_and_kills_no_process(
    suffix: str, text: str, tmp_path: Path
) -> None:
    is_refused(text, tmp_path / f"deep{suffix}")


@pytest.mark.parametrize("depth", [3_000, pytest.param(DEEP, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("before", "after", "middle"),
    [
        ("(", ")", "1"),
        ("[", "]", "1"),
        ("1+", "", "1"),
        ("true ? 1 : ", "", "1"),
        ('"${', '}"', "x"),
        ("a.", "", "a"),
        ("a {\n", "}\n", ""),
    ],
)
def test_terraform_nested_so_deep_is_refused_as_well(
    depth: int, before: str, after: str, middle: str, tmp_path: Path
) -> None:
    """Its parser takes seconds for 30,000 levels."""
    text = deep(before, after, middle, depth)
    if "{\n" not in before:
        text = f"locals {{\n a = {text}\n}}\n"
    is_refused(text, tmp_path / "deep.tf")


@pytest.mark.parametrize(
    "value", [deep("GREATEST(", ")"), "{" + deep("log(", ")") + "}", "{" + deep("-") + "}"]
)
def test_a_formula_that_nobody_wrote_by_hand_is_an_error_and_not_read(value: str) -> None:
    text = json.dumps({"Parameters": [{"ParameterName": "work_mem", "ParameterValue": value}]})
    [group] = read_text(text, suffix=".json", source="x.json")
    assert "not-a-formula" in {finding.check for finding in lint(group)}


def test_devices_and_pipes_are_refused_without_waiting(tmp_path: Path) -> None:
    """/dev/zero has no end, and nobody writes to the pipe."""
    pipe = tmp_path / "pipe.tf"
    os.mkfifo(pipe)
    for path in (Path("/dev/zero"), pipe):
        with pytest.raises(UsageError, match="it is a device or a pipe"):
            read(path)
    with pytest.raises(UsageError, match="it is a directory"):
        read(tmp_path)


def test_sizes_are_capped(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(UsageError, match="is larger than 32 MB"):
        read(path)
    with pytest.raises(UsageError, match="standard input is larger than 32 MB"):
        read_stream(io.BytesIO(b" " * (LARGEST + 1)), "standard input")


def test_two_thousand_groups_are_linted() -> None:
    """Groups in one file mostly share their memory figures, which are computed once."""
    resources = {
        f"Group{number}": {
            "Type": "AWS::RDS::DBParameterGroup",
            "Properties": {
                "Family": "postgres17",
                "Parameters": {"work_mem": "4GB" if number == 1999 else "16384", "jit": "0"},
            },
        }
        for number in range(2000)
    }
    groups = read_text(json.dumps({"Resources": resources}), suffix=".json", source="x.json")
    wrong = [
        group.name
        for group in groups
        if "unit-suffix" in {finding.check for finding in lint(group)}
    ]
    assert (len(groups), wrong) == (2000, ["Group1999"])


def test_terraforms_json_may_hold_expressions() -> None:
    text = json.dumps({
        "locals": {"pages": 131072},
        "resource": {"aws_db_parameter_group": {"app": {"family": "postgres17", "parameter": [
            {"name": "effective_cache_size", "value": "${local.pages * 2}"},
            {"name": "work_mem", "value": '${var.big ? "8192" : "4096"}'},
            {"name": "jit", "value": "${var.jit}"},
        ]}}},
    })  # fmt: skip
    [group] = read_text(text, suffix=".json", source="x.tf.json")
    cache, work, jit = group.entries
    assert cache.value == "262144"
    assert (work.value, work.either) == (None, ("8192", "4096"))
    assert (jit.value, jit.either) == (None, ())


def test_of_terraforms_json_a_local_that_is_a_template_is_not_known() -> None:
    body = {"family": "${local.f}", "parameter": {"name": "work_mem", "value": "${local.w}"}}
    document = {
        "locals": {"f": "postgres${var.v}", "w": "4096"},
        "resource": {"aws_db_parameter_group": {"a": body}},
    }
    for text in (
        json.dumps(document),
        json.dumps({**document, "resource": [document["resource"]]}),
    ):
        [group] = read_text(text, suffix=".json", source="a.tf.json")
        assert (group.family, group.unknown_family) == (None, "${local.f}")
        assert values(group) == {"work_mem": "4096"}
    listed = {"resource": {"aws_db_parameter_group": {"a": [body]}}, "locals": document["locals"]}
    [group] = read_text(json.dumps(listed), suffix=".json", source="a.tf.json")
    assert values(group) == {"work_mem": "4096"}


@pytest.mark.parametrize("name", ["Marker", "NextToken"])
def test_of_awss_answer_a_page_is_not_the_whole(name: str) -> None:
    rows = [{"ParameterName": "work_mem", "ParameterValue": "4096", "Source": "user"}]
    [group] = read_text(json.dumps({"Parameters": rows}), suffix=".json", source="-")
    assert group.unread == ()
    [group] = read_text(json.dumps({"Parameters": rows, name: "abc"}), suffix=".json", source="-")
    assert group.unread == (f"what follows the first page: the answer has a {name}",)


def test_properties_and_families_that_a_template_computes_are_told() -> None:
    group_type = "AWS::RDS::DBParameterGroup"
    properties = {"Family": {"Ref": "X"}, "Fn::Transform": {"Name": "AWS::Include"}}
    template = {"Resources": {"G": {"Type": group_type, "Properties": properties}}}
    [group] = read_text(json.dumps(template), suffix=".json", source="a.json")
    assert group.unread == ("Properties on line 1",)
    assert (group.family, group.unknown_family) == (None, "Family: Ref: …")


def test_groups_that_a_template_repeats_are_read_but_for_its_variables() -> None:
    """As in the CloudFormation user guide: Fn::ForEach of resources, one loop in another."""
    body = """
    "${Env}Group":
      Type: AWS::RDS::DBParameterGroup
      Properties:
        Family: %s
        Parameters: {work_mem: "16777216", max_connections: "${Env}"}
    "${Env}Database":
      Type: AWS::RDS::DBInstance
      Properties:
        DBInstanceClass: "db.${Size}.large"
        DBParameterGroupName: !Ref "${Env}Group"
"""
    template = "Resources:\n  Fn::ForEach::All:\n  - Env\n  - [Test, Live]\n  -" + body
    (group,) = yaml(template % "postgres17")
    assert (group.name, group.family, group.unknown_family) == ("${Env}Group", "postgres17", "")
    memory, connections = group.entries
    assert (memory.value, memory.line) == ("16777216", 10)
    assert (connections.value, connections.unknown) == (None, "${Env}")
    (user,) = group.users
    assert user.class_names == ()
    (group,) = yaml(template % "postgres${Env}")
    assert (group.family, group.unknown_family) == (None, "Family: postgres${Env}")
    nested = "Resources:\n  Fn::ForEach::Outer:\n  - Size\n  - [r6g]\n  - Fn::ForEach::Inner:\n"
    nested += "    - Env\n    - [Test]\n    -" + body.replace("\n  ", "\n    ")
    assert len(yaml(nested % "postgres17")) == 1
