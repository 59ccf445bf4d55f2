"""File trees of images: put together from layers by hand, and how two of them differ."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

from image_stored import directory, entry, layer, write_image

from mrtuner.image.proof.tree import (
    THERE,
    Differences,
    Trees,
    configuration_differences,
    differences,
    without,
)
from mrtuner.image.stored import read_image

ETC = directory("etc")


def tree(root: Path, *layers: bytes) -> dict[str, tuple[str, int, tuple[int, int]]]:
    write_image(root, layers)
    found = Trees().of(read_image(str(root)))
    return {path: (node.type, node.mode, node.owner) for path, node in found.items()}


def between(root: Path, one: list[bytes], other: list[bytes]) -> Differences:
    for name, layers in (("a", one), ("b", other)):
        (root / name).mkdir()
        write_image(root / name, layers)
    trees = Trees()
    return differences(*(trees.of(read_image(str(root / name))) for name in ("a", "b")))


def test_a_later_layer_wins(tmp_path: Path) -> None:
    found = tree(
        tmp_path, layer(ETC, entry("etc/x", "1", uid=5)), layer(entry("etc/x", "2", mode=0o600))
    )
    assert found == {
        "/etc": ("directory", 0o755, (0, 0)), "/etc/x": ("file", 0o600, (0, 0)),
    }  # fmt: skip


def test_a_whiteout_takes_a_file_or_a_directory_away(tmp_path: Path) -> None:
    first = layer(ETC, directory("etc/d"), entry("etc/d/y"), entry("etc/dx"), entry("etc/x"))
    found = tree(tmp_path, first, layer(entry("etc/.wh.d"), entry("etc/.wh.x")))
    assert set(found) == {"/etc", "/etc/dx"}


def test_an_opaque_directory_hides_what_lower_layers_have_in_it(tmp_path: Path) -> None:
    """Wherever the marker stands in its layer, the files that this layer adds stay."""
    found = tree(
        tmp_path, layer(ETC, entry("etc/x")),
        layer(ETC, entry("etc/y"), entry("etc/.wh..wh..opq")),
    )  # fmt: skip
    assert set(found) == {"/etc", "/etc/y"}


def test_a_file_in_the_place_of_a_directory_has_nothing_below_it(tmp_path: Path) -> None:
    found = tree(tmp_path, layer(ETC, entry("etc/x")), layer(entry("etc")))
    assert found == {"/etc": ("file", 0o644, (0, 0))}


def test_no_name_leads_out_of_the_tree(tmp_path: Path) -> None:
    """Nothing is unpacked: a path with `..` stays below the top, and removes nothing."""
    out = layer(entry("../../etc/x", "2"), entry("etc/.wh..."), entry("etc/.wh.."))
    found = tree(tmp_path, layer(ETC, entry("etc/y")), out)
    assert set(found) == {"/etc", "/etc/x", "/etc/y"}


def test_times_do_not_count(tmp_path: Path) -> None:
    assert not between(tmp_path, [layer(entry("x", mtime=1))], [layer(entry("x", mtime=2))])


def test_everything_else_does(tmp_path: Path) -> None:
    link: dict[str, Any] = {"type": tarfile.SYMTYPE}
    one = [
        entry("content", "1"), entry("mode"), entry("owner"), entry("type"), entry("gone"),
        entry("link", linkname="a", **link), entry("same", "x"), entry("attribute"),
    ]  # fmt: skip
    other = [
        entry("content", "2"), entry("mode", mode=0o755), entry("owner", gid=9),
        entry("type", linkname="x", **link), entry("link", linkname="b", **link),
        entry("same", "x"), entry("attribute", pax_headers={"SCHILY.xattr.user.a": "1"}),
        entry("new"),
    ]  # fmt: skip
    assert between(tmp_path, [layer(*one)], [layer(*other)]) == {
        "/attribute": {"extended attributes"}, "/content": {"content"}, "/gone": {THERE},
        "/link": {"content"}, "/mode": {"mode"}, "/new": {THERE}, "/owner": {"owner"},
        "/type": {"type", "content"},
    }  # fmt: skip


def test_a_hard_link_is_the_file_that_it_names(tmp_path: Path) -> None:
    linked = layer(entry("a", "1"), entry("b", type=tarfile.LNKTYPE, linkname="a"))
    copied = layer(entry("a", "1"), entry("b", "1"))
    assert not between(tmp_path, [linked], [copied])


def test_one_layer_or_two_are_the_same_tree(tmp_path: Path) -> None:
    one = [layer(ETC, entry("etc/x", "1"), entry("etc/y", "2"))]
    other = [layer(ETC, entry("etc/x", "0"), entry("z")), layer(ETC, entry("etc/x", "1"),
             entry("etc/y", "2"), entry(".wh.z"))]  # fmt: skip
    assert not between(tmp_path, one, other)


def test_noise_covers_what_it_was_seen_in_alone() -> None:
    found = {"/log": frozenset({"content", "mode"}), "/x": frozenset({"content"})}
    noise = {"/log": frozenset({"content"})}
    assert without(found, noise, []) == {"/log": {"mode"}, "/x": {"content"}}


def test_an_excepted_path_covers_what_is_below_it() -> None:
    found = dict.fromkeys(("/srv/log", "/srv/log/a", "/srv/logs", "/x/1.pyc"), frozenset({THERE}))
    assert set(without(found, {}, ["/srv/log/", "*.pyc"])) == {"/srv/logs"}


def test_what_a_container_is_run_with_is_compared(tmp_path: Path) -> None:
    configurations: tuple[dict[str, Any], ...] = (
        {"config": {"Env": ["P=x", "A=1"], "Cmd": ["x"]}, "created": "1", "history": [{}]},
        {"config": {"Env": ["P=x", "A=2"], "Cmd": ["x"], "User": ""}, "created": "2"},
    )
    images = []
    for number, configuration in enumerate(configurations):
        root = tmp_path / str(number)
        root.mkdir()
        write_image(root, [], configuration)
        images.append(read_image(str(root)))
    assert configuration_differences(*images) == {"Env": ("['A=1']", "['A=2']")}
