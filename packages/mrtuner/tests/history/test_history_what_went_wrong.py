"""What went wrong in a period, in sentences: queues, storms, slower statements; and quiet hours."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from conftest import NewCluster
from history_data import MIDNIGHT, SECOND
from history_story import BEGIN, INSTANCE, of_source, sample

from mrtuner.answers import history
from mrtuner.bench.load.pgbench import find_pgbench
from mrtuner.cli import main
from mrtuner.history.recording.sampler import Sampler, SourceSample
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Batch, HistoryEvent, Writer
from mrtuner.postgres.connect import connect
from servers import sql

TEXTS = {7: "LOCK TABLE stock", 8: "UPDATE stock SET n = n - ?", 9: "SELECT * FROM orders"}
MINUTES = 40


def recorded(place: Path, *samples: SourceSample) -> list[str]:
    """What is told of a store with these samples."""
    with Writer(place, built_in().values()) as writer:
        writer.commit([Batch(instance=INSTANCE, samples=samples, texts=TEXTS)])
    return [
        f"{one.begin:%H:%M:%S} {one.end:%H:%M:%S} {one.text}"
        for one in history(place, since="1h").incidents
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


def test_a_wait_of_four_seconds_is_nothing_and_two_queues_are_two(tmp_path: Path) -> None:
    short = [sessions(second, (102, "101")) for second in range(BEGIN + 100, BEGIN + 105)]
    first = [sessions(second, (102, "101")) for second in range(BEGIN + 200, BEGIN + 211)]
    again = [sessions(second, (105, "0")) for second in range(BEGIN + 300, BEGIN + 306)]
    told = recorded(tmp_path, *short, *first, *again, sessions(BEGIN + 400))
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
        "process 101 held, 2 times, 30 s in all",
        f"{clock(BEGIN + 900)} {clock(BEGIN + 907)} 1 session of shop waited for a lock that "
        "process 101 held for at least 7 s",
    ]


def connections(clients: Sequence[int]) -> Iterator[SourceSample]:
    for number, count in enumerate(clients):
        row = of_source("connections", clients=count, active=1, maximum=200)
        yield sample("connections", BEGIN + 10 * number, row)


def test_a_storm_is_twice_the_usual_sessions_and_twenty_more(tmp_path: Path) -> None:
    told = recorded(tmp_path, *connections([30] * 100 + [61, 180, 90] + [30] * 100))
    assert told == [
        f"{clock(BEGIN + 1000)} {clock(BEGIN + 1020)} the number of sessions rose to 180 of 200; "
        "usual are 30"
    ]


def test_a_change_of_a_few_sessions_is_no_storm(tmp_path: Path) -> None:
    assert recorded(tmp_path, *connections([3] * 100 + [22] * 5 + [3] * 100)) == []
    assert recorded(tmp_path / "more", *connections([60] * 100 + [119] * 5 + [60] * 100)) == []


def load(slow: range, ms: float, calls: int = 600) -> Iterator[SourceSample]:
    """A statement that takes 10 ms a call, and in some minutes as long as given."""
    total, time_ms = 0, 0.0
    for minute in range(MINUTES):
        total += calls
        time_ms += calls * (ms if minute in slow else 10.0)
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
    # A little larger, analyzed every ten minutes; another table; one that grew later.
    for number, seen in enumerate([
        (tables(0, 20_000, -1), tables(9, 39_999, 9), tables(19, 39_999, 19)),
        (tables(0, 20_000, -90, "order"), tables(20, 90_000, 19, "order")),
        (tables(0, 20_000, -90), tables(30, 90_000, 30)),
    ]):  # fmt: skip
        assert recorded(tmp_path / str(number), *slow, *seen) == [slower]


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
    found = history(tmp_path, since="3d")
    assert [one.text for one in found.incidents] == ["crash: it recovered"]
    assert found.not_looked_for[0].startswith("queues for locks, storms of connections, slower ")
    assert found.not_looked_for[0].endswith("not before 2026-11-24 02:00:00 UTC")
    done = CliRunner().invoke(main, ["history", "show", "--since", "3d", "--dir", str(tmp_path)])
    assert "\nNot looked for: queues for locks, storms of connections" in done.stdout
    told = " ".join(done.stdout.split())
    assert (
        "Not looked for: sessions were not recorded: queues for locks are not looked for." in told
    )


def test_nothing_went_wrong_is_said_only_if_all_was_looked_at(tmp_path: Path) -> None:
    def shown(*without: str) -> str:
        place = tmp_path / "-".join(("store", *without))
        names = {"sessions", "connections", "statements", "checkpoints"} - {*without}
        with Writer(place, built_in().values()) as writer:
            writer.commit([Batch(instance=INSTANCE, samples=tuple(
                sample(name, second, *([of_source("connections", clients=5, active=1, maximum=9)]
                                       if name == "connections" else []))
                for second in range(BEGIN, BEGIN + 300, 5) for name in names
            ))])  # fmt: skip
        return CliRunner().invoke(main, ["history", "show", "--dir", str(place)]).stdout

    lacking = re.findall("Not looked for: (.*)", shown())
    assert lacking == ["ceilings are not looked for: nothing of the host was measured."]
    without = shown("statements")
    assert "\nNothing went wrong in what was looked at.\n" in without
    assert "Not looked for: statements were not recorded: slower statements are not" in without


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
                row = of_source("connections", clients=5, active=1, maximum=9)
                samples.append(sample("connections", second, row))
            if second % 60 == 0:
                samples += [sample(name, second) for name in ("statements", "checkpoints")]
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
    assert [one for one in found.not_looked_for if "ceilings" not in one] == [
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
            )
        ),
    ]
    assert [
        (f"{one.begin:%H:%M:%S}", f"{one.end:%H:%M:%S}", one.text) for one in found.incidents
    ] == [
        ("02:20:03", "02:29:59", "lost: connection refused"),
        ("02:58:20", "02:59:55", "lost: no answer"),
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
    told = CliRunner().invoke(main, command).stdout
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
    assert "3 sessions of pgbench waited for a lock that nightly-import (process " in told.text
    assert "last statement LOCK TABLE pgbench_branches" in told.text
