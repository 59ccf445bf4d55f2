"""A real browser for the tests: Debian's chromium, controlled over a pipe.

Source of the messages: the Chrome DevTools Protocol; ``--remote-debugging-pipe`` reads from
descriptor 3 and writes to 4. Each message is JSON, followed by a zero byte.
"""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from machine import program


class Held(Exception):
    """The browser did not respond for a minute on a busy machine; conftest.py tries again."""


PATIENCE_S = 60
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--disable-extensions", "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One page of a running browser, and what it complained about."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._buffer, self._last = to, back, b"", 0
        self.complaints: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.tell(f"{domain}.enable")
        self.requests: list[str] = []

    _session: str | None = None

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; keep complaints that arrive meanwhile."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session and not method.startswith("Target."):
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def tell(self, method: str, **parameters: Any) -> None:
        """Send a command and drop its result."""
        self.ask(method, **parameters)

    def show(
        self, file: Path, *, width: int, height: int = 900, scheme: str = "light", media: str = ""
    ) -> None:
        """Open a file at this width [CSS pixels]; `scheme` light or dark, `media` print or none."""
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        self.tell("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])  # fmt: skip
        self.tell("Page.navigate", url=file.as_uri())
        deadline = time.monotonic() + PATIENCE_S
        while self.run("document.readyState + location.protocol") != "completefile:":
            if time.monotonic() > deadline:
                raise Held("the page did not load")
            time.sleep(0.02)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, *, whole: bool = True) -> bytes:
        """A PNG of the page."""
        answer = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])

    def pdf(self) -> bytes:
        """The page as it would be printed."""
        answer = self.ask("Page.printToPDF", preferCSSPageSize=True, paperWidth=8.27,
                          paperHeight=11.69)  # fmt: skip
        return base64.b64decode(answer["data"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._back], [], [], PATIENCE_S)
            more = os.read(self._back, 1 << 16) if ready else b""
            if not more:
                raise Held("the browser does not answer")
            self._buffer += more
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._listen(message)
        return message

    def _listen(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "Log.entryAdded":
                self.complaints.append(message["params"]["entry"]["text"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.complaints.append(str(message["params"]))
            case "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Run a browser with an empty profile; stop it at the end of the block."""
    # Its socket lies in TMPDIR, and a path of more than 107 bytes is none: pytest's are too long.
    with tempfile.TemporaryDirectory(prefix="b-", ignore_cleanup_errors=True) as short:
        yield from _running(program("chromium"), profile, short)


def _running(found: str, profile: Path, short: str) -> Iterator[Browser]:
    page_reads, we_write = os.pipe()
    we_read, page_writes = os.pipe()
    with (profile / "log").open("wb") as log:
        # A shell puts our pipes where the browser expects them.
        shell = f'exec "$@" 3</dev/fd/{page_reads} 4>/dev/fd/{page_writes}'
        started = subprocess.Popen(
            ["sh", "-c", shell, "sh", found, *_OPTIONS, f"--user-data-dir={profile}"],
            pass_fds=(page_reads, page_writes),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "TMPDIR": short},
            start_new_session=True,
        )
    os.close(page_reads)
    os.close(page_writes)
    try:
        yield Browser(we_write, we_read)
    finally:
        os.close(we_write)  # the browser ends when its pipe is closed
        try:
            started.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, 9)
            started.wait()
        os.close(we_read)
