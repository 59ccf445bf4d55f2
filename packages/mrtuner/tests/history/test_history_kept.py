"""What a reader keeps from one opening of a store to the next is what a new reader would read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from history_data import MIDNIGHT, SECOND, batch, queue, row, sample

from mrtuner.history.reading import History, open_history
from mrtuner.history.store import compaction, retention
from mrtuner.history.store.writer import Writer
from mrtuner.history.workspace import Workspace
from mrtuner.web.shared import SharedHistory

START = datetime(2026, 11, 23, tzinfo=UTC).replace(tzinfo=None)
QUEUE = queue()
#: Times of samples; each has as many waiting jobs as its second.
Seconds = list[int]


@pytest.fixture
def work() -> Iterator[Workspace]:
    with closing(Workspace()) as kept:
        yield kept


def commit(writer: Writer, seconds: Seconds, instance: str = "db:5432") -> None:
    """A sample at each of these seconds, of two queues."""
    samples = [sample(QUEUE, n, row("mail", n, 0.0, n), row("fax", n, 0.0, 0)) for n in seconds]
    writer.commit([batch(*samples, instance=instance)])


def waiting(history: History, instance: str, begin: int, end: int) -> Seconds:
    """Return the seconds of an instance's samples in a period."""
    rows = history.rows(
        "SELECT waiting FROM queue WHERE queue = 'mail' AND instance = $instance "
        "AND time >= $begin AND time < $end ORDER BY time",
        {"instance": instance, "begin": START + timedelta(seconds=begin),
         "end": START + timedelta(seconds=end)}, inside=True,
    )  # fmt: skip
    return [one["waiting"] for one in rows]


def check(
    directory: Path, work: Workspace, seconds: Seconds, elsewhere: Sequence[int] = ()
) -> None:
    """Assert that each kind of query finds exactly these samples."""
    with open_history(directory, work=work) as history:
        for instance, expected in (("db:5432", sorted(seconds)), ("other", sorted(elsewhere))):
            assert waiting(history, instance, 0, 86_400) == expected
            assert waiting(history, instance, 3000, 4000) == [
                n for n in expected if 3000 <= n < 4000
            ]
            summed = history.row(
                "SELECT count(*) AS n, sum(waiting) AS sum FROM queue WHERE instance = $instance",
                {"instance": instance},
            )
            assert summed["n"] == 2 * len(expected)
            assert (summed["sum"] or 0) == sum(expected)
        whole = history.row("SELECT sum(samples) AS n FROM queue_by_hour")
        assert whole["n"] == 2 * (len(seconds) + len(elsewhere)) or (whole["n"] is None)


def test_rows_that_come_and_rows_that_move_are_seen_once(tmp_path: Path, work: Workspace) -> None:
    with Writer(tmp_path, [QUEUE]) as writer:
        commit(writer, [10, 20, 3500])
        check(tmp_path, work, [10, 20, 3500])
        check(tmp_path, work, [10, 20, 3500])
        commit(writer, [3700])
        check(tmp_path, work, [10, 20, 3500, 3700])
        commit(writer, [30])  # late
        commit(writer, [40], instance="other")
        check(tmp_path, work, [10, 20, 30, 3500, 3700], [40])
        compaction.move_to_parquet(writer, MIDNIGHT + 3800 * SECOND, hourly=True)
        check(tmp_path, work, [10, 20, 30, 3500, 3700], [40])
        commit(writer, [3720])
        check(tmp_path, work, [10, 20, 30, 3500, 3700, 3720], [40])


def test_rows_that_get_the_numbers_of_others_are_not_taken_for_them(
    tmp_path: Path, work: Workspace
) -> None:
    """SQLite counts from the beginning again when a table has become empty."""
    with Writer(tmp_path, [QUEUE]) as writer:
        commit(writer, [10, 20, 30])
        check(tmp_path, work, [10, 20, 30])
        compaction.move_to_parquet(writer, MIDNIGHT + 40 * SECOND, everything=True)
        commit(writer, [50, 60, 70])
        (last,) = writer.db.execute("SELECT max(rowid) FROM recent_queue").fetchone()
        assert last == 6  # two rows a sample, as before
        check(tmp_path, work, [10, 20, 30, 50, 60, 70])


