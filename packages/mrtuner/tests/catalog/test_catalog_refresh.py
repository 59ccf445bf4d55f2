"""The committed file is what the committed command makes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refresh_parameters import refreshed

import mrtuner.catalog
from mrtuner.catalog import MAJORS, parameters
from mrtuner.catalog.spans import Fields, fold, timeline
from mrtuner.postgres.binaries import Binaries
from servers import binaries, debian_binaries

DIRECTORY = Path(mrtuner.catalog.__file__).parent


def committed() -> Any:
    return json.loads((DIRECTORY / "parameters.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("find", "major"), [(binaries, 18), (debian_binaries, 18), (binaries, 19)])
def test_reading_a_server_again_changes_nothing(
    find: Callable[[int], Binaries], major: int
) -> None:
    """Whatever libraries it was built with."""
    again = json.loads(refreshed(committed(), [find(major).directory]))
    assert again["parameters"] == committed()["parameters"]


def test_writing_without_a_server_gives_the_same_text() -> None:
    text = (DIRECTORY / "parameters.json").read_text(encoding="utf-8")
    assert refreshed(committed(), []) == text


def test_an_unchanged_parameter_is_one_span_and_a_change_carries_only_itself() -> None:
    by_major: dict[int, Fields] = {
        13: {"vartype": "integer", "max": 1},
        14: {"vartype": "integer", "max": 1},
        15: {"vartype": "enum"},
    }
    folded = fold(by_major)
    assert folded == [
        {"since": 13, "until": 14, "vartype": "integer", "max": 1},
        {"since": 15, "until": 15, "vartype": "enum", "max": None},
    ]
    assert timeline({"p": folded}) == {"p": by_major}


def test_a_parameter_that_went_and_came_back_has_a_gap() -> None:
    by_major: dict[int, Fields] = {13: {"max": 1}, 15: {"max": 1}}
    folded = fold(by_major)
    assert [(span["since"], span["until"]) for span in folded] == [(13, 13), (15, 15)]
    assert timeline({"p": folded}) == {"p": by_major}


def hand_written(file: str) -> Any:
    return json.loads((DIRECTORY / file).read_text(encoding="utf-8"))


def test_every_hand_written_entry_names_its_source() -> None:
    builds = hand_written("builds.json")
    entries = [entry for name, entry in builds.items() if name != "//"]
    entries += [e for said in hand_written("meanings.json")["meanings"].values() for e in said]
    assert all(entry["source"] for entry in entries)


def test_every_hand_written_name_is_known_to_some_major() -> None:
    names = hand_written("summaries.json").keys() | hand_written("meanings.json")["meanings"].keys()
    names |= hand_written("builds.json").keys() - {"//"}
    assert names <= committed()["parameters"].keys()


def test_every_parameter_can_read_its_own_default() -> None:
    """Where no server judges, at least bounds, type and default agree with one another."""
    for known in (known for major in MAJORS for known in parameters(major).values()):
        if known.default is not None:
            known.check(known.default)
            assert known.parse(known.show(known.default)) == known.default
