"""Every page on the example's three days, at desk and phone width, light and dark; and the ceiling,
found from the first page on.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from served import (
    DESK,
    PHONE,
    Viewer,
    in_a_browser,
    opened,
    painted,
    serving,
    too_wide,
    violations,
)

from machine import PAGE, require
from mrtuner.history.example.statements import LOADS
from mrtuner.limits.examples.upgrade import DAYS, START
from mrtuner.web.screens import SCREENS

pytestmark = [in_a_browser, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def shop(example: Path) -> Iterator[Viewer]:
    """A viewer of the example."""
    require(PAGE)
    with serving(example) as found:
        yield found


def over(begin: datetime, end: datetime) -> str:
    return f"from={int(begin.timestamp())}&to={int(end.timestamp())}"


NOON = START + timedelta(hours=12)
MONDAY = over(START + timedelta(hours=6), START + timedelta(hours=20))
#: Nothing is older than Monday, so Tuesday is compared with it.
TUESDAY = over(START + timedelta(hours=30), START + timedelta(hours=44))
#: Each page of the viewer: its address, and what has to be there before it is checked.
PAGES = {
    "fleet": ("#", "[data-table=fleet] tbody tr"),
    **{
        name: (f"#screen={name}&{MONDAY}", "main .bar h1")
        for name in SCREENS
        if name not in {"moment", "compare"}
    },
    "moment": (
        f"#screen=moment&{over(NOON, NOON + timedelta(minutes=1))}",
        "[data-table=sessions] tbody tr",
    ),
    "compare": (f"#screen=compare&{TUESDAY}&compare=1d", "[data-chart=load] canvas"),
    "statement": (f"#screen=statements&{MONDAY}&statement={LOADS[0].query_id}", "main canvas"),
    "tune this instance": ("tuner.html?instance=shop-prod", ".answer[data-of]"),
    "tuner": ("tuner.html#memory=64GB&cpus=8&storage=ssd", ".answer[data-of*='64GB']"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("window", "scheme"),
    [
        pytest.param(DESK, "light", id="desk light"),
        pytest.param(PHONE, "dark", id="phone dark"),
        pytest.param(DESK, "dark", id="desk dark", marks=pytest.mark.slow),
        pytest.param(PHONE, "light", id="phone light", marks=pytest.mark.slow),
    ],
)
def test_every_page_fits_and_has_no_flaw(
    browser: Any, shop: Viewer, window: dict[str, int], scheme: str
) -> None:
    with opened(browser, shop.address, window, scheme) as tab:
        page = tab.page
        for name, (address, ready) in PAGES.items():
            page.goto("about:blank")
            page.goto(shop.address + address)
            page.wait_for_selector(ready)
            assert page.evaluate("document.documentElement.dataset.theme") == scheme
            assert page.locator("[role=alert]").count() == 0, name
            assert too_wide(page) <= 0, name
            assert not cut_off(page), name
            charts = page.locator("figure.chart:has(canvas)")
            for one in charts.all():
                chart = str(one.get_attribute("data-chart"))
                assert painted(page, chart) > 3, (name, chart)
            assert violations(page) == [], name


def test_a_line_has_the_same_colour_in_every_chart(browser: Any, shop: Viewer) -> None:
    """Checked with tables, whose order differs between charts."""
    with opened(browser, shop.address, DESK) as tab:
        page = tab.open(f"screen=vacuum&{MONDAY}")
        painted_as: dict[str, set[str]] = {}
        orders = set()
        for legend in page.locator(".legend").all():
            names = legend.locator("button").all_inner_texts()
            classes = "all => all.map(one => one.className)"
            swatches = legend.locator(".swatch").evaluate_all(classes)
            assert len(set(swatches)) == len(swatches)
            orders.add(tuple(name for name in names if name in {"public.events", "public.orders"}))
            for name, swatch in zip(names, swatches, strict=True):
                painted_as.setdefault(name, set()).add(swatch)
        assert len(orders - {()}) == 2
        assert {name for name, found in painted_as.items() if len(found) > 1} == set()


def cut_off(page: Any) -> list[str]:
    """Headings, labels and fields whose text is wider than they are."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("h1, h2, label span, header select, nav a, th")]
            .filter((one) => one.offsetParent !== null && one.scrollWidth > one.clientWidth + 1
                && getComputedStyle(one).display !== "inline"
                && getComputedStyle(one).position !== "absolute")
            .map((one) => one.outerHTML.slice(0, 200))"""
    )
    return found


def test_from_the_first_page_on_one_finds_what_held_the_instance_down(
    browser: Any, shop: Viewer
) -> None:
    """Fleet, the limit it names, the shaded time, the ceiling, the remedy: five moves."""
    with opened(browser, shop.address, DESK) as tab:
        page = tab.open("")
        page.click("[data-table=fleet] tbody td:nth-child(2) a")
        page.wait_for_selector("h1:has-text('Headroom')")
        # Its class changed on Wednesday: what was reached before is reported with the old limits.
        advice = page.inner_text("[data-table=remedies]")
        assert "From 2026-03-03 12:00 to 2026-03-04 04:00 UTC: throughput pegged at 213" in advice
        assert "Since 2026-03-04 04:00 UTC, with other limits: no hard limit was reached" in advice
        levels = page.locator("[data-table=ceilings] tbody td:nth-child(2)").all_inner_texts()
        assert levels[:2] == ["212.5 MB/s", "437.5 MB/s"]
        assert "nknown throughput ceiling" not in page.inner_text("main")
        # A week up to the last sample, of which the last three days were recorded.
        end = START + timedelta(days=DAYS)
        begin = end - timedelta(days=7)
        places = [(START + timedelta(hours=hour) - begin) / timedelta(days=7) for hour in (7, 19)]
        tab.drag("throughput", *places)
        page.wait_for_url(lambda url: "from=" in url)
        page.wait_for_selector("main .bar h1")
        reached = page.locator("[data-chart=throughput] .ceilings a")
        reached.filter(has_text="212.5 MB/s: reached").wait_for()  # the screen before had others
        assert reached.first.inner_text() == (
            "instance throughput, before December 2019 212.5 MB/s: reached"
        )
        reached.first.click()
        page.wait_for_selector("[data-table=remedies]:focus")
        advice = page.inner_text("[data-table=remedies]")
        assert "Raising provisioned IOPS will not help" in advice
        assert "db.r5.4xlarge" in advice
