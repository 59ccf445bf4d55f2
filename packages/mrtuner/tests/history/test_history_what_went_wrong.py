"""What went wrong in a period, in sentences: queues, storms, slower statements; and quiet hours."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from conftest import NewCluster
from history_data import MIDNIGHT, SECOND
from history_story import BEGIN, INSTANCE, of_source, sample

from command_line import run
from mrtuner.answers import history
from mrtuner.bench.load.pgbench import find_pgbench
from mrtuner.history.analysis.incidents import incidents
from mrtuner.history.analysis.period import period
from mrtuner.history.reading import open_history
from mrtuner.history.recording.sampler import Identity, Sampler, SourceSample
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Batch, HistoryEvent, Writer
from mrtuner.history.text import lines
from mrtuner.postgres.connect import connect
from servers import sql

TEXTS = {7: "LOCK TABLE stock", 8: "UPDATE stock SET n = n - ?", 9: "SELECT * FROM orders"}
MINUTES = 40


def recorded(
    place: Path, *samples: SourceSample, events: Sequence[HistoryEvent] = (), since: str = "1h"
) -> list[str]:
    """What is told of a store with these samples."""
    with Writer(place, built_in().values()) as writer:
        writer.commit(
            [Batch(instance=INSTANCE, samples=samples, events=tuple(events), texts=TEXTS)]
        )
    return [
        f"{one.begin:%H:%M:%S} {one.end:%H:%M:%S} {one.text}"
        for one in history(place, since=since).incidents
        if one.kind not in {"crash", "event"}
    ]


def clock(second: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(second))


def sessions(second: int, *waiting: tuple[int, str], idle: Sequence[int] = ()) -> SourceSample:
    """A sample of sessions that wait (process, blocked by) or are idle in a transaction."""
    common = {"database": "app", "role": "web", "backend_type": "client backend"}
    blocked = [
        of_source("sessions", pid=pid, application="shop", state="active", wait_type="Lock",
             wait_event="relation", query_id=8, blocked_by=by, **common)
        for pid, by in waiting
    ]  # fmt: skip
    holding = [
        of_source("sessions", pid=pid, application="nightly-import", state="idle in transaction",
             query_id=7, **common)
        for pid in idle
    ]  # fmt: skip
    return sample("sessions", second, *blocked, *holding)


def test_a_lock_queue_blames_its_root_and_lasts_from_its_first_to_its_last_sample(
    tmp_path: Path,
) -> None:
    """103 waits for 102, which waits for 101: two sessions wait, and 101 holds the lock."""
    queue = [
        sessions(second, (102, "101"), (103, "102,101"), idle=[101])
        for second in range(BEGIN + 600, BEGIN + 646)
    ]
    (told,) = recorded(tmp_path, sessions(BEGIN), *queue, sessions(BEGIN + 900))
    assert told == (
        f"{clock(BEGIN + 600)} {clock(BEGIN + 645)} 2 sessions of shop waited for a lock that "
        "nightly-import (process 101, idle in transaction, last statement LOCK TABLE stock) held "
        "for at least 45 s"
    )


def test_of_a_long_queue_those_that_were_not_asked_are_counted(tmp_path: Path) -> None:
    """100 wait for 101, and 20 more for somebody: only the first hundred are asked."""
    common = {"database": "app", "role": "web", "backend_type": "client backend"}
    more = [
        of_source("sessions", pid=pid, application="shop", state="active", wait_type="Lock",
                  wait_event="relation", query_id=8, **common)
        for pid in range(300, 320)
    ]  # fmt: skip
    queue = [
        sessions(second, *((pid, "101") for pid in range(200, 300)))
        for second in range(BEGIN + 600, BEGIN + 611)
    ]
    queue = [replace(one, rows=(*one.rows, *sample("sessions", 0, *more).rows)) for one in queue]
    (told,) = recorded(tmp_path, *queue, sessions(BEGIN + 900))
    assert told[18:] == (
        "100 sessions of shop waited for a lock that process 101 held for at least 10 s; 20 more "
        "waited, and for whom was not asked"
    )


def test_what_a_holder_did_in_an_earlier_transaction_is_not_told(tmp_path: Path) -> None:
    """101 was idle 15 s before, and worked while 102 waited for it."""
    common = {"database": "app", "role": "web", "backend_type": "client backend"}
    held = of_source("sessions", pid=101, application="shop", state="active", query_id=8, **common)
    queue = [
        replace(one, rows=(*one.rows, held))
        for one in (sessions(BEGIN + second, (102, "101")) for second in range(25, 46))
    ]
    (told,) = recorded(tmp_path, sessions(BEGIN + 10, idle=[101]), *queue, sessions(BEGIN + 90))
    assert told[18:] == (
        "1 session of shop waited for a lock that shop (process 101, active, statement UPDATE "
        "stock SET n = n - ?) held for at least 20 s"
    )


def test_readers_that_a_ddl_waits_for_are_one_queue(tmp_path: Path) -> None:
    """102 waits for three readers, of which one ends before the others, and 103 for it."""
    queue = [
        sessions(second, (102, "99,100,101" if second < BEGIN + 607 else "99,101"), (103, "102"))
        for second in range(BEGIN + 600, BEGIN + 611)
    ]
    (told,) = recorded(tmp_path, *queue, sessions(BEGIN + 900))
    assert told[18:] == (
        "2 sessions of shop waited for a lock that process 101 and 2 others held for at least 10 s"
    )


def test_a_wait_of_four_seconds_is_nothing_and_two_queues_are_two(tmp_path: Path) -> None:
    short = [sessions(second, (102, "101")) for second in range(BEGIN + 100, BEGIN + 105)]
    first = [sessions(second, (102, "101")) for second in range(BEGIN + 200, BEGIN + 211)]
    again = [sessions(second, (105, "0")) for second in range(BEGIN + 300, BEGIN + 306)]
    nobody = [sessions(BEGIN + second) for second in (105, 199, 400)]
    told = recorded(tmp_path, *short, nobody[0], nobody[1], *first, *again, nobody[2])
    assert [one[18:] for one in told] == [
        "1 session of shop waited for a lock that process 101 held for at least 10 s",
        "1 session of shop waited for a lock that a prepared transaction held for at least 5 s",
    ]


def test_queues_behind_one_process_within_five_minutes_are_told_once(tmp_path: Path) -> None:
    """10 s and 20 s with a pause of 290 s between; the third comes 380 s after the second."""
    starts = {BEGIN + 200: 10, BEGIN + 500: 20, BEGIN + 900: 7}
    queues = [
        sessions(second, (102, "101"))
        for start, length in starts.items()
        for second in range(start, start + length + 1)
    ]
    assert recorded(tmp_path, *queues, sessions(BEGIN + 1000)) == [
        f"{clock(BEGIN + 200)} {clock(BEGIN + 520)} 1 session of shop waited for a lock that "
        "process 101 held, 2 times, at least 30 s in all",
        f"{clock(BEGIN + 900)} {clock(BEGIN + 907)} 1 session of shop waited for a lock that "
        "process 101 held for at least 7 s",
    ]


def queue_of(waits: dict[str, object], root: dict[str, object]) -> list[SourceSample]:
    """Ten seconds in which process 102 waits for 101; the period ends before the last sample."""
    rows = [
        of_source("sessions", **{"pid": 102, "blocked_by": "101", "wait_type": "Lock",
                                 "wait_event": "relation", "state": "active"} | waits),
        of_source("sessions", **{"pid": 101, "state": "active"} | root),
    ]  # fmt: skip
    return [sample("sessions", second, *rows) for second in range(BEGIN + 100, BEGIN + 112)]


def test_what_sessions_wait_for_is_named_if_it_was_recorded(tmp_path: Path) -> None:
    """An older recorder stored no relation: its store has no such column."""
    (told,) = recorded(tmp_path / "new", *queue_of({"lock_relation": "public.stock"}, {}))
    assert " waited for a lock of public.stock that a session (process 101, active) held" in told
    idle: dict[str, object] = {
        "state": "idle in transaction",
        "statement": "LOCK TABLE stock",
    }  # before 14
    (told,) = recorded(tmp_path / "idle", *queue_of({}, idle))
    assert "(process 101, idle in transaction, last statement LOCK TABLE stock) held" in told
    before = replace(
        built_in()["sessions"],
        columns=tuple(
            one
            for one in built_in()["sessions"].columns
            if one.name not in {"lock_mode", "lock_relation", "statement"}
        ),
    )
    samples = [
        replace(
            one, source=before,
            rows=tuple(replace(row, values=row.values[: len(before.columns)]) for row in one.rows),
        )
        for one in queue_of({}, {})
    ]  # fmt: skip
    with Writer(tmp_path / "old", {**built_in(), "sessions": before}.values()) as writer:
        writer.commit([Batch(instance=INSTANCE, samples=tuple(samples))])
    (incident,) = history(tmp_path / "old", since="1h").incidents
    assert " waited for a lock that a session (process 101, active) held" in incident.text


@pytest.mark.parametrize(
    ("event", "told"),
    [("relation", 1), ("transactionid", 1), (None, 1), ("advisory", 0), ("virtualxid", 0)],
)
def test_a_wait_that_is_meant_is_no_queue(event: str | None, told: int, tmp_path: Path) -> None:
    assert len(recorded(tmp_path, *queue_of({"wait_event": event}, {}))) == told


def test_a_session_behind_one_that_waits_as_it_is_meant_is_a_queue_of_the_root(
    tmp_path: Path,
) -> None:
    """103 waits for a table of 102, which waits for the snapshot of 101, a dump."""
    rows = [
        of_source("sessions", pid=101, application="pg_dump", state="active"),
        of_source("sessions", pid=102, application="psql", state="active", blocked_by="101",
                  wait_event="virtualxid"),
        of_source("sessions", pid=103, application="shop", state="active", blocked_by="102",
                  wait_event="relation"),
    ]  # fmt: skip
    told = recorded(tmp_path, *(sample("sessions", at, *rows) for at in range(BEGIN, BEGIN + 12)))
    assert [one[18:] for one in told] == [
        "1 session of shop waited for a lock that pg_dump (process 101, active) held for at least "
        "10 s"
    ]


@pytest.mark.parametrize(
    ("waits", "root", "told"),
    [
        (
            {"application": "x; DROP TABLE t"}, {"role": 'a "b"'},
            '1 session of "x; DROP TABLE t" waited for a lock that "a ""b""" (process 101, active)',
        ),
        (
            {"backend_type": "autovacuum worker"}, {"backend_type": "autovacuum worker"},
            "1 session of autovacuum worker waited for a lock that autovacuum worker (process 101, "
            "active)",
        ),
        (
            {}, {"backend_type": "startup", "state": None},
            "1 session of ? waited for a lock that startup (process 101)",
        ),
    ],
)  # fmt: skip
def test_names_are_quoted_and_a_background_process_is_named_by_its_kind(
    waits: dict[str, object], root: dict[str, object], told: str, tmp_path: Path
) -> None:
    (found,) = recorded(tmp_path, *queue_of(waits, root))
    assert found[18:] == f"{told} held for at least 10 s"


