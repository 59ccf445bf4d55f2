"""What was read of a store is kept when it is opened again, and is what a new reader would read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from history_data import MIDNIGHT, SECOND, batch, queue, row, sample

from mrtuner.history.reading import History, Workspace, open_history
from mrtuner.history.store import sealing
from mrtuner.history.store.writer import Writer
from mrtuner.web.shared import SharedHistory

START = datetime(2026, 11, 23, tzinfo=UTC).replace(tzinfo=None)
QUEUE = queue()
#: A row for each of these seconds has as many waiting jobs.
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
    """Seconds in which a sample of an instance is found, in a period."""
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
    """The store has exactly these, by each way of asking."""
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
        sealing.move_to_parquet(writer, MIDNIGHT + 3800 * SECOND, hourly=True)
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
        sealing.move_to_parquet(writer, MIDNIGHT + 40 * SECOND, everything=True)
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
