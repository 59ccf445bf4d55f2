"""A damaged file is named, everything else is still served, and nothing more is lost."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from history_data import SECOND, batch, queue, row
from history_recorder import PROGRAM, rows

from command_line import run
from mrtuner.errors import UsageError
from mrtuner.history.reading import open_history
from mrtuner.history.recording.recorder import record
from mrtuner.history.recording.sampler import SourceSample
from mrtuner.history.store import compaction, layout
from mrtuner.history.store.writer import Writer
from mrtuner.history.workspace import Workspace

SOURCE = queue()
DAY = 86_400 * SECOND
NOON = time.time_ns() // 1000 // DAY * DAY - DAY // 2  # of yesterday
PAGE = 4096


def commit(writer: Writer, at: int, queues: int = 50) -> None:
    found = tuple(row(f"q{n}", at, 0.0, at // SECOND) for n in range(queues))
    one = SourceSample(source=SOURCE, at=at, monotonic=at / SECOND, cost=0.0, rows=found)
    writer.commit([batch(one)])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two days of 50 queues in files, one sample of them in SQLite."""
    with Writer(tmp_path / "store", [SOURCE]) as writer:
        for day in (4, 3):
            commit(writer, NOON - day * DAY)
            compaction.move_to_parquet(writer, NOON)
        commit(writer, NOON)
    return tmp_path / "store"


def cli(store: Path, *arguments: str) -> tuple[int, str]:
    done = run("history", *arguments, "--dir", store)
    return done.exit_code, done.output


def overwrite(path: Path, begin: int, end: int) -> None:
    contents = bytearray(path.read_bytes())
    contents[begin:end] = b"\xff" * (end - begin)
    path.write_bytes(contents)


