"""Values over time are those of the hour that `history_story` tells."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from history_data import batch, queue, row, sample
from history_story import BEGIN, CHEAP, DEAR, INSTANCE, of_source, opened_story

from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.analysis.series import (
    OTHER,
    Grid,
    Kind,
    Measure,
    grid,
    lines,
    rate,
    ratio,
    shifted,
    split,
)
from mrtuner.history.reading import History, open_history
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.summaries import AT_WORK
from mrtuner.history.store.writer import Writer

TWO = datetime(2026, 11, 23, 2, tzinfo=UTC)
HOUR = HistoryPeriod(instance=INSTANCE, begin=TWO, end=TWO + timedelta(hours=1))
MINUTES = Grid(about=HOUR, begin=int(TWO.timestamp()), step=60, count=60)
WHOLE = Grid(about=HOUR, begin=int(TWO.timestamp()), step=3600, count=1)


@pytest.fixture(scope="module", params=["in SQLite", "in files"])
def history(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[History]:
    with opened_story(tmp_path_factory.mktemp("history"), request.param) as history:
        yield history


def test_a_rate_is_growth_by_the_time_it_took(history: History) -> None:
    """1 MB a second, in the busy minutes 16; a sample at :31 tells of the minute before it."""
    (wal,) = lines(history, MINUTES, "wal", {"WAL": rate("bytes")})
    expected = [1e6] * 60
    expected[31:41] = [16e6] * 10
    assert wal.name == "WAL"
    assert wal.values[0] is None  # of the first sample, growth is unknown
    assert wal.values[1:50] == expected[1:50]
    assert wal.values[50:55] == [None] * 5  # nobody recorded
    assert wal.values[55:] == expected[55:]


def test_sessions_are_counted_at_a_time_not_over_all_samples(history: History) -> None:
    found = split(history, MINUTES, "sessions", Measure(Kind.NUMBER), "wait_type", where=AT_WORK)
    by_class = {one.name: one.values for one in found}
    assert by_class["?"][:50] == [2.0] * 50
    assert by_class["IO"][30:40] == [8.0] * 10
    assert by_class["IO"][:30] == [0.0] * 30  # sampled, and nobody waited
    assert by_class["IO"][50:55] == [None] * 5


def test_all_at_work_are_counted_without_those_that_are_idle(history: History) -> None:
    """Two, and eight more in the busy minutes; the third, idle in a transaction, is not at work."""
    number = Measure(Kind.NUMBER)
    (found,) = split(history, MINUTES, "sessions", number, "''", where=AT_WORK)
    assert found.values[:50] == [2.0] * 30 + [10.0] * 10 + [2.0] * 10
    assert found.values[50:55] == [None] * 5
    (everybody,) = split(history, MINUTES, "sessions", number, "''")
    assert everybody.values[:31] == [3.0] * 30 + [11.0]


def test_the_largest_come_first_and_the_rest_is_one_line(history: History) -> None:
    """The dear statement keeps half a session busy, the cheap one a hundredth."""
    busy = rate("exec_ms", scale=0.001)
    dear, rest = split(history, MINUTES, "statements", busy, "query_id", top=1)
    assert (dear.name, rest.name) == (str(DEAR), OTHER)
    assert dear.values[40] == pytest.approx(0.5)
    assert rest.values[40] == pytest.approx(0.01)
    names = [one.name for one in split(history, MINUTES, "statements", busy, "query_id")]
    assert names == [str(DEAR), str(CHEAP)]


def test_what_the_first_sample_lacks_is_unknown_there_and_later_none(tmp_path: Path) -> None:
    """Statement 2 is first seen in the third minute: a growth begins with the second sample."""
    with Writer(tmp_path, built_in().values()) as writer:
        for minute in range(4):
            seen = [
                of_source("statements", database="shop", role="web", query_id=number, toplevel=True,
                          calls=60 * minute, exec_ms=6000.0 * minute, rows=0)
                for number in ((1, 2) if minute > 1 else (1,))
            ]  # fmt: skip
            one = sample(built_in()["statements"], BEGIN + 60 * minute, *seen)
            writer.commit([batch(one, instance=INSTANCE)])
    with open_history(tmp_path) as history:
        found = split(history, MINUTES, "statements", rate("calls"), "query_id")
    by_statement = {one.name: one.values[:4] for one in found}
    assert by_statement["1"] == [None, 1.0, 1.0, 1.0]
    assert by_statement["2"][:2] == [None, 0.0]


def test_a_ratio_is_of_sums(history: History) -> None:
    """A write takes 2 ms; of the 500 in a busy second, 450 take 4.4 s together: (0.1+4.4)/500."""
    (took,) = lines(history, MINUTES, "host", {"w": ratio("disk_write_time", "disk_writes")})
    assert took.values[10] == pytest.approx(0.002)
    assert took.values[35] == pytest.approx(4.5 / 500)


def test_an_hour_from_its_summary_is_what_its_rows_are(history: History) -> None:
    """By hand: 59 minutes at 1 MB and ten at 15 more, over 59 minutes."""
    (wal,) = lines(history, WHOLE, "wal", {"WAL": rate("bytes")})
    assert wal.values == [pytest.approx((59 * 60 * 1e6 + 600 * 15e6) / (59 * 60))]
    (most,) = lines(history, WHOLE, "connections", {"c": Measure(Kind.HIGHEST, "clients")})
    assert most.values == [20.0]
    (least,) = lines(history, WHOLE, "host", {"m": Measure(Kind.LOWEST, "memory_available")})
    assert least.values == [2.0 * 2**30]


def test_steps_are_as_fine_as_the_source_and_as_few_as_asked(history: History) -> None:
    def step(*sources: str, most: int = 300) -> tuple[int, int]:
        found = grid(history, HOUR, sources, most=most)
        return found.step, found.count

    assert step("sessions") == (15, 240)  # ten seconds would be 360 steps
    assert step("sessions", most=2000) == (10, 360)
    assert step("wal") == (60, 60)
    assert step("tables") == (300, 12)
    assert step("wal", most=10) == (600, 6)


def test_steps_of_an_earlier_period_are_as_many(history: History) -> None:
    day = timedelta(days=1)
    before = HistoryPeriod(instance=INSTANCE, begin=HOUR.begin - day, end=HOUR.end - day)
    found = shifted(MINUTES, before)
    assert (found.begin, found.step, found.count) == (MINUTES.begin - 86_400, 60, 60)


def test_what_is_stored_only_when_it_changes_stays(tmp_path: Path) -> None:
    """Waiting: 3 from 01:50, 7 from 02:01, gone at 02:03; sampled each minute until 02:05."""
    source = queue()
    with Writer(tmp_path, [source]) as writer:
        for minute in range(110, 126):
            gone = minute >= 123
            rows = () if gone else (row("mail", minute, 1.0, 7 if minute >= 121 else 3),)
            writer.commit([batch(sample(source, minute * 60, *rows), instance=INSTANCE)])
    ten = Grid(about=HOUR, begin=int(TWO.timestamp()), step=60, count=10)
    with open_history(tmp_path) as history:
        (mail,) = split(history, ten, "queue", Measure(Kind.LAST, "waiting"), "queue")
        (done,) = lines(history, ten, "queue", {"done": rate("done", scale=60)})
        coarse = Grid(about=HOUR, begin=int(TWO.timestamp()), step=300, count=2)
        (later,) = split(history, coarse, "queue", Measure(Kind.LAST, "waiting"), "queue")
    assert later.values == [None, None]  # gone at the end of the first five minutes
    assert mail.values == [3, 7, 7, None, None, None, None, None, None, None]
    assert done.values[:3] == [1, 1, 1]
    assert done.values[6:] == [None] * 4


def test_a_sample_that_comes_late_fills_the_steps_it_covers(tmp_path: Path) -> None:
    """A busy recorder sampled every other minute instead of every one; then not for ten."""
    source = queue()
    with Writer(tmp_path, [source]) as writer:
        for minute in (118, 120, 122, 132, 133):
            only = row("mail", minute, 1.0, 1)
            writer.commit([batch(sample(source, minute * 60, only), instance=INSTANCE)])
    over = Grid(about=HOUR, begin=int(TWO.timestamp()), step=60, count=14)
    with open_history(tmp_path) as history:
        (done,) = lines(history, over, "queue", {"done": rate("done", scale=60)})
    assert done.values == [1, 1, 1, *[None] * 9, 1, 1]
