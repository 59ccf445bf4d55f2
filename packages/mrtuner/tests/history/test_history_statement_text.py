"""No literal of a statement is kept."""

from __future__ import annotations

import pytest

from mrtuner.history.recording.statement_text import LONGEST, normalized


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("ALTER ROLE app PASSWORD 'hunter2'", "ALTER ROLE app PASSWORD ?"),
        ("CREATE USER u PASSWORD 'it''s'", "CREATE USER u PASSWORD ?"),
        (r"SELECT E'a\'b' || U&'\0041'", "SELECT ? || ?"),
        ("DO $body$ SELECT 'secret' $body$", "DO ?"),
        ("SELECT $$secret$$, $1", "SELECT ?, $1"),
        ("SELECT 1.5e-3, .5, 1_000, x1, t2.c3", "SELECT ?, ?, ?, x1, t2.c3"),
        ("SELECT 1 /* user='bob' */ -- token=abc", "SELECT ?"),
        ('SELECT "a 5" FROM "t 1"', 'SELECT "a 5" FROM "t 1"'),
        ("SELECT 'never ends", "SELECT ?"),
        ("COPY t FROM\n\t'/etc/passwd'", "COPY t FROM ?"),
        ("", ""),
    ],
)
def test_literals_and_comments_go(text: str, kept: str) -> None:
    assert normalized(text) == kept


def test_a_long_text_is_cut() -> None:
    assert len(normalized("SELECT " + ", ".join(f"column_{n}" for n in range(5000)))) == LONGEST
