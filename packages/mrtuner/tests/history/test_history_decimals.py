"""Milliseconds: integers of microseconds in a file, and the same numbers as ever in a query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest
from history_data import MIDNIGHT, SECOND, batch, queue, row, sample
from history_recorder import rows

from mrtuner.history.store import compaction, layout, parquet
from mrtuner.history.store.writer import Writer

SOURCE: Final = queue()
DAY: Final = 86_400 * SECOND
#: Written by the last version whose files had milliseconds as DOUBLE: its Writer committed five
#: samples of SOURCE, half a day apart from MIDNIGHT on, with 10 * n jobs done, 1.001 * n ms and n
#: waiting; then move_to_parquet two days after MIDNIGHT, VACUUM, and zip. The fifth is in SQLite.
OF_BEFORE: Final = Path(__file__).with_name("store_of_doubles.zip")


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    with Writer(tmp_path, [SOURCE]) as writer:
        yield writer


def of_busy_ms(writer: Writer) -> tuple[str, str]:
    """Type and encoding of the column `busy_ms` in the first file of rows."""
    file = min((file for file in writer.files() if file.view == "queue"), key=lambda one: one.first)
    path = str(writer.directory / layout.LAKE / file.path)
    with parquet.engine() as con:
        (kind,) = con.execute(
            f"SELECT column_type FROM (DESCRIBE FROM '{path}') WHERE column_name = 'busy_ms'"
        ).fetchone() or ("",)
        (encoding,) = con.execute(
            "SELECT encodings FROM parquet_metadata(?) WHERE path_in_schema = 'busy_ms'", [path]
        ).fetchone() or ("",)
    return kind, encoding


def test_milliseconds_are_integers_of_microseconds_in_a_file_and_milliseconds_in_a_query(
    writer: Writer,
) -> None:
    """Grown by 0.1, 0.2, …, 29.9 ms and by one microsecond more each time."""
    totals = [round(n * (n + 1) / 20 + n / 1000, 3) for n in range(300)]
    writer.commit(
        [batch(*(sample(SOURCE, 10 * n, row("mail", n, t, 0)) for n, t in enumerate(totals)))]
    )
    sql = "SELECT busy_ms, typeof(busy_ms) FROM queue WHERE done > 0 ORDER BY time"
    expected = [(round(n / 10 + 0.001, 3), "DOUBLE") for n in range(1, 300)]
    assert rows(writer.directory, sql) == expected
    compaction.move_to_parquet(writer, MIDNIGHT + 2 * DAY)
    assert rows(writer.directory, sql) == expected
    assert of_busy_ms(writer) == ("DECIMAL(18,3)", "DELTA_BINARY_PACKED")


@pytest.mark.parametrize("value", [0.1234, 1e16, float("inf")])
def test_a_number_that_would_lose_a_digit_stays_as_it_is(writer: Writer, value: float) -> None:
    """A source of a user may be written by another program; the recorder itself rounds."""
    writer.commit([batch(sample(SOURCE, 0, row("mail", 0, 0.0, 0)))])
    with writer.transaction():
        at = MIDNIGHT + 60_000_000
        writer._insert(SOURCE, [(at, "db:5432", 60.0, "mail", 1, value, 0)])
    compaction.move_to_parquet(writer, MIDNIGHT + 2 * DAY)
    assert of_busy_ms(writer)[0] == "DOUBLE"
    ((found,),) = rows(writer.directory, "SELECT busy_ms FROM queue WHERE done = 1")
    assert repr(found) == repr(value)


BUSY = "SELECT busy_ms, typeof(busy_ms), waiting FROM queue ORDER BY time"
BY_DAY = "SELECT time::DATE::TEXT, sum(busy_ms), sum(done) FROM queue_by_hour GROUP BY 1 ORDER BY 1"


def test_a_store_of_the_version_before_is_read_continued_and_merged(tmp_path: Path) -> None:
    """Each sample has 1.001 ms more than the one before; a late one of the first day has 0.5."""
    with ZipFile(OF_BEFORE) as archive:
        archive.extractall(tmp_path)
    first = (None, "DOUBLE", 0)
    others = [(1.001, "DOUBLE", n) for n in (1, 2, 3, 4)]
    assert rows(tmp_path, BUSY) == [first, *others]
    sums = [("2026-11-23", 1.001, 10), ("2026-11-24", 2.002, 20), ("2026-11-25", 1.001, 10)]
    assert rows(tmp_path, BY_DAY) == sums
    with Writer(tmp_path, [SOURCE]) as writer:
        assert of_busy_ms(writer)[0] == "DOUBLE"
        with writer.transaction():
            at = MIDNIGHT + DAY // 2 + 60 * SECOND
            writer._insert(SOURCE, [(at, "db:5432", 60.0, "mail", 1, 0.5, 7)])
        compaction.move_to_parquet(writer, MIDNIGHT + 4 * DAY)
        late = [first, others[0], (0.5, "DOUBLE", 7), *others[1:]]
        assert rows(tmp_path, BUSY) == late  # from files of both kinds
        compaction.compact(writer, MIDNIGHT + 4 * DAY)
        assert of_busy_ms(writer)[0] == "DECIMAL(18,3)"
    assert rows(tmp_path, BUSY) == late
    assert rows(tmp_path, BY_DAY) == [("2026-11-23", 1.501, 11), *sums[1:]]
