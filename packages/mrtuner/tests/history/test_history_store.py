"""A store keeps what was read and returns it once, to any reader at any time."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from history_data import MIDNIGHT, SECOND, batch, queue, row, sample
from history_recorder import rows
from history_story import of_source

from mrtuner.errors import BadValue, Refused, UsageError
from mrtuner.facts import Missing
from mrtuner.history.reading import open_history
from mrtuner.history.recording.sampler import Identity
from mrtuner.history.recording.source import built_in
from mrtuner.history.store import compaction, layout, parquet, retention
from mrtuner.history.store.status import is_recording, size, status, verify
from mrtuner.history.store.writer import Batch, HistoryEvent, Writer
from mrtuner.history.text import status_lines

SOURCE = queue()
DAY = 86_400 * SECOND
IDENTITY = Identity(version_num=180000, started="10:00", system="1", standby=False)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    with Writer(tmp_path, [SOURCE]) as writer:
        yield writer


DONE = "SELECT queue, done, waiting, seconds FROM queue ORDER BY time, queue"


def test_growth_is_kept_with_the_time_it_took(writer: Writer) -> None:
    writer.commit([batch(sample(SOURCE, 0, row("mail", 100, 1.0, 3)))])
    writer.commit([batch(sample(SOURCE, 60, row("mail", 160, 2.0, 5)))])
    assert rows(writer.directory, DONE) == [("mail", None, 3, None), ("mail", 60, 5, 60.0)]


def test_another_recorder_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    with Writer(tmp_path, [SOURCE]) as writer:
        writer.commit([batch(sample(SOURCE, 0, row("mail", 100, 1.0, 3)), identity=IDENTITY)])
    with Writer(tmp_path, [SOURCE]) as writer:
        again = sample(SOURCE, 300, row("mail", 160, 2.0, 5), monotonic=5.0)
        writer.commit([batch(again, identity=IDENTITY)])
    assert rows(tmp_path, DONE)[1] == ("mail", 60, 5, 300.0)


@pytest.mark.parametrize(
    ("now", "kind"),
    [
        ({"started": "11:00"}, "restart"),
        ({"version_num": 190000, "started": "11:00"}, "upgrade"),
        ({"system": "2"}, "replaced"),
        ({"standby": True}, "failover"),
    ],
)
def test_another_server_gives_a_gap_and_an_event(
    writer: Writer, now: dict[str, Any], kind: str
) -> None:
    writer.commit([batch(sample(SOURCE, 0, row("mail", 100, 1.0, 3)), identity=IDENTITY)])
    known = {name: getattr(IDENTITY, name) for name in IDENTITY.__slots__}
    other = Identity(**(known | now))
    writer.commit([batch(sample(SOURCE, 60, row("mail", 160, 2.0, 5)), identity=other)])
    assert rows(writer.directory, DONE)[1] == ("mail", None, 5, None)
    assert rows(writer.directory, "SELECT kind FROM events") == [(kind,)]


def test_a_restart_is_told_when_it_was_and_another_server_is_no_restart(writer: Writer) -> None:
    """One was started three days ago, the other yesterday; both were sampled an hour ago.

    The other responds, the one again, and that was restarted half an hour ago. Then a process
    crashes 20 minutes ago, and the last restart was, by a clock that is late, before that sample.
    """
    now = datetime.now(UTC)

    def ago(**more: float) -> datetime:
        return now - timedelta(**more)

    def meet(started: datetime, sampled: datetime, checkpointer: datetime | None = None) -> None:
        identity = replace(
            IDENTITY, started=f"{started}", standby=True,
            checkpointer=None if checkpointer is None else f"{checkpointer}",
        )  # fmt: skip
        read = replace(sample(SOURCE, 0), at=round(sampled.timestamp() * SECOND))
        writer.commit([batch(read, identity=identity)])

    one, other, again = ago(days=3), ago(days=1), ago(minutes=30)
    for started in (one, other, one):
        meet(started, ago(hours=1))
    meet(again, ago(minutes=25), again)
    meet(again, ago(minutes=10), ago(minutes=20))
    meet(ago(minutes=12), ago(minutes=5))
    found = rows(writer.directory, "SELECT kind, detail, time FROM events ORDER BY time")
    assert [(kind, time.replace(tzinfo=UTC)) for kind, _, time in found[:3]] == [
        ("restart", again), ("crash", ago(minutes=20)), ("restart", ago(minutes=10)),
    ]  # fmt: skip
    assert [(kind, detail) for kind, detail, _ in found[3:]] == [
        ("replaced", f"another server responds; it was started at {started:%Y-%m-%d %H:%M:%S} UTC")
        for started in (other, one)
    ]


def test_a_clock_that_jumps_back_changes_no_rate(writer: Writer) -> None:
    """After a minute, the wall clock shows ten minutes earlier than before."""
    writer.commit([batch(sample(SOURCE, 900, row("mail", 100, 1.0, 3), monotonic=10.0))])
    writer.commit([batch(sample(SOURCE, 300, row("mail", 160, 2.0, 5), monotonic=70.0))])
    assert ("mail", 60, 5, 60.0) in rows(writer.directory, DONE)
    assert rows(writer.directory, "SELECT kind, detail FROM events") == [
        ("clock", "the recorder's clock jumped by -660.0 s")
    ]


def test_a_clock_set_back_while_nobody_recorded_gives_growth_without_a_rate(tmp_path: Path) -> None:
    with Writer(tmp_path, [SOURCE]) as writer:
        writer.commit([batch(sample(SOURCE, 900, row("mail", 100, 1.0, 3)))])
    with Writer(tmp_path, [SOURCE]) as writer:
        writer.commit([batch(sample(SOURCE, 300, row("mail", 160, 2.0, 5)))])
    assert ("mail", 60, 5, None) in rows(tmp_path, DONE)


def test_a_failed_commit_leaves_nothing_and_is_done_again(writer: Writer) -> None:
    writer.commit([batch(sample(SOURCE, 0, row("mail", 100, 1.0, 3)))])
    later = [batch(sample(SOURCE, 60, row("mail", 160, 2.0, 5)))]
    writer.db.execute("PRAGMA max_page_count = 1")
    huge = batch(texts=dict.fromkeys(range(100), "x" * 10000))
    with pytest.raises(sqlite3.OperationalError, match="full"):
        writer.commit([*later, huge])
    assert len(rows(writer.directory, DONE)) == 1
    writer.db.execute("PRAGMA max_page_count = 1000000")
    writer.commit([*later, huge])
    assert rows(writer.directory, DONE)[1] == ("mail", 60, 5, 60.0)


# Sealing.


def fill(writer: Writer, samples: int, step: int = 600) -> None:
    """A sample of two queues each step: one does a job a second, the other two."""
    for number in range(samples):
        at = number * step
        writer.commit(
            [batch(sample(SOURCE, at, row("mail", at, 0.0, number), row("web", 2 * at, 0.0, 0)))]
        )


TOTALS = "SELECT queue, count(*), sum(done) FROM queue GROUP BY 1 ORDER BY 1"


def test_rows_are_the_same_before_and_after_they_are_moved(writer: Writer) -> None:
    fill(writer, 200)
    before = rows(writer.directory, TOTALS), rows(writer.directory, DONE)
    moved = compaction.move_to_parquet(writer, MIDNIGHT + 2 * DAY)
    assert moved == 2 * 200 + 200  # two queues, and the samples themselves
    assert writer.db.execute("SELECT count(*) FROM recent_queue").fetchone() == (0,)
    assert (rows(writer.directory, TOTALS), rows(writer.directory, DONE)) == before


def test_rows_that_come_late_while_others_are_moved_are_kept_once(writer: Writer) -> None:
    """A thread keeps moving all rows into files while samples of the same day are stored."""
    over, moved = threading.Event(), list[int]()

    def move() -> None:
        with writer.another() as other:
            while not over.is_set():
                if count := compaction.move_to_parquet(other, MIDNIGHT + 2 * DAY):
                    moved.append(count)

    thread = threading.Thread(target=move)
    thread.start()
    stored = 0
    try:
        while len(moved) < 3 and thread.is_alive():
            at = stored * 557 % 86_400
            writer.commit([batch(sample(SOURCE, at, row("mail", 0, 0.0, stored)))])
            stored += 1
            thread.join(0.001)  # or it would hardly get the lock
    finally:
        over.set()
        thread.join()
    waiting = rows(writer.directory, "SELECT waiting FROM queue ORDER BY 1")
    assert waiting == [(number,) for number in range(stored)]
    assert len(moved) > 2


def test_only_the_past_is_moved(writer: Writer) -> None:
    """200 samples of 10 minutes are 33 hours: a day and 56 samples."""
    fill(writer, 200)
    compaction.move_to_parquet(writer, MIDNIGHT + 199 * 600 * SECOND)
    assert writer.db.execute(
        "SELECT count(*) FROM recent_queue WHERE queue = 'mail'"
    ).fetchone() == (56,)
    assert [file.path.split("/")[1] for file in writer.files() if file.view == "queue"] == [
        "date=2026-11-23"
    ]


def test_a_summary_says_the_same_from_sqlite_and_from_files(writer: Writer) -> None:
    """By hand: 600 jobs each 10 minutes are 3,600 an hour, 1 a second; the first hour lacks the
    growth before its first sample.
    """
    fill(writer, 144)
    sql = (
        "SELECT hour(time), done, done_peak, waiting_min, waiting_max, waiting_last, samples "
        "FROM queue_by_hour WHERE queue = 'mail' ORDER BY time LIMIT 2"
    )
    by_hand = [(0, 3000, 1.0, 0, 5, 5, 6), (1, 3600, 1.0, 6, 11, 11, 6)]
    assert rows(writer.directory, sql) == by_hand
    compaction.move_to_parquet(writer, MIDNIGHT + 2 * DAY)
    assert rows(writer.directory, sql) == by_hand


def test_files_of_a_day_are_merged_and_those_merged_deleted_after_a_while(writer: Writer) -> None:
    for day in range(3):
        writer.commit([batch(sample(SOURCE, day * 7200, row("mail", day + 1, 0.0, day)))])
        compaction.move_to_parquet(writer, MIDNIGHT + (day * 7200 + 60) * SECOND, everything=True)
    before = rows(writer.directory, DONE)
    now = MIDNIGHT + 3 * DAY
    assert compaction.compact(writer, now) >= 3
    assert len([file for file in writer.files() if file.view == "queue"]) == 1
    assert rows(writer.directory, DONE) == before
    lake = writer.directory / layout.LAKE
    assert len(list(lake.glob("queue/*/*.parquet"))) == 4
    writer.db.execute("UPDATE file SET retired = 1 WHERE retired IS NOT NULL")
    compaction.sweep(writer, now)
    assert len(list(lake.glob("queue/*/*.parquet"))) == 1


def test_numbers_that_vary_are_stored_by_their_differences(writer: Writer) -> None:
    """300 different numbers, for which DuckDB would use a dictionary by default."""
    totals = [n * (n + 1000) for n in range(301)]
    writer.commit(
        [batch(*(sample(SOURCE, 60 * n, row("mail", t, 0.0, 0)) for n, t in enumerate(totals)))]
    )
    compaction.move_to_parquet(writer, MIDNIGHT + 2 * DAY)
    (file,) = [file for file in writer.files() if file.view == "queue"]
    with parquet.engine() as con:
        encodings = dict(
            con.execute(
                "SELECT path_in_schema, encodings FROM parquet_metadata(?)",
                [str(writer.directory / layout.LAKE / file.path)],
            ).fetchall()
        )
    assert encodings["done"] == "DELTA_BINARY_PACKED"
    assert encodings["queue"] == "RLE_DICTIONARY"


def sealed_days(directory: Path, keep: str, days: int, **limit: int) -> list[tuple[str, int]]:
    """Record a sample a day from 23 November, and return the files of rows in December."""
    with Writer(directory, [queue(keep)]) as writer:
        for day in range(days):
            at = day * 86_400
            writer.commit([batch(sample(SOURCE, at, row("mail", 10 * day, 0.0, day)))])
            compaction.move_to_parquet(writer, MIDNIGHT + (day + 1) * DAY)
        before = rows(directory, DONE)
        compaction.compact(writer, MIDNIGHT + 20 * DAY, **limit)
        assert rows(directory, DONE) == before
        assert len(before) == days
        return [
            (str(Path(file.path).parent), file.rows)
            for file in writer.files()
            if file.view == "queue"
        ]


def test_days_of_a_month_that_is_over_are_merged_where_rows_are_kept_for_long(
    tmp_path: Path,
) -> None:
    """23 to 30 November are eight days; December is not over."""
    december = [("queue/date=2026-12-01", 1), ("queue/date=2026-12-02", 1)]
    assert sealed_days(tmp_path, "400d", 10) == [*december, ("queue/month=2026-11", 8)]


def test_days_stay_where_they_soon_expire_or_are_large(tmp_path: Path) -> None:
    assert len(sealed_days(tmp_path / "short", "35d", 10)) == 10
    assert len(sealed_days(tmp_path / "large", "400d", 10, small=5000)) == 10


def test_times_are_kept_to_a_hundredth_of_a_second(writer: Writer) -> None:
    """The growth's duration comes from the times as they were: 60.0078 s, 5.0009 s and 0.2504 s."""
    for at in (0.0099, 60.0177, 65.0186, 65.269):
        writer.commit([batch(sample(SOURCE, at, row("mail", 1, 0.0, round(1000 * at))))])
    sql = f"SELECT epoch_us(time) - {MIDNIGHT}, seconds FROM queue ORDER BY time"
    told = [(0, None), (60_010_000, 60.01), (65_010_000, 5.0), (65_260_000, 0.25)]
    assert rows(writer.directory, sql) == told
    compaction.move_to_parquet(writer, MIDNIGHT + 2 * DAY)
    assert rows(writer.directory, sql) == told


