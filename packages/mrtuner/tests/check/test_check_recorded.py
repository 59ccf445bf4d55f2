"""What a history adds to a check of a real server: its last day, and what it does not show."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from conftest import NewCluster
from history_data import MIDNIGHT, SECOND
from history_story import INSTANCE, of_source, sample, story

from command_line import run
from mrtuner.answers import check
from mrtuner.checks.read import read
from mrtuner.checks.report import CheckReport, judged
from mrtuner.checks.state import Recorded
from mrtuner.findings import Finding
from mrtuner.history.analysis.incidents import Incident
from mrtuner.history.recording.sampler import SourceSample
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Batch, Writer
from mrtuner.limits import limits
from mrtuner.limits.examples.week import CLASS, STORAGE, simulated_week
from mrtuner.limits.reached import Findings
from mrtuner.postgres.cluster import Cluster
from mrtuner.tuning import gather
from servers import counted, sql

pytestmark = pytest.mark.timed

GB = 10**9


def now() -> int:
    """A minute ago, in seconds after the histories' midnight."""
    return time.time_ns() // 1000 // SECOND - MIDNIGHT // SECOND - 60


def checked(cluster: Cluster, place: Path, *samples: SourceSample) -> CheckReport:
    if samples:
        # A period ends before the last sample.
        last = sample("connections", now() + 30, of_source("connections"))
        with Writer(place, built_in().values()) as writer:
            writer.commit([Batch(instance=INSTANCE, samples=(*samples, last))])
    return check(
        cluster.dsn(), history=place, skip=["free-space"], memory="8GB", cpus=4, storage="ssd"
    )


def of(report: CheckReport, name: str) -> tuple[list[Finding], str]:
    """The findings of a check, and why it could not judge."""
    why = [one.why for one in report.unjudged if one.name == name]
    return [one for one in report.findings if one.id == name], why[0] if why else ""


def test_an_old_history_tells_its_last_day_and_that_it_is_not_of_now(
    embedded: Cluster, tmp_path: Path
) -> None:
    story(tmp_path)  # ten checkpoints before their time, on 2026-11-23
    report = checked(embedded, tmp_path)
    (found,), why = of(report, "incident")
    assert found.severity == "to know"
    assert "10 checkpoints came before their time" in found.text
    assert found.remedy == (
        f"mrtuner history show --dir {tmp_path} --instance db:5432 --since 30min --until "
        "2026-11-23T02:50:00",
    )
    assert found.consequence == "it may come again"
    shown = run(*found.remedy[0].split()[1:]).stdout
    assert shown.startswith("db:5432: 2026-11-23 02:20:00 to 2026-11-23 02:50:00 UTC\n")
    assert "10 checkpoints came before their time" in shown
    assert why.startswith("the history ends at 2026-11-23 02:59:59 UTC; nothing was recorded from")
    assert "nothing was recorded from 2026-11-23 02:49:59 UTC to 2026-11-23 02:55:00 UTC" in why
    assert "volume-fills" not in report.skipped


@pytest.mark.parametrize(
    ("began", "ended", "kind", "severity", "consequence"),
    [
        (9, 8, "lock queue", "to know", "it may come again"),
        (9, 1, "lock queue", "to do", "it may go on"),
        (1, 1, "lock queue", "to know", "it may come again"),
        (1200, 1140, "crash", "to do", "it may come again"),
        (1200, 1140, "sessions refused", "to do", "it may come again"),
    ],
)
def test_what_ended_does_not_go_on_and_a_crash_is_to_do_for_a_day(
    embedded: Cluster, began: int, ended: int, kind: str, severity: str, consequence: str
) -> None:
    """The history ends now: what was seen in its last minute may go on, if it lasted at all."""
    end = datetime.now(UTC)
    begin, over = (end - timedelta(minutes=minutes) for minutes in (began, ended))
    one = Incident(kind=kind, begin=begin, end=over, text="one waited", screen="moment")
    recorded = Recorded(
        store="/history of shop", instance="here", begin=end - timedelta(days=1), end=end,
        incidents=(one,), not_looked_for=(), filesystems=(), role_peaks=(), limits=None,
        no_limits="",
    )  # fmt: skip
    state = replace(read(embedded.dsn(), gather.flags(memory="8GB")), recorded=recorded)
    (found,), _ = of(judged("here", state), "incident")
    assert (found.severity, found.consequence) == (severity, consequence)
    assert " --dir '/history of shop' --instance here --since " in found.remedy[0]
    assert (" to " in found.text) == (begin < over)


