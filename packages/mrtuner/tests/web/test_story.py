"""What happened in a period, as the viewer's first screen tells it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from history_data import MIDNIGHT, SECOND, batch, sample
from history_incident import BEGIN, incident
from history_story import INSTANCE, of_source

from mrtuner.history.analysis.incidents import Incident
from mrtuner.history.reading import open_history
from mrtuner.history.recording.source import built_in
from mrtuner.history.store import compaction, retention
from mrtuner.history.store.writer import Writer
from mrtuner.web.answers import screen_answer
from mrtuner.web.document import ScreenAnswer
from mrtuner.web.story import _told
from shared import made_once

#: These stores have neither a log nor metrics of a host.
NO_LOG = "the server's log was not read: sessions that were refused are not looked for"
NO_HOST = "ceilings are not looked for: the host of db:5432 was not recorded"
NOT_EVEN_CONNECTIONS = (
    "ceilings are not looked for: the host of db:5432 was not recorded. Run mrtuner record on the "
    "server's host."
)
HOUR = {"from": "2026-11-23T02:00", "to": "2026-11-23T03:00"}


@pytest.fixture(scope="module")
def store() -> Path:
    return made_once("incident", incident)


def screen(directory: Path, name: str, **given: str) -> ScreenAnswer:
    with open_history(directory) as history:
        return screen_answer(history, name, given)


def clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def test_the_first_screen_tells_what_went_wrong_and_where_to_see_it(store: Path) -> None:
    told = screen(store, "load", **HOUR).story
    assert told is not None
    assert told.unrecorded == [NO_LOG, NO_HOST]
    queue, storm = told.incidents
    assert (queue.kind, clock(queue.begin), clock(queue.end)) == (
        "lock queue", "02:20:00", "02:20:40",
    )  # fmt: skip
    assert queue.text.startswith("30 sessions of checkout waited for a lock that psql (process 500")
    # The minute whose middle is the queue's.
    assert (queue.screen, *map(clock, queue.shown)) == ("moment", "02:19:50", "02:20:50")
    assert (storm.kind, storm.screen, *map(clock, storm.shown)) == (
        "connection storm", "connections", "02:35:00", "02:47:00",
    )  # fmt: skip


def test_a_deadlock_opens_the_sessions_of_its_minute(tmp_path: Path) -> None:
    """The database counted none at 02:00:00 and one at 02:01:00: it was between them."""
    source = built_in()
    with Writer(tmp_path, source.values()) as writer:
        for minute in range(3):
            found = of_source("databases", database="shop", deadlocks=min(minute, 1))
            writer.commit([
                batch(sample(source["databases"], BEGIN + 60 * minute, found), instance=INSTANCE)
            ])  # fmt: skip
    told = screen(tmp_path, "load", **HOUR).story
    assert told is not None
    (one,) = told.incidents
    assert (one.kind, one.screen, *map(clock, one.shown)) == (
        "deadlocks", "moment", "02:00:00", "02:01:00",
    )  # fmt: skip


def test_a_statement_that_became_slower_opens_its_own_screen() -> None:
    begin = datetime(2026, 11, 23, 2, 30, tzinfo=UTC)
    told = _told(
        Incident(
            kind="statement slower", begin=begin, end=begin + timedelta(minutes=5), text="",
            screen="statements", query_id=-7,
        )
    )  # fmt: skip
    assert (told.screen, told.statement) == ("statements", "-7")
    assert [clock(at) for at in told.shown] == ["02:25:00", "02:40:00"]


def test_the_story_says_how_it_is_judged_as_the_catalogue_of_checks_does(store: Path) -> None:
    told = screen(store, "load", **HOUR).story
    assert told is not None
    assert [one.id for one in told.checks] == ["incident", "ceiling-reached"]
    assert "a lock queue of 5 s" in told.checks[0].judged
    assert told.checks[0].remedy.startswith("Open its minute in the viewer")


def test_only_the_first_screen_tells_it(store: Path) -> None:
    assert screen(store, "wal", **HOUR).story is None


def test_a_quiet_period_that_was_recorded_has_nothing_to_tell(store: Path) -> None:
    quiet = {"from": "2026-11-23T02:22", "to": "2026-11-23T02:35"}
    told = screen(store, "load", **quiet).story
    assert told is not None
    assert (told.unrecorded, told.incidents) == ([NO_LOG, NO_HOST], [])


def test_a_ceiling_is_told_where_the_load_ran_flat_at_it(example: Path) -> None:
    """The example's db.r5.2xlarge was started before December 2019: 1,700 Mbit/s are 212.5 MB/s."""
    day = {"from": "2026-03-02T06:00", "to": "2026-03-02T20:00"}
    told = screen(example, "load", **day).story
    assert told is not None
    (ceiling,) = [one for one in told.incidents if one.kind == "ceiling"]
    assert ceiling.screen == "headroom"
    assert "09:58" <= clock(ceiling.begin) <= "10:05"
    assert "17:25" <= clock(ceiling.end) <= "17:32"
    assert ceiling.text.startswith(
        "throughput ran flat at 213 MB/s, the limit of instance throughp"
    )


