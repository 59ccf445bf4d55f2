"""The queries of the analyses keep to what other engines can say too.

They are translated and parsed, and run by DuckDB alone: no other engine is here.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import pytest
import sqlglot
from history_story import story
from test_history_analysis import period

from mrtuner.history import analysis
from mrtuner.history.peaks import peaks
from mrtuner.history.reading import History, open_history


class Listening(History):
    """A store that remembers what it is asked."""

    asked: ClassVar[list[str]] = []

    def table(
        self, sql: str, parameters: dict[str, Any] | None = None
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Answer, and remember."""
        self.asked.append(sql)
        return super().table(sql, parameters)


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    directory: Path = tmp_path_factory.mktemp("history")
    story(directory)
    with open_history(directory) as found:
        history = Listening(**{one.name: getattr(found, one.name) for one in fields(found)})
        analysis.compare(history, period(0, 20), period(30, 50))
        peaks(history, period(0, 60))
    return list(dict.fromkeys(Listening.asked))


@pytest.mark.parametrize("dialect", ["spark", "clickhouse", "trino"])
def test_every_query_can_be_written_for_another_engine(queries: list[str], dialect: str) -> None:
    assert len(queries) > 15
    for sql in queries:
        plain = sql.replace("$instance", "'db'")
        for name in ("$begin", "$end"):
            plain = plain.replace(name, "TIMESTAMP '2026-11-23 02:00:00'")
        (text,) = sqlglot.transpile(
            plain, read="duckdb", write=dialect, unsupported_level=sqlglot.ErrorLevel.RAISE
        )
        assert sqlglot.parse_one(text, read=dialect)
