"""Which statements of pg_stat_statements are replayed, and why the others are left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from mrtuner.bench.load.statements import replay
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.explain import Statement

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

TABLES = """
CREATE TABLE replayed (id int PRIMARY KEY, name text, code int);
INSERT INTO replayed SELECT n, 'name ' || n % 3, n % 3 FROM generate_series(1, 3000) n;
ANALYZE replayed;
"""


@pytest.fixture
def session(embedded: Cluster) -> Iterator[Connection]:
    with connect(embedded.dsn()) as made:
        made.execute(TABLES)
        yield made
        made.execute("DROP TABLE replayed")


def one(text: str, calls: int = 10, seconds: float = 1.0) -> Statement:
    return Statement(id=1, text=text, role=None, calls=calls, seconds=seconds)


def scripts(
    session: Connection, *queries: str, writes: bool = False
) -> tuple[list[str], list[str]]:
    """Texts of what is replayed, and reasons for what is not."""
    found = replay(session, [one(text) for text in queries], seed=1, writes=writes)
    return [one.text for one in found.scripts], [one.why for one in found.left_out]


def test_a_statement_without_parameters_is_replayed_as_it_is(session: Connection) -> None:
    texts, left_out = scripts(session, "SELECT count(*) FROM replayed;")
    assert (texts, left_out) == (["SELECT count(*) FROM replayed;\n"], [])


def test_parameters_are_drawn_from_the_column_that_they_are_compared_with(
    session: Connection,
) -> None:
    (text,), _ = scripts(session, "SELECT * FROM replayed r WHERE r.code = $1 AND r.name = $2")
    assert text.startswith("\\set draw random(1, 16)\n\\if :draw = 1\n")
    for line in [line for line in text.splitlines() if line.startswith("SELECT")]:
        assert session.execute(line.encode()).fetchall() is not None
        assert "'name " in line
    assert text.endswith("\\endif\n")


def test_a_range_is_drawn_from_the_histogram(session: Connection) -> None:
    (text,), _ = scripts(session, "SELECT count(*) FROM replayed WHERE id >= $1")
    drawn = {line.split("'")[1] for line in text.splitlines() if line.startswith("SELECT")}
    assert len(drawn) > 5
    assert all(1 <= int(value) <= 3000 for value in drawn)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT * FROM replayed LIMIT $1", "$1 is not compared with a column"),
        ("SELECT interval $1", "it cannot be planned with parameters"),
        ("SELECT 1; SELECT 2", "may be several statements"),
        ("SELECT ':name'", "a colon, which pgbench would read as a variable"),
        ("DELETE FROM replayed WHERE id = $1", "it writes: add --writes"),
        ("CALL something()", "neither reads nor changes rows"),
    ],
)
def test_what_cannot_be_replayed_says_why(session: Connection, query: str, why: str) -> None:
    texts, left_out = scripts(session, query)
    assert texts == []
    assert why in left_out[0]


def test_a_cast_is_no_variable_of_pgbench(session: Connection) -> None:
    texts, _ = scripts(session, "SELECT count(*) FROM replayed WHERE name::text <> ''")
    assert len(texts) == 1


def test_what_writes_is_replayed_where_that_was_said(session: Connection) -> None:
    texts, _ = scripts(session, "UPDATE replayed SET code = 1 WHERE id = $1", writes=True)
    assert len(texts) == 1


def test_calls_are_weights_and_time_tells_how_much_is_covered(session: Connection) -> None:
    """3 of 4 seconds are covered; a tenth of the most calls gets a weight of 100."""
    found = replay(
        session,
        [one("SELECT 1", 1000, 2.0), one("SELECT 2", 100), one("CALL x()", 5)],
        seed=1, writes=False,
    )  # fmt: skip
    assert [script.weight for script in found.scripts] == [1000, 100]
    assert found.share == 0.75
