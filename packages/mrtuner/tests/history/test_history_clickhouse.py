"""The analyses, asked of the files of a lake in ClickHouse's dialect, answer as DuckDB does.

chDB is ClickHouse as a library. It is not among the packages of a working copy:
`make test-engines` installs it and runs this.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from history_engines import Question, differences, files_of, make_lake, questions, texts_file

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

#: As docs/reference/history-format.md tells users: with these, ClickHouse follows the standard.
SETTINGS = {
    "schema_inference_make_columns_nullable": "1",  # lag() of the first row is null, not 1970
    "join_use_nulls": "1",
    "aggregate_functions_null_for_empty": "1",
    "prefer_column_name_to_alias": "1",
    "use_hive_partitioning": "0",
    "session_timezone": "'UTC'",
}


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    chdb = pytest.importorskip("chdb.session", reason="chdb is not here: run make test-engines")
    found = chdb.Session()
    for name, value in SETTINGS.items():
        found.query(f"SET {name} = {value}")
    yield found
    found.close()


@pytest.mark.parametrize("old", [False, True], ids=["as sampled", "summaries"])
def test_clickhouse_answers_as_duckdb_does(session: Any, old: bool, tmp_path: Path) -> None:
    views = make_lake(tmp_path, old=old)
    asked = questions(tmp_path, old=old)
    assert len(asked) > (80 if not old else 50)
    assert sum(1 for one in asked if one.rows) > len(asked) / 2
    paths = {view: files_of(tmp_path, view) for view in views}
    for view, path in (paths | {"statement_texts": str(texts_file(tmp_path))}).items():
        described = session.query(f"DESCRIBE file('{path}', Parquet)", "ArrowTable").to_pylist()
        # As the page tells users: quotients of decimals have few decimals.
        casts = [
            f'toFloat64("{one["name"]}") AS "{one["name"]}"'
            for one in described if "Decimal" in one["type"]
        ]  # fmt: skip
        replaced = f"REPLACE ({', '.join(casts)})" if casts else ""
        session.query(
            f"""CREATE OR REPLACE VIEW "{view}" AS
                SELECT * {replaced} FROM file('{path}', Parquet)"""
        )
    wrong = [
        (one.sql, found) for one in asked if (found := differences(run(session, one), one.rows))
    ]
    assert wrong == []


def run(session: Any, question: Question) -> list[tuple[Any, ...]]:
    table = session.query(question.written_for("clickhouse"), "ArrowTable")
    return [tuple(row.values()) for row in table.to_pylist()]
