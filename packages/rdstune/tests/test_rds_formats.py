"""Parameter groups in infrastructure formats: what the formats' own parsers read back."""

from __future__ import annotations

import ast
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hcl2
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mrtuner.aws.rows import ApplyMethod
from mrtuner.errors import BadValue
from rdstune.formats import GROUP_FORMATS, GroupLine, render_group

#: Name → value and method; None where the format has no place for a method.
Found = dict[str, tuple[str, str | None]]

NASTY = (
    "{DBInstanceClassMemory/32768}", "GREATEST({DBInstanceClassMemory*1024/63963136},65536)",
    "GREATEST(${DBInstanceVCPU*2},8)", "$${x}", "$$${x}", "%{x}", "%%{x}", "$", "%m [%p] ",
    "%t:%r:%u@%d:[%p]:", "it's", "''", '"', "\\", '\\"', "\\u0041", "\\${x}", "a, b", "#1", "",
    " ", "on", "off", "true", "null", "1e-05", "0.10", "012", "12:30:45", "~", "- a", "ünï", "🐘",
    "`id`", "$(id)", "!", "{{x}}", "x" * 300,
)  # fmt: skip


def line(
    name: str, value: str, method: ApplyMethod = "immediate", comment: str = "why"
) -> GroupLine:
    return GroupLine(name=name, value=value, method=method, comment=comment)


LINES = [
    line("shared_buffers", "{DBInstanceClassMemory/32768}", "pending-reboot", "a quarter"),
    line("max_worker_processes", "GREATEST(${DBInstanceVCPU*2},8)", "pending-reboot", "it's"),
    line("random_page_cost", "1.1"),
    line("rds.force_ssl", "1", comment=""),
]


def rendered(format: str, lines: list[GroupLine], *, cluster: bool = False) -> str:
    return render_group(
        format, lines, name="app-pg17", family="postgres17", cluster=cluster, notes=["A note."]
    )


def read_terraform(text: str) -> Found:
    options = hcl2.SerializationOptions(strip_string_quotes=True)
    [resource] = hcl2.loads(text, serialization_options=options)["resource"]
    [[group]] = [list(one.values()) for one in resource.values()]
    return {
        _plain(one["name"]): (_plain(one["value"]), _plain(one["apply_method"]))
        for one in group.get("parameter", ())
    }


def _plain(template: str) -> str:
    """The text that Terraform reads in a template without interpolations: `$${` means `${`."""
    return template.replace("$${", "${").replace("%%{", "%{")


def read_cloudformation(text: str) -> Found:
    [resource] = yaml.safe_load(text)["Resources"].values()
    parameters: dict[str, str] = resource["Properties"]["Parameters"]
    return {name: (value, None) for name, value in parameters.items()}


def read_cdk(text: str) -> Found:
    [call] = [one for one in calls(text) if ast.unparse(one.func).startswith("rds.Cfn")]
    parameters: dict[str, str] = ast.literal_eval(keyword(call, "parameters"))
    return {name: (value, None) for name, value in parameters.items()}


def read_pulumi(text: str) -> Found:
    arguments = [one for one in calls(text) if ast.unparse(one.func).endswith("ParameterArgs")]
    return {
        ast.literal_eval(keyword(one, "name")): (
            ast.literal_eval(keyword(one, "value")),
            ast.literal_eval(keyword(one, "apply_method")),
        )
        for one in arguments
    }


def calls(program: str) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Call)]


def keyword(call: ast.Call, name: str) -> ast.expr:
    [value] = [one.value for one in call.keywords if one.arg == name]
    return value


def read_script(text: str) -> Found:
    return {
        row["ParameterName"]: (row["ParameterValue"], row["ApplyMethod"])
        for batch in batches(text)
        for row in batch
    }


def batches(script: str) -> list[list[dict[str, str]]]:
    words = shlex.split(script, comments=True)
    return [
        json.loads(words[at + 1]) for at, word in enumerate(words) if word == "--parameters"
    ]  # fmt: skip


READERS: dict[str, Callable[[str], Found]] = {
    "terraform": read_terraform,
    "cloudformation": read_cloudformation,
    "cdk": read_cdk,
    "pulumi": read_pulumi,
    "aws-cli": read_script,
}
WITHOUT_METHODS = {"cloudformation", "cdk"}


def expected(format: str, lines: list[GroupLine]) -> Found:
    bare = format in WITHOUT_METHODS
    return {one.name: (one.value, None if bare else one.method) for one in lines}


def test_there_is_a_reader_for_every_format() -> None:
    assert READERS.keys() == GROUP_FORMATS.keys()


@pytest.mark.parametrize("cluster", [False, True], ids=["instance", "cluster"])
@pytest.mark.parametrize("format", GROUP_FORMATS)
def test_names_values_and_methods_are_read_back(format: str, cluster: bool) -> None:
    text = rendered(format, LINES, cluster=cluster)
    assert READERS[format](text) == expected(format, LINES)


@pytest.mark.parametrize("format", GROUP_FORMATS)
def test_every_nasty_value_survives(format: str) -> None:
    lines = [line(f"x{at}", value) for at, value in enumerate(NASTY)]
    assert READERS[format](rendered(format, lines)) == expected(format, lines)


@pytest.mark.parametrize("format", sorted(GROUP_FORMATS.keys() - {"terraform"}))
@given(
    value=st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=40),
    comment=st.text(max_size=40),
)
@settings(deadline=None, max_examples=60)
def test_any_printable_value_survives(format: str, value: str, comment: str) -> None:
    lines = [line("log_line_prefix", value, comment=comment)]
    assert READERS[format](rendered(format, lines)) == expected(format, lines)