def test_a_hot_row_is_no_queue_of_an_hour(tmp_path: Path) -> None:
    """One process blocks another for a moment, in one of twenty samples, for half an hour."""
    samples = [
        sessions(second, *([(102, "101")] if second % 20 == 0 else []))
        for second in range(BEGIN, BEGIN + 1800)
    ]
    assert recorded(tmp_path, *samples) == []


def slowly(ages: Sequence[int]) -> Iterator[SourceSample]:
    """A recorder that samples every 40 s, and how long each time a statement has waited."""
    yield sessions(BEGIN + 100)
    for number, age in enumerate(ages):
        row = of_source("sessions", pid=102, application="shop", state="active", blocked_by="101",
                        wait_event="relation", statement_seconds=age)  # fmt: skip
        yield sample("sessions", BEGIN + 140 + 40 * number, *([row] if age else []))
    yield sessions(BEGIN + 140 + 40 * len(ages))


@pytest.mark.parametrize(
    ("ages", "begin", "told"),
    [
        ([30, 70, 110], 110, " for at least 80 s"),
        ([30], 110, " for up to 30 s"),
        ([900], 100, " for up to 40 s"),
        ([4, 0, 4], None, ""),
        ([30, 0, 30], 110, ", 2 times, up to 60 s in all"),
    ],
)  # fmt: skip
def test_a_recorder_that_samples_seldom_tells_a_queue_as_long_as_it_may_have_been(
    ages: Sequence[int], begin: int | None, told: str, tmp_path: Path
) -> None:
    wanted = [f"{clock(BEGIN + begin)} held{told}"] if begin is not None else []
    found = recorded(tmp_path, *slowly(ages))
    assert [f"{one[:8]} held{one.partition(' held')[2]}" for one in found] == wanted


def test_what_went_on_while_nobody_recorded_is_not_part_of_a_queue(tmp_path: Path) -> None:
    """The same process blocks another for 8 s before a gap of 10 minutes, and for 6 s after it."""
    seconds = [*range(BEGIN, BEGIN + 9), *range(BEGIN + 600, BEGIN + 607)]
    told = recorded(
        tmp_path, *(sessions(at, (102, "101")) for at in seconds), sessions(BEGIN + 900)
    )
    assert [one.rpartition(" for ")[2] for one in told] == ["at least 8 s", "at least 6 s"]


