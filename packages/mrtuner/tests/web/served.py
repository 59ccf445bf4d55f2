"""The viewer, served by the command itself."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from machine import AXE, PAGE, needs, program, require
from shared import made_once

#: How long to wait for a page on a busy machine [ms].
PATIENCE = 120_000
in_a_browser = needs("chromium", PAGE, "axe-core (make page)")

DESK, PHONE = {"width": 1400, "height": 875}, {"width": 390, "height": 780}
#: The hour of `history_story`, as in an address.
HOUR = "from=2026-11-23T02:00&to=2026-11-23T03:00"


class Viewer:
    """A running `mrtuner serve`."""

    def __init__(self, address: str) -> None:
        self.address = address

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of what is at a path."""
        request = urllib.request.Request(self.address + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, dict(answer.headers), answer.read()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read()

    def screen(self, name: str, query: str = HOUR) -> dict[str, Any]:
        """A screen of the API."""
        status, _, body = self.get(f"api/screens/{name}?{query}")
        assert status == 200, body
        found: dict[str, Any] = json.loads(body)
        return found

    def refused(self, path: str) -> tuple[int, str, str | None]:
        """Status, message and hint of an error."""
        status, _, body = self.get(path)
        error = json.loads(body)["error"]
        return status, error["message"], error["hint"]


@contextmanager
def serving(directory: Path | str, *options: str) -> Iterator[Viewer]:
    """`mrtuner serve` on a free port until the block ends."""
    command = [
        sys.executable, "-c", "from mrtuner.cli import main; main()", "serve", "--dir",
        str(directory), "--port", "0", "--json", *options,
    ]  # fmt: skip
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        try:
            yield Viewer(json.loads(_document(process.stdout))["address"])
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
            assert "Traceback" not in said, said


@contextmanager
def serving_here(directory: Path, **more: Any) -> Iterator[Viewer]:
    """Serve in a thread of this process, for tests that do not need the command itself.

    `more` is what `mrtuner.cli.serve.server` takes.
    """
    from mrtuner.cli.serve import server

    failed = Failed()
    with (
        server(directory, log_config=None, **more) as running,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        logging.getLogger("uvicorn.error").addHandler(failed)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield Viewer(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        finally:
            running.should_exit = True
            thread.join()
            logging.getLogger("uvicorn.error").removeHandler(failed)
    assert failed.told == []


class Failed(logging.Handler):
    """The exceptions that a server met."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[object] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.told.append(record.exc_info)


def _document(stdout: Iterable[str]) -> str:
    """Read the first document, which ends with a brace at the beginning of a line."""
    lines: list[str] = []
    for line in stdout:
        lines.append(line)
        if line.rstrip() in {"}", "{}"}:
            break
    return "".join(lines)


@pytest.fixture(scope="session")
def recorded() -> Path:
    """The store of the hour of `history_story`, which must not be changed."""
    from history_story import story

    return made_once("recorded", story)


@pytest.fixture(scope="session")
def example() -> Path:
    """The store of `mrtuner history example`: three days of an instance of RDS."""
    pytest.importorskip("numpy")
    return made_once("example", write_example)


def write_example(directory: Path) -> None:
    """Write the example's store with the command."""
    from command_line import run

    done = run("history", "example", "--dir", directory)
    assert done.exit_code == 0, done.stderr


def sealed_story(directory: Path) -> Path:
    """A store of that hour with everything in files, as in a store that a recorder publishes."""
    from history_data import MIDNIGHT, SECOND
    from history_story import story

    from mrtuner.history.recording.source import built_in
    from mrtuner.history.store import compaction
    from mrtuner.history.store.writer import Writer

    story(directory)
    with Writer(directory, built_in().values()) as writer:
        compaction.move_to_parquet(writer, MIDNIGHT + 86_400 * 3 * SECOND)
    return directory


@pytest.fixture(scope="session")
def sealed() -> Path:
    """The store of `sealed_story`, which must not be changed."""
    return made_once("sealed", sealed_story)


@pytest.fixture(scope="session")
def viewer(recorded: Path) -> Iterator[Viewer]:
    """A viewer of the `recorded` store."""
    require(PAGE)
    with serving(recorded) as found:
        yield found


@pytest.fixture(scope="session")
def browser(asks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless Chromium, one for all tests: Playwright can start only once in a process."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: make install")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=program("chromium"), args=["--no-sandbox"],
            env={**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("browser"))},
        )  # fmt: skip
        yield running
        running.close()


class Tab:
    """A tab of the browser, and what its page complained about."""

    def __init__(
        self, browser: Any, address: str, viewport: Mapping[str, int], scheme: str
    ) -> None:
        self.context = browser.new_context(
            viewport=viewport, color_scheme=scheme, accept_downloads=True
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.address = address
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

    def drag(self, chart: str, begin: float, end: float) -> None:
        """Drag over a part of a chart; both are shares of its width."""
        over = self.page.locator(f"[data-chart={chart}] .u-over")
        over.scroll_into_view_if_needed()
        box = over.bounding_box()
        middle = box["y"] + box["height"] / 2
        self.page.mouse.move(box["x"] + box["width"] * begin, middle)
        self.page.mouse.down()
        self.page.mouse.move(box["x"] + box["width"] * end, middle, steps=5)
        self.page.mouse.up()


@contextmanager
def opened(
    browser: Any, address: str, viewport: Mapping[str, int], scheme: str = "light"
) -> Iterator[Tab]:
    """A tab, whose page must not complain."""
    tab = Tab(browser, address, viewport, scheme)
    yield tab
    assert tab.complaints == []
    tab.context.close()


def too_wide(page: Any) -> int:
    """Return by how many pixels a page is wider than its window; 0 or less if it fits.

    Elements can be visible before the page's style has come: only a loaded page is measured.
    """
    page.wait_for_load_state("load")
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def rows(screen: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the rows of a screen's table, by the names of its columns."""
    (table,) = [one for one in screen["tables"] if one["name"] == name]
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]]


def painted(page: Any, chart: str) -> int:
    """Return the number of colours in a chart's canvas; an empty one has one or two."""
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


def violations(page: Any) -> list[str]:
    """Return the violations that axe-core finds on a page."""
    page.wait_for_load_state("load")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run({ resultTypes: ['violations'] })")["violations"]
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
        for one in found
        for node in one["nodes"]
    ]