@pytest.mark.parametrize(
    ("begin", "end", "said"),
    [
        ("2026-11-23T01:30", "2026-11-23T02:10", "nothing was recorded before 2026-11-23 02:00:00"),
        ("2026-11-23T02:50", "2026-11-23T03:10", "nothing was recorded after 2026-11-23 02:59:59"),
        ("2026-11-22T02:50", "2026-11-22T03:10", "nothing was recorded in this period"),
    ],
)
def test_what_was_not_recorded_is_named(store: Path, begin: str, end: str, said: str) -> None:
    told = screen(store, "load", **{"from": begin, "to": end}).story
    assert told is not None
    assert told.unrecorded[0].startswith(said)
    assert told.incidents == []


def test_of_a_long_period_the_last_day_is_searched_and_that_is_said(store: Path) -> None:
    """The same two incidents are in the last day of one period, and before that of another."""
    late = screen(store, "load", **{"from": "2026-11-21T03:00", "to": "2026-11-23T03:00"}).story
    early = screen(store, "load", **{"from": "2026-11-22T03:00", "to": "2026-11-25T03:00"}).story
    assert late is not None
    assert early is not None
    assert [one.kind for one in late.incidents] == ["lock queue", "connection storm"]
    assert early.incidents == []
    for told, day in ((late, "2026-11-22"), (early, "2026-11-24")):
        assert told.unrecorded[0] == (
            "queues for locks, storms of connections, slower statements, checkpoints before their "
            "time and deadlocks are looked for in the last day of a period: not before "
            f"{day} 03:00:00 UTC"
        )


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("sessions", "queues for locks"),
        ("connections", "storms of connections"),
        ("statements", "slower statements"),
        ("checkpoints", "checkpoints before their time"),
        ("databases", "deadlocks"),
    ],
)
def test_a_source_that_was_not_recorded_is_named_with_what_it_shows(
    tmp_path: Path, source: str, what: str
) -> None:
    told = screen(incident(tmp_path, without=source), "load", **HOUR).story
    assert told is not None
    assert told.unrecorded == [
        f"{source} were not recorded: {what} are not looked for",
        NO_LOG,
        NOT_EVEN_CONNECTIONS if source == "connections" else NO_HOST,
    ]


def test_the_gaps_and_what_a_role_may_not_see_are_named(tmp_path: Path) -> None:
    source = built_in()
    with Writer(tmp_path, source.values()) as writer:
        for second in (0, 10, 600, 610):
            found = of_source("connections", clients=5, maximum=100, ordinary=100)
            read = [sample(source["connections"], BEGIN + second, found)]
            read += [
                sample(source[name], BEGIN + second)
                for name in ("sessions", "statements", "checkpoints", "databases")
            ]
            writer.commit([batch(*read, instance=INSTANCE)])
    told = screen(tmp_path, "load", **{"from": "2026-11-23T02:00", "to": "2026-11-23T02:10:30"})
    assert told.story is not None
    assert told.story.unrecorded == [
        "nothing was recorded from 2026-11-23 02:00:10 UTC to 2026-11-23 02:10:00 UTC",
        "the recorder's role may not see what others do: queues for locks are not looked for; "
        "GRANT pg_read_all_stats",
        NO_LOG,
        "slower statements are not looked for: what is usual is known from 10 samples on, and the "
        "day has 3",
        NO_HOST,
    ]


def test_of_a_time_whose_minutes_are_gone_the_hours_are_known(tmp_path: Path) -> None:
    """Minutes are kept for 400 days, and sessions as sampled for seven: both are said."""
    incident(tmp_path)
    later = MIDNIGHT + 500 * 86_400 * SECOND
    with Writer(tmp_path, built_in().values()) as writer:
        writer.commit([batch(sample(built_in()["sessions"], 500 * 86_400), instance=INSTANCE)])
        compaction.move_to_parquet(writer, later)
        retention.delete_past_retention(writer, later)
    told = screen(tmp_path, "load", **HOUR).story
    assert told is not None
    assert "sessions older than 7 d are kept as summaries: queues for locks are not looked for" in (
        told.unrecorded
    )
    assert not any("nothing was recorded" in one for one in told.unrecorded)
