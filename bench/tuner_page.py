"""The static tuner page in Chromium: how long to its first answer, and to each further one.

    make bench-tuner-page                        # seven openings, and fifty machines in the last

Each opening is a new browser context, without a cache, and the files come from this machine: what a
network takes for some 6 MB comes on top. A further answer is another machine in the address, timed
in the page, from the change until the answer is drawn.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import sync_playwright

from machine import program

ROOT = Path(__file__).parents[1]
#: Changes the address to another machine, and returns how long its answer took to be drawn [ms].
_ANSWERED = """link => new Promise(done => {
    const began = performance.now();
    const look = () => {
        if (document.querySelector(`.answer[data-of='${link}']`)) done(performance.now() - began);
        else setTimeout(look, 0);
    };
    location.hash = link;
    look();
})"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--openings", type=int, default=7)
    parser.add_argument("--machines", type=int, default=50)
    options = parser.parse_args()
    with TemporaryDirectory() as name, sync_playwright() as playwright:
        subprocess.run([sys.executable, ROOT / "tools" / "build_site.py", name], check=True)
        handler = partial(_Quiet, directory=name)
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            browser = playwright.chromium.launch(
                executable_path=program("chromium"), args=["--no-sandbox"]
            )
            address = f"http://127.0.0.1:{server.server_address[1]}/"
            _measure(browser, address, options.openings, options.machines)
            browser.close()
            server.shutdown()


def _measure(browser: Any, address: str, openings: int, machines: int) -> None:
    first = []
    for _ in range(openings):
        page = browser.new_context().new_page()
        page.set_default_timeout(120_000)
        began = time.perf_counter()
        page.goto(address)
        page.wait_for_selector(".answer[data-of]")
        first.append((time.perf_counter() - began) * 1000)
    links = [f"memory={n + 2}GB&cpus={n % 15 + 1}" for n in range(machines)]
    further = [float(page.evaluate(_ANSWERED, link)) for link in links]
    print(f"first answer: {_told(first)}")
    print(f"each further one: {_told(further)}")


def _told(taken: Sequence[float]) -> str:
    last = sorted(taken)[max(0, round(0.95 * len(taken)) - 1)]
    return (
        f"median {statistics.median(taken):.0f} ms, 95 % within {last:.0f} ms ({len(taken)} times)"
    )


if __name__ == "__main__":
    main()