@pytest.mark.parametrize("format", GROUP_FORMATS)
def test_reasons_and_notes_can_be_read(format: str) -> None:
    text = rendered(format, LINES)
    assert "A note." in text
    assert "a quarter (reboot)" in text
    assert text.endswith("\n")


@pytest.mark.parametrize("format", GROUP_FORMATS)
def test_an_empty_group_is_still_a_group(format: str) -> None:
    assert READERS[format](rendered(format, [])) == {}


def test_terraform_says_everything_it_needs() -> None:
    assert (
        rendered("terraform", LINES[:2])
        == """\
# A note.
resource "aws_db_parameter_group" "app_pg17" {
  name        = "app-pg17"
  family      = "postgres17"
  description = "MrTuner for postgres17"

  # a quarter (reboot)
  parameter {
    name         = "shared_buffers"
    value        = "{DBInstanceClassMemory/32768}"
    apply_method = "pending-reboot"
  }

  # it's (reboot)
  parameter {
    name         = "max_worker_processes"
    value        = "GREATEST($${DBInstanceVCPU*2},8)"
    apply_method = "pending-reboot"
  }
}
"""
    )


@pytest.mark.parametrize("cluster", [False, True], ids=["instance", "cluster"])
def test_cloudformation_is_a_template_that_the_linter_accepts(
    cluster: bool, tmp_path: Path
) -> None:
    import cfnlint.api

    template = tmp_path / "template.yaml"
    template.write_text(rendered("cloudformation", LINES, cluster=cluster), encoding="utf-8")
    assert cfnlint.api.lint_file(template) == []


@pytest.mark.parametrize(
    ("format", "instance", "cluster"),
    [
        ("terraform", '"aws_db_parameter_group"', '"aws_rds_cluster_parameter_group"'),
        ("cloudformation", "AWS::RDS::DBParameterGroup", "AWS::RDS::DBClusterParameterGroup"),
        ("cdk", "rds.CfnDBParameterGroup(", "rds.CfnDBClusterParameterGroup("),
        ("pulumi", "aws.rds.ParameterGroup(", "aws.rds.ClusterParameterGroup("),
        ("aws-cli", "modify-db-parameter-group", "modify-db-cluster-parameter-group"),
    ],
)
def test_a_cluster_group_is_another_resource(format: str, instance: str, cluster: str) -> None:
    assert instance in rendered(format, LINES)
    assert cluster not in rendered(format, LINES)
    assert cluster in rendered(format, LINES, cluster=True)


def test_a_script_sends_twenty_parameters_a_call() -> None:
    lines = [line(f"p{at}", "1") for at in range(45)]
    assert [len(batch) for batch in batches(rendered("aws-cli", lines))] == [20, 20, 5]


def test_a_script_runs_and_sends_what_it_says(tmp_path: Path) -> None:
    """A stand-in for the program records its arguments; the group does not exist yet."""
    import subprocess

    aws = tmp_path / "aws"
    aws.write_text(
        '#!/bin/sh\n[ "$2" != describe-db-parameter-groups ] || exit 254\n'
        f'for each in "$@"; do printf "%s\\0" "$each"; done >> {tmp_path}/calls\n'
    )
    aws.chmod(0o755)
    script = rendered("aws-cli", [line("log_line_prefix", "it's $HOME `id` \\ %m")])
    subprocess.run(
        ["sh"], input=script, text=True, check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}
    )
    words = (tmp_path / "calls").read_text().split("\0")
    assert words[:4] == [
        "rds",
        "create-db-parameter-group",
        "--db-parameter-group-name",
        "app-pg17",
    ]
    assert json.loads(words[words.index("--parameters") + 1]) == [
        {
            "ParameterName": "log_line_prefix",
            "ParameterValue": "it's $HOME `id` \\ %m",
            "ApplyMethod": "immediate",
        }
    ]


@pytest.mark.parametrize("name", ["1a", "a--b", "a-", "", "a.b", "default.postgres17", "a b", "é"])
def test_a_name_that_rds_refuses_is_refused(name: str) -> None:
    with pytest.raises(BadValue, match="is not a valid name for a parameter group"):
        render_group("terraform", LINES, name=name, family="postgres17")


def test_a_name_is_written_as_rds_stores_it() -> None:
    text = render_group("cloudformation", LINES, name="App-PG17", family="postgres17")
    assert 'DBParameterGroupName: "app-pg17"' in text


@pytest.mark.parametrize("format", ["cdk", "pulumi"])
@pytest.mark.parametrize("name", ["class", "none", "import"])
def test_a_name_that_is_a_word_of_python_makes_a_program_all_the_same(
    format: str, name: str
) -> None:
    text = render_group(format, LINES, name=name, family="postgres17")
    assert READERS[format](text) == expected(format, LINES)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line("a b", "1")], "is not the name of a parameter"),
        ([line("work_mem", "1\n2")], "line break or control character"),
        ([line("work_mem", "1"), line("Work_Mem", "2")], "is set twice"),
    ],
)
def test_lines_that_no_group_can_hold_are_refused(lines: list[GroupLine], message: str) -> None:
    with pytest.raises(BadValue, match=message):
        rendered("terraform", lines)


def test_an_unknown_method_is_refused() -> None:
    method: Any = "later"
    with pytest.raises(BadValue, match="unknown apply method 'later' for jit"):
        rendered("terraform", [line("jit", "0", method)])


def test_a_family_of_another_engine_is_refused() -> None:
    with pytest.raises(BadValue, match=r"'mysql8\.0' is not a family of PostgreSQL"):
        render_group("terraform", LINES, name="x", family="mysql8.0")


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadValue) as error:
        rendered("ansible", LINES)
    assert error.value.hint == "Known formats: terraform, cloudformation, cdk, pulumi, aws-cli."
