"""Benchmark records in the viewer: a run's directory and a report of `mrtuner prove` or `demo`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from served import (
    DESK,
    PATIENCE,
    PHONE,
    Viewer,
    in_a_browser,
    serving,
    serving_here,
    too_wide,
    violations,
)

import mrtuner
from bench_grids import a_grid
from machine import PAGE, require
from mrtuner.bench.record.archive import Archive
from mrtuner.bench.record.document import BlockLine, RunDocument, SettingsLine
from mrtuner.bench.record.model import Record
from mrtuner.bench.series import Series
from mrtuner.documents import convert
from mrtuner.web.benchmark_records import without_inline_style
from series_data import a_load

HOSTILE = "<script>alert(1)<script> &amp; .json"


def run(directory: Path, record: Record) -> None:
    """Write a record as a run of `mrtuner bench` leaves it, sealed."""
    names = ("plan", "host", "kernel", "pgbench", "mrtuner", "started", "local", "forced")
    head = convert({name: getattr(record, name) for name in names}, RunDocument)
    archive = Archive.create(directory, head)
    for name, known in record.settings.items():
        archive.append(SettingsLine(name, dict(known)))
    for one in record.samples:
        archive.append(one)
        archive.append(BlockLine(one.cell, one.phase, one.block))
    archive.seal("2026-01-01T01:00:00.000+00:00")


def report(path: Path, **other: Any) -> None:
    """Write a report: cached reads twice as fast."""
    tuning = mrtuner.tune(memory="16GB", cpus=4, storage="ssd", postgres=18)
    series = Series(measured=(a_load("cached reads", 2.0),))
    document = {
        "schema": "mrtuner.report/2", "tuning": tuning.to_dict(), "proof": series.to_dict(),
    }  # fmt: skip
    path.write_text(json.dumps(document | other), encoding="utf-8")


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two good records, four bad ones, and files that are to be ignored."""
    directory = tmp_path_factory.mktemp("records")
    run(directory / "grids" / "one", a_grid([1.3, 1.3]))
    run(directory / "changed", a_grid([1.3, 1.3]))
    lines = directory / "changed" / "lines.jsonl"
    lines.chmod(0o644)
    lines.write_bytes(lines.read_bytes().replace(b"1000", b"9999", 1))
    report(directory / HOSTILE)
    report(directory / "nothing.json", proof=None)
    (directory / "torn.json").write_text('{"schema": "mrtuner.rep', encoding="utf-8")
    (directory / "other.json").write_text("[1, 2]", encoding="utf-8")
    (directory / "notes.txt").write_text("not looked at", encoding="utf-8")
    outside = tmp_path_factory.mktemp("outside")
    report(outside / "secret.json")
    (directory / "linked").symlink_to(outside)
    return directory


@pytest.fixture(scope="module")
def shown(recorded: Path, records: Path) -> Iterator[Viewer]:
    """A viewer with them."""
    require(PAGE)
    with serving(recorded, "--records", str(records)) as found:
        yield found


def listed(viewer: Viewer) -> dict[str, dict[str, Any]]:
    status, _, body = viewer.get("api/records")
    assert status == 200, body
    return {one["name"]: one for one in json.loads(body)["records"]}


def test_records_are_listed_with_what_they_compared_and_how_it_came_out(shown: Viewer) -> None:
    found = listed(shown)
    grid = found["grids/one"]
    # 2026-01-01 00:00 UTC.
    assert (grid["at"], grid["verdict"], grid["error"]) == (1_767_225_600.0, "better", None)
    assert grid["compared"] == "a, b: select"
    assert found[HOSTILE]["verdict"] == "better"
    assert "cached reads" in found[HOSTILE]["compared"]


def test_bad_records_are_named_and_the_rest_is_shown(shown: Viewer) -> None:
    bad = {name: one["error"] for name, one in listed(shown).items() if one["error"]}
    assert bad.keys() == {"changed", "nothing.json", "torn.json", "other.json"}
    assert "was changed after the run" in bad["changed"]
    assert bad["nothing.json"] == "nothing was compared"
    assert bad["torn.json"].startswith("not a JSON document")
    assert bad["other.json"] == "not a report of MrTuner"


@pytest.mark.parametrize("name", ["grids/one", HOSTILE])
def test_a_report_has_its_charts_and_no_style_or_script_inside(shown: Viewer, name: str) -> None:
    status, headers, body = shown.get(f"api/records/page?name={quote(name)}")
    page = body.decode()
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "style-src 'self'" in headers["content-security-policy"]
    assert "unsafe-inline" not in headers["content-security-policy"] + page
    assert "<svg" in page
    assert "<script" not in page
    assert "<style" not in page
    assert ' style="' not in page
    (link,) = [part.split('"')[0] for part in page.split('rel="stylesheet" href="')[1:]]
    status, headers, style = shown.get(f"api/records/{link.replace('&amp;', '&')}")
    assert (status, headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert b"--ink" in style


@pytest.mark.parametrize(
    ("name", "status"),
    [("changed", 400), ("nothing.json", 400), ("missing", 404), ("../outside/secret.json", 404),
     ("linked/secret.json", 404), ("notes.txt", 404), ("", 404)],
)  # fmt: skip
def test_what_is_no_record_is_a_clear_error(shown: Viewer, name: str, status: int) -> None:
    found, message, hint = shown.refused(f"api/records/page?name={quote(name)}")
    assert (found, bool(message), bool(hint)) == (status, True, True)


def test_without_the_option_there_are_none(viewer: Viewer) -> None:
    assert viewer.refused("api/records")[0] == 404
    assert json.loads(viewer.get("api/fleet")[2])["records"] is False


def test_a_record_that_is_written_later_appears(recorded: Path, tmp_path: Path) -> None:
    with serving_here(recorded, records=tmp_path) as viewer:
        assert listed(viewer) == {}
        report(tmp_path / "later.json")
        assert listed(viewer)["later.json"]["verdict"] == "better"


def test_only_tags_lose_their_style() -> None:
    page = (
        '<style>p{}</style><path style="fill: none; stroke: var(--a, #fff)" /><p>style="x: y"</p>'
    )
    assert asdict(without_inline_style(page, "a?b&c")) == {
        "html": '<link rel="stylesheet" href="a?b&amp;c">'
        '<path fill="none" stroke="var(--a, #fff)" /><p>style="x: y"</p>',
        "style": "p{}",
    }


@in_a_browser
@pytest.mark.parametrize(("window", "scheme"), [(DESK, "light"), (PHONE, "dark")])
def test_the_list_leads_to_a_report_in_its_colours(
    browser: Any, shown: Viewer, window: Any, scheme: str
) -> None:
    context = browser.new_context(viewport=window, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(f"{shown.address}#screen=records")
    page.wait_for_selector("table tbody tr")
    assert page.locator("tbody tr").count() == 2
    assert page.locator("p.error").count() == 4
    assert too_wide(page) <= 0
    assert violations(page) == []
    page.get_by_role("link", name="grids/one").click()
    page.wait_for_selector("svg:visible")
    assert too_wide(page) <= 0
    assert page.locator("h1").inner_text().startswith("b against a in 2 cells")
    drawn = page.locator("svg:visible [stroke*='--b']").first
    colour = drawn.evaluate("one => getComputedStyle(one).stroke")
    assert colour == {"light": "rgb(0, 95, 158)", "dark": "rgb(108, 182, 240)"}[scheme]
    assert complaints == []
    context.close()