def connections(
    clients: Sequence[int], *, maximum: int = 200, ordinary: int = 200
) -> Iterator[SourceSample]:
    for number, count in enumerate(clients):
        row = of_source("connections", clients=count, active=1, maximum=maximum, ordinary=ordinary)
        yield sample("connections", BEGIN + 10 * number, row)


def test_a_storm_is_twice_the_usual_sessions_and_twenty_more(tmp_path: Path) -> None:
    told = recorded(tmp_path, *connections([30] * 100 + [61, 180, 90] + [30] * 100))
    assert told == [
        f"{clock(BEGIN + 1000)} {clock(BEGIN + 1020)} the number of sessions rose to 180 of 200; "
        "usual are 30"
    ]


def test_a_job_that_works_in_parallel_for_a_moment_is_no_storm(tmp_path: Path) -> None:
    """37 of 200 are less than a quarter; 80 for one sample of ten seconds are a short job."""
    assert recorded(tmp_path, *connections([12] * 100 + [37] * 3 + [12] * 100)) == []
    assert recorded(tmp_path / "one", *connections([12] * 100 + [80] + [12] * 100)) == []


def test_a_change_of_a_few_sessions_is_no_storm(tmp_path: Path) -> None:
    assert recorded(tmp_path, *connections([3] * 100 + [22] * 5 + [3] * 100)) == []
    assert recorded(tmp_path / "more", *connections([60] * 100 + [119] * 5 + [60] * 100)) == []


def all_taken(*, usual: int, peak: int, reserved: int = 3) -> list[SourceSample]:
    counts = [usual] * 100 + [peak] * 3 + [usual] * 100
    return list(connections(counts, maximum=100, ordinary=100 - reserved))


@pytest.mark.parametrize(
    ("usual", "peak", "reserved", "told"),
    [
        (60, 96, 3, True),  # 97 for ordinary roles, of which the recorder has one
        (60, 95, 3, False),
        (60, 95, 4, True),
        (90, 96, 3, False),  # hardly more than usual
        (97, 97, 3, False),
    ],
)
def test_all_sessions_that_ordinary_roles_may_open_are_a_storm(
    usual: int, peak: int, reserved: int, told: bool, tmp_path: Path
) -> None:
    found = recorded(tmp_path, *all_taken(usual=usual, peak=peak, reserved=reserved))
    assert found == told * [
        f"{clock(BEGIN + 1000)} {clock(BEGIN + 1020)} the number of sessions rose to {peak} of "
        f"100, as many as ordinary roles may open; usual are {usual}"
    ]


def totals(source: str, column: str, grown: Sequence[int], **more: object) -> list[SourceSample]:
    """A counter that grows by so much in each minute."""
    found, total = [], 0
    for minute, number in enumerate(grown):
        total += number
        row = of_source(source, **{column: total}, **more)
        found.append(sample(source, BEGIN + 60 * minute, row))
    return found


def test_deadlocks_and_refused_sessions_are_told_those_near_each_other_together(
    tmp_path: Path,
) -> None:
    grown = [0, 2, 0, 1, *[0] * 10, 1, 0]
    locks = totals("databases", "deadlocks", grown, database="my shop")
    assert recorded(tmp_path / "deadlocks", *locks) == [
        f'{clock(BEGIN)} {clock(BEGIN + 180)} 3 deadlocks were resolved in "my shop"',
        f'{clock(BEGIN + 780)} {clock(BEGIN + 840)} 1 deadlock was resolved in "my shop"',
    ]
    assert recorded(tmp_path / "refused", *totals("log_errors", "refused", grown[:5])) == [
        f"{clock(BEGIN)} {clock(BEGIN + 180)} 3 sessions were refused because there were too many"
    ]


def test_sessions_that_were_refused_in_a_storm_are_told_with_it_and_whose_it_was(
    tmp_path: Path,
) -> None:
    """180 of 200 sessions from 1000 s to 1020 s, usual are 30: more than 75 must be of one.

    In the minute to 1020 s 7 sessions were refused, 2 more in the one to 1800 s.
    """
    storm = (*connections([30] * 100 + [150, 180, 150] + [30] * 100),)
    refused = totals("log_errors", "refused", [0] * 17 + [7] + [0] * 12 + [2])
    common = {"role": "app", "backend_type": "client backend", "state": "active"}
    working = sample("sessions", BEGIN + 1012, *(
        of_source("sessions", pid=pid, application="cart" if pid < 80 else "shop", **common)
        for pid in range(90)
    ))  # fmt: skip
    begin, end = clock(BEGIN + 1000), clock(BEGIN + 1020)
    rose = f"{begin} {end} the number of sessions rose to 180 of 200; usual are 30"
    told = recorded(tmp_path, *storm, *refused, working)
    assert told == [
        f"{rose}; 80 were of cart (role app); 7 sessions were refused",
        f"{clock(BEGIN + 1740)} {clock(BEGIN + 1800)} 2 sessions were refused because there were "
        "too many",
    ]
    roles = [
        sample("sessions_by_role", BEGIN + second, of_source(
            "sessions_by_role", database="app", role="web", state="idle", sessions=number
        ))
        for second, number in ((0, 20), (1015, 160), (1075, 20))
    ]  # fmt: skip
    few = sample("sessions", BEGIN + 1012, of_source("sessions", pid=1, application="cart"))
    assert recorded(tmp_path / "idle", *storm, *roles, few) == [
        f"{rose}; the role web had 160, 140 more than before"
    ]


def test_a_storm_is_of_those_who_have_more_sessions_than_before_it(tmp_path: Path) -> None:
    """95 sessions from 1000 s to 1020 s, usual are 45: at least 25 must be of one.

    The role `report` has 45 idle ones all day and 50 in the storm, `app` none and then 35. Another
    day `report` has 50 at work all day, and `cart` 35 in the storm.
    """
    storm = (*connections([45] * 100 + [95] * 3 + [45] * 100),)
    idle = [
        sample("sessions_by_role", BEGIN + second, *(
            of_source("sessions_by_role", database="app", role=role, state="idle", sessions=number)
            for role, number in (("report", report), ("app", app))
        ))
        for second, report, app in ((0, 45, 0), (960, 45, 0), (1015, 50, 35), (1075, 45, 0))
    ]  # fmt: skip
    rose = "the number of sessions rose to 95 of 200; usual are 45"
    (told,) = recorded(tmp_path / "idle", *storm, *idle)
    assert told[18:] == f"{rose}; the role app had 35, 35 more than before"
    common = {"backend_type": "client backend", "state": "active"}
    working = [
        sample("sessions", BEGIN + second, *(
            of_source("sessions", pid=pid, application="cart" if pid < cart else "report", **common)
            for pid in range(50 + cart)
        ))
        for second, cart in ((942, 0), (1002, 35))
    ]  # fmt: skip
    (told,) = recorded(tmp_path / "working", *storm, *working)
    assert told[18:] == f"{rose}; 35 were of cart"
    steady = [replace(one, rows=one.rows[-50:]) for one in working]
    (told,) = recorded(tmp_path / "steady", *storm, *steady)
    assert told[18:] == rose


