"""The page in a real browser: every screen opened, clicked, zoomed and compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from history_data import batch, sample
from history_story import DEAR, INSTANCE, TEXTS, of_source
from served import (
    DESK,
    PHONE,
    Tab,
    Viewer,
    in_a_browser,
    opened,
    painted,
    serving_here,
    too_wide,
    violations,
)

from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Writer
from mrtuner.web.screens import SCREENS

pytestmark = in_a_browser


@pytest.fixture
def at(browser: Any, viewer: Viewer) -> Iterator[Tab]:
    """A page at desk width, which must not complain."""
    with opened(browser, viewer.address, DESK) as tab:
        yield tab


def hour(screen: str) -> str:
    """The hour of the story, in the page's own form: seconds since 1970."""
    return f"screen={screen}&from=1795399200&to=1795402800"


@pytest.mark.parametrize(
    ("viewport", "scheme"),
    [(DESK, "light"), pytest.param(PHONE, "dark", marks=pytest.mark.slow)],
)
def test_every_screen_opens_without_a_complaint(
    browser: Any, viewer: Viewer, viewport: Any, scheme: str
) -> None:
    """See test_viewer_pages.py for what axe-core says of them, and for phones in every run."""
    with opened(browser, viewer.address, viewport, scheme) as tab:
        for name in ["", *SCREENS]:
            page = tab.open(hour(name) if name else "")
            title = SCREENS[name].title if name else "Fleet"
            assert title in page.inner_text("main h1")
            assert page.locator("[role=alert]").count() == 0
            assert too_wide(page) <= 0, name
        assert {re.sub(r"(//[^/]+/).*", r"\1", url) for url in tab.requests} <= {
            "about:blank", re.sub(r"(//[^/]+/).*", r"\1", viewer.address),
        }  # fmt: skip


def test_a_browser_in_the_c_locale_draws_charts(at: Tab) -> None:
    """Chromium then calls its language en-US@posix, which is no tag of one."""
    at.context.add_init_script(
        "Object.defineProperty(Navigator.prototype, 'language', {get: () => 'en-US@posix'})"
    )
    page = at.open(hour("load"))
    assert page.evaluate("navigator.language") == "en"
    assert page.locator(".u-over").count() > 0


def test_a_chart_shows_its_lines_and_the_same_numbers_as_a_table(at: Tab) -> None:
    page = at.open(hour("load"))
    assert painted(page, "load") > 4
    page.click("[data-chart=load] summary")
    page.wait_for_selector("[data-chart=load] thead")
    heads = page.locator("[data-chart=load] thead th").all_inner_texts()
    assert heads == ["Time (UTC)\n2026-11-23", "CPU", "IO"]
    first = page.locator("[data-chart=load] tbody tr").first.locator("td").all_inner_texts()
    assert first == ["02:00:00", "2", "0"]


def test_a_line_can_be_hidden(at: Tab) -> None:
    page = at.open(hour("load"))
    entry = page.locator("[data-chart=load] .legend button", has_text="IO")
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    entry.click()
    assert entry.get_attribute("aria-pressed") == "true"


def test_dragging_over_a_chart_zooms_in_and_the_link_reproduces_it(at: Tab) -> None:
    page = at.open(hour("wal"))
    at.drag("wal", 0.5, 0.75)
    page.wait_for_url(lambda url: "to=1795402800" not in url)
    at.ready()
    found = re.search(r"from=(\d+)&to=(\d+)", page.url)
    assert found
    assert int(found[1]) == pytest.approx(1795401000, abs=60)
    assert int(found[2]) == pytest.approx(1795401900, abs=60)
    linked = at.open(page.url.partition("#")[2])
    assert linked.input_value("label:has-text('From') input").startswith("2026-11-23 02:")


