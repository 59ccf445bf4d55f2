"""The section of `mrtuner.failover.lab/1` names every field that is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from docs_pages import DOCS

PAGE = (DOCS / "reference" / "json.md").read_text(encoding="utf-8")
#: Names that users give: libpq's parameters, sysctls.
OWN = ("parameters", "sysctls")


def keys(told: Any) -> Iterator[str]:
    if isinstance(told, list):
        for each in told:
            yield from keys(each)
    elif isinstance(told, dict):
        for name, value in told.items():
            yield name
            if name not in OWN:
                yield from keys(value)


def test_every_field_of_a_scenario_is_described() -> None:
    record = json.loads((DOCS / "failover-measured.json").read_text(encoding="utf-8"))
    section = PAGE.split("## `mrtuner.failover.lab/1`\n")[1].split("\n## ")[0]
    described = set(re.findall(r"`([\w.]+)`", section))
    assert set(keys(record["scenarios"])) - described == set()