def test_many_instances_are_forgotten_and_read_again(tmp_path: Path, work: Workspace) -> None:
    expected = {f"db{n}": [100 + n] for n in range(20)}
    with Writer(tmp_path, [QUEUE]) as writer:
        for name, seconds in expected.items():
            commit(writer, seconds, instance=name)
        for _ in range(2):
            for name, seconds in expected.items():
                with open_history(tmp_path, work=work) as history:
                    assert waiting(history, name, 0, 86_400) == seconds
                assert len(work.recent.instances) <= 10
            commit(writer, [9000], instance="db0")
            expected["db0"] = [100, 9000]


def test_texts_of_new_statements_come_too(tmp_path: Path, work: Workspace) -> None:
    ask: Callable[[History], list[str]] = lambda history: [  # noqa: E731
        one["text"] for one in history.rows("SELECT text FROM statement_texts ORDER BY 1")
    ]
    with Writer(tmp_path, [QUEUE]) as writer:
        for number, expected in ((1, ["SELECT 1"]), (2, ["SELECT 1", "SELECT 2"])):
            texts = {number: f"SELECT {number}"}
            writer.commit([batch(sample(QUEUE, number, row("mail", 1, 0.0, 0)), texts=texts)])
            with open_history(tmp_path, work=work) as history:
                assert ask(history) == expected