def test_a_history_that_began_minutes_ago_lacks_nothing_before_it(
    embedded: Cluster, tmp_path: Path
) -> None:
    """15 minutes of all sources: only what takes longer to know is named."""
    end = now()
    rows = {
        "sessions": {}, "connections": {"clients": 5, "active": 1, "maximum": 9, "ordinary": 9},
        "databases": {}, "statements": {}, "checkpoints": {}, "log_errors": {"refused": 0},
        "host": {"cpus": 4},
    }  # fmt: skip
    used = ("cpu_user", "cpu_system", "cpu_steal", "cpu_iowait", "cpu_idle")
    samples = [
        sample(name, end - ago, of_source(name, **row, **(
            dict.fromkeys(used, (900 - ago) / 2) if name == "host" else {}
        )))
        for ago in range(900, -1, -10)
        for name, row in rows.items()
    ]  # fmt: skip
    report = checked(embedded, tmp_path, *samples)
    assert of(report, "incident") == ([], "")
    assert "incident" in report.passed
    assert re.fullmatch(
        "6[01] samples of the host cannot show a ceiling: 120 are needed, 30 min: record on",
        of(report, "ceiling-reached")[1],
    )  # 900 s are 60 steps of 15 s


def test_what_a_history_lacks_is_named_check_by_check(embedded: Cluster, tmp_path: Path) -> None:
    report = checked(embedded, tmp_path, sample("settings", now()))
    assert not {one.id for one in report.findings} & {"incident", "volume-fills"}
    _, why = of(report, "incident")
    assert "sessions were not recorded: queues for locks are not looked for" in why
    assert of(report, "volume-fills")[1] == "the volumes of the server's host were not recorded"
    assert "was not recorded" in of(report, "ceiling-reached")[1]
    assert of(report, "pools-exceed-limit")[1] == "sessions were not counted by role"


def volume(hours: int, free: int, lost: float) -> Iterator[SourceSample]:
    """A volume of 1,000 GB that ends with so much free [GB], and lost so much an hour."""
    end = now()
    for ago in range(hours, -1, -1):
        yield sample(
            "filesystems", end - ago * 3600,
            of_source("filesystems", mount="/data", device="sda", size=1000 * GB,
                      free=round((free + ago * lost) * GB)),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("hours", "free", "lost", "severity"),
    [
        (20, 100, 5, "danger"),  # 20 h left
        (20, 600, 5, "to do"),  # 5 d left
        (20, 900, 5, None),  # 7.5 d left
        (20, 600, 0, None),
        (10, 360, 5, None),  # 72 h left, seen for 10 h: too far ahead
        (11, 360, 5, "to do"),  # seven times 11 h
    ],
)
def test_a_volume_that_fills_up_is_told_with_its_time(
    embedded: Cluster, tmp_path: Path, hours: int, free: int, lost: float, severity: str | None
) -> None:
    found, why = of(checked(embedded, tmp_path, *volume(hours, free, lost)), "volume-fills")
    assert [one.severity for one in found] == ([severity] if severity else [])
    assert why == ""
    for one in found:
        assert one.harm_in == pytest.approx(free / lost * 3600, rel=0.01)
        assert one.text.startswith("/data has ")


def sessions(ago: int, **roles: int) -> SourceSample:
    """So many idle sessions of each role, so many minutes ago."""
    return sample(
        "sessions_by_role", now() - ago * 60,
        *(of_source("sessions_by_role", database="shop", role=role, state="idle", sessions=number)
          for role, number in roles.items()),
    )  # fmt: skip


