"""Checks of documents against their JSON Schemas in docs/reference/schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]

_SCHEMAS = Path(__file__).parents[1] / "docs" / "reference" / "schemas"


def assert_valid(document: Mapping[str, Any], schema: str) -> None:
    """Fail if the document, as JSON, does not satisfy a schema such as ``mrtuner.tune/1``."""
    path = _SCHEMAS / f"{schema.replace('/', '-')}.json"
    jsonschema.validate(json.loads(json.dumps(document)), json.loads(path.read_text("utf-8")))