def test_a_deadlock_is_told_when_samples_saw_it_and_whose_it_was(tmp_path: Path) -> None:
    """102 and 103 wait for each other, 104 for one of them; 106 waits for one that works."""
    locks = totals("databases", "deadlocks", [0, 0, 1, 0], database="shop")
    names = {102: ("stock", "103"), 103: ("my cart", "102"), 104: ("web", "102"), 106: ("x", "105")}
    rows = [
        of_source("sessions", pid=pid, application=name, blocked_by=by, state="active",
                  wait_event="transactionid")
        for pid, (name, by) in names.items()
    ]  # fmt: skip
    seen = [sample("sessions", BEGIN + 90, *rows), sessions(BEGIN + 91)]
    assert recorded(tmp_path, *locks, *seen) == [
        f"{clock(BEGIN + 90)} {clock(BEGIN + 90)} 1 deadlock was resolved in shop between sessions "
        'of "my cart" and stock'
    ]


@pytest.mark.parametrize(
    ("end", "told"),
    [(85, []), (95, [90]), (120, [90]), (150, [90]), (155, [])],
)
def test_a_deadlock_is_told_in_the_period_in_which_it_was(
    end: int, told: list[int], tmp_path: Path
) -> None:
    """Seen after 90 s and counted after 120 s: in the minute until 85 s or 155 s it was not."""
    locks = totals("databases", "deadlocks", [0, 0, 1, 0], database="shop")
    rows = [
        of_source("sessions", pid=pid, application="x", blocked_by=by, state="active",
                  wait_event="transactionid")
        for pid, by in ((102, "103"), (103, "102"))
    ]  # fmt: skip
    seen = [sample("sessions", BEGIN + 90, *rows), sessions(BEGIN + 91)]
    recorded(tmp_path, *locks, *seen)
    with open_history(tmp_path) as store:
        until = datetime(2026, 11, 23, tzinfo=UTC) + timedelta(seconds=BEGIN + end)
        found = incidents(store, period(store, INSTANCE, since=60, until=until))
    assert [one.begin.minute * 60 + one.begin.second for one in found] == told


@pytest.mark.parametrize("read", [True, False], ids=["log", "no log"])
def test_a_deadlock_just_before_a_crash_is_told_by_the_log_or_said_to_be_unknown(
    read: bool, tmp_path: Path
) -> None:
    """The server counted it after its last sample before the crash, at 02:01, which reset it."""
    before = totals("databases", "deadlocks", [0, 0], database="shop")
    after = [
        sample("databases", BEGIN + 130, of_source("databases", deadlocks=0, database="shop")),
        sample("sessions", BEGIN + 140),
    ]
    log = totals("log_errors", "deadlocks", [0, 0, 1], **dict.fromkeys(
        ("panics", "fatals", "errors", "warnings", "refused", "cancelled"), 0
    )) if read else []  # fmt: skip
    with Writer(tmp_path, built_in().values()) as writer:
        for started, samples in (("01:00", (*before, *log[:2])), ("02:01:30", (*after, *log[2:]))):
            server = Identity(
                version_num=180000, started=f"2026-11-23 {started}+00", system="1", standby=False
            )
            writer.commit([Batch(instance=INSTANCE, identity=server, samples=samples)])
    told = history(tmp_path)
    deadlocks = [one for one in told.incidents if one.kind == "deadlocks"]
    unknown = [one for one in told.not_looked_for if "deadlocks" in one]
    assert [(f"{one.begin:%H:%M:%S}", f"{one.end:%H:%M:%S}", one.text) for one in deadlocks] == (
        [("02:01:00", "02:02:00", "1 deadlock was resolved (counted in the log)")] if read else []
    )
    assert unknown == ([] if read else [
        "what was counted from 2026-11-23 02:01:00 UTC to 2026-11-23 02:02:10 UTC is unknown, as "
        "the server started again or another one answered: deadlocks are not looked for then"
    ])  # fmt: skip


def test_times_of_which_the_log_was_not_read_are_told(tmp_path: Path) -> None:
    """Something was skipped in the minute to 02:02, and nothing was read after 02:04.

    The period ends at 02:10, so the last sample of sessions in it is five seconds older.
    """
    log = [
        sample("log_errors", BEGIN + 60 * minute, replace(
            of_source("log_errors", errors=0, refused=0), reset=scope
        ))
        for minute, scope in enumerate("11222")
    ]  # fmt: skip
    recorded(tmp_path, *log, *(sessions(second) for second in range(BEGIN, BEGIN + 601, 5)))
    assert [one for one in history(tmp_path).not_looked_for if "log" in one] == [
        "the server's log was not read from 2026-11-23 02:01:00 UTC to 2026-11-23 02:02:00 UTC and "
        "from 2026-11-23 02:04:00 UTC to 2026-11-23 02:09:55 UTC: sessions that were refused are "
        "not looked for then"
    ]


def test_the_errors_of_the_log_are_shown_by_severity(tmp_path: Path) -> None:
    """2, 0 and 1 errors, and a cancelled statement among them; without the log no table."""
    counts = {"panics": 0, "fatals": 1, "warnings": 4, "deadlocks": 0, "refused": 0}
    rows = [
        sample("log_errors", BEGIN + 60 * minute, of_source(
            "log_errors", errors=errors, cancelled=min(errors, 1),
            **{name: most * (minute > 0) for name, most in counts.items()},
        ))
        for minute, errors in enumerate((0, 2, 2, 3, 3))
    ]  # fmt: skip
    recorded(tmp_path / "log", *rows)
    done = run("history", "show", "--dir", tmp_path / "log")
    table = done.stdout.partition("The server's log\n")[2]
    assert table.splitlines()[:7] == [
        "PANIC                           0", "FATAL                           1",
        "ERROR                           3", "WARNING                         4",
        "of these, deadlocks             0", "of these, sessions refused      0",
        "of these, statements cancelled  1",
    ]  # fmt: skip
    recorded(tmp_path / "none", sessions(BEGIN), sessions(BEGIN + 60))
    assert "server's log\n" not in run("history", "show", "--dir", tmp_path / "none").stdout


