"""The viewer in front of an incident: from a sentence on the first screen to the guilty session."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from history_data import batch, sample
from history_incident import BEGIN, TEXTS, WAITING, incident
from history_story import INSTANCE, of_source
from served import (
    DESK,
    PHONE,
    Tab,
    Viewer,
    in_a_browser,
    opened,
    serving_here,
    too_wide,
    violations,
)

from machine import PAGE, require
from mrtuner.history.recording.source import built_in
from mrtuner.history.store.writer import Writer
from shared import made_once

pytestmark = in_a_browser
#: 2026-11-23 02:00 to 03:00, and the minute of the queue.
HOUR = "from=1795399200&to=1795402800"
MINUTE = "from=1795400400&to=1795400460"


@pytest.fixture(scope="module")
def shop() -> Iterator[Viewer]:
    require(PAGE)
    with serving_here(made_once("incident", incident)) as found:
        yield found


@pytest.fixture
def at(browser: Any, shop: Viewer) -> Iterator[Tab]:
    with opened(browser, shop.address, {"width": 1280, "height": 800}) as tab:
        yield tab


def test_a_sentence_opens_the_minute_and_the_holder_is_two_clicks_away(at: Tab) -> None:
    page = at.open(f"screen=load&{HOUR}")
    told = page.locator(".story li")
    assert told.count() == 4  # that the log and ceilings were not looked at, and two incidents
    # The latest comes first, and what was not looked at last.
    queue = told.nth(1)
    assert told.nth(0).inner_text().startswith("02:40:00 – 02:42:00")
    assert queue.inner_text().startswith("02:20:00 – 02:20:40")
    # It is above the chart, without scrolling.
    below = page.locator("[data-chart=load]").bounding_box()["y"]
    assert told.last.bounding_box()["y"] < below < 800
    queue.locator("a").click()
    page.wait_for_selector("h1:has-text('Sessions')")
    first = page.locator("[data-table=groups] tbody tr").first
    assert TEXTS[WAITING] in first.inner_text()
    assert first.is_visible()
    tree = page.locator("[data-table=blocked] tbody tr")
    assert tree.first.locator("td").all_inner_texts()[:6] == [
        "02:20:00", "02:20:40", "500", "30", "psql", "idle in transaction",
    ]  # fmt: skip
    assert page.locator("[data-table=blocked] th").first.inner_text() == "From\n2026-11-23"
    indents = [tree.nth(place).locator("a").first.bounding_box()["x"] for place in range(3)]
    assert indents[0] < indents[1] < indents[2]
    assert "checkpointer" in page.inner_text("[data-table=background]")
    tree.first.locator("a").first.click()
    page.wait_for_selector("h2:has-text('Process 500')")
    assert set(page.locator("[data-table=sessions] tbody td:nth-child(2)").all_inner_texts()) == {
        "500"
    }


def test_a_storm_opens_the_connections_around_its_time(at: Tab) -> None:
    """From five minutes before it to five minutes after."""
    page = at.open(f"screen=load&{HOUR}")
    page.locator(".story a", has_text="rose to 90 of 100").click()
    page.wait_for_selector("h1:has-text('Connections')")
    assert "from=1795401300&to=1795402020" in page.url


def test_a_quiet_period_says_that_nothing_went_wrong(at: Tab) -> None:
    page = at.open("screen=load&from=1795400520&to=1795401300")
    log = "the server's log was not read: sessions that were refused are not looked for"
    ceilings = "ceilings are not looked for: the host of db:5432 was not recorded"
    assert re.search(
        rf"Nothing went wrong in what was looked at.\n+{log}\n+{ceilings}",
        page.inner_text(".story"),
    )
    page = at.open("screen=load&from=1795402200&to=1795404000")
    said = page.inner_text(".story")
    assert re.search(
        rf"Nothing went wrong in what .*\n+nothing was recorded after .*\n+{log}\n+{ceilings}",
        said,
    )


def test_a_tree_that_is_sorted_is_no_tree(at: Tab) -> None:
    page = at.open(f"screen=connections&{MINUTE}")
    page.locator("[data-table=blocked] th button", has_text="Age of the transaction").click()
    rows = page.locator("[data-table=blocked] tbody tr")
    xs = {rows.nth(place).locator("a").first.bounding_box()["x"] for place in range(3)}
    assert len(xs) == 1


@pytest.mark.parametrize(("window", "scheme"), [(DESK, "light"), (PHONE, "dark")])
def test_its_screens_fit_and_have_no_flaw(
    browser: Any, shop: Viewer, window: dict[str, int], scheme: str
) -> None:
    addresses = (
        f"screen=load&{HOUR}", f"screen=moment&{MINUTE}", f"screen=moment&{MINUTE}&process=500",
        f"screen=connections&{HOUR}", f"screen=compare&{HOUR}",
    )  # fmt: skip
    with opened(browser, shop.address, window, scheme) as tab:
        for address in addresses:
            page = tab.open(address)
            assert too_wide(page) <= 0, address
            assert violations(page) == [], address


def test_every_axis_has_a_unit_and_none_is_empty(browser: Any, viewer: Viewer) -> None:
    """A row of charts is full, and a chart of zeros is a line of text."""
    with opened(browser, viewer.address, {"width": 1280, "height": 800}) as tab:
        for name in ("load", "connections", "wal", "io", "headroom"):
            page = tab.open(f"screen={name}&{HOUR}")
            drawn = page.locator(".charts .chart")
            boxes = [one.bounding_box() for one in drawn.all()]
            rows: dict[float, float] = {}
            for box in boxes:
                rows[box["y"]] = rows.get(box["y"], 0) + box["width"]
            assert max(rows.values()) - min(rows.values()) < 20, name
            assert page.locator(".charts .chart:not(:has(.u-over))").count() == 0
        page = tab.open(f"screen=load&{HOUR}")
        assert page.inner_text("[data-chart=load] .unit") == "sessions"
        page = tab.open(f"screen=connections&{HOUR}")
        # Nobody was idle, waited or had a transaction open for long: not recorded, or 0.
        assert page.locator(".without [data-chart=transactions] .empty").count() == 1


def test_reads_have_one_colour_on_every_screen(browser: Any, tmp_path: Path) -> None:
    """Of the disk, of the host, and of a statement."""
    known = built_in()
    work = {"database": "app", "role": "web", "query_id": 1, "toplevel": True}
    with Writer(tmp_path, known.values()) as writer:
        for n in range(10):
            host = of_source(
                "host", disk_reads=10 * n, disk_writes=20 * n, disk_read_time=0.1 * n,
                disk_write_time=0.5 * n, cpus=2,
            )  # fmt: skip
            done = of_source(
                "statements", calls=n, exec_ms=9.0 * n, read_ms=3.0 * n, blocks_read=n,
                blocks_hit=n, **work,
            )  # fmt: skip
            at = BEGIN + 60 * n
            read = (sample(known["host"], at, host), sample(known["statements"], at, done))
            writer.commit([batch(*read, instance=INSTANCE)])
    seen: dict[str, set[str | None]] = {}
    with serving_here(tmp_path) as viewer, opened(browser, viewer.address, DESK) as tab:
        for screen in ("io", "headroom", "statements&statement=1"):
            page = tab.open(f"screen={screen}&{HOUR}")
            for entry in page.locator(".legend button").all():
                name = entry.inner_text()
                for kind in ("read", "writ"):
                    if kind in name:
                        swatch = entry.locator(".swatch").get_attribute("class")
                        seen.setdefault(name, set()).add(swatch)
    assert seen == {
        name: {"swatch s0" if "read" in name else "swatch s1"}
        for name in ("reads", "writes", "read", "write", "of it reading")
    }


def _painted_as(page: Any, chart: str, *lines: str, begin: float = 0.0) -> list[int]:
    """Pixels of each line's colour in a chart, from a share of its width on."""
    found: list[int] = page.evaluate(
        """([chart, lines, begin]) => {
            const figure = document.querySelector(`[data-chart=${chart}]`);
            const canvas = figure.querySelector("canvas");
            const { width, height } = canvas;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            const seen = {};
            for (let n = 0; n < data.length; n += 4)
                if ((n / 4) % width >= begin * width) {
                    const colour = data.slice(n, n + 3).join(", ");
                    seen[colour] = (seen[colour] ?? 0) + 1;
                }
            return lines.map((line) => {
                const swatch = figure.querySelector(`[title="${line}"] .swatch`);
                return seen[getComputedStyle(swatch).backgroundColor.slice(4, -1)] ?? 0;
            });
        }""",
        [chart, lines, begin],
    )
    return found


