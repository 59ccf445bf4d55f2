"""The queries of the analyses use only SQL that other engines have, too.

They are translated and parsed here. Spark and ClickHouse also run them, see
test_history_spark.py and test_history_clickhouse.py; Trino and Athena are not available here.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot
from history_engines import Question, differences, make_lake, questions


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[Question]:
    directory: Path = tmp_path_factory.mktemp("history")
    make_lake(directory)
    return questions(directory)


@pytest.mark.parametrize("dialect", ["spark", "clickhouse", "trino", "athena"])
def test_every_query_can_be_written_for_another_engine(asked: list[Question], dialect: str) -> None:
    assert len({one.sql for one in asked}) > 15
    for one in asked:
        assert sqlglot.parse_one(one.written_for(dialect), read=dialect)


def test_the_comparison_sees_a_difference() -> None:
    """One row fewer, a float off by 1e-7, another text, a null for a float, another integer."""
    rows = [(1, 0.5, None), (2, 0.25, "x")]
    assert differences(list(reversed(rows)), rows) == []
    assert differences(rows[:1], rows) == ["1 rows instead of 2"]
    for wrong in ((2, 0.2500001, "x"), (2, 0.25, "y"), (2, None, "x"), (0, 0.25, "x")):
        assert differences([rows[0], wrong], rows)
