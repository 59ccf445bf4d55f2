"""Input that no builder takes, or that no prediction can be made of: an error, or unknown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from machine import needs
from mrtuner.errors import BadValue, MrTunerError, UsageError
from mrtuner_image.advice.ranking import advise
from mrtuner_image.cost import cost


def a_tree(root: Path, text: str) -> Path:
    (root / "src").mkdir()
    (root / "src/a.py").write_text("a")
    (root / "Dockerfile").write_text(text)
    return root


@pytest.mark.parametrize("program", [cost, advise])
@pytest.mark.parametrize(
    "address", ["https://example.com/a.git", "git@example.com:a/b.git", "git://example.com/a", "-"]
)
def test_a_context_elsewhere_has_to_be_fetched_first(program: object, address: str) -> None:
    assert callable(program)
    with pytest.raises(UsageError, match="is an address, not a directory") as caught:
        program(Path(address))
    assert caught.value.hint == "Clone or unpack it, and name the directory."


def test_a_loop_of_links_is_a_file_that_is_not_there(tmp_path: Path) -> None:
    a_tree(tmp_path, "FROM debian\nCOPY one /x\n")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(BadValue, match="is a dangling link"):
        cost(tmp_path)


def test_a_link_out_of_the_context_is_no_way_out(tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (tmp_path / "secret").write_text("x")
    a_tree(root, "FROM debian\nCOPY out /x\n")
    (root / "out").symlink_to("../secret")
    with pytest.raises(BadValue, match="line 2 of the Dockerfile copies out"):
        cost(root)
    (root / "Dockerfile").write_text("FROM debian\nCOPY ../secret /x\n")
    with pytest.raises(BadValue, match=r"copies \.\./secret, which is not in the context"):
        cost(root)


def test_what_add_fetches_is_unknown(tmp_path: Path) -> None:
    found = cost(a_tree(tmp_path, "FROM debian\nADD https://example.com/x.tar.gz /x/\n"))
    assert [line.layer.size for line in found.lines] == [None]
    assert found.lines[0].layer.why == "comes from elsewhere"


def test_a_repository_as_a_source_is_unknown_or_refused(tmp_path: Path) -> None:
    """Podman fetches only http addresses: it looks for any other as a file in the context."""
    a_tree(tmp_path, "FROM debian\nADD https://example.com/a.git#main /x\n")
    assert [line.layer.size for line in cost(tmp_path).lines] == [None]
    (tmp_path / "Dockerfile").write_text("FROM debian\nADD git@example.com:a/b.git /x\n")
    with pytest.raises(BadValue, match="which is not in the context"):
        cost(tmp_path)


def test_onbuild_is_a_line_without_a_layer_here(tmp_path: Path) -> None:
    found = cost(a_tree(tmp_path, "FROM debian\nONBUILD COPY missing /x\nCOPY src /src\n"))
    assert [line.layer.size for line in found.lines] == [0, 512 + 512 + 1024]


def test_a_stage_that_names_a_later_one_takes_an_image_from_elsewhere(tmp_path: Path) -> None:
    """So stages cannot form a cycle."""
    text = "FROM two AS one\nCOPY --from=two /x /x\nFROM one AS two\nCOPY src /src\n"
    found = cost(a_tree(tmp_path, text))
    assert [(line.line, line.layer.why) for line in found.lines] == [
        (2, "comes from a stage"), (4, ""),
    ]  # fmt: skip


@needs("a user other than root")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    a_tree(tmp_path, "FROM debian\nCOPY src /src\n")
    (tmp_path / "src/a.py").chmod(0)
    with pytest.raises(MrTunerError, match="cannot read"):
        cost(tmp_path)


def test_an_ignore_file_that_is_no_file_is_refused(tmp_path: Path) -> None:
    a_tree(tmp_path, "FROM debian\n")
    (tmp_path / ".dockerignore").mkdir()
    with pytest.raises(UsageError, match="cannot read"):
        advise(tmp_path)


def test_a_dockerfile_that_is_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "Dockerfile")
    with pytest.raises(UsageError, match="it is a device or a pipe"):
        cost(tmp_path)


@pytest.mark.parametrize("pattern", ["!", "["])
def test_a_pattern_at_which_the_builder_fails_ends_advice_too(tmp_path: Path, pattern: str) -> None:
    a_tree(tmp_path, "FROM debian\nCOPY . /\n")
    (tmp_path / ".dockerignore").write_text(pattern)
    with pytest.raises(BadValue, match="the ignore file"):
        advise(tmp_path)