def test_an_area_shows_its_own_part_of_a_sum_where_another_begins(
    browser: Any, tmp_path: Path
) -> None:
    """In the first step, nothing is known of either table: a gap.

    Then 10 rows a second of the one, and at the end 20 of the other: in rows a second times
    minutes, areas of 10 × 10 = 100 and 5 × 20 / 2 = 50.
    """
    source = built_in()["tables"]
    known = {"database": "shop", "schema": "public", "live": 1, "dead": 0}
    with Writer(tmp_path, built_in().values()) as writer:
        for n in range(4):
            old = of_source("tables", name="old", relation=1, updated=3000 * n, deleted=0, **known)
            new = of_source(
                "tables", name="new", relation=2, updated=6000 * (n - 2), deleted=0, **known
            )
            read = sample(source, BEGIN + 300 * n, *([old, new] if n >= 2 else [old]))
            writer.commit([batch(read, instance=INSTANCE)])
    with serving_here(tmp_path) as viewer, opened(browser, viewer.address, DESK) as tab:
        page = tab.open("screen=vacuum&from=1795399200&to=1795400400")
        of_old, of_new = _painted_as(page, "changed", "public.old", "public.new")
        assert 1.8 < of_old / of_new < 2.2


def test_a_step_between_two_gaps_is_seen(browser: Any, tmp_path: Path) -> None:
    """One session ran for three samples at 02:00, and in one sample at 02:40."""
    source = built_in()["sessions"]
    with Writer(tmp_path, [source]) as writer:
        for second in (0, 10, 20, 2400):
            read = sample(source, BEGIN + second, of_source("sessions", pid=1, state="active"))
            writer.commit([batch(read, instance=INSTANCE)])
    with serving_here(tmp_path) as viewer, opened(browser, viewer.address, DESK) as tab:
        page = tab.open(f"screen=load&{HOUR}")
        assert _painted_as(page, "load", "CPU", begin=0.5)[0] > 5