def test_old_rows_go_and_their_summary_stays(writer: Writer) -> None:
    fill(writer, 144)
    compaction.move_to_parquet(writer, MIDNIGHT + 2 * DAY)
    assert retention.delete_past_retention(writer, MIDNIGHT + 40 * DAY) == 1
    assert rows(writer.directory, TOTALS) == []
    assert rows(writer.directory, "SELECT sum(done) FROM queue_by_hour WHERE queue = 'mail'") == [
        (143 * 600,)
    ]


def test_rows_of_a_source_that_is_not_recorded_any_more_are_kept(tmp_path: Path) -> None:
    """A user's own metric, which a recorder that was started without it must not delete."""
    with Writer(tmp_path, [SOURCE]) as writer:
        fill(writer, 3)
        compaction.move_to_parquet(writer, MIDNIGHT + 2 * DAY)
        writer.commit([batch(sample(SOURCE, 3 * 86_400, row("mail", 9000, 0.0, 1)))])
    before = rows(tmp_path, DONE)
    with Writer(tmp_path, []) as writer:
        assert compaction.move_to_parquet(writer, MIDNIGHT + 5 * DAY) > 0
        assert retention.delete_past_retention(writer, MIDNIGHT + 5 * DAY) == 0
    assert rows(tmp_path, DONE) == before


