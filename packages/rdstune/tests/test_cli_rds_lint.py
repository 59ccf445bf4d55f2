"""`rdstune lint` through the real command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from command_line import run
from rdstune.cli import rdstune

WRONG = """\
resource "aws_db_parameter_group" "app" {
  name   = "app-pg17"
  family = "postgres17"
  parameter {
    name         = "shared_buffers"
    value        = "{DBInstanceClassMemory/4}"
    apply_method = "pending-reboot"
  }
  parameter {
    name  = "work_mem"
    value = "4096"
  }
}
"""
RIGHT = WRONG.replace("/4}", "/40960}")
ANSWER = json.dumps({"Parameters": [{"ParameterName": "work_mem", "ParameterValue": "4MB"}]})


def lint(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(rdstune, ["lint", "--check", *arguments], input=text)


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    path = tmp_path / "main.tf"
    path.write_text(WRONG)
    return str(path)


def test_a_mistake_is_shown_with_its_place_its_reason_and_its_remedy(wrong: str) -> None:
    result = lint(wrong)
    assert result.exit_code == 3
    assert result.stdout == (
        f"{wrong}:6: error: shared_buffers: {{DBInstanceClassMemory/4}} asks for 2,048 times the "
        "memory\n"
        "    why: shared_buffers is measured in units of 8kB, not in bytes\n"
        "    remedy: Write {DBInstanceClassMemory/32768}\n"
    )
    assert result.stderr == "1 error in 2 parameters\n"


def test_nothing_wrong_is_nothing_on_stdout_and_done(tmp_path: Path) -> None:
    path = tmp_path / "main.tf"
    path.write_text(RIGHT)
    result = lint(str(path))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "nothing to fix in 2 parameters\n"


def test_json_is_one_document_of_groups_and_findings(wrong: str) -> None:
    result = lint(wrong, "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout) == {
        "schema": "mrtuner.rds.lint/1",
        "groups": [
            {
                "name": "app-pg17",
                "family": "postgres17",
                "file": wrong,
                "line": 1,
                "parameters": 2,
                "findings": [
                    {
                        "check": "wrong-unit",
                        "severity": "error",
                        "parameter": "shared_buffers",
                        "what": "{DBInstanceClassMemory/4} asks for 2,048 times the memory",
                        "why": "shared_buffers is measured in units of 8kB, not in bytes",
                        "remedy": "Write {DBInstanceClassMemory/32768}",
                        "file": wrong,
                        "line": 6,
                        "judged": True,
                    }
                ],
            }
        ],
    }


def test_several_files_are_one_answer(wrong: str, tmp_path: Path) -> None:
    other = tmp_path / "answer.json"
    other.write_text(ANSWER)
    result = lint(wrong, str(other), "--family", "postgres17")
    assert result.exit_code == 3
    assert result.stderr == "2 errors in 3 parameters\n"


@pytest.mark.parametrize("text", [ANSWER, WRONG], ids=["json", "terraform"])
def test_a_pipe_is_read(text: str) -> None:
    result = lint("-", "--family", "postgres17", text=text)
    assert result.exit_code == 3
    assert result.stdout.startswith("standard input:")


def test_an_empty_pipe_is_a_mistake_of_usage() -> None:
    result = lint("-", text="")
    assert result.exit_code == 2
    assert "standard input is empty" in result.stderr


def test_only_the_classes_that_count_are_tried(tmp_path: Path) -> None:
    """2147483647 kB are 2 TB: some classes have that, db.r6g.xlarge does not."""
    path = tmp_path / "main.tf"
    path.write_text(
        RIGHT.replace('"4096"', '"2097152"').replace("work_mem", "maintenance_work_mem")
    )
    assert "more-than-memory" in lint(str(path), "--json").stdout
    assert lint(str(path), "--class", "db.r6g.16xlarge").stdout == ""
    assert lint(str(path), "--smallest", "db.r6g.16xlarge").stdout == ""


def test_a_missing_file_and_an_unknown_class_are_said(wrong: str) -> None:
    missing = lint("missing.tf")
    assert missing.exit_code == 2
    assert missing.stderr.startswith("error: cannot read missing.tf: ")
    unknown = lint(wrong, "--class", "db.r6g.xlrage")
    assert unknown.exit_code == 2
    assert "db.r6g.xlarge" in unknown.stderr


def test_it_is_a_command_of_mrtuner_rds_too(wrong: str) -> None:
    assert run("rds", "lint", wrong, "--check").exit_code == 3


def test_without_check_a_mistake_is_told_and_is_no_failure(wrong: str) -> None:
    done = CliRunner().invoke(rdstune, ["lint", wrong])
    assert (done.exit_code, done.stdout) == (0, lint(wrong).stdout)
