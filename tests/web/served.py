"""The viewer, served by the command itself."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
#: Its file is not part of the package; the tests take it from where `make page` put it.
AXE = Path(__file__).parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
#: A page is waited for so long on a busy machine [ms].
PATIENCE = 120_000
in_a_browser = pytest.mark.skipif(
    CHROMIUM is None or not AXE.is_file(),
    reason="needs chromium (apt-get install chromium) and the page (make page)",
)

#: The hour, as an address names it.
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
    """`mrtuner serve` on a free port until the test ends."""
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


def _document(stdout: Iterable[str]) -> str:
    """The document that comes first; it ends with a brace at the beginning of a line."""
    lines: list[str] = []
    for line in stdout:
        lines.append(line)
        if line.rstrip() in {"}", "{}"}:
            break
    return "".join(lines)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of that hour."""
    from history_story import story

    directory = tmp_path_factory.mktemp("recorded")
    story(directory)
    return directory


def sealed_story(directory: Path) -> Path:
    """A store of that hour, all of it in files, as those are that recorders publish."""
    from history_data import MIDNIGHT, SECOND
    from history_story import story

    from mrtuner.history.source import built_in
    from mrtuner.history.store import sealing
    from mrtuner.history.store.writer import Writer

    story(directory)
    with Writer(directory, built_in().values()) as writer:
        sealing.move_to_parquet(writer, MIDNIGHT + 86_400 * 3 * SECOND)
    return directory


@pytest.fixture(scope="session")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That store; for reading only."""
    return sealed_story(tmp_path_factory.mktemp("sealed"))


@pytest.fixture(scope="session")
def viewer(recorded: Path) -> Iterator[Viewer]:
    """Its viewer."""
    from mrtuner.web.app import STATIC

    if not (STATIC / "index.html").is_file():
        pytest.skip("the page is not built: make page")
    with serving(recorded) as found:
        yield found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium, one for all tests: Playwright can be started once in a process."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: make install")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


def violations(page: Any) -> list[str]:
    """What axe-core finds on a page."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
        for one in found
        for node in one["nodes"]
    ]