def test_in_a_file_the_sessions_of_ten_minutes_stand_by_process(tmp_path: Path) -> None:
    """Two processes, seen every five minutes: by hand, one after the other, twice."""
    sessions = built_in()["sessions"]
    both = [of_source("sessions", pid=pid, state="active") for pid in (7, 3)]
    with Writer(tmp_path, [sessions]) as writer:
        writer.commit([batch(*(sample(sessions, 300 * n, *both) for n in range(4)))])
        compaction.move_to_parquet(writer, MIDNIGHT + 2 * DAY)
        (file,) = [one for one in writer.files() if one.view == "sessions"]
    with parquet.engine() as con:
        found = con.execute(
            "SELECT pid, epoch(time)::BIGINT % 86400 // 60 FROM read_parquet(?)",
            [str(tmp_path / layout.LAKE / file.path)],
        ).fetchall()
    first, second = [(3, 0), (3, 5), (7, 0), (7, 5)], [(3, 10), (3, 15), (7, 10), (7, 15)]
    assert found == [*first, *second]


def test_beyond_a_size_the_oldest_rows_go_first(writer: Writer) -> None:
    fill(writer, 300)
    compaction.move_to_parquet(writer, MIDNIGHT + 5 * DAY)
    files = writer.files()
    first = min((file for file in files if not layout.is_rollup(file.view)), key=lambda f: f.last)
    recent = sum(path.stat().st_size for path in writer.directory.glob("recent.sqlite*"))
    whole = sum(file.bytes for file in files) + recent
    assert retention.delete_past_retention(writer, MIDNIGHT + 5 * DAY, largest=whole) == 0
    retention.delete_past_retention(writer, MIDNIGHT + 5 * DAY, largest=whole - 1)
    assert set(files) - set(writer.files()) == {first}


