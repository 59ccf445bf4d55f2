"""The headroom screen says what `mrtuner limits` says of the same metrics, and what to do."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from history_data import MIDNIGHT, SECOND, batch, sample
from history_story import of_source
from served import PATIENCE, Viewer, in_a_browser, rows, serving_here, violations

from command_line import run
from mrtuner.aws.rows import Instance
from mrtuner.history.recording.machine import rows_of_instance
from mrtuner.history.recording.managed import CLOUDWATCH, METRICS
from mrtuner.history.recording.sampler import Row, SourceSample
from mrtuner.history.recording.source import built_in, of_program
from mrtuner.history.store.writer import Batch, Writer
from mrtuner.limits.recorded_ceilings import CEILINGS

CLASS, STORAGE = "db.r5.2xlarge", "io1:1000GB,30000iops"
#: The week of `mrtuner limits --example`.
WEEK = "from=2026-03-02T00:00&to=2026-03-09T00:00"
STEP = 15
HOSTILE = "<img src=x onerror=document.title='run'>"


def chart(screen: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [one for one in screen["charts"] if one["name"] == name]
    return dict(found)


# An instance of RDS: class and volume from the catalogue.


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example that `limits` comes with, as a file."""
    path = tmp_path_factory.mktemp("metrics") / "metrics.csv"
    path.write_text(run("limits", "--example").stdout, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def of_rds(metrics: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """A viewer of these metrics, recorded as from CloudWatch."""
    directory = tmp_path_factory.mktemp("rds")
    instance = Instance(
        identifier="shop-prod", arn="", resource_id="db-1", class_name=CLASS, engine="postgres",
        engine_version="15.4", status="available", groups=(), storage_type="io1",
        allocated_storage=1000, iops=30_000,
    )  # fmt: skip
    with metrics.open(encoding="utf-8") as file:
        points = [_point(row) for row in csv.DictReader(file)]
    machine = built_in()["machine"]
    described = SourceSample(
        source=machine, at=points[0].at, monotonic=0.0, cost=0.0,
        rows=tuple(of_source("machine", **row) for row in rows_of_instance(instance)),
    )  # fmt: skip
    with Writer(directory, [*built_in().values(), CLOUDWATCH]) as writer:
        writer.commit([Batch(instance="shop", samples=(described, *points))])
    with serving_here(directory) as viewer:
        yield viewer


def _point(row: dict[str, str]) -> SourceSample:
    at = datetime.fromisoformat(row["timestamp"])
    values = tuple(float(row[name]) if row.get(name) else None for name in METRICS.values())
    return SourceSample(
        source=CLOUDWATCH, at=int(at.timestamp()) * SECOND, monotonic=at.timestamp(), cost=0.0,
        rows=(Row(values=values, reset=None),),
    )  # fmt: skip


@pytest.fixture(scope="module")
def told(metrics: Path) -> dict[str, Any]:
    """The document that the command writes about the file."""
    done = run("limits", metrics, "--class", CLASS, "--volume", STORAGE, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_an_instance_of_rds_has_the_ceilings_and_the_advice_of_limits(
    of_rds: Viewer, told: dict[str, Any]
) -> None:
    screen = of_rds.screen("headroom", WEEK)
    ceilings = rows(screen, "ceilings")
    reached = [one for one in ceilings if one["reached"]]
    assert [one["seconds"] for one in reached] == [60 * one["minutes"] for one in told["pegged"]]
    assert {one["ceiling"] for one in ceilings} == {one["name"] for one in told["ceilings"]}
    assert all(one["remedies"] for one in reached)
    said = [one["advice"] for one in rows(screen, "remedies")]
    assert said[: len(told["advice"])] == told["advice"]
    assert [one["class"] for one in rows(screen, "candidates")] == [
        one["class"] for one in told["candidates"]
    ]
    spans = {tuple(one) for pegged in told["pegged"] for one in pegged["spans"]}
    assert {(one["begin"], one["end"]) for one in rows(screen, "stretches")} == {
        tuple(datetime.fromisoformat(text).timestamp() for text in span) for span in spans
    }


def test_the_ceilings_are_drawn_into_the_charts_and_their_times_shaded(
    of_rds: Viewer, told: dict[str, Any]
) -> None:
    screen = of_rds.screen("headroom", WEEK)
    throughput = chart(screen, "throughput")
    # The limits before December 2019, 1700 and 3500 Mbps, held it down; 2300 and 4750 are today's,
    # and the volume has 4000 MiB/s.
    assert {one["value"]: one["reached"] for one in throughput["limits"]} == {
        287.5e6: False, 593.75e6: False, 212.5e6: True, 437.5e6: True, 4000 * 2**20: False,
    }  # fmt: skip
    assert len(throughput["bands"]) == sum(len(one["spans"]) for one in told["pegged"])
    assert {one["value"] for one in chart(screen, "iops")["limits"]} == {12_000, 18_750, 30_000}
    assert chart(screen, "cpu")["limits"] == [
        {"name": "instance cpu 100 %", "value": 1.0, "reached": False}
    ]
    assert {one["value"] for one in chart(screen, "network")["limits"]} == {312.5e6, 1250e6}
    line = next(one for one in throughput["series"] if one["name"] == "read")
    assert 1e8 < max(value for value in line["values"] if value is not None) < 443e6


def test_the_share_of_a_ceiling_is_that_of_the_one_that_held(of_rds: Viewer) -> None:
    """By night 443 MB/s of 437.5, by day 213 of 212.5: the limits of before December 2019."""
    shares = {row["resource"]: row for row in rows(of_rds.screen("headroom", WEEK), "headroom")}
    assert next(iter(shares)) == "throughput of the disk"  # at its limit for longest
    throughput = shares["throughput of the disk"]
    held = "instance throughput, before December 2019"
    assert sorted(throughput["limit"].split("; ")) == [f"{held} 212.5 MB/s", f"{held} 437.5 MB/s"]
    assert 0.99 < throughput["highest"] < 1.03
    assert shares["CPU"]["limit"] == "instance cpu 100 %"
    assert 0 < shares["CPU"]["highest"] <= 1


def test_a_short_period_is_judged_with_the_day_before_it(of_rds: Viewer) -> None:
    screen = of_rds.screen("headroom", "from=2026-03-03T09:00&to=2026-03-03T10:00")
    (table,) = [one for one in screen["tables"] if one["name"] == "ceilings"]
    assert table["title"] == "Ceilings, judged from 2026-03-02 10:00 to 2026-03-03 10:00 UTC"
    assert any(one["reached"] for one in rows(screen, "ceilings"))


# A server on a host: its control group allows 330 requests a second.


def host_samples(seconds: int) -> Iterator[Batch]:
    """60 reads a second, of 2 ms each, and 30 writes; in the second half 300 reads a second."""
    host, sessions, connections = (built_in()[n] for n in ("host", "sessions", "connections"))
    reads = 0
    for at in range(0, seconds + 1, STEP):
        late = at > seconds // 2
        reads += STEP * (300 if late else 60) if at else 0
        row = of_source(
            "host", cpu_user=2.0 * at, cpu_system=0.0, cpu_steal=0.0, cpu_iowait=0.0,
            cpu_idle=2.0 * at, cpus=4, disk_reads=reads, disk_read_time=0.002 * reads,
            disk_writes=30 * at, memory_available=2**30, device=HOSTILE,
        )  # fmt: skip
        waiting = [
            of_source(
                "sessions", pid=pid, state="active", wait_type="IO", wait_event="DataFileRead"
            )
            for pid in (1, 2, 3)
            if late
        ]
        open_now = of_source("connections", clients=20, active=3, maximum=100, ordinary=100)
        yield batch(
            sample(host, at, row), sample(sessions, at, *waiting),
            sample(connections, at, open_now), instance=HOSTILE,
        )  # fmt: skip


@pytest.fixture(scope="module", params=["declared", "learnt"])
def of_host(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Viewer]]:
    """An hour and a half, the second half at 330 requests a second, a limit recorded or not."""
    directory = tmp_path_factory.mktemp("host")
    ceilings = of_program("ceilings", CEILINGS)
    declared = Row(values=("iops", "cgroup", 330.0, f"/sys/{HOSTILE}", HOSTILE), reset=None)
    with Writer(directory, [*built_in().values(), ceilings]) as writer:
        if request.param == "declared":
            writer.commit([batch(sample(ceilings, 0, declared), instance=HOSTILE)])
        writer.commit(list(host_samples(5400)))
    with serving_here(directory) as viewer:
        yield request.param, viewer


def test_a_host_has_its_declared_ceilings_and_the_levels_that_were_learnt(
    of_host: tuple[str, Viewer],
) -> None:
    kind, viewer = of_host
    screen = viewer.screen("headroom", "since=90min")
    reached = [one for one in rows(screen, "ceilings") if one["reached"]]
    (one,) = reached
    assert one["reached"] == "330 IOPS"
    assert one["seconds"] == pytest.approx(2700, abs=60)
    name = "cgroup iops" if kind == "declared" else "unknown iops ceiling"
    assert one["ceiling"] == name
    (advice,) = [row["advice"] for row in rows(screen, "remedies")][:1]
    expected = "iops stops at 330 IOPS, set by /sys/" if kind == "declared" else "Unknown iops"
    assert advice.startswith(expected)
    iops = chart(screen, "iops")
    assert iops["limits"] == [{"name": f"{name} 330 IOPS", "value": pytest.approx(330),
                               "reached": True}]  # fmt: skip
    ((begin, end),) = iops["bands"]
    half = MIDNIGHT / SECOND + 2700
    assert (begin, end) == (pytest.approx(half, abs=60), pytest.approx(half + 2700, abs=60))
    assert {limit["name"] for limit in chart(screen, "connections")["limits"]} == {
        "server connections 100"
    }


def test_of_two_ceilings_at_the_level_that_was_reached_neither_is_listed_again(
    tmp_path: Path,
) -> None:
    """The control group and the volume allow 330 requests a second each."""
    ceilings = of_program("ceilings", CEILINGS)
    alike = [Row(values=("iops", part, 330.0, "", ""), reset=None) for part in ("cgroup", "volume")]
    with Writer(tmp_path, [*built_in().values(), ceilings]) as writer:
        writer.commit([batch(sample(ceilings, 0, *alike), instance=HOSTILE)])
        writer.commit(list(host_samples(5400)))
    with serving_here(tmp_path) as viewer:
        found = rows(viewer.screen("headroom", "since=90min"), "ceilings")
    assert {one["ceiling"]: one["reached"] for one in found} == {
        "cgroup iops, or volume iops": "330 IOPS", "server connections": None,
    }  # fmt: skip


def test_a_learnt_ceiling_counts_while_it_held_the_load_down(of_host: tuple[str, Viewer]) -> None:
    """90 requests a second, then 330; a declared limit of 330 holds all the time."""
    kind, viewer = of_host
    (line,) = [
        one["values"] for one in chart(viewer.screen("headroom", "since=90min"), "shares")["series"]
        if one["name"] == "requests to the disk"
    ]  # fmt: skip
    early, late = line[20 : len(line) // 2 - 20], line[len(line) // 2 + 20 : -20]
    assert late == [pytest.approx(1, abs=0.01)] * len(late)
    assert early == [pytest.approx(90 / 330) if kind == "declared" else None] * len(early)


def test_transaction_ids_that_are_too_old_lead_to_vacuum(tmp_path: Path) -> None:
    """An age of 250 million; autovacuum_freeze_max_age allows 200; the stop is far away."""
    ages, settings = built_in()["ages"], built_in()["settings"]
    values = {"autovacuum_freeze_max_age": "200000000", "server_version_num": "170002"}
    known = [
        of_source("settings", name=name, value=value, origin="default", pending=False)
        for name, value in values.items()
    ]
    with Writer(tmp_path, built_in().values()) as writer:
        for at in (0, 300):
            old = of_source("ages", database=HOSTILE, age=250_000_000, multixact_age=0)
            writer.commit([batch(sample(ages, at, old), sample(settings, at, *known))])
    with serving_here(tmp_path) as viewer:
        screen = viewer.screen("headroom", "since=10min")
    found = chart(screen, "transaction_ids")
    # 2^31 less three million. Source: varsup.c, SetTransactionIdLimit.
    assert {one["value"]: one["reached"] for one in found["limits"]} == {
        200_000_000: True, 2_144_483_648: False,
    }  # fmt: skip
    (advice,) = [row["advice"] for row in rows(screen, "remedies")]
    assert "mrtuner vacuum DSN --history DIR" in advice


def test_too_short_a_recording_says_how_long_it_takes(tmp_path: Path) -> None:
    with Writer(tmp_path, built_in().values()) as writer:
        writer.commit(list(host_samples(600)))
    with serving_here(tmp_path) as viewer:
        screen = viewer.screen("headroom", "since=10min")
    notes = [one["advice"] for one in rows(screen, "remedies")]
    assert any("40 samples of the host" in text and "30 min" in text for text in notes)
    assert {one["ceiling"] for one in rows(screen, "ceilings")} == {"server connections"}


@in_a_browser
def test_a_reached_ceiling_leads_to_the_remedies_and_its_time_to_the_sessions(
    browser: Any, of_host: tuple[str, Viewer]
) -> None:
    _, viewer = of_host
    tab = browser.new_page()
    tab.set_default_timeout(PATIENCE)
    complaints: list[str] = []
    tab.on("console", lambda said: complaints.append(said.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto(f"{viewer.address}#screen=headroom&since=90min")
    link = tab.locator("[data-chart=iops] .ceilings a")
    assert "reached" in link.inner_text()
    link.click()
    tab.wait_for_url(lambda url: "table=remedies" in url)
    tab.wait_for_selector("[data-table=remedies]:focus")
    assert violations(tab) == []
    tab.locator("[data-table=ceilings] tbody a", has_text="what to do").click()
    tab.wait_for_selector("[data-table=remedies]:focus")
    tab.locator("[data-table=stretches] tbody a").first.click()
    tab.wait_for_url(lambda url: "screen=moment" in url)
    tab.wait_for_selector("h1:has-text('Sessions')")
    assert tab.locator("td", has_text="IO: DataFileRead").count() > 0
    assert tab.title() == "MrTuner"
    assert tab.locator("main img, main script").count() == 0
    tab.click("a:has-text('Tune this instance')")
    tab.wait_for_selector(".answer[data-of]")
    assert HOSTILE in tab.inner_text("h1")
    assert tab.locator("main img, main script").count() == 0
    assert complaints == []
    tab.close()
