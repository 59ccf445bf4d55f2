"""The page in a real browser: every screen opened, clicked, zoomed and compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from history_data import batch, sample
from history_story import DEAR, INSTANCE, of_source
from served import PATIENCE, Viewer, in_a_browser, serving, violations

from mrtuner.history.source import built_in
from mrtuner.history.store.writer import Writer
from mrtuner.web.screens import SCREENS

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 800}

pytestmark = in_a_browser


class Page:
    """A page of the viewer, and what it complained about."""

    def __init__(self, browser: Any, viewer: Viewer, viewport: Any, scheme: str) -> None:
        self.context = browser.new_context(
            viewport=viewport, color_scheme=scheme, accept_downloads=True
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.address = viewer.address
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda said: self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, fragment: str) -> Any:
        """Go to a screen, and wait until it is there."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}#{fragment}")
        return self.ready()

    def ready(self) -> Any:
        """Wait until what was asked for is shown."""
        self.page.wait_for_selector("main h1")
        return self.page


@pytest.fixture
def at(browser: Any, viewer: Viewer) -> Iterator[Any]:
    """A page at desk width, which must not complain."""
    page = Page(browser, viewer, DESK, "light")
    yield page
    assert page.complaints == []
    page.context.close()


def hour(screen: str) -> str:
    """The hour of the story, in the page's own form: seconds since 1970."""
    return f"screen={screen}&from=1795399200&to=1795402800"


@pytest.mark.parametrize(("viewport", "scheme"), [(DESK, "light"), (PHONE, "dark")])
def test_every_screen_opens_without_a_complaint(
    browser: Any, viewer: Viewer, viewport: Any, scheme: str
) -> None:
    opened = Page(browser, viewer, viewport, scheme)
    for name in ["", *SCREENS]:
        page = opened.open(hour(name) if name else "")
        title = SCREENS[name].title if name else "Fleet"
        assert title in page.inner_text("main h1")
        assert page.locator("[role=alert]").count() == 0
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} is {wide} px wider than the screen"
        assert violations(page) == []
    assert opened.complaints == []
    assert {re.sub(r"(//[^/]+/).*", r"\1", url) for url in opened.requests} <= {
        "about:blank", re.sub(r"(//[^/]+/).*", r"\1", viewer.address),
    }  # fmt: skip
    opened.context.close()


def painted(page: Any, chart: str) -> int:
    """Colours in the canvas of a chart: one or two are an empty one."""
    return int(
        page.evaluate(
            """name => {
                const canvas = document.querySelector(`[data-chart=${name}] canvas`);
                const { width, height } = canvas;
                const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
                const seen = new Set();
                for (let n = 0; n < data.length; n += 4) seen.add(data.slice(n, n + 3).join());
                return seen.size;
            }""",
            chart,
        )
    )


def test_a_chart_shows_its_lines_and_the_same_numbers_as_a_table(at: Any) -> None:
    page = at.open(hour("load"))
    assert painted(page, "load") > 4
    page.click("[data-chart=load] summary")
    page.wait_for_selector("[data-chart=load] thead")
    heads = page.locator("[data-chart=load] thead th").all_inner_texts()
    assert heads == ["Time (UTC)", "CPU", "IO"]
    first = page.locator("[data-chart=load] tbody tr").first.locator("td").all_inner_texts()
    assert first == ["2026-11-23 02:00:00", "2", "0"]


def test_a_line_can_be_hidden(at: Any) -> None:
    page = at.open(hour("load"))
    entry = page.locator("[data-chart=load] .legend button", has_text="IO")
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    entry.click()
    assert entry.get_attribute("aria-pressed") == "true"


def test_dragging_over_a_chart_zooms_in_and_the_link_reproduces_it(at: Any) -> None:
    page = at.open(hour("wal"))
    box = page.locator("[data-chart=wal] .u-over").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, middle, steps=5)
    page.mouse.up()
    page.wait_for_url(lambda url: "to=1795402800" not in url)
    at.ready()
    found = re.search(r"from=(\d+)&to=(\d+)", page.url)
    assert found
    assert int(found[1]) == pytest.approx(1795401000, abs=60)
    assert int(found[2]) == pytest.approx(1795401900, abs=60)
    linked = at.open(page.url.partition("#")[2])
    assert linked.input_value("label:has-text('From') input").startswith("2026-11-23T02:")


def test_a_click_leads_to_the_sessions_of_that_moment_and_on_to_a_statement(at: Any) -> None:
    page = at.open(hour("load"))
    box = page.locator("[data-chart=load] .u-over").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 35 / 60, box["y"] + box["height"] / 2)
    page.wait_for_url(lambda url: "screen=moment" in url)
    page.wait_for_selector("h1:has-text('Sessions')")
    waits = page.locator("td", has_text="IO: WALSync")
    assert waits.count() > 0
    page.locator("a", has_text=str(DEAR)).first.click()
    page.wait_for_selector(f"h1:has-text('{DEAR}')")
    assert page.locator("[data-chart=mean]").count() == 1
    # A minute would be one point: its history is the hour around.
    found = re.search(r"from=(\d+)&to=(\d+)", page.url)
    assert found
    assert int(found[2]) - int(found[1]) == 3600


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [name for name in SCREENS if name not in {"changes", "moment"}])
def test_a_click_on_a_chart_leads_to_sessions(at: Any, name: str, every: bool) -> None:
    """On the last one of each screen, or on every one."""
    more = "&compare=10min" if name == "compare" else ""
    page = at.open(f"screen={name}&from=1795401000&to=1795401600{more}")
    charts = page.locator("figure.chart:has(.u-over)")
    places = range(charts.count())
    for place in places if every else places[-1:]:
        at.open(f"screen={name}&from=1795401000&to=1795401600{more}")
        over = charts.nth(place).locator(".u-over")
        over.scroll_into_view_if_needed()
        box = over.bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_url(lambda url: "screen=moment" in url)
        page.wait_for_selector("h1:has-text('Sessions')")
        assert page.locator("td", has_text="IO: WALSync").count() > 0


