"""A search as text, as a page, and as settings to apply."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import NewCluster
from search_surface import Surface, flat, new_search, procedure

from mrtuner.cli import main
from mrtuner.cli.common.change import wanted_in
from mrtuner.errors import Refused
from mrtuner.search.model import Difference, Measured, SearchResult, Worth
from mrtuner.search.record import load, save
from mrtuner.stats.comparison import Verdict
from servers import sql


@pytest.fixture
def found(tmp_path: Path) -> Path:
    """The directory of a search that found two settings; the figures are written by hand."""
    search = procedure(new_search(1, minutes=20), Surface(1)).run()
    measured = Measured(
        verdict=Verdict.BETTER, ratio=1.081, low=1.052, high=1.11, pairs=8, detectable=0.03,
        refused=(), cautions=("the slowest 1 % of transactions take longer (1.20×)",),
        seconds=160.0,
    )  # fmt: skip
    little = replace(measured, verdict=Verdict.UNDECIDED, ratio=1.004, low=0.99, high=1.018)
    search.ablation = [
        Worth(name="max_wal_size", advice="1GB", value="4GB", measured=measured),
        Worth(name="io_workers", advice="3", value="8", measured=little),
        Worth(name="wal_buffers", advice="16MB", value="32MB", measured=None),
    ]
    search.result = SearchResult(
        found=True, headline="+8.1 % (+5.2 % to +11.0 %) against the advice, by max_wal_size 4GB",
        settings={"max_wal_size": "4GB", "shared_buffers": "1GB"},
        differences=(Difference(name="max_wal_size", advice="1GB", value="4GB", restart=False),),
        measured=measured, before=None, after=None,
    )  # fmt: skip
    save(search, tmp_path)
    return tmp_path


def show(*arguments: str) -> str:
    done = CliRunner().invoke(main, ["search", "show", *arguments])
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_the_result_comes_first_and_the_command_last(found: Path) -> None:
    lines = show(str(found)).splitlines()
    assert lines[0] == "+8.1 % (+5.2 % to +11.0 %) against the advice, by max_wal_size 4GB"
    assert lines[-1] == (
        f"to apply it: mrtuner apply postgresql://USER@HOST/DATABASE --from {found}"
    )
    text = "\n".join(lines)
    assert "io_workers    8      +0.4 % (-1.0 % to +1.8 %): under 1 %" in text
    assert "not measured, as the budget of time or memory had no room: wal_buffers" in text
    assert "the slowest 1 % of transactions take longer" in text
    assert "fsync" in text


def test_a_gain_beside_other_programs_may_be_theirs(found: Path) -> None:
    search = load(found)
    assert "take CPU from other programs" not in show(str(found))
    save(replace(search, busy="98 % of the CPU (python 0.9 CPUs)"), found)
    assert "take CPU from other programs" in " ".join(show(str(found)).split())


def test_json_is_the_record(found: Path) -> None:
    written = json.loads((found / "search.json").read_text(encoding="utf-8"))
    assert json.loads(show(str(found), "--json")) == written


def test_the_page_has_a_trace_the_worth_of_each_setting_and_the_command(found: Path) -> None:
    page = found / "search.html"
    show(str(found), "--html", str(page))
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "Trials by their gain on the advice" in text
    assert "What each setting is worth" in text
    assert "mrtuner apply postgresql://USER@HOST/DATABASE --from" in text
    assert "it risks data" in text
    assert "What was tried, setting by setting" in text
    settings = load(found).searched
    assert len(settings) >= 2
    for one in settings:  # each axis has its name and its ends
        assert f">{one.name.split('_')[0]}_</" in text
        assert f">{one.values[-1] if one.values else one.high}</" in text


def test_what_was_found_is_what_apply_writes(found: Path) -> None:
    expected = {"max_wal_size": "4GB", "shared_buffers": "1GB"}
    for source in (found, found / "search.json"):
        assert {one.name: one.value for one in wanted_in(source)} == expected


def test_nothing_found_and_unfinished_are_not_applied(found: Path) -> None:
    search = load(found)
    search.result = None
    save(search, found)
    assert show(str(found)).splitlines()[0].startswith("Unfinished after ")
    with pytest.raises(Refused, match="the search is not finished"):
        wanted_in(found)
    nothing = procedure(new_search(3, minutes=20), Surface(3, flat)).run()
    save(nothing, found)
    assert show(str(found)).startswith("Nothing better than the advice was found")
    with pytest.raises(Refused, match="the search found nothing better than the advice"):
        wanted_in(found)


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["postgresql://postgres@db/app"], "tries only what a reload changes", "--reload-only"),
        (["--reload-only"], "tries only what a reload changes", "--reload-only"),
        (["postgresql://db/app", "--reload-only", "--scale", "3"], "without --scale", "Leave it"),
        ([], "search needs a server", "--resume DIR"),
        (["--embedded", "--resume", "x"], "search needs a server", "--resume DIR"),
        (["--resume", "x", "--scale", "3"], "as it was begun, without --scale", "Leave it out"),
        (["--embedded", "--load", "tpcc"], "unknown load 'tpcc'", "tpcb, select"),
        (["--embedded", "--goal", "p95@200"], "unknown goal 'p95@200'", "p99@200"),
        (["--embedded", "--goal", "p99@0"], "unknown goal 'p99@0'", "p99@200"),
        (["--embedded", "--budget", "3s"], "is not between", "--budget 20min"),
        (["--embedded", "--scale", "0"], "scale 0 is below 1", "at least 1"),
        (["--resume", "no-such"], "there is no search in no-such", "mrtuner search wrote"),
        (["show", "no-such"], "there is no search in no-such", "mrtuner search wrote"),
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused_before_a_server_is_started(
    arguments: list[str], message: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["search", *arguments])
    assert done.exit_code == 2, done.stderr
    error, advice = done.stderr.splitlines()[-2:]
    assert message in error
    assert hint in advice
    assert list(tmp_path.iterdir()) == []


def test_a_directory_with_a_search_is_not_overwritten(found: Path) -> None:
    done = CliRunner().invoke(main, ["search", "--embedded", "--dir", str(found)])
    assert done.exit_code == 4
    assert "--resume" in done.stderr.splitlines()[-1]


def test_what_was_found_is_put_into_force_by_apply(
    found: Path, new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster()
    search = load(found)
    assert search.result is not None
    search.result = replace(search.result, settings={"max_wal_size": "4GB", "commit_delay": "150"})
    save(search, found)
    done = CliRunner().invoke(
        main,
        ["apply", cluster.dsn(), "--from", str(found), "--yes", "--journal",
         str(tmp_path / "journal")],
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert sql(cluster.dsn(), "SHOW max_wal_size")[0][0] == "4GB"
    assert sql(cluster.dsn(), "SHOW commit_delay")[0][0] == "150"