def test_what_is_stored_only_when_it_changes_goes_last(tmp_path: Path) -> None:
    """The settings of the first day are the only rows of them: the server keeps no other."""
    settings = built_in()["settings"]
    with Writer(tmp_path, [SOURCE, settings]) as writer:
        writer.commit([batch(sample(settings, 0, of_source("settings", name="work_mem")))])
        fill(writer, 300)
        compaction.move_to_parquet(writer, MIDNIGHT + 5 * DAY)
        before = writer.files()
        recent = retention.recent_bytes(tmp_path)
        least = sum(file.bytes for file in before if file.view == "settings") + recent
        retention.delete_past_retention(writer, MIDNIGHT + 5 * DAY, largest=least)
        assert {file.view for file in writer.files()} == {"settings"}


def test_a_database_that_alone_is_too_large_costs_no_file(writer: Writer) -> None:
    """It holds what could not be moved: to delete the files as well would lose everything."""
    fill(writer, 300)
    compaction.move_to_parquet(writer, MIDNIGHT + 5 * DAY)
    files = writer.files()
    assert retention.delete_past_retention(writer, MIDNIGHT + 5 * DAY, largest=4096) == 0
    assert writer.files() == files


def test_on_the_first_day_the_size_is_estimated_from_what_is_in_sqlite(tmp_path: Path) -> None:
    """An hour in SQLite: a day adds about 24 times what the hour takes as a file."""
    with Writer(tmp_path / "hour", [SOURCE]) as writer:
        for minute in range(61):
            found = [row(f"q{n}", minute * n, minute * 0.1, (minute * 7919 * n) % 1009)
                     for n in range(50)]  # fmt: skip
            writer.commit([batch(sample(SOURCE, minute * 60, *found))])
    told = size(tmp_path / "hour")
    (view,) = [one for one in told.views if one.view == "queue"]
    with Writer(tmp_path / "hour", [SOURCE]) as writer:
        compaction.move_to_parquet(writer, MIDNIGHT + 2 * DAY)
        (file,) = [one for one in writer.files() if one.view == "queue"]
    assert told.estimated
    assert view.per_day is not None
    assert 0.5 < view.per_day / (24 * file.bytes) < 1.01
    assert view.at_most == 35 * view.per_day
    assert told.at_most is not None
    assert told.at_most > view.at_most
    with Writer(tmp_path / "minute", [SOURCE]) as writer:
        writer.commit([batch(sample(SOURCE, 0, row("mail", 1, 1.0, 1)))])
    short = size(tmp_path / "minute")
    assert (short.at_most, short.estimated) == (None, False)


