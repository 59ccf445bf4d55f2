"""The templates of the how-to are valid for CloudFormation and Terraform."""

from __future__ import annotations

import re
from pathlib import Path

import cfnlint.api
import hcl2

from mrtuner.rotate import lambda_handler

PAGE = Path(__file__).resolve().parents[4] / "docs" / "how-to" / "rotate-credentials.md"
HANDLER = "mrtuner.rotate.lambda_handler.handler"


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_template_is_one_that_cloudformation_takes(tmp_path: Path) -> None:
    template = tmp_path / "rotate.yaml"
    template.write_text(block("yaml"))
    assert cfnlint.api.lint_file(template) == []
    assert f"Handler: {HANDLER}\n" in block("yaml")


def test_the_terraform_is_terraform_and_names_the_function() -> None:
    found = hcl2.loads(block("terraform"))
    kinds = [next(iter(resource)).strip('"') for resource in found["resource"]]
    assert kinds == [
        "aws_lambda_function", "aws_lambda_permission", "aws_secretsmanager_secret_rotation",
    ]  # fmt: skip
    assert f'"{HANDLER}"' in block("terraform")
    assert callable(lambda_handler.handler)
