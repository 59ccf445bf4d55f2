"""The image of this repository: nothing is left to advise."""

from __future__ import annotations

import re
import shlex

import pytest

from distribution_requirements import required
from mrtuner import __version__ as VERSION
from mrtuner_image.advice.ranking import advise
from mrtuner_image.commits import is_shallow
from mrtuner_image.context import read_context
from mrtuner_image.cost import cost
from mrtuner_image.dockerfile import parse
from mrtuner_image.ignore import rules_for
from our_packages import PACKAGES, project
from servers import ROOT

RECIPE = ROOT / "Dockerfile"
SENT = re.compile(r"packages/[^/]+/(src/|(README\.md|LICENSE|pyproject\.toml)$)")


def test_its_requirements_are_those_of_the_packages() -> None:
    """The others require mrtuner, which is in the image, with the extra aws at most."""
    core = project("mrtuner")
    optional = core["optional-dependencies"]
    wanted = [*core["dependencies"], *optional["history"], *optional["aws"]]
    for package in PACKAGES[1:]:
        others = project(package)["dependencies"]
        assert {one for one in others if one.startswith("mrtuner")} <= {
            f"mrtuner=={VERSION}", f"mrtuner[aws]=={VERSION}",
        }  # fmt: skip
        wanted += [one for one in others if not one.startswith("mrtuner")]
    (line,) = [
        one
        for stage in parse(RECIPE.read_text()).stages
        for one in stage.steps
        if one.name == "RUN" and "click" in one.text
    ]
    assert shlex.split(line.text)[3:] == required(wanted)


def test_only_what_is_installed_is_sent() -> None:
    entries = read_context(ROOT, rules_for(ROOT, RECIPE)).entries
    assert {entry.path.partition("/")[0] for entry in entries} == {"packages"}
    within = {tuple(entry.path.split("/")[2:3]) for entry in entries if "/" in entry.path}
    assert within == {(), ("LICENSE",), ("README.md",), ("pyproject.toml",), ("src",)}
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
        if not one.commit.recipe:
            sent = any(SENT.match(path) for path in one.commit.paths)
            assert (one.first is not None) == sent, one.commit.subject
