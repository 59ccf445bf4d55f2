"""A query inside a period reads what is in it, from files and from SQLite, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from history_data import MIDNIGHT, SECOND, batch, queue, row, sample
from history_story import INSTANCE, of_source, story

from mrtuner.answers.overview import overview
from mrtuner.history.analysis.gaps import gaps
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.analysis.statements import statement_changes, statements
from mrtuner.history.reading import History, open_history
from mrtuner.history.recording.sampler import SourceSample
from mrtuner.history.recording.source import built_in
from mrtuner.history.store import compaction, layout
from mrtuner.history.store.writer import Batch, Writer

START = datetime(2026, 11, 23, tzinfo=UTC)
MINUTES = 30 * 60
#: Of these, the first day is in files, the rest in SQLite.
SEALED = 24 * 60
QUEUE = queue()


def fill(directory: Path) -> None:
    """A queue for 30 hours: after n minutes, n jobs are done and n jobs wait."""
    samples = [
        sample(QUEUE, 60 * n, row("mail", n, float(n), n, reset="x")) for n in range(MINUTES)
    ]
    with Writer(directory, [QUEUE]) as writer:
        writer.commit([batch(*samples)])
        for hour in range(1, 26):
            compaction.move_to_parquet(writer, MIDNIGHT + hour * 3600 * SECOND, hourly=hour <= 24)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    fill(tmp_path)
    with open_history(tmp_path) as found:
        yield found


def at(minute: float) -> datetime:
    return (START + timedelta(minutes=minute)).replace(tzinfo=None)


PERIODS = [
    (0, MINUTES), (10, 20), (59.5, 60.5), (60, 120), (SEALED - 7, SEALED + 9),
    (SEALED, SEALED + 1), (MINUTES - 1, MINUTES + 500), (-500, 1), (5000, 6000),
]  # fmt: skip


def test_each_period_has_its_own_rows(history: History) -> None:
    """Some are asked for twice, with more periods in between than are kept."""
    assert len(history.files) > 24
    more = [(n, n + 90) for n in range(0, MINUTES, 120)]
    for begin, end in [*PERIODS, *more, *PERIODS]:
        (found,) = history.rows(
            "SELECT count(*) AS n, min(waiting) AS low, max(waiting) AS high FROM queue "
            "WHERE time >= $begin AND time < $end",
            {"begin": at(begin), "end": at(end)}, inside=True,
        )  # fmt: skip
        inside = [n for n in range(MINUTES) if begin <= n < end]
        assert (found["n"], found["low"], found["high"]) == (
            len(inside), min(inside, default=None), max(inside, default=None),
        )  # fmt: skip


def test_a_step_of_a_summary_is_whole_though_the_period_ends_in_it(history: History) -> None:
    for begin, end in ((0, 90), (SEALED - 60, SEALED + 1), (MINUTES - 60, MINUTES - 30)):
        rows = history.rows(
            "SELECT time, sum(done) AS done, sum(samples) AS samples FROM queue_by_hour "
            "WHERE time >= $begin AND time < $end GROUP BY 1 ORDER BY 1",
            {"begin": at(begin), "end": at(end)}, inside=True,
        )  # fmt: skip
        hours = [n for n in range(0, MINUTES, 60) if begin <= n < end]
        assert [one["time"] for one in rows] == [at(n) for n in hours]
        assert [one["samples"] for one in rows] == [60] * len(hours)
        # The first sample has nothing to be compared with.
        assert [one["done"] for one in rows] == [60 - (n == 0) for n in hours]


def test_only_files_of_the_period_are_opened(history: History) -> None:
    """A file of another time is damaged: only a query that reads it notices."""
    lake = Path(history.name) / layout.LAKE
    first = min((file for file in history.files if file.view == "queue"), key=lambda one: one.first)
    (lake / first.path).write_bytes(b"PAR1" + bytes(first.bytes - 8) + b"PAR1")
    count = "SELECT count(*) AS n FROM queue WHERE time >= $begin AND time < $end"
    late = {"begin": at(600), "end": at(660)}
    assert history.row(count, late, inside=True)["n"] == 60
    assert not history.damaged
    early = {"begin": at(0), "end": at(120)}
    assert history.row(count, early, inside=True)["n"] == 120 - first.rows
    (named,) = list(history.damaged)
    assert first.path in named
    assert history.row(count, late, inside=True)["n"] == 60


def test_the_last_sample_is_found_wherever_it_is(tmp_path: Path) -> None:
    with Writer(tmp_path, [QUEUE]) as writer:
        writer.commit([batch(sample(QUEUE, 0, row("mail", 1, 1.0, 1)), instance="old")])
        compaction.move_to_parquet(writer, MIDNIGHT + 86_400 * SECOND, everything=True)
        day = 40 * 86_400
        writer.commit([batch(sample(QUEUE, day, row("mail", 1, 1.0, 1)), instance="sealed")])
        compaction.move_to_parquet(writer, MIDNIGHT + (day + 3600) * SECOND, everything=True)
        writer.commit([batch(sample(QUEUE, day + 30, row("mail", 1, 1.0, 1)), instance="recent")])
    with open_history(tmp_path) as history:
        days = timedelta(days=40)
        assert history.newest() == at(0.5) + days
        assert history.last_sample("recent") == at(0.5) + days
        assert history.last_sample("sealed") == at(0) + days
        assert history.last_sample("old") == at(0)
        assert history.last_sample("nobody") is None


def calls(minute: int) -> SourceSample:
    """A statement that ran 7 times and for 70 ms in each minute so far."""
    one = of_source(
        "statements", database="app", role="web", query_id=5, toplevel=True, calls=7 * minute,
        exec_ms=70.0 * minute,
    )  # fmt: skip
    return SourceSample(
        source=built_in()["statements"], at=MIDNIGHT + minute * 60 * SECOND,
        monotonic=60.0 * minute, rows=(one,), cost=0.001,
    )  # fmt: skip


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize(("begin", "end"), [(1, 1200), (90, 1110), (121, 899), (480, 490)])
def test_statements_of_a_long_period_are_those_of_its_minutes(
    tmp_path: Path, begin: int, end: int, sealed: bool
) -> None:
    """Whole hours come from the summary, and what is before and after them from the rows."""
    with Writer(tmp_path, built_in().values()) as writer:
        samples = tuple(calls(minute) for minute in range(1200))
        writer.commit([Batch(instance=INSTANCE, samples=samples)])
        if sealed:
            compaction.move_to_parquet(writer, MIDNIGHT + 86_400 * SECOND)
    about = HistoryPeriod(
        instance=INSTANCE, begin=START + timedelta(minutes=begin),
        end=START + timedelta(minutes=end),
    )  # fmt: skip
    with open_history(tmp_path) as history:
        (found,) = statements(history, about, 10)
        assert found.calls == 7 * (end - begin)
        assert found.seconds == pytest.approx(0.07 * (end - begin))
        (change,) = statement_changes(history, about, about, top=10)
        assert (change.before, change.after, change.more_load) == (found, found, 0)


def test_a_gap_over_a_minute_s_end_is_found_and_a_short_one_is_none(tmp_path: Path) -> None:
    """Samples at 59 s, 120 s and 175 s after midnight: 61 s and 55 s apart."""
    with Writer(tmp_path, built_in().values()) as writer:
        heartbeats = tuple(
            SourceSample(source=built_in()["sessions"], at=MIDNIGHT + second * SECOND,
                   monotonic=float(second), rows=(), cost=0.001)
            for second in (0, 30, 59, 120, 175)
        )  # fmt: skip
        writer.commit([Batch(instance=INSTANCE, samples=heartbeats)])
    about = HistoryPeriod(instance=INSTANCE, begin=START, end=START + timedelta(minutes=5))
    with open_history(tmp_path) as history:
        (gap,) = gaps(history, about)
    assert (gap.begin, gap.end) == (START + timedelta(seconds=59), START + timedelta(minutes=2))


def test_an_instance_that_was_not_recorded_for_weeks_is_still_in_the_overview(
    tmp_path: Path,
) -> None:
    """The hour of the story, and one sample of another instance 20 days later."""
    story(tmp_path)
    with Writer(tmp_path, built_in().values()) as writer:
        late = SourceSample(
            source=built_in()["connections"], at=MIDNIGHT + 20 * 86_400 * SECOND, monotonic=1.0,
            rows=(of_source("connections", clients=30, maximum=40, ordinary=40),), cost=0.001,
        )  # fmt: skip
        writer.commit([Batch(instance="late", samples=(late,))])
        compaction.move_to_parquet(writer, MIDNIGHT + 21 * 86_400 * SECOND)
    with open_history(tmp_path) as history:
        found = {one.instance: one for one in overview(history)}
    assert found["late"].used == {"connections": 0.75}
    assert found["late"].last == START + timedelta(days=20)
    earlier = found[INSTANCE]
    assert (earlier.cpus, earlier.tightest, earlier.changes) == (4, "CPU", 1)
    assert earlier.used["connections"] == pytest.approx(20 / 97)
    # 55 minutes at 2 sessions, of which ten have 8 more.
    assert earlier.load == pytest.approx((3300 * 2 + 600 * 8) / 3300)
