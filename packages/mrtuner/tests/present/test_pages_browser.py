"""Every page in a real browser: it fits a phone, fills a desk's screen, and answers first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from report_browser import Browser, browser
from report_pages import PAGES

from machine import needs

pytestmark = needs("chromium")

PHONE, DESK = 390, 1200


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="module", params=list(PAGES))
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("page") / f"{request.param}.html"
    made.write_text(PAGES[request.param](), encoding="utf-8")
    return made


#: Elements that stick out of the window and can't be scrolled to inside a table's own frame.
OUTSIDE = """[...document.querySelectorAll('body *')].filter(one => {
    const box = one.getBoundingClientRect();
    const clipped = one.closest('.scroll table, pre') && !one.matches('caption');
    return box.width > 0 && !clipped && !one.matches('.skip')
        && (box.right > innerWidth + 1 || box.left < -1);
}).map(one => one.tagName + ' ' + one.textContent.slice(0, 60))"""


def test_on_a_phone_nothing_sticks_out_and_pictures_are_whole(opened: Browser, file: Path) -> None:
    opened.show(file, width=PHONE)
    opened.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert opened.run("document.scrollingElement.scrollWidth") <= PHONE
    assert opened.run(OUTSIDE) == []
    assert opened.complaints == []


def test_on_a_phone_the_caption_of_a_table_stays_while_it_scrolls(
    opened: Browser, file: Path
) -> None:
    opened.show(file, width=PHONE)
    opened.run("document.querySelectorAll('.scroll').forEach(one => one.scrollLeft = 9999)")
    places = opened.run(
        """[...document.querySelectorAll('caption')].filter(one => one.checkVisibility())
            .map(one => one.getBoundingClientRect()).map(box => [box.left, box.right])"""
    )
    assert all(left >= 0 and right <= PHONE for left, right in places)


def test_on_a_desk_pictures_fill_the_column(opened: Browser, file: Path) -> None:
    opened.show(file, width=DESK)
    column = opened.run("document.querySelector('main').getBoundingClientRect().width")
    widths = opened.run(
        """[...document.querySelectorAll('figure svg')].filter(one => one.checkVisibility())
            .map(one => one.getBoundingClientRect().width)"""
    )
    assert widths
    assert all(width == pytest.approx(column, abs=2) for width in widths)


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_words_in_pictures_can_be_read_and_are_inside(
    opened: Browser, file: Path, width: int
) -> None:
    """Text needs at least seven pixels on a phone; a digit is narrower than high."""
    opened.show(file, width=width)
    seen = opened.run(
        """[...document.querySelectorAll('svg text')].filter(one => one.checkVisibility())
            .map(one => [one.getBoundingClientRect(),
                one.closest('svg').getBoundingClientRect(), one.textContent])
            .map(([box, frame, text]) => [Math.max(box.height, box.width), text,
                box.left >= frame.left - 1 && box.right <= frame.right + 1
                && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1])"""
    )
    assert seen
    assert [text for _, text, inside in seen if not inside] == []
    assert min(size for size, *_ in seen) >= 7


def test_a_headline_answers_in_words(file: Path) -> None:
    found = re.findall(r"<h1>(.*?)</h1>", file.read_text(encoding="utf-8"))
    assert len(found) == 1
    assert len(re.findall(r"[A-Za-z]{2,}", found[0])) >= 3


def test_the_remedy_of_a_limit_is_on_the_first_screen(opened: Browser, tmp_path: Path) -> None:
    file = tmp_path / "limits.html"
    file.write_text(PAGES["limits"](), encoding="utf-8")
    for width, height in ((DESK, 800), (PHONE, 844)):
        opened.show(file, width=width, height=height)
        first = opened.run(
            """(() => { const one = document.querySelector('#advice ~ ul li');
                return [one.textContent, one.getBoundingClientRect().bottom]; })()"""
        )
        assert "Stop and start the instance" in first[0]
        assert first[1] <= height
