"""Which statements of pg_stat_statements are replayed, and why the others are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mrtuner.bench.load.pgbench import try_out
from mrtuner.bench.load.statements import replay
from mrtuner.postgres.cluster import Cluster
from mrtuner.postgres.connect import connect
from mrtuner.postgres.explain import Statement

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

TABLES = """
CREATE TABLE replayed (id int PRIMARY KEY, name text, code int);
INSERT INTO replayed SELECT n, 'name ' || n % 3, n % 3 FROM generate_series(1, 3000) n;
CREATE TABLE logged (replayed int NOT NULL, at timestamptz DEFAULT now(), what text);
INSERT INTO logged SELECT n % 9, now(), 'it''s' FROM generate_series(1, 100) n;
CREATE TABLE empty (id int);
CREATE TABLE marked (id int, note text);
INSERT INTO marked VALUES (1, 'half:scale'), (2, 'at 10:30, a::scale, :scales'), (3, ':client_id');
INSERT INTO marked SELECT 3 + n, ':mrtuner_draw' FROM generate_series(1, 5) n;
CREATE SEQUENCE numbers;
"""


@pytest.fixture
def session(embedded: Cluster) -> Iterator[Connection]:
    with connect(embedded.dsn(), own_search_path=True) as made:
        made.execute(TABLES)
        yield made
        made.execute("DROP TABLE replayed, logged, empty, marked")
        made.execute("DROP SEQUENCE numbers")


def one(text: str, calls: int = 10, seconds: float = 1.0, rows: int | None = None) -> Statement:
    return Statement(id=1, text=text, role=None, calls=calls, seconds=seconds, rows=rows)


def runs(text: str) -> list[str]:
    """The statements that a script may run."""
    return [line for line in text.splitlines() if not line.startswith("\\")]


def scripts(
    session: Connection, *queries: str, writes: bool = False
) -> tuple[list[str], list[str]]:
    """Texts of what is replayed, and reasons for what is not."""
    found = replay(session, [one(text) for text in queries], seed=1, writes=writes)
    return [one.text for one in found.scripts], [one.why for one in found.left_out]


def test_a_statement_without_parameters_is_replayed_as_it_is(session: Connection) -> None:
    texts, left_out = scripts(session, "SELECT count(*) FROM replayed;")
    assert (texts, left_out) == (["SELECT count(*) FROM replayed;\n"], [])


def test_parameters_are_values_of_one_row(session: Connection) -> None:
    """Each code has one name, and a thousand rows: no draw may mix them."""
    (text,), _ = scripts(session, "SELECT * FROM replayed r WHERE r.code = $1 AND r.name = $2")
    assert len(runs(text)) == 256
    for query in set(runs(text)):
        assert len(session.execute(query.encode()).fetchall()) == 1000


def test_pgbench_picks_each_draw(session: Connection, embedded: Cluster, tmp_path: Path) -> None:
    """256 draws of 3,000 keys are at least 200 different ones; of them 1,000 picks miss 2 %."""
    (text,), _ = scripts(session, "SELECT FROM replayed WHERE id = $1")
    drawn = {line.split("'")[1] for line in runs(text)}
    assert len(drawn) > 200
    session.execute("CREATE UNLOGGED TABLE picked (id int)")
    (tmp_path / "one.sql").write_text(
        text.replace("SELECT FROM replayed WHERE id =", "INSERT INTO picked SELECT")
    )
    try_out(embedded.dsn(), [f"--file={tmp_path}/one.sql", "-t", "1000"], 1)
    picked = {str(key) for (key,) in session.execute("SELECT DISTINCT id FROM picked").fetchall()}
    session.execute("DROP TABLE picked")
    assert picked <= drawn
    assert len(picked) > 0.9 * len(drawn)


def test_what_is_inserted_is_of_one_row_of_the_table(session: Connection) -> None:
    (text,), _ = scripts(
        session, "INSERT INTO logged (what, replayed) VALUES ($1, $2)", writes=True
    )
    numbers = {line.split("'")[-2] for line in runs(text)}
    assert numbers == {str(number) for number in range(9)}
    assert all("VALUES ('it''s', '" in line for line in runs(text))
    assert session.execute("SELECT count(*) FROM logged").fetchone() == (100,), "tried, and gone"


def test_what_is_assigned_is_a_value_of_the_column(session: Connection) -> None:
    (text,), _ = scripts(
        session,
        "UPDATE replayed SET code = code + $1, name = coalesce($2, name) WHERE id = $3",
        writes=True,
    )
    pattern = r"UPDATE replayed SET code = code \+ '(\d+)', name = coalesce\('(.*)', name\) .*"
    for line in runs(text):
        found = re.match(pattern, line)
        assert found is not None
        assert found[2] == f"name {found[1]}"


def test_a_limit_is_the_mean_number_of_rows(session: Connection) -> None:
    """45 rows in ten calls are at least five of some."""
    found = replay(
        session, [one("SELECT id FROM replayed ORDER BY id LIMIT $1", rows=45)], seed=1,
        writes=False,
    )  # fmt: skip
    assert set(runs(found.scripts[0].text)) == {"SELECT id FROM replayed ORDER BY id LIMIT '5';"}


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT * FROM replayed LIMIT $1", "$1 is not compared with a column"),
        ("SELECT * FROM replayed WHERE id < $1 AND id > $2", "how wide its ranges of replayed.id"),
        ("SELECT FROM replayed r WHERE upper(r.name) = $1", "$1 is not compared with a column"),
        ("SELECT FROM replayed r WHERE r.id + r.code = $1", "$1 is not compared with a column"),
        ("SELECT FROM replayed WHERE (id * code)::numeric > $1", "$1 is not compared with a"),
        ("SELECT code FROM replayed GROUP BY 1 HAVING sum(id) > $1", "$1 is not compared with a"),
        ("SELECT FROM replayed WHERE id = $1 FOR UPDATE", "it writes or locks rows: add --writes"),
        ("SELECT FROM replayed FOR KEY SHARE", "it writes or locks rows: add --writes"),
        ("WITH gone AS (DELETE FROM logged) SELECT", "it writes or locks rows: add --writes"),
        ("SELECT nextval('numbers')", "it writes or locks rows: add --writes"),
        ("SELECT 1 / (id - id) FROM replayed", "it fails with values of other rows: division by"),
        ("SELECT * FROM empty WHERE id = $1", "no row of empty has a value of id"),
        ("SELECT interval $1", "it cannot be planned with parameters"),
        ("SELECT FROM replayed WHERE id IN ($1 /*, ... */)", "how long its lists of values are"),
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


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("r.name::varchar = $1", r"'name [012]'"),
        ("r.name::varchar(20) = $1", r"'name [012]'"),
        ("r.id::bigint = $1", r"'\d+'"),
        ("lower(r.name) = 'name 1' AND r.code >= $1", r"'[012]'"),
    ],
)
def test_a_plain_column_may_be_cast(session: Connection, condition: str, value: str) -> None:
    (text,), _ = scripts(session, f"SELECT FROM replayed r WHERE {condition}")
    pattern = re.escape(f"SELECT FROM replayed r WHERE {condition};").replace(r"\$1", value)
    assert all(re.fullmatch(pattern, line) for line in runs(text))


def test_a_value_that_pgbench_would_rewrite_is_not_drawn(session: Connection) -> None:
    """Of eight notes one has no variable of pgbench's: it skips two colons, and has no scales."""
    (text,), _ = scripts(session, "SELECT FROM marked WHERE note = $1")
    assert set(runs(text)) == {"SELECT FROM marked WHERE note = 'at 10:30, a::scale, :scales';"}
    session.execute("DELETE FROM marked WHERE id = 2")
    _, (why,) = scripts(session, "SELECT FROM marked WHERE note = $1")
    assert why == "every row of marked has a colon that pgbench would read as a variable"


