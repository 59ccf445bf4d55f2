"""What earlier searches found is tried first, if load, version and machine are the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from search_surface import Surface, new_search, procedure

from mrtuner.errors import MrTunerError
from mrtuner.search import record, text
from mrtuner.search.model import Earlier, Search, SearchedLoad, SearchedStatement


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRTUNER_STATE_DIR", str(tmp_path))


@pytest.fixture(scope="module")
def found() -> Search:
    """A finished search whose winner was confirmed, on a surface where there is one."""
    done = procedure(new_search(1), Surface(1, noise=0.005)).run()
    assert done.result is not None
    assert done.result.found
    return replace(done, cpus=2, memory=4 << 30)


def like(found: Search, **changed: object) -> Search:
    begun = {"cpus": 2, "memory": 4 << 30} | changed
    return replace(new_search(2), **begun)  # type: ignore[arg-type]


def test_the_winner_of_an_earlier_search_is_tried_before_anything_is_proposed(
    found: Search,
) -> None:
    record.remember(found)
    search = like(found)
    search.earlier = record.earlier(search)
    assert found.result is not None
    winner = {one.name: one.value for one in found.result.differences}
    assert search.earlier == [Earlier(started=found.started, settings=winner)]
    done = procedure(search, Surface(2, noise=0.005)).run()
    origins = [one.origin for one in done.trials]
    assert origins.count("earlier") == 1
    assert origins.index("earlier") < origins.index("proposed")
    tried = done.trials[origins.index("earlier")]
    assert {name: tried.settings[name] for name in winner} == winner
    assert any("tried first" in line and "2026-01-01" in line for line in text.notes(done))


@pytest.mark.parametrize(
    "changed",
    [{"cpus": 4}, {"memory": None}, {"postgres": "17.5"}, {"machine": {"iops": 3000}},
     {"goal": "statement time"}],
)  # fmt: skip
def test_a_search_on_another_machine_version_or_goal_is_not_used(
    found: Search, changed: dict[str, object]
) -> None:
    record.remember(found)
    assert record.earlier(like(found, **changed)) == []
    assert len(record.earlier(like(found))) == 1


def test_a_search_of_another_load_is_not_used_nor_one_that_found_nothing(found: Search) -> None:
    record.remember(replace(found, load=replace(found.load, clients=9)))
    assert record.earlier(like(found)) == []
    assert found.result is not None
    record.remember(replace(found, result=replace(found.result, found=False)))
    assert record.earlier(like(found)) == []


def test_the_same_statements_are_the_same_load_however_often_they_were_called(
    found: Search,
) -> None:
    def load(text: str, calls: int) -> SearchedLoad:
        one = SearchedStatement(
            text=text, calls=calls, seconds=calls / 10, rows=None, left_out=None
        )
        other = replace(one, text=f"{text} {calls}", left_out="it has no values")
        return replace(found.load, scale=None, database="shop", statements=(one, other))

    record.remember(replace(found, load=load("SELECT $1", 7)))
    assert len(record.earlier(like(found, load=load("SELECT $1", 8)))) == 1
    assert record.earlier(like(found, load=load("SELECT $1, $2", 7))) == []
    assert record.earlier(like(found, load=replace(load("SELECT $1", 7), database="other"))) == []


@pytest.mark.parametrize(("scale", "same"), [(80, True), (125, True), (126, False), (79, False)])
def test_about_the_same_scale_is_the_same_load(found: Search, scale: int, same: bool) -> None:
    """The default scale may follow the free disk."""
    record.remember(replace(found, load=replace(found.load, scale=100)))
    search = like(found, load=replace(found.load, scale=scale))
    assert bool(record.earlier(search)) is same


def test_what_cannot_be_read_is_told(found: Search, tmp_path: Path) -> None:
    (tmp_path / "searches" / "broken").mkdir(parents=True)
    (tmp_path / "searches" / "broken" / "search.json").write_text("{", encoding="utf-8")
    search = like(found)
    assert record.earlier(search) == []
    assert len(search.unknown) == 1
    assert "an earlier search" in search.unknown[0]


def test_the_same_winner_is_tried_once_and_the_newest_first(found: Search) -> None:
    for day, value in (("02", "2GB"), ("03", "2GB"), ("04", "3GB"), ("05", "4GB")):
        assert found.result is not None
        one = replace(found.result.differences[0], name="max_wal_size", value=value)
        record.remember(
            replace(
                found,
                started=f"2026-01-{day}T00:00:00.000+00:00",
                result=replace(found.result, differences=(one,)),
            )
        )
    tried = [one.settings["max_wal_size"] for one in record.earlier(like(found))]
    assert tried == ["4GB", "3GB"]


def test_a_search_that_cannot_be_kept_says_so(found: Search, tmp_path: Path) -> None:
    (tmp_path / "searches").write_text("a file", encoding="utf-8")
    with pytest.raises(MrTunerError, match="cannot keep the search for later ones") as error:
        record.remember(found)
    assert error.value.hint == "Name another directory with MRTUNER_STATE_DIR."
