"""Sources are files that declare their own columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from history_data import QUEUE

from mrtuner.errors import BadValue
from mrtuner.history.recording.source import Kind, Rollup, Type, built_in, in_directory, parse


def test_a_source_is_read_from_its_header() -> None:
    source = parse("queue", {130000: QUEUE, 160000: "SELECT 2;\n"})
    assert (source.help, source.interval, source.reset) == ("Jobs of a queue", 60.0, "since")
    assert [(one.name, one.kind, one.type) for one in source.columns] == [
        ("queue", Kind.KEY, Type.TEXT),
        ("done", Kind.COUNTER, Type.INTEGER),
        ("busy_ms", Kind.COUNTER, Type.FLOAT),
        ("waiting", Kind.GAUGE, Type.INTEGER),
    ]
    assert source.rollup is Rollup.HOUR
    assert source.rollup_by == ("queue",)


def test_a_server_is_asked_the_newest_query_that_it_may_understand_first() -> None:
    source = parse("queue", {130000: QUEUE, 160000: "SELECT 2;\n"})
    assert source.for_version(180001) == ("SELECT 2", "SELECT 1")
    assert source.for_version(150004) == ("SELECT 1",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT 1", "must begin with a comment"),
        ("/*\nhelp = \n*/ SELECT 1", "Invalid value"),
        ('/*\ninterval = "1min"\n*/ SELECT 1', "no help"),
        ('/*\nhelp = "x"\n*/ SELECT 1', "no interval"),
        (QUEUE.replace("done =", "time ="), "time is not a valid column name"),
        (QUEUE.replace("done =", "Done ="), "Done is not a valid column name"),
        (QUEUE.replace('help = "jobs done"', 'unit = "jobs"'), "has no help text"),
        (QUEUE.replace('"float"', '"money"'), "type must be one of"),
        (QUEUE.replace('"1min"', '"1 fortnight"'), "unknown unit"),
        (QUEUE.replace('reset = "since"', 'rollup_by = ["nothing"]'), "which is not a column"),
        (QUEUE.replace('reset = "since"', 'rollup = "week"'), "rollup must be one of"),
    ],
)
def test_a_header_that_is_not_understood_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadValue, match=why):
        parse("queue", {130000: text})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (QUEUE.replace("[gauges]", "[gauge]"), "its header has an unknown key, gauge"),
        (QUEUE.replace('reset = "since"', 'keeps = "7d"'), "its header has an unknown key, keeps"),
        ('/*\nhelp = "x"\ninterval = "1min"\n*/ SELECT 1', "declares no column in any of keys, "),
    ],
)
def test_a_file_that_says_what_means_nothing_is_refused(
    tmp_path: Path, text: str, why: str
) -> None:
    """A misspelled key would otherwise be missing from the history without notice."""
    (tmp_path / "queue.sql").write_text(text, encoding="utf-8")
    with pytest.raises(BadValue, match=why):
        in_directory(tmp_path)
    parse("queue", {130000: text})  # from a store, which another version may have written


def test_files_of_a_directory_are_sources(tmp_path: Path) -> None:
    (tmp_path / "queue.sql").write_text(QUEUE)
    (tmp_path / "queue.170000.sql").write_text("SELECT 17, -- since 18\n 17;")
    (tmp_path / "README.md").write_text("not a source")
    found = in_directory(tmp_path)
    assert list(found) == ["queue"]
    assert found["queue"].for_version(170000)[0] == "17"
    assert found["queue"].for_version(180000)[0] == "SELECT 17,\n 17"


@pytest.mark.parametrize("name", ["Queue.sql", "queue.17.sql", "my-queue.sql", "wal.sql"])
def test_a_file_with_another_name_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(QUEUE)
    with pytest.raises(BadValue):
        in_directory(tmp_path)


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="none"):
        in_directory(tmp_path / "none")


def test_every_column_of_a_built_in_source_says_what_it_is() -> None:
    for source in built_in().values():
        assert source.help
        assert source.columns
        assert all(len(column.help) > 5 for column in source.columns), source.name
