"""The page of five servers shows what those servers are told today."""

from __future__ import annotations

import re

import pytest

from docs import five_servers

pytestmark = pytest.mark.timed

#: What differs from run to run: how long the server has run, how large its databases are.
VARIES = re.compile(r"cover [\d.]+ \S+ and \d+ checkpoints?|in the [\d.]+ \S+ that|data [\d.]+ MB")


def words(text: str) -> list[str]:
    return VARIES.sub("…", " ".join(text.split())).split()


@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    """The page's answers by title."""
    parts = five_servers.PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    return {part.partition("\n")[0]: part.split("```text\n")[1].split("```")[0] for part in parts}


@pytest.mark.parametrize("example", five_servers.EXAMPLES, ids=lambda one: one.title)
def test_a_server_is_told_what_the_page_shows(
    example: five_servers.Example, sections: dict[str, str]
) -> None:
    assert words("\n".join(five_servers.answer(example))) == words(sections[example.title])
