"""A real server, recorded while it works, on every screen of a real browser."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import NewCluster
from history_recorder import samples
from served import DESK, PHONE, in_a_browser, opened, painted, serving, too_wide, violations

from mrtuner.answers.proof.recorded_loads import has_statements
from mrtuner.history.recording.recorder import Instance, record
from mrtuner.history.recording.sampler import SourceSample
from mrtuner.history.recording.source import Source, built_in
from mrtuner.history.store.writer import Batch, Writer
from mrtuner.postgres.connect import connect
from mrtuner.web.screens import SCREENS
from servers import binaries
from waiting import until

pytestmark = [in_a_browser, pytest.mark.timed, pytest.mark.timeout(600)]

#: How many samples of each source to wait for.
ENOUGH = 4
WORK = "UPDATE stock SET quantity = quantity + 1 WHERE id = 1 + floor(random() * 1000)"


def often() -> Iterator[Source]:
    """All built-in sources, each sampled every second."""
    for source in built_in().values():
        words = source.declaration.split("\n")
        told = ['interval = "1s"' if line.startswith("interval = ") else line for line in words]
        yield replace(source, interval=1.0, declaration="\n".join(told))


def _sampled(place: Path, source: str, number: int) -> bool:
    return samples(place, source) >= number


@contextmanager
def at_work(dsn: str) -> Iterator[None]:
    """One session updates rows, and another waits for a row that a third one has locked."""
    stop = threading.Event()

    def update() -> None:
        with connect(dsn, own_search_path=True) as session:
            while not stop.is_set():
                session.execute(WORK)

    def wait() -> None:
        with connect(dsn, own_search_path=True) as session:
            session.execute("UPDATE stock SET quantity = 0 WHERE id = 0")

    with connect(dsn, own_search_path=True) as holder, holder.transaction():
        holder.execute("UPDATE stock SET quantity = 1 WHERE id = 0")
        threads = [threading.Thread(target=one) for one in (update, wait)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
    for thread in threads:
        thread.join()


@pytest.fixture
def history(new_cluster: NewCluster, tmp_path: Path) -> Path:
    """A recording of some seconds of `at_work`, in which a setting was changed."""
    cluster = new_cluster(
        settings={"shared_preload_libraries": "pg_stat_statements"}
        if has_statements(binaries(18))
        else {}
    )
    dsn = cluster.dsn()
    with connect(dsn, own_search_path=True) as session:
        if has_statements(binaries(18)):
            session.execute("CREATE EXTENSION pg_stat_statements")
        session.execute("CREATE TABLE stock (id int PRIMARY KEY, quantity int)")
        session.execute("INSERT INTO stock SELECT n, 0 FROM generate_series(0, 1000) AS n")
    place, stop = tmp_path / "history", threading.Event()

    def write() -> None:
        with Writer(place, often()) as writer:
            record(writer, [Instance(name="shop", dsn=dsn)], stop)

    with at_work(dsn):
        thread = threading.Thread(target=write)
        thread.start()
        try:
            until(lambda: samples(place, "settings") >= 2)
            with connect(dsn) as session:
                session.execute("ALTER SYSTEM SET work_mem = '5MB'")
                session.execute("SELECT pg_reload_conf()")
            done = samples(place, "settings")
            for source in ("sessions", "wal", "tables", "connections", "settings"):
                until(partial(_sampled, place, source, done + ENOUGH))
        finally:
            stop.set()
            thread.join()
    return place


def test_every_screen_shows_what_was_recorded_of_a_real_server(browser: Any, history: Path) -> None:
    with serving(history) as viewer, opened(browser, viewer.address, DESK) as tab:
        for name in SCREENS:
            page = tab.open(f"screen={name}&since=1min")
            assert page.locator("[role=alert]").count() == 0, name
        page = tab.open("screen=load&since=1min")
        assert painted(page, "load") > 4
        assert "Lock: transactionid" in page.inner_text("[data-table=events]")
        tab.drag("load", 0.5, 0.9)
        page.wait_for_url(lambda url: "from=" in url)
        page = tab.open("screen=vacuum&since=1min")
        assert "public.stock" in page.inner_text("[data-table=tables]")
        page = tab.open("screen=connections&since=1min")
        assert "Lock: transactionid" in page.inner_text("[data-table=blocked]")
        page = tab.open("screen=changes&since=1min")
        assert "work_mem: 4MB → 5MB" in page.inner_text("[data-table=changes]")
        if has_statements(binaries(18)):
            page = tab.open("screen=statements&since=1min")
            page.locator("tr:has-text('UPDATE stock SET quantity = quantity') a").first.click()
            page.wait_for_selector("[data-chart=mean] canvas")
        page.click("a:has-text('Tune this instance')")
        page.wait_for_selector(".answer[data-of]")
        assert "shared_buffers" in page.inner_text(".answer")


@pytest.mark.slow
def test_no_screen_of_a_real_server_has_a_flaw_and_each_fits_a_phone(
    browser: Any, history: Path
) -> None:
    """test_viewer_pages.py checks the same for the example's days, in every run."""
    with serving(history) as viewer:
        with opened(browser, viewer.address, DESK) as tab:
            for name in SCREENS:
                assert violations(tab.open(f"screen={name}&since=1min")) == [], name
        with opened(browser, viewer.address, PHONE, "dark") as tab:
            for name in ["", *SCREENS]:
                page = tab.open(f"screen={name}&since=1min" if name else "")
                assert too_wide(page) <= 0, name


