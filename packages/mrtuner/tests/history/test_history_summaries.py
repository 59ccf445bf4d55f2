"""Questions about a long time are answered from summaries as they would be from the rows.

Four hours of one instance, of which sessions were sampled at 0, 20 and 40 s of each minute. One
session runs on a CPU all the time; from 01:30 to 01:40 four more wait for data, and one is idle in
its transaction. Nothing was recorded in the minutes 00:30 to 00:32 and 03:20 to 03:24.

The first two hours are in files, the third in others, the fourth is in SQLite.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from history_data import MIDNIGHT, SECOND, batch, sample
from history_story import INSTANCE, of_source

from mrtuner.errors import BadValue
from mrtuner.history.analysis.active_sessions import WAIT_EVENT, busiest_minute
from mrtuner.history.analysis.gaps import gaps
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.analysis.series import Grid, Kind, Measure, split
from mrtuner.history.reading import History, open_history
from mrtuner.history.recording.sampler import SourceSample
from mrtuner.history.recording.source import Rollup, built_in, in_directory
from mrtuner.history.store import compaction, retention, summaries
from mrtuner.history.store.status import size
from mrtuner.history.store.summaries import AT_WORK
from mrtuner.history.store.writer import Writer
from mrtuner.units import parse_duration
from mrtuner.web.answers import screen_answer

START = datetime(2026, 11, 23, tzinfo=UTC)
HOUR = 3600 * SECOND
SILENT = (*range(30, 33), *range(200, 205))
BUSY = range(90, 100)
CHEAP, DEAR = 11, 22
#: Waiting sessions on average, by hand: 120 in the 351 samples of two hours, or the 696 of a day.
WAITED = {"30d": 120 / 351, "365d": 120 / 696}


def samples() -> Iterator[SourceSample]:
    source = built_in()["sessions"]
    client = {"backend_type": "client backend", "database": "app", "role": "web"}
    for minute in range(240):
        rows = [of_source("sessions", pid=1, state="active", query_id=CHEAP, **client)]
        if minute in BUSY:
            rows += [
                of_source("sessions", pid=pid, state="active", query_id=DEAR, wait_type="IO",
                          wait_event="DataFileRead", **client)
                for pid in range(2, 6)
            ]  # fmt: skip
            rows.append(of_source("sessions", pid=6, state="idle in transaction", **client))
        if minute not in SILENT:
            for second in (0, 20, 40):
                yield sample(source, 60 * minute + second, *rows)


def record(directory: Path) -> Path:
    with Writer(directory, built_in().values()) as writer:
        writer.commit([batch(*samples(), instance=INSTANCE)])
        for hours in (2, 3):
            compaction.move_to_parquet(writer, MIDNIGHT + hours * HOUR, hourly=True)
    return directory


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("history"))


@pytest.fixture(scope="module")
def history(directory: Path) -> Iterator[History]:
    with open_history(directory) as found:
        yield found


def period(begin: float, end: float) -> HistoryPeriod:
    """Minutes after midnight."""
    return HistoryPeriod(
        instance=INSTANCE, begin=START + timedelta(minutes=begin),
        end=START + timedelta(minutes=end),
    )  # fmt: skip


def grid(step: int) -> Grid:
    """The four hours in steps of so many seconds."""
    return Grid(
        about=period(0, 240), begin=int(START.timestamp()), step=step, count=4 * 3600 // step
    )


def test_each_session_that_was_seen_is_in_each_summary_once(history: History) -> None:
    """By hand: 57, 60, 60 and 55 minutes of three samples, ten of them with five sessions more."""
    _, by_hour = history.table(
        """SELECT hour(time), state, wait_type, wait_event, sum(samples) FROM sessions_by_hour
           GROUP BY ALL ORDER BY ALL NULLS FIRST"""
    )
    assert by_hour == [
        (0, "active", None, None, 171),
        (1, "active", None, None, 180),
        (1, "active", "IO", "DataFileRead", 120),
        (1, "idle in transaction", None, None, 30),
        (2, "active", None, None, 180),
        (3, "active", None, None, 165),
    ]
    _, by_minute = history.table(
        """SELECT epoch(time)::BIGINT, sum(samples)::BIGINT FROM sessions_at_work_by_minute
           GROUP BY 1 ORDER BY 1"""
    )
    assert by_minute == [
        (START.timestamp() + 60 * minute, 15 if minute in BUSY else 3)
        for minute in range(240)
        if minute not in SILENT
    ]


def test_each_minute_says_how_often_and_when_was_sampled(history: History) -> None:
    _, found = history.table(
        """SELECT time, sum(samples), sum(session_samples), min(earliest), max(latest)
           FROM samples_by_minute GROUP BY 1 ORDER BY 1"""
    )
    midnight = START.replace(tzinfo=None)
    assert found == [
        (at, 3, 3, at, at + timedelta(seconds=40))
        for minute in range(240)
        if minute not in SILENT
        for at in [midnight + timedelta(minutes=minute)]
    ]


def test_hours_are_drawn_as_their_minutes_are_on_average(history: History) -> None:
    """By hand: of 180 samples of the second hour, 30 saw four sessions that wait for data."""
    number = Measure(Kind.NUMBER)
    for step, parts in ((3600, 1), (60, 60)):
        found = split(history, grid(step), "sessions", number, WAIT_EVENT, where=AT_WORK)
        waits = {one.name: one.values for one in found}
        averages = {
            name: [average(values[hour * parts : (hour + 1) * parts]) for hour in range(4)]
            for name, values in waits.items()
        }
        assert averages["CPU"] == [1, 1, 1, 1]
        assert averages["IO: DataFileRead"] == pytest.approx([0, 120 / 180, 0, 0])


def average(values: list[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known)


def test_hours_by_what_their_summary_does_not_have_come_from_a_finer_one(history: History) -> None:
    """By statement: again 120 in 180 samples; the idle session is not at work."""
    found = split(
        history, grid(3600), "sessions", Measure(Kind.NUMBER), "query_id", where=AT_WORK
    )  # fmt: skip
    assert {one.name: one.values for one in found} == {
        str(CHEAP): [1, 1, 1, 1], str(DEAR): pytest.approx([0, 120 / 180, 0, 0]),
    }  # fmt: skip


def test_the_busiest_minute_is_the_last_of_those_with_five_at_work(history: History) -> None:
    assert busiest_minute(history, period(0, 240)) == (START + timedelta(minutes=99), 5.0)
    assert busiest_minute(history, period(0, 60)) == (START + timedelta(minutes=59), 1.0)
    assert busiest_minute(history, period(300, 400)) is None


@pytest.mark.parametrize(
    ("begin", "end", "found"),
    [
        (0, 240, [(29 + 40 / 60, 33), (199 + 40 / 60, 205)]),
        (29.5, 33.01, [(29 + 40 / 60, 33)]),
        (29.9, 40, []),  # the last sample before the gap is not in the period
        (20, 33, []),  # nor is the first one after it
        (100, 200, []),
    ],
)
def test_gaps_are_found_between_the_samples_of_the_period(
    history: History, begin: float, end: float, found: list[tuple[float, float]]
) -> None:
    told = [(one.begin, one.end) for one in gaps(history, period(begin, end))]
    assert told == [
        tuple(START + timedelta(seconds=round(60 * minute)) for minute in gap) for gap in found
    ]


@pytest.mark.parametrize("since", ["4h", "30d", "365d"])
@pytest.mark.parametrize("screen", ["load", "moment", "compare", "changes"])
def test_a_screen_of_a_long_time_is_answered_from_the_summaries(
    directory: Path, screen: str, since: str
) -> None:
    end = START + timedelta(hours=4)
    begin = end - timedelta(seconds=parse_duration(since))
    asked = {"from": begin.isoformat(), "to": end.isoformat()}
    if screen == "compare":
        asked["compare"] = "2h"
    with open_history(directory) as history:
        told = screen_answer(history, screen, asked)
    assert any(table.rows for table in told.tables) or screen == "compare"
    if screen == "changes":
        assert [row[1] for row in told.tables[0].rows] == ["gap", "gap"]
    if screen == "moment":
        (sessions,) = [table for table in told.tables if table.name == "sessions"]
        assert sessions.title == "Sessions of the busiest minute, 2026-11-23 01:39 UTC, each sample"
        assert len(sessions.rows) == 18
    if screen == "load" and since in WAITED:
        lines = {one.name: one.values for one in told.charts[0].series}
        assert {value for value in lines["CPU"] if value is not None} == {1.0}
        assert max(value or 0 for value in lines["IO"]) == pytest.approx(WAITED[since])


def test_merged_files_say_the_same(tmp_path: Path) -> None:
    record(tmp_path)
    before = everything(tmp_path)
    with Writer(tmp_path, built_in().values()) as writer:
        now = MIDNIGHT + 40 * 24 * HOUR
        compaction.move_to_parquet(writer, now, everything=True)
        compaction.compact(writer, now)
        views = [file.view for file in writer.files()]
        assert len(set(views)) == len(views)
    assert everything(tmp_path) == before


def everything(directory: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All that is in the summaries, added up."""
    with open_history(directory) as history:
        return {
            one.view: history.table(
                f"SELECT time, instance, {''.join(f'{name}, ' for name in one.by)} sum(samples) "
                f"FROM {one.view} GROUP BY ALL ORDER BY ALL"
            )[1]
            for one in summaries.SUMMARIES
        }


