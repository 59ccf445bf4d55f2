"""Lint in a code review: SARIF, and the hook of pre-commit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from click.testing import CliRunner

from rdstune.cli import rdstune

ROOT = Path(__file__).parents[3]
WRONG = """\
resource "aws_db_parameter_group" "app" {
  family = "postgres17"
  parameter {
    name         = "shared_buffers"
    value        = "{DBInstanceClassMemory/4}"
    apply_method = "pending-reboot"
  }
  parameter {
    name  = "work_mem"
    value = aws_ssm_parameter.work_mem.value
  }
}
"""


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "additionalProperties": False,
        "required": required, "properties": properties,
    }  # fmt: skip


def many(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


TEXT = {"type": "string"}
#: An excerpt of OASIS's sarif-schema-2.1.0.json: the objects and properties that lint writes, as
#: closed as there, with the values of `kind` (3.27.9) and `level` (3.27.10).
SCHEMA = closed(
    ["version", "runs"],
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"enum": ["2.1.0"]},
    runs=many(closed(
        ["tool", "results"],
        tool=closed(["driver"], driver=closed(
            ["name"], name=TEXT, version=TEXT, rules=many(closed(["id"], id=TEXT)),
        )),
        results=many(closed(
            ["message"],
            ruleId=TEXT,
            ruleIndex={"type": "integer", "minimum": -1},
            kind={"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
            level={"enum": ["none", "note", "warning", "error"]},
            message=closed(["text"], text=TEXT),
            locations=many(closed([], physicalLocation=closed(
                [],
                artifactLocation=closed([], uri={"type": "string", "format": "uri-reference"}),
                region=closed([], startLine={"type": "integer", "minimum": 1}),
            ))),
        )),
    )),
)  # fmt: skip


def run(*arguments: str) -> Any:
    return CliRunner().invoke(rdstune, ["lint", *arguments])


@pytest.fixture
def told(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "a b.tf"
    path.write_text(WRONG)
    answer: dict[str, Any] = json.loads(run(str(path), "--format", "sarif").stdout)
    return answer


def test_sarif_is_valid(told: dict[str, Any]) -> None:
    jsonschema.validate(told, SCHEMA)


def test_each_finding_has_its_rule_its_level_and_its_line(told: dict[str, Any]) -> None:
    [lint] = told["runs"]
    rules = [rule["id"] for rule in lint["tool"]["driver"]["rules"]]
    wrong, unknown = (
        next(one for one in lint["results"] if one["ruleId"] == check)
        for check in ("wrong-unit", "not-known")
    )
    assert (wrong["kind"], wrong["level"]) == ("fail", "error")
    assert rules[wrong["ruleIndex"]] == "wrong-unit"
    [place] = wrong["locations"]
    assert place["physicalLocation"]["region"] == {"startLine": 5}
    assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("/a%20b.tf")
    assert "remedy: Write {DBInstanceClassMemory/32768}" in wrong["message"]["text"]
    # 3.27.10: if kind is not "fail", level is "none".
    assert (unknown["kind"], unknown["level"]) == ("open", "none")


def test_the_hook_passes_over_terraform_without_a_group(tmp_path: Path) -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, command, *options = hook["entry"].split()
    assert (program, command) == ("rdstune", "lint")
    (tmp_path / "network.tf").write_text('resource "aws_vpc" "main" {\n  cidr_block = "x"\n}\n')
    (tmp_path / "main.tf").write_text(WRONG)
    (tmp_path / "notes.md").write_text("")
    names = [
        str(each) for each in sorted(tmp_path.iterdir()) if re.search(hook["files"], str(each))
    ]
    assert [Path(name).name for name in names] == ["main.tf", "network.tf"]
    assert run(*options, *names).exit_code == 3
    assert run(*options, names[1]).exit_code == 0
    assert run(names[1]).exit_code != 0


def test_two_formats_at_once_are_refused(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text(WRONG)
    result = run(str(tmp_path / "main.tf"), "--json", "--format", "sarif")
    assert result.exit_code != 0
    assert "cannot be used together" in result.output
