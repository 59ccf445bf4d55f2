"""Sibling threads, in an emulated guest that has them: the knee, its cause, and its end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from smt_guest import NEEDED, run

from machine import needs

pytestmark = [pytest.mark.quiet, pytest.mark.timeout(1200), needs(*NEEDED)]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is found with both threads of each core, and with the siblings off-line."""
    threads, cores = run(tmp_path_factory.mktemp("guest"), "--seconds 1 --repeats 4")
    return json.loads(threads), json.loads(cores)


def test_the_knee_is_after_the_cores_and_its_cause_is_sibling_threads(
    said: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    seen, _ = said
    assert seen["plan"]["counts"] == [1, 2, 3, 4, 5, 6, 7, 8]
    bend = seen["diagnosis"]["bends"][0]
    assert (bend["at"], bend["cause"]) == (2, "sibling threads")


def test_pairs_of_siblings_stand_out(said: tuple[dict[str, Any], dict[str, Any]]) -> None:
    seen, _ = said
    found = {(pair["first"], pair["second"]) for pair in seen["pairs"] if pair["siblings"]}
    assert found == {(0, 1), (2, 3)}


def test_with_the_siblings_off_line_there_is_saturation_only(
    said: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    _, seen = said
    bends = [(bend["at"], bend["cause"]) for bend in seen["diagnosis"]["bends"]]
    assert bends == [(2, "saturation")]