def load(slow: range, ms: float, calls: int = 600) -> Iterator[SourceSample]:
    """A statement that takes 10 ms a call, and in some minutes as long as given."""
    return loads(dict.fromkeys(slow, ms), calls)


def loads(slow: Mapping[int, float], calls: int = 600) -> Iterator[SourceSample]:
    """The same with another time in each of these minutes."""
    total, time_ms = 0, 0.0
    for minute in range(MINUTES):
        total += calls
        time_ms += calls * slow.get(minute, 10.0)
        row = of_source("statements", database="app", role="web", query_id=9, toplevel=True,
                        calls=total, exec_ms=time_ms, rows=total)  # fmt: skip
        yield sample("statements", BEGIN + 60 * minute, row)


def setting(minute: int, value: str) -> SourceSample:
    row = of_source("settings", name="work_mem", value=value, unit="kB", origin="file",
                    pending=False)  # fmt: skip
    return sample("settings", BEGIN + 60 * minute, row)


def test_a_slower_statement_is_told_with_what_changed_just_before(tmp_path: Path) -> None:
    told = recorded(
        tmp_path, setting(0, "65536"), setting(19, "1024"), *load(range(21, 31), 45.0),
    )  # fmt: skip
    assert told == [
        f"{clock(BEGIN + 20 * 60)} {clock(BEGIN + 30 * 60)} SELECT * FROM orders took 45 ms per "
        "call instead of 10 ms; just before: work_mem: 64MB → 1MB"
    ]


SLOWER = (
    f"{clock(BEGIN + 20 * 60)} {clock(BEGIN + 30 * 60)} SELECT * FROM orders took 45 ms per call "
    "instead of 10 ms"
)


def event(minute: int, kind: str, detail: str) -> HistoryEvent:
    at = MIDNIGHT + (BEGIN + 60 * minute) * SECOND
    return HistoryEvent(at=at, instance=INSTANCE, kind=kind, detail=detail)


@pytest.mark.parametrize("kind", ["restart", "crash", "failover"])
def test_what_happened_to_the_server_is_a_cause_and_what_the_recorder_saw_is_none(
    kind: str, tmp_path: Path
) -> None:
    events = [
        event(16, "reset", "statistics"), event(17, "eviction", "evicted"),
        event(18, "clock", "jumped"), event(18, "gap", "off"), event(19, kind, "at 02:19"),
        event(19, "pace", "slow"), event(19, "lost", "no answer"),
    ]  # fmt: skip
    assert recorded(tmp_path, *load(range(21, 31), 45.0), events=events) == [
        f"{SLOWER}; just before: {kind}: at 02:19"
    ]


def indexes(minute: int, *names: str, database: str = "app") -> SourceSample:
    kinds = {"orders": "table"} | dict.fromkeys(names, "index")
    rows = [
        of_source("relations", database=database, schema="public", name=name, kind=kind,
                  table_name="orders", relation=number, file=number, valid=True, empty=False)
        for number, (name, kind) in enumerate(kinds.items())
    ]  # fmt: skip
    return sample("relations", BEGIN + 60 * minute, *rows)


def test_a_cold_cache_after_a_crash_is_not_the_slower_statement_that_an_index_made(
    tmp_path: Path,
) -> None:
    """As recorded: after the crash one sample at 2.3 times its usual 10 ms, one as usual, then the
    index goes. Slow are the samples of 21:00 to 26:00: 1200 ms and 300 ms are mixed of fast and
    slow calls; 22 ms is more than usual, but no part of it. The median of the six is 2500 ms.
    """
    slow = {19: 23.0, 21: 1200.0, **dict.fromkeys(range(22, 26), 2500.0), 26: 300.0, 27: 22.0}
    told = recorded(
        tmp_path, indexes(0, "i"), indexes(21), *loads(slow), events=[event(18, "crash", "x")]
    )
    assert told == [
        f"{clock(BEGIN + 20 * 60)} {clock(BEGIN + 26 * 60)} SELECT * FROM orders took 2.5 s per "
        "call instead of 10 ms; just before: index public.i of orders was dropped (database app)"
    ]


def test_a_sample_that_is_nearly_as_slow_does_not_divide_what_is_slower(tmp_path: Path) -> None:
    """19 ms in one of eleven minutes of 45 ms is less than twice the usual, but not usual."""
    (told,) = recorded(tmp_path, *loads({**dict.fromkeys(range(20, 31), 45.0), 25: 19.0}))
    assert told[:17] == f"{clock(BEGIN + 19 * 60)} {clock(BEGIN + 30 * 60)}"


@pytest.mark.parametrize("usual", [(25,), (24, 25), (23, 28)])
def test_a_few_usual_samples_do_not_divide_what_is_slower(
    usual: Sequence[int], tmp_path: Path
) -> None:
    """Eleven minutes of 45 ms begin at 19:00, of which one or two took 10 ms.

    The step after them, to 90 ms, is higher than the first: it is not what made it slower.
    """
    slow = {**dict.fromkeys(range(20, 31), 45.0), max(usual) + 1: 90.0}
    changed = (setting(0, "65536"), setting(19, "1024"), setting(usual[0], "4096"))
    assert recorded(
        tmp_path, *changed, *loads({at: ms for at, ms in slow.items() if at not in usual})
    ) == [
        f"{clock(BEGIN + 19 * 60)} {clock(BEGIN + 30 * 60)} SELECT * FROM orders took 45 ms per "
        "call instead of 10 ms; just before: work_mem: 64MB → 1MB"
    ]


def test_slow_minutes_far_apart_are_not_one_slower_statement(tmp_path: Path) -> None:
    """Slow in two minutes of five: three usual ones are a longer pause than one has."""
    slow = {minute: 45.0 for minute in range(15, MINUTES) if minute % 5 < 2}
    assert recorded(tmp_path, *loads(slow)) == []


def test_a_setting_that_was_changed_in_reaction_is_no_cause(tmp_path: Path) -> None:
    """Slow from 20:00 on, which the sample of 21:00 shows first."""
    slow = (*load(range(21, 31), 45.0),)
    for minute, cause in ((21, "; just before: work_mem: 64MB → 1MB"), (22, "")):
        samples = [setting(0, "65536"), setting(minute, "1024"), *slow]
        assert recorded(tmp_path / str(minute), *samples) == [SLOWER + cause]


