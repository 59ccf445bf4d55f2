"""The page in a real browser: it renders, it complains of nothing, it fits a phone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import report_data as data
from report_browser import Browser, browser

from machine import needs
from mrtuner.tuning.report.page import page

pytestmark = needs("chromium")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    html = page(
        data.tuning(),
        data.proof(),
        commands=[("undo it", "mrtuner undo postgresql://USER@HOST/" + "long" * 30)],
    )
    file.write_text(html, encoding="utf-8")
    return file


def colours(png: bytes) -> set[bytes]:
    """The different bytes of the picture's raw rows: one or two for a blank one."""
    at, packed = 8, b""
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            packed += png[at + 8 : at + 8 + length]
        at += length + 12
    return {bytes([byte]) for byte in zlib.decompress(packed)}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_renders_without_a_complaint_and_fits_the_window(
    opened: Browser, file: Path, width: int, scheme: str
) -> None:
    opened.show(file, width=width, scheme=scheme)
    assert len(colours(opened.picture(whole=False))) > 50
    assert opened.run("document.scrollingElement.scrollWidth") <= width
    assert opened.complaints == []
    assert set(opened.requests) == {file.as_uri()}


def test_opened_details_fit_a_phone_too(opened: Browser, file: Path) -> None:
    opened.show(file, width=390)
    opened.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert opened.run("document.scrollingElement.scrollWidth") <= 390


COLOUR_OF = "getComputedStyle(document.querySelector('{}')).{}"


@pytest.mark.parametrize(
    ("scheme", "media", "paper", "ink"),
    [
        ("light", "", "rgb(253, 253, 251)", "rgb(28, 30, 34)"),
        ("dark", "", "rgb(22, 24, 28)", "rgb(232, 232, 228)"),
        ("dark", "print", "rgb(253, 253, 251)", "rgb(28, 30, 34)"),
    ],
)
def test_the_reader_s_colours_reach_the_pictures(
    opened: Browser, file: Path, scheme: str, media: str, paper: str, ink: str
) -> None:
    opened.show(file, width=1280, scheme=scheme, media=media)
    assert opened.run(COLOUR_OF.format("body", "backgroundColor")) == paper
    assert opened.run(COLOUR_OF.format("svg text", "fill")) == ink


def test_words_in_pictures_do_not_overlap(opened: Browser, file: Path) -> None:
    opened.show(file, width=1280)
    overlaps = opened.run(
        """[...document.querySelectorAll('svg')].flatMap(svg => {
            const texts = [...svg.querySelectorAll('text')];
            const box = one => one.getBoundingClientRect();
            return texts.flatMap((one, n) => texts.slice(n + 1).filter(two => {
                const a = box(one), b = box(two);
                return a.left < b.right - 1 && b.left < a.right - 1
                    && a.top < b.bottom - 3 && b.top < a.bottom - 3;
            }).map(two => one.textContent + ' / ' + two.textContent));
        })"""
    )
    assert overlaps == []


def test_it_prints_with_everything_unfolded(opened: Browser, file: Path) -> None:
    opened.show(file, width=720, media="print")
    assert opened.run("document.querySelector('#advice-kept').checkVisibility()") is True
    assert opened.pdf().startswith(b"%PDF")