def test_a_click_leads_to_the_sessions_of_that_moment_and_on_to_a_statement(at: Tab) -> None:
    page = at.open(hour("load"))
    box = page.locator("[data-chart=load] .u-over").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 35 / 60, box["y"] + box["height"] / 2)
    page.wait_for_url(lambda url: "screen=moment" in url)
    page.wait_for_selector("h1:has-text('Sessions')")
    waits = page.locator("td", has_text="IO: WALSync")
    assert waits.count() > 0
    page.locator("a", has_text=str(DEAR)).first.click()
    page.wait_for_selector(f"h1:has-text('Top SQL: {TEXTS[DEAR]}')")
    assert page.locator("[data-chart=mean]").count() == 1
    # A minute would be one point, so the statement's history covers the hour around it.
    found = re.search(r"from=(\d+)&to=(\d+)", page.url)
    assert found
    assert int(found[2]) - int(found[1]) == 3600


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [name for name in SCREENS if name not in {"changes", "moment"}])
def test_a_click_on_a_chart_leads_to_sessions(at: Tab, name: str, every: bool) -> None:
    """On the last chart of each screen, or on every chart."""
    more = "&compare=10min" if name == "compare" else ""
    page = at.open(f"screen={name}&from=1795401000&to=1795401600{more}")
    charts = page.locator("figure.chart:has(.u-over)")
    places = range(charts.count())
    for place in places if every else places[-1:]:
        if "screen=moment" in page.url:
            at.open(f"screen={name}&from=1795401000&to=1795401600{more}")
        over = charts.nth(place).locator(".u-over")
        over.scroll_into_view_if_needed()
        box = over.bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_url(lambda url: "screen=moment" in url)
        page.wait_for_selector("h1:has-text('Sessions')")
        assert page.locator("td", has_text="IO: WALSync").count() > 0


def test_a_click_on_a_long_step_shows_all_of_it(at: Tab) -> None:
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


def test_the_keyboard_reads_values_and_zooms(at: Tab) -> None:
    page = at.open(hour("wal"))
    page.focus("[data-chart=wal] .plot")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    reading = page.locator("[data-chart=wal] .reading")
    assert reading.inner_text().startswith("2026-11-23 02:01:00 · WAL 1 MB/s")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "from=1795399200" not in url)
    at.ready()


def test_the_keyboard_stays_with_the_control_that_was_used(at: Tab) -> None:
    page = at.open(hour("wal"))
    zoom = page.wait_for_selector("button[aria-label='Zoom in']")
    zoom.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "from=1795400100&to=1795401900" in url)
    zoom.wait_for_element_state("hidden")  # the new screen has a button of its own
    page.wait_for_selector("button[aria-label='Zoom in']:focus")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "from=1795400550&to=1795401450" in url)
    page.focus("nav a:has-text('Waits')")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Waits')")
    page.wait_for_selector("nav a:has-text('Waits'):focus")


def test_the_focus_stays_when_the_next_screen_is_asked_for_before_the_last_is_drawn(
    at: Tab,
) -> None:
    page = at.open(hour("wal"))
    page.evaluate(
        """async () => {
            const changed = () => new Promise(
                (then) => addEventListener("hashchange", then, { once: true }));
            const links = [...document.querySelectorAll("nav a")];
            const link = links.find((a) => a.textContent === "Waits");
            link.focus();
            for (const until of [1795401600, 1795401500, 1795401400]) {
                const next = changed();
                location.hash = link.hash.replace(/to=[0-9]+/, `to=${until}`);
                await next;
            }
        }"""
    )
    page.wait_for_selector("h1:has-text('Waits')")
    page.wait_for_selector("nav a:has-text('Waits'):focus", timeout=10_000)


def test_the_period_before_is_drawn_and_listed(at: Tab) -> None:
    page = at.open("screen=wal&from=1795401000&to=1795401600&compare=20min")
    page.click("[data-chart=wal] summary")
    page.wait_for_selector("[data-chart=wal] thead")
    heads = page.locator("[data-chart=wal] thead th").all_inner_texts()
    assert heads == ["Time (UTC)\n2026-11-23", "WAL", "WAL, before"]
    page.select_option("label:has-text('Compare') select", "1h")
    page.wait_for_url(lambda url: "compare=1h" in url)
    at.ready()


def test_changes_can_be_taken_out_of_the_charts(at: Tab) -> None:
    """At 02:30 a setting was changed: a violet line. The link tells whether it is drawn."""
    page = at.open(hour("wal"))
    button = page.locator(".moves button", has_text="Changes")
    assert button.get_attribute("aria-pressed") == "true"
    assert violet(page, "wal") > 20
    button.click()
    page.wait_for_url(lambda url: "marks=off" in url)
    page.wait_for_selector(".moves button[aria-pressed=false]")
    assert violet(page, "wal") == 0
    assert "one change in this period" in page.inner_text("main")
    page.click("nav a:has-text('Waits')")
    page.wait_for_selector("h1:has-text('Waits')")
    assert page.locator(".moves button[aria-pressed=false]").count() == 1