def test_the_nearest_three_changes_are_told_nearest_first(tmp_path: Path) -> None:
    kept = [setting(minute, str(1024 * (minute + 1))) for minute in (0, 15, 17, 19, 20)]
    assert recorded(tmp_path, *kept, *load(range(21, 31), 45.0)) == [
        f"{SLOWER}; just before: work_mem: 20MB → 21MB, work_mem: 18MB → 20MB and "
        "work_mem: 16MB → 18MB"
    ]


@pytest.mark.parametrize(("database", "told"), [("app", True), ("other", False)])
def test_an_index_that_went_in_another_database_is_no_cause(
    database: str, told: bool, tmp_path: Path
) -> None:
    slow = (*load(range(21, 31), 45.0),)
    cause = f"; just before: index public.i of orders was dropped (database {database})"
    assert [SLOWER + cause * told] == recorded(
        tmp_path, indexes(0, "i", database=database), indexes(20, database=database), *slow
    )


def test_a_statement_is_slower_than_it_was_before_the_period_that_is_shown(tmp_path: Path) -> None:
    """40 minutes are recorded, slow ones from 20:00 to 39:00: the last ten are all slow."""
    slow = (*load(range(21, MINUTES), 45.0), setting(0, "65536"), setting(20, "1024"))
    assert recorded(tmp_path, *slow, since="10min") == [
        f"{clock(BEGIN + 20 * 60)} {clock(BEGIN + 38 * 60)} SELECT * FROM orders took 45 ms per "
        "call instead of 10 ms; just before: work_mem: 64MB → 1MB"
    ]
    over = (*load(range(11, 21), 45.0),)
    assert recorded(tmp_path / "over", *over, since="10min") == []


def test_a_storm_is_one_of_the_day_whatever_is_shown(tmp_path: Path) -> None:
    many = [30] * 200 + [180] * 60
    assert recorded(tmp_path, *connections(many), since="5min") == [
        f"{clock(BEGIN + 2000)} {clock(BEGIN + 2580)} the number of sessions rose to 180 of 200; "
        "usual are 30"
    ]


def test_one_sample_over_a_gap_of_days_is_no_slower_statement(tmp_path: Path) -> None:
    """Nobody recorded for 62 hours, in which a call took 100 ms; then 20 minutes of 10 ms each."""
    calls, gap = 6_000_000, 223_200
    rows = [(0, 0, 0.0)]
    rows += [(gap + 60 * n, calls + 600 * n, 100.0 * calls + 6000.0 * n) for n in range(20)]
    samples = [
        sample("statements", BEGIN + at, of_source(
            "statements", database="app", role="web", query_id=9, toplevel=True, calls=total,
            exec_ms=ms, rows=total,
        ))
        for at, total, ms in rows
    ]  # fmt: skip
    assert recorded(tmp_path, *samples, since="4d") == []


def tables(minute: int, live: int, analyzed: int | None, name: str = "orders") -> SourceSample:
    """`analyzed`: so many minutes after the beginning."""
    at = None if analyzed is None else MIDNIGHT // SECOND + BEGIN + 60 * analyzed
    row = of_source("tables", database="app", schema="public", name=name, relation=7,
                    live=live, last_analyze=at)  # fmt: skip
    return sample("tables", BEGIN + 60 * minute, row)


def test_a_slower_statement_is_told_with_its_table_that_grew_or_was_analyzed(
    tmp_path: Path,
) -> None:
    slower = (
        f"{clock(BEGIN + 20 * 60)} {clock(BEGIN + 30 * 60)} SELECT * FROM orders took 45 ms per "
        "call instead of 10 ms"
    )
    slow = (*load(range(21, 31), 45.0),)
    assert recorded(tmp_path / "both", *slow, tables(0, 20_000, -50), tables(20, 40_000, 19)) == [
        f"{slower}; public.orders grew from 20,000 to 40,000 rows; just before: public.orders was "
        f"analyzed at {clock(BEGIN + 19 * 60)}"
    ]
    # Filled, a little larger, analyzed every ten minutes; another table; one that grew later.
    for number, seen in enumerate([
        (tables(0, 0, None), tables(20, 90_000, None)),
        (tables(0, 20_000, -1), tables(9, 39_999, 9), tables(19, 39_999, 19)),
        (tables(0, 20_000, -90, "order"), tables(20, 90_000, 19, "order")),
        (tables(0, 20_000, -90), tables(30, 90_000, 30)),
    ]):  # fmt: skip
        assert recorded(tmp_path / str(number), *slow, *seen) == [slower]


def test_of_tables_of_one_name_in_two_schemas_none_is_blamed(tmp_path: Path) -> None:
    """The statement does not say which it means, unless it names the schema."""
    rows = [
        [of_source("tables", database="app", schema=schema, name="orders", relation=7, live=live)
         for schema in ("eu", "us")]
        for live in (20_000, 40_000)
    ]  # fmt: skip
    grown = [
        sample("tables", BEGIN + 60 * minute, *rows[number])
        for number, minute in enumerate((0, 20))
    ]
    (told,) = recorded(tmp_path, *load(range(21, 31), 45.0), *grown)
    assert told.endswith("instead of 10 ms")


@pytest.mark.parametrize(
    ("slow", "ms", "calls", "why"),
    [
        (range(21, 31), 19.0, 600, "less than twice as long"),
        (range(21, 24), 45.0, 600, "only three minutes"),
        (range(21, 31), 45.0, 30, "30 calls a minute keep 0.02 sessions busy"),
    ],
)
def test_what_is_a_little_slower_or_does_not_matter_is_not_told(
    slow: range, ms: float, calls: int, why: str, tmp_path: Path
) -> None:
    assert recorded(tmp_path, *load(slow, ms, calls)) == [], why


