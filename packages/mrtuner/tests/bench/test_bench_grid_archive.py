"""A run on disk: line by line, resumable, sealed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench_grids import HOST, SETTINGS, a_plan, a_sample
from machine import needs
from mrtuner.bench.plan.model import GridCell
from mrtuner.bench.record.archive import Archive, load, locked
from mrtuner.bench.record.document import (
    BlockLine,
    FailureLine,
    NoteLine,
    RateLine,
    RejectionLine,
    RunDocument,
    SettingsLine,
)
from mrtuner.documents import convert
from mrtuner.errors import BadValue, MrTunerError, Refused, UsageError

CELL = GridCell("select", 10, 4)
HEAD = convert(
    {
        "plan": a_plan(), "host": HOST, "kernel": "Linux 6.1", "pgbench": "18.6", "mrtuner": "0",
        "started": "2026-01-01T00:00:00+00:00", "local": True, "forced": False,
    },
    RunDocument,
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """An unfinished run of one block, whose second attempt counts."""
    archive = Archive.create(tmp_path / "run", HEAD)
    archive.append(SettingsLine("a", SETTINGS))
    archive.append(SettingsLine("b", SETTINGS))
    archive.append(a_sample(CELL, 1, "a", 500))
    archive.append(FailureLine(CELL, "comparison", 1, 1, "b", "it died"))
    archive.append(RejectionLine(CELL, "comparison", 1, 1, "b failed: it died"))
    for label, tps in (("a", 1000), ("b", 1287)):
        archive.append(a_sample(CELL, 1, label, tps, attempt=2, deltas={"v": {"x": 1.5}}))
    archive.append(BlockLine(CELL, "comparison", 1))
    archive.append(RateLine(GridCell("select", 10, 4, "50%"), 400.0))
    archive.append(NoteLine("it rained", "2026-01-01T00:01:00+00:00"))
    return tmp_path / "run"


def test_everything_comes_back(run: Path) -> None:
    record = load(run)
    assert [one.run.tps for one in record.samples] == [500, 1000, 1287]
    assert [one.rejected for one in record.samples] == ["b failed: it died", None, None]
    assert record.samples[1].deltas == {"v": {"x": 1.5}}
    assert record.samples[1] == a_sample(CELL, 1, "a", 1000, attempt=2, deltas={"v": {"x": 1.5}})
    assert [failure.reason for failure in record.failures] == ["it died"]
    assert record.finished == {("select s10 c4", "comparison", 1)}
    assert record.rates == {"select s10 c4 @50%": 400.0}
    assert record.notes == ("it rained",)
    assert record.plan == a_plan()
    assert not record.sealed


def test_a_server_elsewhere_is_on_record(run: Path) -> None:
    assert load(run).local
    with (run / "lines.jsonl").open("a") as file:
        file.write('{"kind":"elsewhere"}\n')
    assert not load(run).local


def test_a_line_cut_off_by_a_crash_is_dropped(run: Path) -> None:
    whole = (run / "lines.jsonl").read_bytes()
    with (run / "lines.jsonl").open("ab") as file:
        file.write(b'{"kind":"sample","cell":{"work')
    assert len(load(run).samples) == 3
    archive, record = Archive.resume(run)
    assert len(record.samples) == 3
    assert (run / "lines.jsonl").read_bytes() == whole
    archive.append(NoteLine("on again", "now"))
    assert load(run).notes == ("it rained", "on again")


def test_a_sealed_run_is_not_gone_on_with(run: Path) -> None:
    Archive(run).seal("2026-01-01T01:00:00+00:00")
    assert load(run).sealed
    assert load(run).ended == "2026-01-01T01:00:00+00:00"
    assert not (run / "lines.jsonl").stat().st_mode & 0o222
    with pytest.raises(Refused, match="is already finished"):
        Archive.resume(run)


def test_a_record_that_was_changed_is_not_believed(run: Path) -> None:
    Archive(run).seal("2026-01-01T01:00:00+00:00")
    lines = run / "lines.jsonl"
    lines.chmod(0o644)
    lines.write_text(lines.read_text().replace('"tps":1287', '"tps":9287'))
    with pytest.raises(BadValue, match=r"lines\.jsonl .* was changed after the run"):
        load(run)


def test_a_directory_in_use_or_not_ours_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is not empty"):
        Archive.create(run, HEAD)
    with locked(run), pytest.raises(Refused, match="another process"), locked(run):
        pass
    with pytest.raises(UsageError, match="no run in"):
        load(tmp_path)
    (run / "run.json").write_text(json.dumps({"schema": "something/1"}))
    with pytest.raises(BadValue, match=r"run\.json: the document is something/1"):
        load(run)
    (run / "run.json").write_text(json.dumps({"schema": "mrtuner.bench.run/3"}))
    with pytest.raises(BadValue, match=r"version mrtuner\.bench\.run/3; .*\.run/2"):
        load(run)


def test_a_damaged_line_is_an_error(run: Path) -> None:
    with (run / "lines.jsonl").open("a") as file:
        file.write('{"kind":"sample"}\n')
    with pytest.raises(BadValue, match="is damaged"):
        load(run)


@needs("/dev/full")
def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    """/dev/full takes no byte."""
    (tmp_path / "lines.jsonl").symlink_to("/dev/full")
    with pytest.raises(MrTunerError, match="No space left"):
        Archive(tmp_path).append(NoteLine("anything", "now"))