def violet(page: Any, chart: str) -> int:
    """Pixels of the colour of changes, or of a shade of it."""
    return int(
        page.evaluate(
            """name => {
                const canvas = document.querySelector(`[data-chart=${name}] canvas`);
                const { width, height } = canvas;
                const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
                let found = 0;
                for (let n = 0; n < data.length; n += 4) {
                    const [red, green, blue, opaque] = data.slice(n, n + 4);
                    if (opaque > 100 && red > green + 10 && blue > green + 30) found++;
                }
                return found;
            }""",
            chart,
        )
    )


def test_a_table_sorts_and_is_saved_as_csv(at: Tab) -> None:
    page = at.open(hour("statements"))
    calls = page.locator("section.table tbody tr td:nth-child(3)")
    assert calls.all_inner_texts() == ["1,740", "35,400"]
    page.locator("section.table th button", has_text="Calls").click()
    assert calls.all_inner_texts() == ["35,400", "1,740"]
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Calls")
    with page.expect_download() as saving:
        page.click("section.table .bar button")
    saved = Path(saving.value.path()).read_text(encoding="utf-8").splitlines()
    assert saved[0].startswith("text,load,calls,mean")
    assert saved[0].endswith("database,role,query_id")
    assert saved[1].startswith("SELECT count(*) FROM orders,")
    assert saved[1].endswith(f"app,web,{DEAR}")


def test_what_is_wrong_is_said_with_a_hint(at: Tab) -> None:
    page = at.page
    page.goto(f"{at.address}#screen=load&instance=nobody")
    page.wait_for_selector("[role=alert]")
    assert "the store has no instance nobody" in page.inner_text("[role=alert]")
    assert f"It has {INSTANCE}." in page.inner_text("[role=alert]")
    # The browser itself logs that an answer was an error.
    assert [said for said in at.complaints if "404" not in said] == []
    at.complaints.clear()


def test_a_theme_is_remembered(at: Tab) -> None:
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
    """Identifiers of statements may be negative, and are saved as they are."""
    source = built_in()["statements"]
    texts = dict(enumerate(HOSTILE, start=-1))
    rows = [
        of_source("statements", database=text, role=text, query_id=n, toplevel=True, calls=1)
        for n, text in texts.items()
    ]
    later = [
        of_source("statements", database=text, role=text, query_id=n, toplevel=True, calls=9,
                  exec_ms=1000.0)
        for n, text in texts.items()
    ]  # fmt: skip
    with Writer(tmp_path, built_in().values()) as writer:
        writer.commit([batch(sample(source, 7200, *rows), instance="a&<b>", texts=texts)])
        writer.commit([batch(sample(source, 7260, *later), instance="a&<b>", texts=texts)])
    with serving_here(tmp_path) as viewer, opened(browser, viewer.address, DESK) as tab:
        page = tab.open(hour("statements"))
        shown = page.locator("td.sql").all_inner_texts()
        assert sorted(shown) == sorted(HOSTILE)
        assert "a&<b>" in page.inner_text("h1")
        assert page.title() == "MrTuner"
        assert page.locator("main script, main img").count() == 0
        with page.expect_download() as saving:
            page.click("section.table .bar button")
        saved = Path(saving.value.path()).read_text(encoding="utf-8")
        assert "'=cmd|" in saved
        identifiers = {line.rpartition(",")[2] for line in saved.splitlines()[1:]}
        assert identifiers == {str(n) for n in texts}


def test_an_empty_store_says_how_to_fill_it(browser: Any, tmp_path: Path) -> None:
    with Writer(tmp_path, built_in().values()):
        pass
    with serving_here(tmp_path) as viewer, opened(browser, viewer.address, PHONE) as tab:
        page = tab.open("")
        assert f"mrtuner record DSN --dir {tmp_path}" in page.inner_text("main")
        assert too_wide(page) <= 0
        assert violations(page) == []