# Readers.


def test_a_reader_sees_one_state_while_the_writer_goes_on(writer: Writer) -> None:
    fill(writer, 20)
    with open_history(writer.directory) as history:
        fill_more = [batch(sample(SOURCE, 20 * 600, row("mail", 99_999, 0.0, 0)))]
        writer.commit(fill_more)
        compaction.move_to_parquet(writer, MIDNIGHT + 2 * DAY)
        assert history.row("SELECT max(done) AS most FROM queue WHERE queue = 'mail'") == {
            "most": 600
        }
    assert rows(writer.directory, "SELECT max(done) FROM queue WHERE queue = 'mail'") != [(600,)]


def test_a_second_recorder_is_refused(writer: Writer) -> None:
    with pytest.raises(Refused, match="another process records"):
        Writer(writer.directory, [SOURCE])
    assert is_recording(writer.directory)


def test_a_store_of_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    with Writer(tmp_path, [SOURCE]) as writer:
        writer.db.execute(f"PRAGMA user_version = {layout.FORMAT + 1}")
    for opened in (lambda: Writer(tmp_path, [SOURCE]), lambda: open_history(tmp_path).__enter__()):
        with pytest.raises(Refused, match=f"format {layout.FORMAT + 1}"):
            opened()


def test_what_is_no_store_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no history"):
        open_history(tmp_path).__enter__()
    with sqlite3.connect(tmp_path / layout.DATABASE) as db:
        db.execute("CREATE TABLE mine (id int)")
    with pytest.raises(UsageError, match="is not a MrTuner store"):
        Writer(tmp_path, [SOURCE])
    (tmp_path / layout.DATABASE).write_bytes(b"not SQLite at all" * 1000)
    with pytest.raises(UsageError, match="damaged"):
        Writer(tmp_path, [SOURCE])


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def test_a_damaged_file_is_named_and_the_rest_is_read(writer: Writer) -> None:
    fill(writer, 300)
    compaction.move_to_parquet(writer, MIDNIGHT + 5 * DAY)
    first = writer.files()[0]
    damage(writer.directory / layout.LAKE / first.path)
    with open_history(writer.directory) as history:
        assert [first.path in text for text in history.damaged] == [True]
        assert history.rows(TOTALS)
    found = verify(writer.directory)
    assert any(first.path in problem for problem in found.problems)