def test_what_takes_long_is_tried_for_a_second_and_replayed(session: Connection) -> None:
    """Nobody waits for the hour that it takes."""
    texts, left_out = scripts(session, "SELECT pg_sleep(3600)")
    assert (len(texts), left_out) == (1, [])


def test_what_locks_rows_is_replayed_where_that_was_said(session: Connection) -> None:
    texts, left_out = scripts(session, "SELECT FROM replayed FOR UPDATE", writes=True)
    assert (len(texts), left_out) == (1, [])


def test_a_cast_is_no_variable_of_pgbench(session: Connection) -> None:
    texts, _ = scripts(session, "SELECT count(*) FROM replayed WHERE name::text <> ''")
    assert len(texts) == 1


def test_what_writes_is_replayed_where_that_was_said(session: Connection) -> None:
    texts, _ = scripts(session, "UPDATE replayed SET code = 1 WHERE id = $1", writes=True)
    assert len(texts) == 1


def test_an_insert_whose_key_would_be_there_already_is_left_out(session: Connection) -> None:
    texts, (why,) = scripts(session, "INSERT INTO replayed (id) VALUES ($1)", writes=True)
    assert texts == []
    assert why.endswith('duplicate key value violates unique constraint "replayed_pkey"')


def test_a_value_that_does_not_fit_is_not_quoted(session: Connection) -> None:
    """``name 1`` is no integer."""
    query = "UPDATE replayed SET name = $1::int WHERE id = $2"
    _, (why,) = scripts(session, query, writes=True)
    assert why.endswith('invalid input syntax for type integer: "…"')


def test_the_same_seed_draws_the_same(session: Connection) -> None:
    query = "SELECT * FROM replayed WHERE id = $1"
    assert scripts(session, query) == scripts(session, query)


def test_calls_are_weights_and_time_tells_how_much_is_covered(session: Connection) -> None:
    """3 of 4 seconds are covered; a nightly report is no more than one in ten thousand."""
    found = replay(
        session,
        [one("SELECT 1", 10_000, 2.0), one("SELECT 2", 1), one("CALL x()", 5)],
        seed=1, writes=False,
    )  # fmt: skip
    assert [script.weight for script in found.scripts] == [10_000, 1]
    assert found.share == 0.75
    huge = replay(session, [one("SELECT 1", 2**33), one("SELECT 2", 2**31)], seed=1, writes=False)
    assert [script.weight for script in huge.scripts] == [2**31 - 1, 2**29]
