"""The lab's page and pictures, from what was measured for the documentation."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mrtuner.documents import convert
from mrtuner.failover.lab import page as failover_lab_page
from mrtuner.failover.lab.document import PlayedScenario

RECORD = Path(__file__).resolve().parents[4] / "docs" / "failover-measured.json"


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return record


def test_all_that_is_in_the_documentation_fits(told: dict[str, Any]) -> None:
    """The test compares with the bands itself, and does not rely on the recorded verdicts."""
    trials = told["selftest"]["trials"]
    assert len(trials) == 29
    for trial in trials:
        low, high = trial["predicted"]["low"] - 0.1, trial["predicted"]["high"] + 0.1
        assert all(low <= hang <= high for hang in trial["measured"]), trial["setting"]
    for one in told["scenarios"]:
        for case in one["cases"]:
            band = case["predicted"]
            for hang in case["measured"]:
                if band is None or hang is None:
                    assert band is hang is None or case["fits"] is None, case["case"]
                    continue
                assert band["low"] - case["slack"] <= hang <= band["high"] + case["slack"]


@pytest.fixture(scope="module")
def page(told: dict[str, Any]) -> str:
    """The page of two scenarios, one of which is there twice."""
    one, other = (convert(one, PlayedScenario) for one in told["scenarios"][:2])
    return failover_lab_page.page([one, other, one])


def test_the_page_has_a_picture_and_tables_for_each_scenario(page: str) -> None:
    number = 3
    assert page.count('class="on-wide"') == page.count('class="on-narrow"') == number
    assert page.count("<caption") == 2 * number
    assert "<h1>Clients hung as long as predicted</h1>" in page
    assert not re.search(r'(?:src|href)="https?:', page)


def test_an_id_stands_once_on_the_page(page: str) -> None:
    """Also when the same scenario was played twice."""
    found = re.findall(r'\bid="([^"]+)"', page)
    assert len(found) == len(set(found))


def test_a_hang_outside_its_band_is_the_headline(told: dict[str, Any]) -> None:
    one = convert({**told["scenarios"][0], "fits": False}, PlayedScenario)
    assert "<h1>A hang is outside its predicted band</h1>" in failover_lab_page.page([one])