def test_a_click_on_a_long_step_shows_all_of_it(at: Any) -> None:
    page = at.open("screen=load&from=1795359600&to=1795446000")
    box = page.locator("[data-chart=load] .u-over").bounding_box()
    # 02:37 of the day from 15:00 on, in steps of five minutes.
    page.mouse.click(box["x"] + box["width"] * 697 / 1440, box["y"] + box["height"] / 2)
    page.wait_for_url(lambda url: "screen=moment" in url)
    page.wait_for_selector("h2:has-text('busiest minute')")
    found = re.search(r"from=(\d+)&to=(\d+)", page.url)
    assert found
    assert int(found[2]) - int(found[1]) == 300
    assert page.locator("td", has_text="IO: WALSync").count() > 0


def test_the_keyboard_reads_values_and_zooms(at: Any) -> None:
    page = at.open(hour("wal"))
    page.focus("[data-chart=wal] .plot")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    reading = page.locator("[data-chart=wal] .reading")
    assert reading.inner_text().startswith("2026-11-23 02:01:00 · WAL 977 kB/s")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "from=1795399200" not in url)
    at.ready()


def test_the_period_before_is_drawn_and_listed(at: Any) -> None:
    page = at.open("screen=wal&from=1795401000&to=1795401600&compare=20min")
    page.click("[data-chart=wal] summary")
    page.wait_for_selector("[data-chart=wal] thead")
    heads = page.locator("[data-chart=wal] thead th").all_inner_texts()
    assert heads == ["Time (UTC)", "WAL", "WAL, before"]
    page.select_option("label:has-text('Compare') select", "1h")
    page.wait_for_url(lambda url: "compare=1h" in url)
    at.ready()


def test_a_table_sorts_and_is_saved_as_csv(at: Any) -> None:
    page = at.open(hour("statements"))
    calls = page.locator("section.table tbody tr td:nth-child(6)")
    assert calls.all_inner_texts() == ["1,740", "35,400"]
    page.locator("section.table th button", has_text="Calls").click()
    assert calls.all_inner_texts() == ["35,400", "1,740"]
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Calls")
    with page.expect_download() as saving:
        page.click("section.table .bar button")
    saved = Path(saving.value.path()).read_text(encoding="utf-8").splitlines()
    assert saved[0].startswith("query_id,text,database,role,load,calls,mean")
    assert saved[1].startswith(f"{DEAR},SELECT count(*) FROM orders,app,web")


def test_what_is_wrong_is_said_with_a_hint(at: Any) -> None:
    page = at.page
    page.goto(f"{at.address}#screen=load&instance=nobody")
    page.wait_for_selector("[role=alert]")
    assert "the store has no instance nobody" in page.inner_text("[role=alert]")
    assert f"It has {INSTANCE}." in page.inner_text("[role=alert]")
    # The browser itself says that an answer was an error.
    assert [said for said in at.complaints if "404" not in said] == []
    at.complaints.clear()


def test_a_theme_is_remembered(at: Any) -> None:
    page = at.open(hour("wal"))
    page.select_option("label:has-text('Theme') select", "dark")
    at.ready()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 28)"
    page.reload()
    at.ready()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


HOSTILE = [
    "<script>document.title='run'</script>",
    "<img src=x onerror=\"document.title='run'\">",
    "';DROP TABLE x;--",
    "javascript:document.title='run'",
    "\u202egnp.exe",
    "=cmd|' /C calc'!A0",
]


def test_names_and_texts_are_shown_and_never_run(browser: Any, tmp_path: Path) -> None:
    source = built_in()["statements"]
    rows = [
        of_source("statements", database=text, role=text, query_id=n, toplevel=True, calls=1)
        for n, text in enumerate(HOSTILE)
    ]
    later = [
        of_source("statements", database=text, role=text, query_id=n, toplevel=True, calls=9,
                  exec_ms=1000.0)
        for n, text in enumerate(HOSTILE)
    ]  # fmt: skip
    with Writer(tmp_path, built_in().values()) as writer:
        texts = dict(enumerate(HOSTILE))
        writer.commit([batch(sample(source, 7200, *rows), instance="a&<b>", texts=texts)])
        writer.commit([batch(sample(source, 7260, *later), instance="a&<b>", texts=texts)])
    with serving(tmp_path) as viewer:
        opened = Page(browser, viewer, DESK, "light")
        page = opened.open(hour("statements"))
        shown = page.locator("td.sql").all_inner_texts()
        assert sorted(shown) == sorted(HOSTILE)
        assert "a&<b>" in page.inner_text("h1")
        assert page.title() == "MrTuner"
        assert page.locator("main script, main img").count() == 0
        with page.expect_download() as saving:
            page.click("section.table .bar button")
        saved = Path(saving.value.path()).read_text(encoding="utf-8")
        assert "'=cmd|" in saved
        assert opened.complaints == []
        opened.context.close()


def test_without_javascript_it_says_what_is_missing(browser: Any, viewer: Viewer) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(viewer.address)
    assert "The charts need JavaScript" in page.inner_text("main")
    context.close()


def test_the_script_is_small(viewer: Viewer) -> None:
    _, _, body = viewer.get("")
    (script,) = re.findall(r'src="\./(assets/[^"]+\.js)"', body.decode())
    assert len(viewer.get(script)[2]) < 200_000
