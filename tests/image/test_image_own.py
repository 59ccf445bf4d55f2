"""The image of this repository: nothing is left to advise."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import pytest
from distribution_requirements import required

from mrtuner.image.advice.advise import advise
from mrtuner.image.commits import is_shallow
from mrtuner.image.context import read_context
from mrtuner.image.cost import cost
from mrtuner.image.dockerfile import parse
from mrtuner.image.ignore import rules_for

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "Dockerfile"


def test_its_requirements_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["history"]]
    (line,) = [
        one
        for stage in parse(RECIPE.read_text()).stages
        for one in stage.steps
        if one.name == "RUN" and "click" in one.text
    ]
    assert shlex.split(line.text)[3:] == required(wanted)


def test_only_what_is_installed_is_sent() -> None:
    entries = read_context(ROOT, rules_for(ROOT, RECIPE)).entries
    assert {entry.path.partition("/")[0] for entry in entries} == {
        "LICENSE", "README.md", "pyproject.toml", "src",
    }  # fmt: skip
    assert not [entry.path for entry in entries if "__pycache__" in entry.path]


def test_a_line_of_code_leaves_its_requirements_alone() -> None:
    found = cost(ROOT)
    (code,) = [one for one in found.changes if one.kind == "code"]
    states = dict(code.states)
    lines = {line.line: line.text for line in found.lines}
    again = [lines[number] for number, state in states.items() if state != "cached"]
    assert [text.split()[0] for text in again] == ["COPY", "RUN", "COPY", "USER", "ENTRYPOINT"]
    assert not any("click" in text for text in again)


def test_the_advice_finds_nothing_more() -> None:
    assert advise(ROOT).together.applied == ()


def test_commits_beside_the_source_push_nothing() -> None:
    if not (ROOT / ".git").exists() or is_shallow(ROOT):
        pytest.skip("this is no clone with its history")
    commits = cost(ROOT, history=30).commits
    assert commits is not None
    for one in commits:
        inside = any(path.startswith("src/") for path in one.commit.paths)
        beside = {"pyproject.toml", "README.md", "LICENSE"} & set(one.commit.paths)
        if not one.commit.recipe:
            assert (one.first is not None) == bool(inside or beside), one.commit.subject