def test_a_wait_has_the_colour_of_its_class_and_a_single_limit_is_named_once(
    at: Tab, browser: Any, viewer: Viewer
) -> None:
    def swatches(page: Any) -> dict[str, str]:
        found = page.locator("[data-chart=load] .legend button").all()
        return {one.inner_text(): one.locator(".swatch").get_attribute("class") for one in found}

    by_class = swatches(at.open(f"screen=load&{MINUTE}"))
    by_event = swatches(at.open(f"screen=moment&{MINUTE}"))
    assert by_class["Lock"] in {by_event["Lock: transactionid"], by_event["Lock: tuple"]}
    assert by_class["CPU"] == by_event["CPU"]
    with opened(browser, viewer.address, DESK) as tab:
        # The CPUs are drawn; max_connections is far above the lines.
        page = tab.open(f"screen=load&{HOUR}")
        assert page.locator("[data-chart=load] .ceilings").count() == 0
        page = tab.open(f"screen=connections&{HOUR}")
        assert page.inner_text("[data-chart=connections] .ceilings").split("\n") == [
            "Limit:", "max_connections 100",
        ]  # fmt: skip


def test_a_change_leads_to_before_and_after(browser: Any, viewer: Viewer) -> None:
    """max_wal_size was changed at 02:30; what follows was recorded until 02:59:59."""
    with opened(browser, viewer.address, DESK) as tab:
        for screen, within in (("wal", "details.changes"), ("changes", "[data-table=changes]")):
            page = tab.open(f"screen={screen}&{HOUR}")
            page.evaluate("document.querySelector('details.changes')?.setAttribute('open', '')")
            page.locator(f"{within} a", has_text="before and after").first.click()
            page.wait_for_selector("h1:has-text('Before and after')")
            assert "from=1795401000&to=1795402799&compare=1799s" in page.url
            chosen = page.locator("label:has-text('Compare') option:checked")
            assert chosen.inner_text() == "30 min before"
            title = page.inner_text("[data-table=statements] h2")
            assert "before is 2026-11-23 02:00 to 2026-11-23 02:29 UTC" in title


def test_too_little_to_read_is_0(browser: Any, tmp_path: Path) -> None:
    """One call of 0.1 ms in twenty minutes keeps 8.3e-8 sessions busy; its own time can be read."""
    source = built_in()["statements"]
    work = {"database": "app", "role": "web", "query_id": 1, "toplevel": True}
    with Writer(tmp_path, built_in().values()) as writer:
        for minute in range(21):
            row = of_source("statements", calls=minute // 20, exec_ms=minute // 20 / 10, **work)
            writer.commit([
                batch(sample(source, BEGIN + 60 * minute, row), instance=INSTANCE,
                      texts={1: "SELECT 1"})
            ])  # fmt: skip
    with serving_here(tmp_path) as viewer, opened(browser, viewer.address, DESK) as tab:
        page = tab.open(f"screen=statements&{HOUR}")
        cells = page.locator("[data-table=statements] tbody td").all_inner_texts()
        assert cells[:4] == ["SELECT 1", "0", "1", "100 µs"]
        assert cells[-1] == "1"
        assert page.locator("[data-chart=time] .empty").inner_text() == "0 in all samples"
        page = tab.open(f"screen=statements&statement=1&{HOUR}")
        assert page.locator("[data-chart=mean] canvas").count() == 1