def test_hundreds_of_instances_are_listed_the_worst_first(browser: Any, tmp_path: Path) -> None:
    """The last one has 299 of 400 connections."""
    source = built_in()["connections"]
    with Writer(tmp_path, built_in().values()) as writer:
        for number in range(300):
            found = of_source("connections", clients=number, active=0, maximum=400, ordinary=400)
            writer.commit([batch(sample(source, 0, found), instance=f"db{number}:5432")])
    with serving_here(tmp_path) as viewer, opened(browser, viewer.address, PHONE) as tab:
        page = tab.open("")
        rows = page.locator("[data-table=fleet] tbody tr")
        first = rows.first.locator("td").all_inner_texts()
        assert first[:3] == ["db299:5432", "connections", "74.8 %"]
        age = rows.first.locator("td.stale")
        assert age.inner_text().endswith(" ago")
        assert age.get_attribute("title") == "2026-11-23 00:00:00 UTC"
        page.click("button:has-text('Show more of 300 rows')")
        assert rows.count() == 300
        page.fill("[data-table=fleet] input[type=search]", "nothing like that")
        assert rows.all_inner_texts() == ["No row has this text."]
        page.fill("[data-table=fleet] input[type=search]", "DB17")
        found = page.locator("[data-table=fleet] tbody td:first-child").all_inner_texts()
        # db17 itself and db170 to db179, the worst first.
        assert found == [*(f"db{number}:5432" for number in range(179, 169, -1)), "db17:5432"]
        with page.expect_download() as saving:
            page.click("[data-table=fleet] button:has-text('CSV')")
        assert len(Path(saving.value.path()).read_text(encoding="utf-8").splitlines()) == 12
        page.fill("[data-table=fleet] input[type=search]", "")
        assert violations(page) == []
        rows.first.locator("td:nth-child(2) a").click()
        page.wait_for_selector("h1:has-text('Headroom · db299:5432')")
        page.click("nav a:has-text('Fleet')")
        page.wait_for_selector("[data-table=fleet]")
        page.click("nav a:has-text('Connections')")
        page.wait_for_selector("h1:has-text('Connections and locks · db299:5432')")
        assert "instance=db299" in page.url


def test_while_it_loads_it_says_so_and_a_server_that_is_gone_is_told(at: Tab) -> None:
    page = at.open(hour("wal"))
    asked: list[Any] = []

    def leave_unanswered(route: Any) -> None:
        asked.append(route)

    page.route("**/api/screens/io*", leave_unanswered)
    page.click("nav a:has-text('I/O')")
    page.wait_for_selector("main [role=status]:has-text('Loading')")
    assert page.locator("main h1").count() == 0
    asked[0].abort()
    page.wait_for_selector("[role=alert]:has-text('the server does not respond')")
    page.unroute("**/api/screens/io*")
    page.click("button:has-text('Try again')")
    page.wait_for_selector("h1:has-text('I/O')")
    # The browser itself logs that a request was broken off.
    assert all("net::ERR_FAILED" in said for said in at.complaints)
    at.complaints.clear()


@pytest.mark.parametrize("width", [1280, 1400])
def test_the_controls_stand_in_one_row(browser: Any, viewer: Viewer, width: int) -> None:
    """With the widest that the header may hold: a button to pause, and one to log out."""
    with opened(browser, viewer.address, DESK | {"width": width}) as tab:
        page = tab.open(hour("headroom"))
        page.evaluate(
            """() => {
                const pause = document.querySelector("header .refresh");
                pause.hidden = false;
                const out = pause.cloneNode();
                out.textContent = "Log out";
                document.querySelector("header").append(out);
            }"""
        )
        controls = page.locator("header select, header input, header button").all()
        boxes = sorted((one.bounding_box() for one in controls), key=lambda box: box["x"])
        assert len(boxes) == 8
        middles = [box["y"] + box["height"] / 2 for box in boxes]
        assert max(middles) - min(middles) < 5
        assert all(one["x"] + one["width"] <= other["x"] for one, other in pairwise(boxes))
        assert boxes[-1]["x"] + boxes[-1]["width"] <= width