def test_a_changed_byte_is_found(writer: Writer) -> None:
    fill(writer, 150)
    compaction.move_to_parquet(writer, MIDNIGHT + 5 * DAY)
    assert verify(writer.directory).problems == []
    path = writer.directory / layout.LAKE / writer.files()[0].path
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 2] ^= 1
    path.write_bytes(contents)
    assert "has changed since it was written" in verify(writer.directory).problems[0]


def test_names_with_every_nuisance_come_back_as_they_were(writer: Writer) -> None:
    names = ['a"b', "a'b", "a,b", "a\nb\r\n", "\\N", "", "NULL", " é😀\u202e", "\x01", "ﬁ\ufeff"]
    writer.commit([batch(sample(SOURCE, 0, *(row(name, 0, 0.0, 0) for name in names)))])
    sql = "SELECT queue FROM queue ORDER BY 1"
    assert sorted(one[0] for one in rows(writer.directory, sql)) == sorted(names)
    compaction.move_to_parquet(writer, MIDNIGHT + 2 * DAY)
    assert sorted(one[0] for one in rows(writer.directory, sql)) == sorted(names)


def test_rows_of_a_clock_that_was_ahead_stay_until_their_hour_is_over(writer: Writer) -> None:
    """Sampled at 12:00 by a clock that was two hours ahead; now it is 10:00:30."""
    at = 12 * 3600
    writer.commit([batch(sample(SOURCE, at, row("mail", 100, 1.0, 3)))])
    assert compaction.move_to_parquet(writer, MIDNIGHT + 36_030 * SECOND, hourly=True) == 0
    assert rows(writer.directory, DONE) == [("mail", None, 3, None)]
    # One row of the queue, and one that says when it was sampled.
    assert compaction.move_to_parquet(writer, MIDNIGHT + (at + 3600) * SECOND, hourly=True) == 2
    assert rows(writer.directory, DONE) == [("mail", None, 3, None)]


def test_numbers_come_back_to_the_last_digit(writer: Writer) -> None:
    """The rows are new in the second sample, so their growth is counted from zero."""
    writer.commit([batch(sample(SOURCE, 0, row("none", 0, 0.0, 0)))])
    numbers = [
        (2**62, 0.1 + 0.2, -5),
        (1, 1e15 / 3, 2**53 + 1),
        (7, 1e300, -(2**62)),
        (0, 5e-324, 0),
    ]
    told = [row(f"q{n}", *values) for n, values in enumerate(numbers)]
    writer.commit(
        [batch(sample(SOURCE, 60, row("none", 0, 0.0, 0), *told, row("x", 1, None, None)))]
    )
    sql = "SELECT done, busy_ms, waiting FROM queue WHERE queue <> 'none' ORDER BY queue"
    assert rows(writer.directory, sql) == [*numbers, (1, None, None)]
    compaction.move_to_parquet(writer, MIDNIGHT + 2 * DAY)
    assert rows(writer.directory, sql) == [*numbers, (1, None, None)]


def test_a_query_reads_the_history_and_nothing_else(writer: Writer, tmp_path: Path) -> None:
    fill(writer, 10)
    other = tmp_path / "secret.csv"
    other.write_text("password\nhunter2\n")
    for sql in (
        f"SELECT * FROM read_csv('{other}')",
        f"COPY (SELECT * FROM queue) TO '{tmp_path}/out.csv'",
        "SET enable_external_access = true",
        "ATTACH '/etc/passwd'",
    ):
        with open_history(writer.directory) as history:
            history.provide("SELECT * FROM queue")
            history.lock()
            with pytest.raises(BadValue, match="the query failed"):
                history.rows(sql)
            assert history.rows("SELECT * FROM queue")


