"""The analyses describe the hour of `history_story` as it was."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from history_incident import incident
from history_story import CHEAP, DEAR, INSTANCE, MB, TEXTS, opened_story

from mrtuner.errors import UsageError
from mrtuner.history.analysis import period as periods
from mrtuner.history.analysis.active_sessions import busiest_minute, load_by_step
from mrtuner.history.analysis.changes import changes
from mrtuner.history.analysis.gaps import gaps
from mrtuner.history.analysis.happened import checkpoints, slowest_minute, summary
from mrtuner.history.analysis.host_work import host_work
from mrtuner.history.analysis.peaks import peaks
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.analysis.statements import statement_changes, statements
from mrtuner.history.document import HistoryWait
from mrtuner.history.reading import History, open_history

TWO = datetime(2026, 11, 23, 2, tzinfo=UTC)


def period(begin: int, end: int) -> HistoryPeriod:
    """Minutes after two o'clock."""
    return HistoryPeriod(
        instance=INSTANCE, begin=TWO + timedelta(minutes=begin), end=TWO + timedelta(minutes=end)
    )


@pytest.fixture(scope="module", params=["in SQLite", "in files"])
def history(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[History]:
    with opened_story(tmp_path_factory.mktemp("history"), request.param) as history:
        yield history


def test_the_load_is_that_of_sessions_at_work_by_what_they_wait_for(history: History) -> None:
    steps = load_by_step(history, period(0, 60), 600)
    assert [step.classes for step in steps] == [
        {"CPU": 2.0}, {"CPU": 2.0}, {"CPU": 2.0}, {"CPU": 2.0, "IO": 8.0}, {"CPU": 2.0},
        {"CPU": 2.0},
    ]  # fmt: skip


def test_where_nobody_recorded_the_load_is_unknown(history: History) -> None:
    steps = load_by_step(history, period(48, 52), 60)
    assert [step.total for step in steps] == [2.0, 2.0, None, None]
    (gap,) = gaps(history, period(0, 60))
    assert (gap.begin, gap.end) == (
        TWO + timedelta(minutes=49, seconds=59), TWO + timedelta(minutes=55)
    )  # fmt: skip


def test_statements_come_by_the_time_they_took(history: History) -> None:
    """By hand, 02:00:01 to 02:59: 59 minutes of 600 calls of 1 ms; 29 of 60 calls of 500 ms."""
    dear, cheap = statements(history, period(0, 60), 10)
    assert (dear.query_id, dear.text, dear.calls, dear.seconds) == (DEAR, TEXTS[DEAR], 1740, 870.0)
    assert (cheap.query_id, cheap.calls, cheap.seconds, cheap.role) == (CHEAP, 35_400, 35.4, "web")


def test_checkpoints_and_wal_add_up(history: History) -> None:
    """By hand: 59 minutes of 1 MB/s, and 15 MB/s more in 10 busy ones."""
    about = checkpoints(history, period(0, 60))
    assert (about.timed, about.requested) == (11, 10)
    assert about.wal_bytes == 59 * 60 * MB + 600 * 15 * MB
    assert about.peak_wal == 16 * MB


def test_the_host_is_told_by_its_average_and_its_highest_sample(history: History) -> None:
    """By hand, over 59 minutes of which 10 were busy; a busy one has 3.2 of 4 CPUs."""
    host = host_work(history, period(0, 60))
    assert host is not None
    assert (host.cpus, host.least_memory) == (4, 2 * 2**30)
    assert host.throttled is None
    assert host.cpu is not None
    assert host.cpu.average == pytest.approx((1.2 * 3540 + 2 * 600) / (4 * 3540))
    assert host.cpu.highest == pytest.approx(0.8)
    assert host.iowait is not None
    assert host.iowait.highest == pytest.approx(0.05)
    assert host.reads is not None
    assert host.reads.average == pytest.approx(100)
    assert host.read_seconds is not None
    assert host.read_seconds.highest == pytest.approx(0.001)
    assert host.writes is not None
    assert host.writes.highest == pytest.approx(500)
    assert host.write_seconds is not None
    assert host.write_seconds.average == pytest.approx((0.1 * 3540 + 4.4 * 600) / 447_000)
    assert host.write_seconds.highest == pytest.approx(0.009)


def test_a_host_of_which_only_summaries_are_kept_has_the_same_averages(history: History) -> None:
    """A period that begins 40 days ago; the hourly summary covers the same hour."""
    host = host_work(history, period(-40 * 24 * 60, 60))
    assert host is not None
    assert host.cpu is not None
    assert host.cpu.average == pytest.approx((1.2 * 3540 + 2 * 600) / (4 * 3540))
    assert host.cpu.highest == pytest.approx(host.cpu.average)
    assert (host.cpus, host.least_memory) == (4, 2 * 2**30)


def test_the_busiest_minute_says_what_waited_and_what_ran(history: History) -> None:
    minute = slowest_minute(history, period(0, 60))
    assert minute is not None
    assert TWO + timedelta(minutes=30) <= minute.at < TWO + timedelta(minutes=40)
    waits = (
        HistoryWait(event="IO: WALSync", sessions=8.0), HistoryWait(event="CPU", sessions=2.0),
    )  # fmt: skip
    assert (minute.load, minute.waits) == (10.0, waits)
    assert minute.statements[0].query_id == DEAR


@pytest.mark.parametrize(
    ("begin", "end", "load", "lock"),
    [("02:20:00", "02:20:20", 33.0, 30.0), ("02:19:50", "02:20:10", 33.0, 30.0),
     ("02:20:41", "02:20:59", 3.0, None), ("02:20:00", "02:21:00", 23.5, 20.5)],
)  # fmt: skip
def test_a_period_that_begins_or_ends_within_a_minute_has_nothing_of_the_rest_of_it(
    begin: str, end: str, load: float, lock: float | None, tmp_path: Path
) -> None:
    """By hand: three sessions at work, and from 02:20:00 to 02:20:40, in 41 samples, 30 that wait
    for locks. The busiest minute is that of the queue: all of it has 3 + 30 * 41 / 60.
    """
    about = HistoryPeriod(
        instance=INSTANCE,
        begin=datetime.fromisoformat(f"2026-11-23T{begin}+00:00"),
        end=datetime.fromisoformat(f"2026-11-23T{end}+00:00"),
    )
    with open_history(incident(tmp_path)) as history:
        minute = slowest_minute(history, about)
        steps = load_by_step(history, about, 60)
    assert minute is not None
    assert minute.load == pytest.approx(load)
    waiting = sum(one.sessions for one in minute.waits if "Lock" in one.event)
    assert waiting == pytest.approx(lock or 0)
    assert steps[-1].total == pytest.approx(load)


@pytest.mark.parametrize(
    ("begin", "end", "busiest", "load"),
    [("02:18:00", "02:20:01", "02:19", 3.0), ("02:18:00", "02:20:30", "02:20", 33.0)],
)
def test_a_second_is_no_busiest_minute(
    begin: str, end: str, busiest: str, load: float, tmp_path: Path
) -> None:
    """Three sessions at work, and 33 from 02:20:00 on: a second, or half a minute of it."""
    at = [datetime.fromisoformat(f"2026-11-23T{one}+00:00") for one in (begin, end)]
    about = HistoryPeriod(instance=INSTANCE, begin=at[0], end=at[1])
    with open_history(incident(tmp_path)) as history:
        found = busiest_minute(history, about)
    assert found is not None
    assert (found[0].strftime("%H:%M"), found[1]) == (busiest, load)


def test_a_setting_that_changed_is_told_and_its_first_value_is_not(history: History) -> None:
    (change,) = changes(history, period(0, 60))
    assert (change.at, change.what) == (TWO + timedelta(minutes=30), "setting")
    assert change.detail == "max_wal_size: 1GB → 4GB"
    assert changes(history, period(31, 60)) == ()


def test_two_periods_are_compared_statement_by_statement(history: History) -> None:
    """By hand: the dear statement keeps 0.5 sessions busy from 02:30 on."""
    first, second = period(10, 20), period(41, 49)
    dear, cheap = statement_changes(history, first, second, top=2)
    assert dear.text == TEXTS[DEAR]
    assert dear.before is None or dear.before.calls == 0
    assert dear.more_load == pytest.approx(0.5, abs=0.07)
    assert abs(cheap.more_load) < 0.002
    assert summary(history, first).average_load == summary(history, second).average_load == 2.0


def test_the_peaks_are_those_of_the_busiest_quarter_of_an_hour(history: History) -> None:
    """By hand: 10 busy minutes of 16 MB/s and 5 others of 1 MB/s; 10 requested checkpoints."""
    found = peaks(history, period(0, 60))
    assert found.window == 900
    assert found.wal_bytes == 600 * 16 * MB + 300 * MB
    assert found.checkpoints_requested == 10
    assert found.peak_sessions == 20


def test_a_history_that_is_too_short_has_no_peaks(history: History) -> None:
    with pytest.raises(UsageError, match="shorter than 15 minutes"):
        peaks(history, period(0, 5))


def test_the_period_ends_with_the_last_sample(history: History) -> None:
    found = periods.period(history, None, since=600)
    assert (found.instance, found.seconds) == (INSTANCE, 600.0)
    assert found.end == TWO + timedelta(minutes=59, seconds=59)


@pytest.mark.parametrize("zone", [timezone(timedelta(hours=1)), None])
def test_the_end_of_a_period_may_be_in_any_time_zone(
    history: History, zone: timezone | None
) -> None:
    """The hour begins at 03:00 in Berlin, an hour ahead of UTC. Without a zone, it is UTC."""
    until = datetime(2026, 11, 23, 2 if zone is None else 3, 40, tzinfo=zone)
    found = periods.period(history, INSTANCE, since=600, until=until)
    half_past = datetime(2026, 11, 23, 2, 30, tzinfo=UTC)
    assert (found.begin, found.end) == (half_past, half_past + timedelta(minutes=10))
    assert found.parameters["end"] == datetime(2026, 11, 23, 2, 40)


def test_an_instance_that_is_not_there_is_named(history: History) -> None:
    with pytest.raises(UsageError, match="no instance other"):
        periods.period(history, "other", since=600)


def test_a_summary_answers_what_rows_as_sampled_cannot(history: History) -> None:
    """The statements of an hour are the same from the rows and from the hourly summary."""
    sql = "SELECT query_id, sum(calls) AS calls, sum(exec_ms) AS ms FROM {} GROUP BY 1 ORDER BY 1"
    assert history.rows(sql.format("statements")) == history.rows(sql.format("statements_by_hour"))


def test_every_view_is_described(history: History) -> None:
    """Even `databases`: DESCRIBE "databases" would list DuckDB's own."""
    for view, _ in history.views():
        names = [row[0] for row in history.described(view)]
        assert names[0] == ("query_id" if view == "statement_texts" else "time")
