"""The page on 19 names every parameter that differs from 18, and nothing that does not."""

from __future__ import annotations

import re

from docs.generate import shown_default
from docs_pages import DOCS

from mrtuner.catalog import Parameter, parameters

PAGE = (DOCS / "concepts" / "postgresql-19.md").read_text(encoding="utf-8")
OLD, NEW = parameters(18), parameters(19)


def rows(title: str) -> dict[str, list[str]]:
    """The cells of a section's table after the parameter, without the marks of code."""
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    assert section is not None
    lines = re.findall(r"^\| `(\w+)` \| (.*) \|$", section[1], re.M)
    return {name: [cell.strip().strip("`") for cell in rest.split(" | ")] for name, rest in lines}


def default(known: Parameter) -> str:
    return shown_default(known).strip("`")


def test_each_new_parameter_is_there_with_its_default() -> None:
    assert {name: cells[0] for name, cells in rows("New").items()} == {
        name: default(known) for name, known in NEW.items() if name not in OLD
    }


def test_each_parameter_that_is_gone_is_there() -> None:
    assert rows("Gone").keys() == OLD.keys() - NEW.keys()


def test_each_changed_default_is_there() -> None:
    changed = {
        name: [default(OLD[name]), default(NEW[name])]
        for name in OLD.keys() & NEW.keys()
        if OLD[name].default != NEW[name].default
    }
    assert {name: cells[:2] for name, cells in rows("Another default").items()} == changed


def test_each_other_type_or_context_is_there() -> None:
    """And more: what pg_settings does not show, such as a meaning."""
    other = {
        name
        for name in OLD.keys() & NEW.keys()
        if (OLD[name].vartype, OLD[name].context) != (NEW[name].vartype, NEW[name].context)
    }
    assert other == {"log_min_messages", "wal_receiver_timeout"}
    assert other <= rows("Another meaning or type").keys()