@pytest.mark.parametrize("part", ["data", "footer"])
def test_a_parquet_file_with_other_bytes_is_left_out_and_named(store: Path, part: str) -> None:
    """The file's length and the magic bytes at both ends are unchanged."""
    first, second = sorted((store / layout.LAKE / "queue").rglob("*.parquet"))
    size = first.stat().st_size
    overwrite(first, *((8, size // 3) if part == "data" else (size - 120, size - 20)))
    with open_history(store) as history:
        assert history.damaged == ()
        found = history.rows("SELECT time, count(DISTINCT Queue) AS n FROM Queue GROUP BY 1")
        assert [one["n"] for one in found] == [50, 50]
        assert len(history.damaged) == 1
        assert history.damaged[0].endswith(f"{first.name} has changed since it was written")
        (still,) = history.rows("SELECT count(DISTINCT time) AS n FROM queue_by_hour")
        assert still["n"] == 3
    assert second.exists()
    code, told = cli(store, "verify")
    assert code == 1
    assert first.name in told


def test_a_single_flipped_bit_is_noticed_by_a_query_wherever_it_is(store: Path) -> None:
    """In a number, it is another number, and no error: the checksum tells."""
    first, *_ = sorted((store / layout.LAKE / "queue").rglob("*.parquet"))
    whole = first.read_bytes()
    silent = 0
    for place in range(4, len(whole) - 8, 97):
        changed = bytearray(whole)
        changed[place] ^= 1
        first.write_bytes(changed)
        silent += _reads_without_complaint(first)
        code, told = cli(store, "query", "SELECT sum(waiting) FROM queue")
        assert code == 0
        assert "has changed since it was written" in told, place
    assert silent > 0, "DuckDB itself noticed all of them"
    first.write_bytes(whole)
    assert "left out" not in cli(store, "query", "SELECT sum(waiting) FROM queue")[1]


def _reads_without_complaint(file: Path) -> bool:
    import duckdb

    try:
        query = f"SELECT sum(waiting), max(time) FROM read_parquet('{file}')"
        duckdb.connect().execute(query).fetchall()
    except duckdb.Error:
        return False
    return True


def test_what_is_damaged_is_named_by_each_later_look_as_well(store: Path) -> None:
    """The workspace is kept from one opening to the next, as in the viewer."""
    count = "SELECT count(DISTINCT time) AS n, sum(waiting) IS NULL AS no FROM queue"
    with closing(Workspace()) as work:
        with open_history(store, work=work) as history:
            assert history.row(count) == {"n": 3, "no": False}
            assert history.damaged == ()
        first, *_ = sorted((store / layout.LAKE / "queue").rglob("*.parquet"))
        overwrite(first, 8, first.stat().st_size // 3)
        for _ in range(3):
            with open_history(store, work=work) as history:
                assert history.row(count) == {"n": 2, "no": False}
                assert [first.name in one for one in history.damaged] == [True]


def test_a_query_that_is_wrong_is_no_damage(store: Path) -> None:
    code, told = cli(store, "query", "SELECT nothing FROM queue")
    assert code == 2
    assert "the query failed" in told
    assert "left out" not in told


def test_a_damaged_file_keeps_no_other_from_being_merged_or_deleted(store: Path) -> None:
    """Three files of one day, one of them damaged, and one file that has expired."""
    with Writer(store, [SOURCE]) as writer:
        for hour in range(3):
            commit(writer, NOON - 2 * DAY + hour * 3600 * SECOND)
            compaction.move_to_parquet(writer, NOON, everything=True)
        commit(writer, NOON - 100 * DAY)
        compaction.move_to_parquet(writer, NOON)
        old = max(file.number for file in writer.files() if file.view == "queue")
        date = layout.partition_of("queue", NOON - 2 * DAY)
        damaged = sorted((store / layout.LAKE / date).glob("*.parquet"))[1]
        overwrite(damaged, 8, damaged.stat().st_size // 3)
        told: list[str] = []
        stop = threading.Event()
        stop.set()
        record(writer, [], stop, tell=told.append)
        assert [one for one in told if one.startswith("files are not merged for now: ")]
        assert len(told) == 1
        assert old not in {file.number for file in writer.files()}


@pytest.mark.parametrize("share", [0.0002, 0.5, 0.8])
def test_a_truncated_database_is_named_and_not_written(store: Path, share: float) -> None:
    path = store / layout.DATABASE
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    before = path.read_bytes()
    for command in (["show"], ["query", "SELECT count(*) FROM queue"], ["verify"], ["size"]):
        code, told = cli(store, *command)
        assert (code, f"{path} is damaged" in told) == (2, True), told
        assert "HINT: Move it away" in told
    with pytest.raises(UsageError, match="is damaged"):
        Writer(store, [SOURCE])
    assert path.read_bytes() == before
    assert len(list((store / layout.LAKE / "queue").rglob("*.parquet"))) == 2


def test_a_database_with_a_damaged_page_is_named(store: Path) -> None:
    """The first page of a source's recent rows is overwritten; the file keeps its length."""
    path = store / layout.DATABASE
    with closing(sqlite3.connect(path)) as db:
        asked = "SELECT rootpage FROM sqlite_master WHERE name = 'recent_queue'"
        (page,) = db.execute(asked).fetchone()
    overwrite(path, (page - 1) * PAGE, page * PAGE)
    for command in (["query", "SELECT count(*) FROM queue"], ["verify"]):
        code, told = cli(store, *command)
        assert (code, f"{path} is damaged" in told) == (2, True), told
    command = ["record", "host=127.0.0.1 port=9", "--dir", str(store), "--for", "2s"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"{path} is damaged" in done.stderr
    # Queries of other tables still work.
    assert rows(store, "SELECT count(DISTINCT source) FROM samples") == [(1,)]


def test_a_database_that_was_moved_away_leaves_files_for_any_reader(store: Path) -> None:
    """The hint says to move it away; a new recorder does not take the files for its own."""
    import duckdb

    (store / layout.DATABASE).rename(store / "damaged.sqlite")
    with Writer(store, [SOURCE]) as writer:
        commit(writer, NOON - DAY)
        compaction.move_to_parquet(writer, NOON)
        compaction.sweep(writer, NOON + DAY)
    files = f"{store}/{layout.LAKE}/queue/*/*.parquet"
    with duckdb.connect() as con:
        assert con.execute(f"SELECT count(*) FROM '{files}'").fetchall() == [(150,)]
