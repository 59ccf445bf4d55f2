"""The record of measured hangs in the documentation satisfies today's schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from docs_pages import DOCS
from jsonschema import ValidationError  # type: ignore[import-untyped]

from json_schemas import assert_valid

LAB = "mrtuner.failover.lab/1"


@pytest.fixture(scope="module")
def record() -> Any:
    return json.loads((DOCS / "failover-measured.json").read_text(encoding="utf-8"))


def test_the_recorded_self_test_satisfies_its_schema(record: Any) -> None:
    assert_valid(record["selftest"], "mrtuner.failover.selftest/1")


def test_the_recorded_scenarios_satisfy_their_schema(record: Any) -> None:
    assert_valid({"schema": LAB, "scenarios": record["scenarios"]}, LAB)
    broken = record["scenarios"][0] | {"fenced": "never"}
    with pytest.raises(ValidationError, match="never"):
        assert_valid({"schema": LAB, "scenarios": [broken]}, LAB)
