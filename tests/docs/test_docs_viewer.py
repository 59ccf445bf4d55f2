"""Every screen of the viewer has its section and its pictures in the documentation."""

from __future__ import annotations

import importlib.util
import re
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from docs_pages import DOCS, ROOT

from mrtuner.web.screens import SCREENS

PAGE = (DOCS / "reference" / "viewer.md").read_text(encoding="utf-8")
PICTURES = DOCS / "images" / "viewer"
LARGEST = 90_000
SECTIONS = {"fleet": "Fleet"} | {name: screen.title for name, screen in SCREENS.items()}


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    assert found, f"docs/reference/viewer.md has no section {title}"
    return found[1]


@pytest.mark.parametrize("name", SECTIONS)
def test_every_screen_has_a_paragraph_and_pictures_light_and_dark(name: str) -> None:
    text = section(SECTIONS[name])
    assert len(text.split("\n\n")[0].split()) > 20, "says what it answers"
    for scheme in ("light", "dark"):
        assert re.search(rf"!\[[^\]]{{5,}}\]\(\.\./images/viewer/{name}-{scheme}\.png\)", text)


def test_every_picture_is_shown_and_there() -> None:
    shown = set(re.findall(r"\(\.\./images/viewer/([\w-]+\.png)\)", PAGE))
    assert shown == {path.name for path in PICTURES.iterdir()}


@pytest.mark.parametrize("path", sorted(PICTURES.iterdir()), ids=lambda path: path.name)
def test_pictures_are_small_files_of_whole_windows(path: Path) -> None:
    """In a PNG, width and height follow the name of the first chunk."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) < LARGEST
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) in {(1400, 875), (1400, 1150), (390, 780)}


#: Colours of surface and ground in ui/src/style.css.
GROUNDS = {
    "light": {(0xFF, 0xFF, 0xFF), (0xF6, 0xF7, 0xF9)},
    "dark": {(0x1B, 0x21, 0x2A), (0x12, 0x16, 0x1C)},
}


@pytest.mark.parametrize("path", sorted(PICTURES.iterdir()), ids=lambda path: path.name)
def test_a_palette_changes_no_ground(path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="no Pillow: make install")
    with image.open(path) as picture:
        counted = picture.convert("RGB").getcolors()
    grounds = {colour for _, colour in sorted(counted, reverse=True)[:4]}
    assert GROUNDS[path.stem.rpartition("-")[2]] <= grounds


def test_the_tool_takes_every_picture_that_is_shown() -> None:
    taken = {f"{shot.name}-{scheme}.png" for shot in tool().shots() for scheme in tool().SCHEMES}
    assert taken == {path.name for path in PICTURES.iterdir()}


def tool() -> Any:
    """`tools/picture_screens.py`."""
    spec = importlib.util.spec_from_file_location(
        "picture_screens", ROOT / "tools" / "picture_screens.py"
    )
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["picture_screens"] = found  # dataclasses look up their module there
    spec.loader.exec_module(found)
    return found
