"""The picture of dead rows over time, and the page around it."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any
from xml.etree import ElementTree

import pytest

from mrtuner.documents import read
from mrtuner.vacuum.document import TableEntry, TableRates, VacuumDocument
from mrtuner.vacuum.page import computed, page, picture

NEVER = dict.fromkeys(("produce", "vacuum", "measured", "busy"))
RATES = dict.fromkeys((one.name for one in fields(TableRates)), 0) | {
    "seconds": 900.0, "dead": 100.0, "hot_share": None, "newpage_share": None,
    "vacuum_seconds": None,
}  # fmt: skip


CAPACITY = {
    "words": "vacuum needs 1 %", "used": 0.01, "used_then": 0.01, "limit": 200.0, "delay_ms": 2.0,
    "keeps_up": True,
}  # fmt: skip


def work(**given: Any) -> dict[str, Any]:
    return {"trigger": 20_050, "cost": 0.0, **NEVER, **given}


def table(**given: Any) -> dict[str, Any]:
    """A table in which 100 rows die a second."""
    counters = dict.fromkeys((one.name for one in fields(TableEntry)), 0)
    plain = counters | dict.fromkeys(
        ("parent", "newpage_updated", "vacuum_seconds", "toast", "lifetime", "toast_now",
         "amplification")
    ) | {
        "oid": 1, "schema": "public", "name": "account", "kind": "long-lived, often updated",
        "because": "100 updates/s", "rates": RATES, "hints": ["is every index needed?"],
        "options": {}, "now": work(produce=200.5, vacuum=1.0),
        "then": work(trigger=6_050, produce=60.5, vacuum=1.0, measured=3.0),
        "advice": [{"name": "autovacuum_vacuum_scale_factor", "now": None, "value": "0.01",
                    "because": "many updates", "source": "notes"}],
    }  # fmt: skip
    return {**plain, **given}


def told(*tables: dict[str, Any], **given: Any) -> VacuumDocument:
    plain = {
        "schema": "mrtuner.vacuum/1", "database": "app", "version_num": 180_000, "chunk": 1996,
        "watched": 900.0, "recorded": False, "capacity": CAPACITY, "settings": [],
        "tables": list(tables), "blockers": [], "wraparound": [], "proofs": [], "missing": [],
        "unjudged": [],
    }  # fmt: skip
    return read({**plain, **given}, VacuumDocument)


def test_dead_rows_rise_to_what_starts_a_vacuum_and_on_while_it_works() -> None:
    """By hand: 200.5 s at 100 a second are 20,050, and 1 s of vacuum 100 more; with the advice
    60.5 s and the 3 s that the server took: 6,350. Three rounds of the slower one are 601.5 s."""
    (panel,) = computed(told(table()))
    assert panel.now.at[:3] == [0.0, 201.5, 201.5]
    assert panel.now.dead[:3] == [0.0, 20_150, 100]
    assert max(panel.then.dead) == 6_350
    assert panel.then.dead.count(6_350) == 9
    assert panel.then.at[-1] == pytest.approx(604.5)


def test_a_vacuum_that_is_never_done_is_a_line_that_only_rises() -> None:
    never = work(produce=200.5, vacuum=300.0)
    (panel,) = computed(told(table(now=never)))
    assert list(panel.now.dead) == [0, pytest.approx(60_150)]


def test_only_tables_whose_vacuum_is_to_come_at_another_time_are_drawn() -> None:
    assert computed(told(table(now=table()["then"]))) == []
    many = [table(oid=oid, rates={**RATES, "dead": oid * 1.0}) for oid in range(1, 9)]
    assert len(computed(told(*many))) == 4


def test_the_picture_says_in_words_what_it_shows() -> None:
    svg = picture(computed(told(table())), key="v")
    root = ElementTree.fromstring(svg)
    (desc,) = root.iter("{http://www.w3.org/2000/svg}desc")
    assert "up to 20,150 with current settings, 6,350 as advised" in str(desc.text)


def test_the_page_serves_a_screen_reader_and_loads_nothing() -> None:
    html = page(told(table()))
    assert 'role="img"' in html
    assert "What to set and why, worst first" in html
    assert "needed?." not in html
    assert not re.findall(r"(?:src|href)=\"https?://", html)
    assert page(told(table())) == html


def test_a_vacuum_that_removes_nothing_does_not_keep_up() -> None:
    lost = {"what": "prepared transaction", "name": "tx", "age": 5, "seconds": 9000.0,
            "remedy": "Ask.", "sql": None, "serious": True, "throughout": False}  # fmt: skip
    assert "Vacuum is held back" in page(told(blockers=[lost]))
    assert "Vacuum keeps up" in page(told(blockers=[{**lost, "serious": False}]))


def test_the_headline_says_whether_vacuum_keeps_up() -> None:
    needs = CAPACITY | {"words": "vacuum needs much", "used": 0.5}
    said = {
        "Vacuum keeps up; 1 table should be vacuumed sooner than by default": told(table()),
        "Vacuum keeps up": told(table(advice=[])),
        "Vacuum does not keep up; with this advice it would": told(capacity=needs | {"used": 1.2}),
        "Vacuum cannot keep up": told(capacity=needs | {"used": 9, "keeps_up": False}),
    }
    for headline, document in said.items():
        assert f"<h1>{headline}</h1>" in page(document)


def test_a_database_with_nothing_to_say_has_a_page_too() -> None:
    html = page(told())
    assert "Nothing to set for any table." in html
    assert "<svg" not in html


def test_names_cannot_become_markup() -> None:
    html = page(told(table(name="<script>alert(1)</script>")))
    assert "<script>" not in html