def test_a_view_is_found_by_its_name_in_capitals(writer: Writer) -> None:
    """As in PostgreSQL, names in SQL are the same in any case."""
    writer.commit([batch(sample(SOURCE, 0, row("mail", 1, 0.0, 3)))])
    assert rows(writer.directory, "SELECT Waiting FROM QUEUE") == [(3,)]
    assert rows(writer.directory, "SELECT count(*) FROM Queue_By_Hour") == [(1,)]


def test_status_names_what_is_late(writer: Writer) -> None:
    writer.commit([batch(sample(SOURCE, 0, row("mail", 1, 0.0, 0)))])
    begin = MIDNIGHT / SECOND
    (soon,) = status(writer.directory, begin + 100).sources
    (late,) = status(writer.directory, begin + 1000).sources
    assert (soon.late, soon.lag, late.late, late.lag) == (False, 100.0, True, 1000.0)


def test_status_says_what_sampling_costs(writer: Writer) -> None:
    """Three samples of 60, 120 and 180 ms: the first covers no known time, so 300 ms in 600 s."""
    for at, cost in ((0, 0.06), (60, 0.12), (600, 0.18)):
        writer.commit([batch(replace(sample(SOURCE, at, row("mail", at, 0.0, 0)), cost=cost))])
    (told,) = status(writer.directory, MIDNIGHT / SECOND + 600).sources
    assert told.cost == pytest.approx(0.300 / 600)
    assert "Sampling db:5432 takes 0.05% of one session's time." in list(
        status_lines(status(writer.directory, MIDNIGHT / SECOND))
    )


def test_status_of_several_instances_has_a_line_each_and_one_for_each_reason(
    writer: Writer,
) -> None:
    """For 500 instances, nobody would read a line for each of 20 sources."""
    lack = Missing("bloat", "the role may not read it", hint="GRANT pg_read_all_data TO monitor.")
    for name in ("a", "b", "c", "d"):
        one = replace(sample(SOURCE, 0, row("mail", 1, 0.0, 0)), cost=0.0)
        writer.commit([Batch(instance=name, samples=(one,), missing=(lack,))])
    gone = Missing("connection", "nothing is listening there")
    writer.commit([Batch(instance="d", samples=(), missing=(gone,))])
    told = list(status_lines(status(writer.directory, MIDNIGHT / SECOND + 5)))
    assert [line.split() for line in told if line.startswith("a  ")] == [
        ["a", "5", "s", "ago", "1", "1"]
    ]
    assert "  bloat: the role may not read it (3 instances: a, b, c)" in told
    assert "  connection: nothing is listening there (1 instance: d)" in told
    (alone, _) = status(writer.directory, MIDNIGHT / SECOND + 5, "d").sources
    assert (alone.source, alone.late) == ("connection", True)


def test_size_adds_up_what_is_on_disk(writer: Writer) -> None:
    fill(writer, 300)
    compaction.move_to_parquet(writer, MIDNIGHT + 5 * DAY)
    told = size(writer.directory)
    on_disk = sum(path.stat().st_size for path in writer.directory.rglob("*.parquet"))
    assert sum(view.bytes for view in told.views) == on_disk
    assert told.bytes == on_disk + told.recent_bytes
    (queue_view,) = [view for view in told.views if view.view == "queue"]
    assert queue_view.rows == rows(writer.directory, "SELECT count(*) FROM queue")[0][0]


def test_events_are_kept(writer: Writer) -> None:
    event = HistoryEvent(at=MIDNIGHT, instance="db:5432", kind="lost", detail="gone")
    writer.commit([batch(events=(event,))])
    assert rows(writer.directory, "SELECT kind, detail FROM events") == [("lost", "gone")]


def test_a_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Even under a umask that takes nothing away, and in a store that was open to all before."""
    before = os.umask(0)
    try:
        with Writer(tmp_path / "store", [queue()]) as writer:
            writer.commit([batch(sample(queue(), 0, row("mail", 1, 1.0, 1)))])
            files = [path for path in writer.directory.iterdir() if path.is_file()]
            assert {path.name for path in files} >= {"recent.sqlite", "recent.sqlite-wal"}
            assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in files} == {0}
        (tmp_path / "store" / "recent.sqlite").chmod(0o644)
        with Writer(tmp_path / "store", [queue()]) as writer:
            found = (writer.directory / "recent.sqlite").stat().st_mode
            assert stat.S_IMODE(found) == 0o600
    finally:
        os.umask(before)
