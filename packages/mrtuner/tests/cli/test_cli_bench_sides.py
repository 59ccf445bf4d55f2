"""What `mrtuner bench compare` accepts as a side."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrtuner.cli.bench.compare import sides
from mrtuner.errors import UsageError


def test_a_container_is_compared_by_the_socket_as_bare_is() -> None:
    bare, container = sides("bare", "container")
    assert (bare.name, bare.network, bare.connect) == ("bare", None, "socket")
    assert (container.name, container.network, container.connect) == ("container", "host", "socket")


@pytest.mark.parametrize("word", ["bridge", "published", "slirp"])
def test_both_come_over_tcp_where_one_has_to(word: str) -> None:
    for pair in (sides("bare", word), sides(word, "bare")):
        assert {one.connect for one in pair} == {"tcp"}
        assert {one.network for one in pair} == {None, word}


def test_the_way_in_is_a_difference_of_its_own() -> None:
    assert [one.connect for one in sides("bare", "tcp")] == ["socket", "tcp"]


def test_storage_is_one() -> None:
    assert [one.storage for one in sides("overlay", "layer")] == ["overlay", "layer"]


def test_files_of_settings_are_a_and_b(tmp_path: Path) -> None:
    (tmp_path / "x.conf").write_text("work_mem = 8MB\n")
    first, second = sides("default", str(tmp_path / "x.conf"))
    assert (first.name, first.conf) == ("a", None)
    assert (second.name, second.conf) == ("b", "work_mem = 8MB\n")
    with pytest.raises(UsageError, match=r"cannot read .*none\.conf"):
        sides("default", str(tmp_path / "none.conf"))