def test_times_have_24_hours_in_a_country_that_has_12(browser: Any, viewer: Viewer) -> None:
    with opened(browser, viewer.address, DESK) as tab:
        page = tab.open("screen=wal&from=1795442400&to=1795446000")
        to = page.locator("label:has-text('To (UTC)') input")
        assert to.input_value() == "2026-11-23 15:00:00"
        to.fill("2026-11-23 3 PM")
        to.press("Enter")
        assert "24 hours" in to.evaluate("field => field.validationMessage")
        to.fill("2026-11-23 14:30")
        to.press("Enter")
        page.wait_for_url(lambda url: "to=1795444200" in url)


def test_a_long_name_takes_no_room_from_the_other_controls(browser: Any, tmp_path: Path) -> None:
    source = built_in()["connections"]
    found = of_source("connections", clients=1, active=0, maximum=400, ordinary=400)
    name = "shop-production-181.abcdefghijkl.eu-west-1.rds.amazonaws.com:5432"
    with Writer(tmp_path, built_in().values()) as writer:
        writer.commit([batch(sample(source, 0, found), instance=name)])
    with serving_here(tmp_path) as viewer, opened(browser, viewer.address, DESK) as tab:
        page = tab.open("screen=load")
        assert too_wide(page) <= 0
        for one in page.locator("header select, header input").all()[1:]:
            assert one.evaluate(
                """field => {
                    const alone = document.body.appendChild(field.cloneNode(true));
                    const { offsetWidth } = alone;
                    alone.remove();
                    return field.offsetWidth >= offsetWidth - 6;  // outside, times are padded more
                }"""
            )


def test_on_a_phone_no_control_is_cut_off(browser: Any, viewer: Viewer) -> None:
    with opened(browser, viewer.address, PHONE) as tab:
        page = tab.open(hour("headroom"))
        for one in page.locator("header select, header input").all():
            box = one.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= PHONE["width"]
            assert one.evaluate("field => field.scrollWidth <= field.clientWidth")


def test_on_a_phone_the_menu_shows_where_one_is(browser: Any, viewer: Viewer) -> None:
    with opened(browser, viewer.address, PHONE) as tab:
        page = tab.open(hour("changes"))
        box = page.locator("nav [aria-current]").bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= PHONE["width"]


#: A screen with charts, one without, and the two that read another period than the rest.
ZOOMED = ("load", "changes", "moment", "compare")


@pytest.mark.parametrize(
    "name",
    [name if name in ZOOMED else pytest.param(name, marks=pytest.mark.slow) for name in SCREENS],
)
def test_every_screen_can_be_zoomed_and_compared(at: Tab, name: str) -> None:
    """By dragging where there is a chart, else by the button."""
    page = at.open(hour(name))
    charts = page.locator("figure.chart:has(.u-over)")
    if charts.count():
        at.drag(str(charts.first.get_attribute("data-chart")), 0.4, 0.8)
    else:
        page.click("button[aria-label='Zoom in']")
    page.wait_for_url(lambda url: "from=1795399200" not in url)
    at.ready()
    page.select_option("label:has-text('Compare') select", "1h")
    page.wait_for_url(lambda url: "compare=1h" in url)
    at.ready()
    assert SCREENS[name].title in page.inner_text("main h1")
    assert page.input_value("label:has-text('Compare') select") == "1h"
    assert page.locator("[role=alert]").count() == 0


def test_without_javascript_it_says_what_is_missing(browser: Any, viewer: Viewer) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(viewer.address)
    assert "The charts need JavaScript" in page.inner_text("main")
    context.close()


@pytest.mark.parametrize("page", ["", "tuner.html"])
def test_the_scripts_of_a_page_are_small(viewer: Viewer, page: str) -> None:
    """Including what they import, and the worker."""
    _, _, body = viewer.get(page)
    found = set(re.findall(r"assets/[\w.-]+\.js", body.decode()))
    seen: dict[str, int] = {}
    while found:
        name = found.pop()
        script = viewer.get(name)[2]
        seen[name] = len(script)
        more = {f"assets/{one}" for one in re.findall(r"[\w-]+-[\w-]{8}\.js", script.decode())}
        found |= more - seen.keys()
    assert len(seen) >= 2
    assert sum(seen.values()) < 200_000, seen