def test_what_is_recorded_is_shown_by_itself_until_it_is_paused(
    tmp_path: Path, browser: Any
) -> None:
    """The page's clock goes on by 20 seconds at a time; a recording that ended is left alone."""
    source = built_in()["sessions"]
    now = time.time_ns() // 1000

    def sampled(directory: Path, at: int) -> None:
        with Writer(directory, [source]) as writer:
            one = SourceSample(source=source, at=at, monotonic=at / 1e6, rows=(), cost=0.0)
            writer.commit([Batch(instance="db", samples=(one,))])

    for place, at in (("goes on", now), ("ended", now - 86_400_000_000)):
        sampled(tmp_path / place, at)
    with serving(tmp_path / "goes on") as viewer, opened(browser, viewer.address, DESK) as tab:
        tab.page.clock.install()
        page = tab.open("screen=load")
        asked = partial(_asked, tab)
        before = asked()
        page.clock.fast_forward(20_000)
        until(lambda: asked() == before + 1)
        page.wait_for_selector("main h1")
        clock = "new Date().toISOString().slice(11, 19)"
        first = page.evaluate(clock)
        page.get_by_role("button", name="Pause").click()
        last = page.evaluate(clock)
        paused = re.search(r"; paused at ([\d:]+) UTC", page.inner_text("main .age"))
        assert paused is not None
        assert first <= paused[1] <= last or last < first  # past midnight
        page.clock.fast_forward(60_000)
        old = re.search(r"last sample ([\d.]+) s ago; paused", page.inner_text("main .age"))
        assert old is not None
        assert float(old[1]) >= 80
        page.wait_for_timeout(500)
        assert asked() == before + 1
        page.locator("nav a", has_text="Fleet").click()
        page.wait_for_selector("h1:has-text('Fleet')")
        assert page.inner_text("main .age").startswith("paused at")
        page.go_back()
        page.wait_for_selector("h1:has-text('Waits')")
        before = asked() - 1
        page.get_by_role("button", name="Refresh").click()
        until(lambda: asked() == before + 2)
        assert "paused" not in page.inner_text("main .age")
    with serving(tmp_path / "ended") as viewer, opened(browser, viewer.address, DESK) as tab:
        page = tab.open("screen=load")
        assert page.get_by_role("button", name="Pause").count() == 0


def _asked(tab: Any) -> int:
    """How often the page asked for a screen; Playwright hears of it only while it is called."""
    tab.page.wait_for_timeout(50)
    return sum("api/screens/" in address for address in tab.requests)