def test_rows_that_come_late_are_added(tmp_path: Path) -> None:
    """Another sample of an hour that is in files already."""
    record(tmp_path)
    late = sample(
        built_in()["sessions"], 95 * 60 + 50, of_source("sessions", pid=9, state="active")
    )
    with Writer(tmp_path, built_in().values()) as writer:
        writer.commit([batch(late, instance=INSTANCE)])
        compaction.move_to_parquet(writer, MIDNIGHT + 48 * HOUR)
    with open_history(tmp_path) as history:
        assert busiest_minute(history, period(95, 96)) == (START + timedelta(minutes=95), 16 / 4)
        assert busiest_minute(history, period(90, 100)) == (START + timedelta(minutes=99), 5.0)


def test_each_summary_goes_when_it_is_old_enough(tmp_path: Path) -> None:
    record(tmp_path)
    day = 24 * HOUR
    with Writer(tmp_path, built_in().values()) as writer:
        compaction.move_to_parquet(writer, MIDNIGHT + 2 * day, everything=True)
        for days, views in (
            (6, {one.view for one in summaries.SUMMARIES}),
            (402, {"sessions_by_hour"}),
            (1828, set()),
        ):
            retention.delete_past_retention(writer, MIDNIGHT + days * day)
            left = {file.view for file in writer.files()}
            assert left & {one.view for one in summaries.SUMMARIES} == views
    assert {one.view for one in summaries.SUMMARIES} <= {one.view for one in size(tmp_path).views}


def test_no_metric_of_a_user_may_take_the_name_of_a_summary(tmp_path: Path) -> None:
    """Its summary by minute would have the same name as a summary of sessions."""
    declared = (
        f'/*\nhelp = "x"\ninterval = "1s"\nrollup = "{Rollup.MINUTE}"\n'
        '[gauges]\nn = { help = "one" }\n*/\nSELECT 1 AS n\n'
    )
    (tmp_path / "sessions_at_work.sql").write_text(declared, encoding="utf-8")
    with pytest.raises(BadValue, match=r"sessions_at_work\.sql is the name of a built-in"):
        in_directory(tmp_path)
