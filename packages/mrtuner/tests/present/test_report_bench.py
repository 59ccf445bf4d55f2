"""The report of a grid, from records made by hand."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema  # type: ignore[import-untyped]
import pytest
from report_browser import browser

from bench_grids import SETTINGS, a_grid, a_plan, a_record, a_sample, six_blocks, with_rejected
from machine import needs
from mrtuner.bench.plan.model import GridCell, Variant
from mrtuner.bench.record.document import FailureLine
from mrtuner.bench.record.model import Record
from mrtuner.bench.report.page import page
from mrtuner.bench.report.text import lines
from mrtuner.bench.verdict.document import bench_report_document
from mrtuner.documents import as_builtins
from mrtuner.errors import BadValue, Refused
from servers import ROOT

CELL = GridCell("select", 10, 4)


def document(record: Record, other: Record | None = None) -> dict[str, Any]:
    return as_builtins(bench_report_document(record, other))


@pytest.fixture(scope="module")
def grid() -> Record:
    return a_grid([1.3, 1.0, 0.8, 1.0])


def test_the_text_tells_every_cell_and_its_verdict(grid: Record) -> None:
    text = list(lines(grid))
    assert text[0] == "grid: 4 cells, 48 runs; adjusted for 4 comparisons"
    assert text[2] == "select s1 c1"
    assert text[3] == "  a            1,000 tps, p99 2 ms, longest 50 ms, 6 runs"
    assert text[5].startswith("  b against a: better, throughput 1.30 times (1.29 to 1.31), p ")
    assert sum("b against a: equivalent" in line for line in text) == 2
    assert sum("b against a: worse, throughput 0.800 times" in line for line in text) == 1


def test_settings_that_differ_are_shown_with_their_units() -> None:
    """16,384 pages of 8 kB are 128 MB, 65,536 are 512 MB; 900 s are a quarter of an hour.

    The JSON document keeps base units.
    """
    known = {"shared_buffers": "16384", "checkpoint_timeout": "300", "custom.one": "7"}
    other = {"shared_buffers": "65536", "checkpoint_timeout": "900", "custom.one": "8"}
    settings = {"a": SETTINGS | known, "b": SETTINGS | other}
    record = a_record(six_blocks(CELL, 1.0), settings=settings)
    text = "\n".join(lines(record))
    for line in ("shared_buffers: 128MB | 512MB", "checkpoint_timeout: 5min | 15min",
                 "custom.one: 7 | 8"):  # fmt: skip
        assert f"  - {line}\n" in text
    assert '<td class="value">512MB</td>' in page(record) or ">512MB<" in page(record)
    raw = {item["name"]: item["values"] for item in document(record)["settings_diff"]}
    assert raw["shared_buffers"] == ["16384", "65536"]


def headline(record: Record) -> str:
    found = re.search(r"<h1>(.*)</h1>", page(record))
    assert found is not None
    return found[1]


def test_the_headline_says_what_came_out(grid: Record) -> None:
    assert headline(grid) == (
        "b against a in 4 cells: 1 better, 1 worse, 2 without a difference that matters"
    )
    better = a_record(six_blocks(CELL, 1.3))
    assert headline(better).startswith("b is better than a: throughput 1.30 times")
    equal = a_record(six_blocks(CELL, 1.0))
    assert headline(equal) == "No difference that matters between b and a"


def test_the_document_is_json_and_has_the_same_verdicts(grid: Record) -> None:
    told = json.loads(json.dumps(document(grid), allow_nan=False))
    assert told["schema"] == "mrtuner.bench.report/2"
    assert [cell["verdicts"][0]["verdict"] for cell in told["cells"]] == [
        "better", "equivalent", "worse", "equivalent",
    ]  # fmt: skip
    side = told["cells"][0]["sides"][0]
    assert (side["variant"], side["tps"], side["latency_ms"]["p99"]) == ("a", 1000, 2)
    assert side["latency_ms"]["p99.9"] is None
    assert told["collector_share"] == pytest.approx(0.001)


def test_a_report_satisfies_its_schema(grid: Record) -> None:
    path = ROOT / "docs" / "reference" / "schemas" / "mrtuner.bench.report-2.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    told = json.loads(json.dumps(document(grid, grid)))
    jsonschema.validate(told, schema)
    told["cells"][0]["verdicts"][0]["verdict"] = "splendid"
    with pytest.raises(jsonschema.ValidationError, match="splendid"):
        jsonschema.validate(told, schema)


def test_failures_notes_and_an_unfinished_run_are_told() -> None:
    failure = FailureLine(
        cell=CELL, phase="comparison", block=2, attempt=1, label="b", reason="it died"
    )
    record = a_record(
        six_blocks(CELL, 1.0), failures=(failure,), notes=("it rained",), sealed=False, forced=True
    )
    text = "\n".join(lines(record))
    assert "12 runs, not finished" in text
    assert "select s10 c4 block 2, b: it died" in text
    assert "it rained" in text
    assert "measured on a busy machine (--force)" in text


def test_what_is_true_of_several_comparisons_is_said_once_after_them() -> None:
    variants = (Variant(name="a"), Variant(name="b"), Variant(name="c", bound=True))
    runs = six_blocks(CELL, 1.3)
    runs += [a_sample(CELL, one.block, "c", one.run.tps) for one in runs[1::2]]
    text = list(lines(a_record(runs, a_plan(variants=variants), forced=True)))
    heads = [place for place, line in enumerate(text) if "against a: better" in line]
    (bound,) = (place for place, line in enumerate(text) if line.startswith("    - a bound"))
    (shared,) = (place for place, line in enumerate(text) if line == "  common to several of these")
    (busy,) = (place for place, line in enumerate(text) if "measured on a busy machine" in line)
    assert heads[0] < heads[1] < bound < shared < busy


def test_two_runs_of_one_machine_stand_side_by_side_without_a_verdict(grid: Record) -> None:
    told = document(grid, grid)["against"]
    assert told is not None
    assert told[0] == {
        "cell": "select s1 c1", "variant": "a", "tps": 1000, "other_tps": 1000, "ratio": 1.0,
        "same_settings": True,
    }  # fmt: skip
    text = "\n".join(lines(grid, grid))
    assert "no verdict, because machines drift" in text


def test_where_the_server_lay_is_no_other_setting(grid: Record) -> None:
    moved = {name: {**known, "port": "1"} for name, known in grid.settings.items()}
    tuned = {name: {**known, "work_mem": "1"} for name, known in grid.settings.items()}
    for settings, same in ((moved, True), (tuned, False)):
        told = document(grid, replace(grid, settings=settings))["against"]
        assert {item["same_settings"] for item in told} == {same}


def test_runs_of_two_kernels_are_not_compared_and_say_why(grid: Record) -> None:
    other = replace(grid, kernel="Linux 7.0")
    with pytest.raises(Refused, match=r"kernel Linux 6\.1 against Linux 7\.0"):
        document(grid, other)
    with pytest.raises(Refused, match="kernel"):
        page(grid, other)


def test_a_run_without_a_measurement_has_no_report() -> None:
    with pytest.raises(BadValue, match="nothing was measured"):
        document(a_record([]))


def test_the_page_is_the_same_every_time_and_loads_nothing(grid: Record) -> None:
    made = page(grid)
    assert made == page(grid)
    assert "http://" not in made.replace("http://www.w3.org/", "")
    assert "https://" not in made


def test_every_picture_has_a_name_and_a_table_beside_it(grid: Record) -> None:
    """Forest plot, heat map; in each of four cells pairs, percentiles, seconds, what went on."""
    made = page(grid)
    assert made.count('class="on-wide"') == made.count('class="on-narrow"') == 2 + 4 * 3
    assert made.count("<table") == 1 + 4 * 5
    start = made.index("<svg")
    picture = ElementTree.fromstring(made[start : made.index("</svg>") + 6])
    assert picture.attrib["role"] == "img"


def test_rejected_runs_are_on_the_page_with_their_reason() -> None:
    record = with_rejected(a_record(six_blocks(CELL, 1.0)), "CPU used by others 40.0 %")
    assert "CPU used by others 40.0 %" in page(record)


def test_undecided_cells_are_blank_in_the_heat_map() -> None:
    """Two cells: one 30 % faster, one with only two blocks, which decide nothing."""
    record = a_grid([1.3, 1.3])
    few = [
        one for one in record.samples
        if one.cell.scale == 1 or one.block < 3
    ]  # fmt: skip
    made = page(replace(record, samples=tuple(few)))
    heat = made[made.index('aria-label="b, select"') :]
    heat = heat[: heat.index('class="on-narrow"')]
    assert heat.count("1.30") == 1


def test_names_and_settings_are_escaped_and_secrets_masked() -> None:
    settings = {
        "a": SETTINGS,
        "b": SETTINGS | {"primary_conninfo": "host=h password=hunter2", "x": "<b>"},
    }
    made = page(a_record(six_blocks(CELL, 1.0), settings=settings))
    assert "hunter2" not in made
    assert "&lt;b&gt;" in made


@needs("chromium")
def test_a_browser_shows_the_page_without_complaint_at_every_width(
    grid: Record, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(grid), encoding="utf-8")
    with browser(tmp_path) as shown:
        for width in (360, 1100):
            shown.show(file, width=width)
            assert shown.run("document.documentElement.scrollWidth") <= width
        assert shown.complaints == []
        assert shown.requests == [file.as_uri()] * 2
