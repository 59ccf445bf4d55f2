"""The examples in docstrings (``>>>``) give what they show."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parent.parent / "packages"
MODULES = [
    ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
    for source in sorted(PACKAGES.glob("*/src"))
    for path in sorted(source.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


def test_there_are_examples() -> None:
    assert len(MODULES) > 50


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_give_what_they_show(name: str) -> None:
    result = doctest.testmod(import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