def checkpoints(requested: Sequence[int]) -> Iterator[SourceSample]:
    total = 0
    for minute, number in enumerate(requested):
        total += number
        row = of_source("checkpoints", timed=minute // 5, requested=total, write_ms=0.0)
        yield sample("checkpoints", BEGIN + 60 * minute, row)


def test_three_checkpoints_before_their_time_are_told_and_two_are_not(tmp_path: Path) -> None:
    assert recorded(tmp_path, *checkpoints([0] * 10 + [1, 0, 1] + [0] * 10)) == []
    (told,) = recorded(tmp_path / "three", *checkpoints([0] * 10 + [1, 0, 2] + [0] * 10))
    assert told.startswith(f"{clock(BEGIN + 9 * 60)} {clock(BEGIN + 12 * 60)} 3 checkpoints came")


def test_checkpoints_before_their_time_are_told_with_the_setting_that_made_them(
    tmp_path: Path,
) -> None:
    """max_wal_size was changed at 9:30, in the minute of the first checkpoint; work_mem as well."""

    def at(second: int, **values: str) -> SourceSample:
        return sample("settings", BEGIN + second, *(
            of_source("settings", name=name, value=value, unit="kB" if name == "work_mem" else "MB",
                      origin="file", pending=False)
            for name, value in values.items()
        ))  # fmt: skip

    changed = (at(0, max_wal_size="1024", work_mem="64"), at(570, max_wal_size="48", work_mem="32"))
    many = (*checkpoints([0] * 10 + [1, 0, 20] + [0] * 10),)
    assert recorded(tmp_path, *changed, *many) == [
        f"{clock(BEGIN + 570)} {clock(BEGIN + 720)} 21 checkpoints came before their time within "
        "2.5 min: WAL reached max_wal_size, or somebody asked for them; just before: "
        "max_wal_size: 1GB → 48MB"
    ]
    (told,) = recorded(tmp_path / "long", at(0, max_wal_size="1024", work_mem="64"), *many)
    assert told.endswith("or somebody asked for them")


@pytest.mark.parametrize(
    ("name", "later", "earlier"),
    [
        ("max_wal_size", "2048", "1024"),
        ("checkpoint_completion_target", "0.5", "0.9"),
        ("full_page_writes", "off", "on"),
        ("wal_compression", "zstd", "off"),
        ("wal_level", "replica", "logical"),
    ],
)
def test_a_setting_that_makes_checkpoints_come_later_is_not_why_they_came_early(
    name: str, later: str, earlier: str, tmp_path: Path
) -> None:
    """It was changed at 9:30; the first of the checkpoints was counted between 9:00 and 10:00."""

    def told(*values: str) -> str:
        changed = [
            sample("settings", BEGIN + second, of_source(
                "settings", name=name, value=value, unit=None, origin="file", pending=False
            ))
            for second, value in zip((0, 570), values, strict=True)
        ]  # fmt: skip
        many = (*checkpoints([0] * 10 + [1, 0, 20] + [0] * 10),)
        (found,) = recorded(tmp_path / values[0], *changed, *many)
        return found

    assert told(later, earlier).endswith(f"; just before: {name}: {later} → {earlier}")
    raised = told(earlier, later)
    assert raised.startswith(clock(BEGIN + 540))
    assert raised.endswith("or somebody asked for them")


@pytest.mark.parametrize(("number", "told"), [(12, 1), (9, 0)])
def test_checkpoints_of_a_time_without_a_recorder_are_not_those_of_a_minute(
    number: int, told: int, tmp_path: Path
) -> None:
    """Off for 50 minutes: 12 checkpoints are one each 250 s, and 9 are one each 333 s."""
    rows = [
        sample("checkpoints", BEGIN + second, of_source("checkpoints", requested=total))
        for second, total in ((0, 0), (3000, number), (3060, number))
    ]
    found = recorded(tmp_path, *rows)
    begun = f"{clock(BEGIN)} {clock(BEGIN + 3000)} 12 checkpoints came before their time within 50"
    assert [one[: len(begun)] for one in found] == told * [begun]


def test_a_storm_before_the_last_day_is_not_searched_and_that_is_said(tmp_path: Path) -> None:
    """Two days: only the second is searched, in Python and as text; a crash is told of both."""
    storm = connections([30] * 100 + [180] * 10 + [30] * 100)
    crash = HistoryEvent(
        at=MIDNIGHT + (BEGIN + 5) * SECOND, instance=INSTANCE, kind="crash", detail="it recovered"
    )
    with Writer(tmp_path, built_in().values()) as writer:
        writer.commit([Batch(
            instance=INSTANCE, events=(crash,),
            samples=(*storm, sample("connections", BEGIN + 2 * 86_400)),
        )])  # fmt: skip
    text = "\n".join(lines(history(tmp_path, since="3d"), 100))
    assert "\n2026-11-23 02:00:05: crash: it recovered.\n" in text
    assert ".." not in text
    found = history(tmp_path, since="3d")
    assert [one.text for one in found.incidents] == ["crash: it recovered"]
    assert found.not_looked_for[0].startswith("queues for locks, storms of connections, slower ")
    assert found.not_looked_for[0].endswith("not before 2026-11-24 02:00:00 UTC")
    done = run("history", "show", "--since", "3d", "--dir", tmp_path)
    assert "\nQueues for locks, storms of connections, slower" in done.stdout
    told = " ".join(done.stdout.split())
    assert " Sessions were not recorded: queues for locks are not looked for." in told


def test_nothing_went_wrong_is_said_only_if_all_was_looked_at(tmp_path: Path) -> None:
    few = of_source("connections", clients=5, active=1, maximum=9, ordinary=9)

    def shown(*without: str) -> str:
        place = tmp_path / "-".join(("store", *without))
        names = {"sessions", "connections", "statements", "checkpoints", "databases"} - {*without}
        with Writer(place, built_in().values()) as writer:
            writer.commit([Batch(instance=INSTANCE, samples=tuple(
                sample(name, second, *([few] if name == "connections" else []))
                for second in range(BEGIN, BEGIN + 300, 5) for name in names
            ))])  # fmt: skip
        return run("history", "show", "--dir", place).stdout

    lacking = shown().splitlines()[3:5]
    assert lacking == [
        "The server's log was not read: sessions that were refused are not looked for.",
        "Ceilings are not looked for: the host of db:5432 was not recorded.",
    ]
    without = shown("statements")
    assert "\nNothing went wrong in what was looked at.\n" in without
    assert "\nStatements were not recorded: slower statements are not looked for." in without


def test_while_only_the_host_was_sampled_nobody_looked(tmp_path: Path) -> None:
    """An hour of everything but for ten minutes in which the server could not be reached.

    By hand: sessions are sampled every 5 s, so from 02:19:55; statements, at 02:20 not any more,
    from 02:19. At 02:45 sessions alone took too long, for two minutes.
    """
    away, busy = range(BEGIN + 1200, BEGIN + 1800), range(BEGIN + 2700, BEGIN + 2820)
    samples = [sample("host", second) for second in range(BEGIN, BEGIN + 3600, 10)]
    for second in range(BEGIN, BEGIN + 3600, 5):
        if second not in away:
            samples += [] if second in busy else [sample("sessions", second)]
            if second % 10 == 0:
                row = of_source("connections", clients=5, active=1, maximum=9, ordinary=9)
                samples.append(sample("connections", second, row))
            if second % 60 == 0:
                names = ("statements", "checkpoints", "databases")
                samples += [sample(name, second) for name in names]
    events = tuple(
        HistoryEvent(at=MIDNIGHT + at * SECOND, instance=INSTANCE, kind=kind, detail=detail)
        for at, kind, detail in (
            (BEGIN, "connected", "recording"), (BEGIN + 1203, "lost", "connection refused"),
            (BEGIN + 1799, "connected", "recording"), (BEGIN + 3500, "lost", "no answer"),
        )
    )  # fmt: skip
    with Writer(tmp_path, built_in().values()) as writer:
        writer.commit([Batch(instance=INSTANCE, samples=tuple(samples), events=events)])
    found = history(tmp_path, since="1h")
    told = [
        one for one in found.not_looked_for if not one.startswith(("ceilings", "the server's log"))
    ]
    assert told == [
        "sessions were not recorded from 2026-11-23 02:19:55 UTC to 2026-11-23 02:30:00 UTC and "
        "from 2026-11-23 02:44:55 UTC to 2026-11-23 02:47:00 UTC: queues for locks are not looked "
        "for then",
        *(
            f"{name} were not recorded from 2026-11-23 02:19:{second} UTC to 2026-11-23 02:30:00 "
            f"UTC: {what} are not looked for then"
            for name, second, what in (
                ("connections", 50, "storms of connections"),
                ("statements", "00", "slower statements"),
                ("checkpoints", "00", "checkpoints before their time"),
                ("databases", "00", "deadlocks"),
            )
        ),
    ]
    assert [
        (f"{one.begin:%H:%M:%S}", f"{one.end:%H:%M:%S}", one.text) for one in found.incidents
    ] == [
        ("02:20:03", "02:29:59", "lost: connection refused"),
        ("02:58:20", "02:59:55", "lost: no answer"),
    ]


def test_a_crash_and_the_session_that_it_ended_are_one_event(tmp_path: Path) -> None:
    """By hand: lost 1 s after recovery began, answered 4 s later; another time nothing tells why.

    A restart 10 s after it answered is another event.
    """
    events = tuple(
        HistoryEvent(at=MIDNIGHT + (BEGIN + at) * SECOND, instance=INSTANCE, kind=kind, detail=kind)
        for at, kind in (
            (100, "crash"), (101, "lost"), (105, "connected"), (115, "restart"),
            (200, "lost"), (260, "connected"),
        )
    )  # fmt: skip
    with Writer(tmp_path, built_in().values()) as writer:
        samples = (sessions(BEGIN), sessions(BEGIN + 300))
        writer.commit([Batch(instance=INSTANCE, samples=samples, events=events)])
    assert [
        (one.kind, f"{one.begin:%M:%S}", f"{one.end:%M:%S}", one.text)
        for one in history(tmp_path, since="1h").incidents
    ] == [
        ("crash", "01:40", "01:45", "crash: crash"),
        ("event", "01:55", "01:55", "restart: restart"),
        ("event", "03:20", "04:20", "lost: lost"),
    ]


def test_of_a_noisy_night_the_crash_is_told_first_and_times_stay_in_order(tmp_path: Path) -> None:
    """Ten queues, 15 losses of the server and a crash at the end, of which 20 are told."""
    queues = [
        sessions(BEGIN + 60 * number + second, (102, f"{200 + number}"))
        for number in range(10) for second in range(0, 10, 5)
    ]  # fmt: skip
    events = [
        HistoryEvent(at=MIDNIGHT + (BEGIN + at) * SECOND, instance=INSTANCE, kind=kind, detail="x")
        for at, kind in [*((700 + 10 * n, "lost") for n in range(15)), (3000, "crash")]
    ]
    with Writer(tmp_path, built_in().values()) as writer:
        samples = (*queues, sessions(BEGIN + 3500))
        writer.commit([Batch(instance=INSTANCE, samples=samples, events=tuple(events))])
    command = ["history", "show", "--since", "1h", "--dir", str(tmp_path)]
    told = run(*command).stdout
    kinds = re.findall(r"^\d\d:\d\d:\d\d.*: (1 session|lost|crash)", told, re.MULTILINE)
    assert kinds == [*["1 session"] * 4, *["lost"] * 15, "crash"]
    assert "\n6 more are in --json.\n" in told


def test_of_a_standby_forced_checkpoints_are_not_looked_for(
    new_cluster: NewCluster, each_major: int, tmp_path: Path
) -> None:
    """It counts attempts at restartpoints: of a server in recovery neither number is known."""
    cluster = new_cluster(each_major)
    cluster.stop()
    (cluster.data / "standby.signal").touch()
    cluster.start()
    with Writer(tmp_path, built_in().values()) as writer, connect(cluster.dsn()) as conn:
        sampler = Sampler(conn)
        sampler.prepare()
        for number, name in enumerate(("checkpoints", "checkpoints", "sessions")):
            read = sampler.sample(built_in()[name])
            assert read is not None, sampler.missing
            later = replace(read, at=read.at + number * SECOND)
            writer.commit([Batch(instance=INSTANCE, samples=(later,))])
    found = history(tmp_path, since="1h")
    assert (found.checkpoints.timed, found.checkpoints.requested) == (None, None)
    assert (
        "a standby counts attempts at restartpoints: checkpoints before their time are not looked "
        "for"
    ) in found.not_looked_for


@pytest.mark.slow
@pytest.mark.timed
def test_an_incident_played_out_is_told_and_the_quiet_before_it_is_not(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    """A real recorder beside pgbench: 70 s of nothing, then a lock held for 20 s."""
    cluster = new_cluster(settings={"shared_preload_libraries": "pg_stat_statements"})
    sql(cluster.dsn(), "CREATE EXTENSION pg_stat_statements")
    pgbench = find_pgbench(cluster.binaries)
    subprocess.run([pgbench, "-i", "-q", "-s", "2", cluster.dsn()], check=True, capture_output=True)
    program = [sys.executable, "-c", "from mrtuner.cli import main; main()"]
    recorder = subprocess.Popen([*program, "record", cluster.dsn(), "--dir", str(tmp_path)])
    load = subprocess.Popen([pgbench, "-c", "3", "-R", "50", "-T", "180", cluster.dsn()])
    time.sleep(70)
    quiet = history(tmp_path).incidents
    with psycopg.connect(cluster.dsn(), application_name="nightly-import") as holder:
        holder.execute("LOCK TABLE pgbench_branches")
        time.sleep(20)
    time.sleep(65)  # texts of statements are read once a minute
    load.terminate()
    recorder.terminate()
    load.wait()
    recorder.wait()
    assert quiet == ()
    found = history(tmp_path).incidents
    assert len(found) == 1, found
    (told,) = found
    assert told.kind == "lock queue"
    assert (
        "3 sessions of pgbench waited for a lock of public.pgbench_branches that nightly-import "
        "(process "
    ) in told.text
    assert "last statement LOCK TABLE pgbench_branches" in told.text
