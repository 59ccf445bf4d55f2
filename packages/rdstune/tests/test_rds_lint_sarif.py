"""Lint in a code review: SARIF, and the hook of pre-commit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner

from rdstune.cli import rdstune

HOOKS = Path(__file__).parents[3] / ".pre-commit-hooks.yaml"
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


def test_pre_commit_runs_the_hook_and_passes_over_terraform_without_a_group(
    tmp_path: Path,
) -> None:
    hooks, place = tmp_path / "hooks", tmp_path / "place"
    for directory in (hooks, place):
        directory.mkdir()
        git(directory, "init", "--quiet")
    (hooks / HOOKS.name).write_text(HOOKS.read_text())
    git(hooks, "add", ".")
    git(hooks, "commit", "--quiet", "--message", "hooks")
    (place / "network.tf").write_text('resource "aws_vpc" "main" {\n  cidr_block = "x"\n}\n')
    (place / "notes.md").write_text(WRONG)
    git(place, "add", ".")
    fine = pre_commit(place, hooks)
    assert (fine.returncode, "Passed" in fine.stdout) == (0, True), fine.stdout + fine.stderr
    (place / "main.tf").write_text(WRONG)
    git(place, "add", ".")
    wrong = pre_commit(place, hooks)
    assert wrong.returncode == 1
    assert "main.tf:5: error: shared_buffers" in wrong.stdout
    assert run(str(place / "network.tf")).exit_code != 0  # without --check it was meant to have one


def git(directory: Path, *arguments: str) -> None:
    somebody = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com")
    subprocess.run(["git", "-C", str(directory), *somebody, *arguments], check=True)


def pre_commit(place: Path, hooks: Path) -> subprocess.CompletedProcess[str]:
    """Let pre-commit itself run the hook in a repository."""
    return subprocess.run(
        [sys.executable, "-m", "pre_commit", "try-repo", str(hooks), "rdstune-lint", "--all-files"],
        cwd=place, capture_output=True, text=True, check=False,
        env=os.environ | {
            "PRE_COMMIT_HOME": str(place.with_name("home")),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
    )  # fmt: skip


def test_two_formats_at_once_are_refused(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text(WRONG)
    result = run(str(tmp_path / "main.tf"), "--json", "--format", "sarif")
    assert result.exit_code != 0
    assert "cannot be used together" in result.output
