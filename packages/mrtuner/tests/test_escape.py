"""Foreign text is safe to show: what acts on a terminal is escaped, readable text stays."""

from __future__ import annotations

import json
import unicodedata

import pytest

from mrtuner.escape import printable, printable_json


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\rb\nc\td", r"a\rb\nc\td"),
        ("\x9b2J\x7f\x85", r"\x9b2J\x7f\x85"),
        ("\u202egnp.exe\u202c", r"\u202egnp.exe\u202c"),
        ("\u2066a\u2069\u200f\u061c", r"\u2066a\u2069\u200f\u061c"),
        ("a\u200bb\ufeff\u2028\u2029", r"a\u200bb\ufeff\u2028\u2029"),
        ("\udcff", r"\udcff"),  # a byte of a file's name that is not UTF-8
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_acts_on_a_terminal_is_escaped(given: str, shown: str) -> None:
    assert printable(given) == shown


NAMES = ["größe", "naïve", "表", "таблица", "جدول", "शब्द", "می\u200cخواهم", "👩\u200d💻", "o'clock"]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_any_language_stay_as_they_are(name: str) -> None:
    assert printable(name) == name


def test_no_control_character_is_left_in_all_of_unicode() -> None:
    """By the Unicode database: controls, line and paragraph separators, surrogates, and characters
    that change the direction of text."""
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    for number in range(0x110000):
        one = chr(number)
        acts = unicodedata.category(one) in {"Cc", "Zl", "Zp", "Cs"}
        if acts or unicodedata.bidirectional(one) in turning:
            assert printable(one).isascii(), hex(number)


def test_json_shows_nothing_else_and_holds_the_same() -> None:
    name = "a\x1b\x9b\u202e\n\U000e0041 größe"
    text = printable_json(json.dumps({"name": name}, ensure_ascii=False))
    assert json.loads(text) == {"name": name}
    assert printable(text) == text
    assert "größe" in text


def test_a_page_keeps_its_lines() -> None:
    assert printable("SELECT\n\t1 \x1b", lines=True) == "SELECT\n\t1 \\x1b"