def test_pools_that_peaked_at_other_times_are_added_up(embedded: Cluster, tmp_path: Path) -> None:
    """60 of web and 50 of nightly are more than 100 less 3 for superusers, but never at once."""
    told, why = of(
        checked(
            embedded, tmp_path, sessions(300, web=60, nightly=1), sessions(200, web=10, nightly=50),
            sessions(100, web=10, nightly=50), sessions(0, web=40),
        ),
        "pools-exceed-limit",
    )  # fmt: skip
    assert why == ""
    (found,) = told
    assert found.text == (
        "2 roles had 110 sessions at their peaks of a day, added up; there are 97"
    )
    assert found.evidence[0].startswith("role web: 60 sessions at ")
    assert found.severity == "to know"


def test_pools_that_fit_and_a_peak_of_another_day_are_nothing(
    embedded: Cluster, tmp_path: Path
) -> None:
    fits = checked(embedded, tmp_path / "fits", sessions(60, web=47), sessions(0, nightly=50))
    assert of(fits, "pools-exceed-limit") == ([], "")
    old = checked(
        embedded, tmp_path / "old", sessions(2000, web=90), sessions(1900, web=10),
        sessions(0, web=10, nightly=50),
    )  # fmt: skip
    assert of(old, "pools-exceed-limit") == ([], "")


def test_vacuum_is_judged_by_the_busiest_day_of_the_history(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    """50,000 updates a second, of a table that the server itself has seen nothing of.

    So it is vacuumed each minute: 1,725 pages cost 2 to read and 20 to write, 632 a second in all.
    A limit of 1 every 2 ms allows 500.
    """
    cluster = new_cluster(settings={"vacuum_cost_limit": 1})
    counted(
        cluster.dsn(),
        "CREATE TABLE busy (id int, note text)",
        "INSERT INTO busy SELECT n, repeat('x', 100) FROM generate_series(1, 100000) AS n",
        "VACUUM ANALYZE busy",
    )
    ((oid,),) = sql(cluster.dsn(), "SELECT 'busy'::regclass::oid::bigint")
    end = now()

    def tables(database: str) -> list[SourceSample]:
        return [
            sample("tables", end - 3600 * ago, of_source(
                "tables", database=database, schema="public", name="busy", relation=oid,
                inserted=0, updated=(20 - ago) * 50_000 * 3600, hot_updated=0, deleted=0,
                vacuums=0, toast_inserted=0, toast_deleted=0, live=100_000,
            ))
            for ago in range(20, -1, -1)
        ]  # fmt: skip

    (found,), _ = of(checked(cluster, tmp_path / "own", *tables("postgres")), "vacuum-behind")
    assert found.text == "vacuum needs 1.3 times what its cost limit allows"
    assert "busiest day in the history" in found.basis
    other = checked(cluster, tmp_path / "other", *tables("shop"))
    assert "vacuum-behind" in other.passed


def test_a_ceiling_that_was_reached_is_told_with_its_level_and_what_helps(
    embedded: Cluster,
) -> None:
    """The week of the field notes: 213 MB/s by day, a limit of the instance as it was started."""
    reached = limits(simulated_week(), class_name=CLASS, storage=STORAGE)
    recorded = Recorded(
        store="/history", instance="here", begin=datetime.now(UTC), end=datetime.now(UTC),
        incidents=(), not_looked_for=(), filesystems=(), role_peaks=(),
        limits=reached, no_limits="",
    )  # fmt: skip
    state = replace(read(embedded.dsn(), gather.flags(memory="8GB")), recorded=recorded)
    (found,), why = of(judged("here", state), "ceiling-reached")
    assert why == ""
    assert found.severity == "to do"
    assert found.evidence[0].startswith(
        "throughput at 213 MB/s, the limit of instance throughput, before December 2019: "
    )
    assert "Stop and start the instance" in " ".join(found.remedy)
    idle = replace(reached, findings=Findings(pegged=(), steady=()))
    calm = replace(state, recorded=replace(recorded, limits=idle))
    assert "ceiling-reached" in judged("here", calm).passed