def test_another_store_in_the_place_of_the_first_is_read_from_its_beginning(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store"
    with closing(SharedHistory(store, age=0.05)) as shared:
        for seconds in ([10, 20, 30], [40, 50, 60]):
            new = tmp_path / f"new{seconds[0]}"
            with Writer(new, [QUEUE]) as writer:
                commit(writer, seconds)
            if store.exists():
                store.rename(tmp_path / "old")
            new.rename(store)
            until = time.monotonic() + 60
            found: Seconds = []
            while found != seconds and time.monotonic() < until:
                with shared.lent() as history:
                    found = waiting(history, "db:5432", 0, 86_400)
                time.sleep(0.02)
            assert found == seconds


def test_the_newest_row_before_a_time_is_found_however_old_it_is(
    tmp_path: Path, work: Workspace
) -> None:
    """The answer for past days is kept, and must still be right when the store has grown.

    The fax is there from hour 2 on, changes at 30, and is gone at 55: its last row has only nulls.
    """
    hours = [1, 2, 5, 23, 26, 30, 49, 55, 70, 73]
    fax = {2: 2, 5: 2, 23: 2, 26: 2, 30: 30, 49: 30}

    def newest(end: float) -> dict[str, int | None]:
        with open_history(tmp_path, work=work) as history:
            rows = history.latest(
                """SELECT queue, arg_max({ waiting: waiting }, time) FROM queue
                   WHERE instance = $instance AND time >= $begin AND time < $end GROUP BY 1""",
                "queue", 1, instance="db:5432", end=START + timedelta(hours=end),
            )  # fmt: skip
        return {name: last["waiting"] for name, last in rows}

    with Writer(tmp_path, [QUEUE]) as writer:
        for now in hours:
            rows = [row("mail", now, 0.0, now)]
            if now in fax:
                rows.append(row("fax", now, 0.0, fax[now]))
            writer.commit([batch(sample(QUEUE, 3600 * now, *rows))])
            if now in {23, 49, 55}:
                until = MIDNIGHT + (3600 * now + 60) * SECOND
                compaction.move_to_parquet(writer, until, hourly=True, everything=now == 55)
            for end in (0.5, 1.5, 24, 25, 26.5, 31, 50, 60, 72, 74):
                past = [hour for hour in hours if hour <= now and hour < end]
                expected: dict[str, int | None] = {"mail": past[-1]} if past else {}
                if past and past[-1] >= 2:
                    expected["fax"] = fax.get(past[-1])
                assert newest(end) == expected, (now, end)


def test_what_files_say_is_kept_until_they_say_something_else(
    tmp_path: Path, work: Workspace
) -> None:
    """Sums of a morning and of a day, by each method that keeps answers, and a count of rows."""

    def found() -> tuple[list[int | None], list[int | None], int]:
        sql = "SELECT sum(waiting) FROM queue WHERE time >= $begin AND time < $end"
        spans = [{"begin": START, "end": START + timedelta(hours=hours)} for hours in (6, 24)]
        with open_history(tmp_path, work=work) as history:
            sealed = [history.sealed(sql, "queue", span)[0][0] for span in spans]
            whole = [history.during(sql, "queue", span)[0][0] for span in spans]
            count = "SELECT count(*) AS n FROM queue WHERE queue = 'mail'"
            rows = history.kept("queue", "count", lambda: history.row(count)["n"])
            return sealed, whole, rows

    with Writer(tmp_path, [QUEUE]) as writer:
        commit(writer, [10])
        assert found() == ([None, None], [10, 10], 1)
        compaction.move_to_parquet(writer, MIDNIGHT + 40 * SECOND, everything=True)
        assert found() == ([10, 10], [10, 10], 1)
        commit(writer, [7 * 3600])
        assert found() == ([10, 10], [10, 10 + 7 * 3600], 2)
        commit(writer, [20])  # late
        assert found() == ([10, 10], [30, 30 + 7 * 3600], 3)
        compaction.move_to_parquet(writer, MIDNIGHT + 86_400 * SECOND)
        assert found() == ([30, 30 + 7 * 3600],) * 2 + (3,)
        (old,) = (file for file in writer.files() if file.view == "queue" and file.rows == 2)
        assert compaction.compact(writer, MIDNIGHT + 2 * 86_400 * SECOND) > 0
        assert old not in writer.files()
        assert found() == ([30, 30 + 7 * 3600],) * 2 + (3,)
        assert retention.delete_past_retention(writer, MIDNIGHT + 900 * 86_400 * SECOND) > 0
        assert found() == ([None, None], [None, None], 0)


def test_recent_rows_are_counted_as_they_come_and_go(tmp_path: Path, work: Workspace) -> None:
    def found() -> dict[tuple[str, int], tuple[int, int, int]]:
        with open_history(tmp_path, work=work) as history:
            counted = history.recent_hours("queue", "queue = 'mail' AND waiting > 15")
            return {
                (name, (hour - MIDNIGHT) // (3600 * SECOND)): (
                    one.rows, (one.first - MIDNIGHT) // SECOND, (one.last - MIDNIGHT) // SECOND
                )
                for (name, hour), one in counted.items()
            }  # fmt: skip

    with Writer(tmp_path, [QUEUE]) as writer:
        commit(writer, [10, 20, 3700])
        first = {("db:5432", 0): (1, 10, 20), ("db:5432", 1): (1, 3700, 3700)}
        assert found() == first
        assert found() == first
        commit(writer, [5, 30])
        commit(writer, [12], instance="other")
        assert found() == {
            ("db:5432", 0): (2, 5, 30), ("db:5432", 1): (1, 3700, 3700), ("other", 0): (0, 12, 12)
        }  # fmt: skip
        compaction.move_to_parquet(writer, MIDNIGHT + 3800 * SECOND, hourly=True)
        assert found() == {("db:5432", 1): (1, 3700, 3700)}
        compaction.move_to_parquet(writer, MIDNIGHT + 3800 * SECOND, everything=True)
        assert found() == {}
        commit(writer, [3800, 3900, 4000])  # their rows reuse earlier numbers
        assert found() == {("db:5432", 1): (3, 3800, 4000)}


def test_a_table_may_stand_in_brackets(tmp_path: Path) -> None:
    """`samples` is a view and a column of summaries; the column does not stand for the view."""
    with Writer(tmp_path, [QUEUE]) as writer:
        commit(writer, [10, 20])
    with open_history(tmp_path) as history:
        assert history.row("SELECT count(*) AS n FROM (samples)") == {"n": 2}
        asked = "SELECT sum(samples) AS samples FROM (queue_by_hour)"
        assert history.row(asked) == {"samples": 4}
