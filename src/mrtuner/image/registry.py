"""A private registry that counts what it receives.

Debian's docker-registry (distribution) listens on a socket in a directory of ours. In front of it,
on a free port of the loopback interface, a relay passes every request on and counts its body: a
blob that is sent twice counts twice, which the registry's storage would not show.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Final, cast

from mrtuner.errors import MissingPart, MrTunerError
from mrtuner.image.builder import ends_with_us
from mrtuner.wording import last_line

PROGRAM: Final = "docker-registry"
_CHUNK: Final = 1 << 16
_PATIENCE_S: Final = 60.0
#: Headers of a single connection: the relay drops them. Source: RFC 9110, section 7.6.1.
_HOP: Final = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "expect"}
)


@dataclass(frozen=True, slots=True)
class Received:
    """What was received since the counter was last set to zero [bytes]."""

    blobs: int = 0  # layers and configurations
    manifests: int = 0


class Registry(AbstractContextManager["Registry"]):
    """A registry that runs during a `with` block; `directory` holds its files, by a short path."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._socket = directory / "socket"
        self._relay: _Relay | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._counter = _Counter()

    def __enter__(self) -> Registry:
        require()
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "config.yml").write_text(json.dumps(self._settings()), encoding="utf-8")
        try:
            with (self.directory / "log").open("wb") as log:
                self._process = subprocess.Popen(
                    [*ends_with_us(), PROGRAM, "serve", str(self.directory / "config.yml")],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True,  # a Ctrl-C is for us, who stop it after its clients
                )  # fmt: skip
            self._wait()
            self._relay = _Relay(self._socket, self._counter)
            threading.Thread(target=self._relay.serve_forever, args=(0.05,), daemon=True).start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._relay is not None:
            self._relay.shutdown()
            self._relay.server_close()
            self._relay = None
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    @property
    def address(self) -> str:
        """Host and port, as in the name of an image."""
        if self._relay is None:
            raise MrTunerError("the registry is not running")
        return f"127.0.0.1:{self._relay.server_port}"

    def take(self) -> Received:
        """Return what was received since this was last called."""
        return self._counter.take()

    def files(self) -> set[Path]:
        """The files that it stores now, to which `forget` can return."""
        kept = self.directory / "kept"
        return {path for path in kept.rglob("*") if not path.is_dir()}

    def forget(self, since: set[Path]) -> None:
        """Remove what was pushed since `files` was called: the registry does not cache files."""
        for path in self.files() - since:
            path.unlink()

    def _settings(self) -> dict[str, object]:
        """The configuration: JSON is YAML. Source: distribution 2.8, docs/configuration.md."""
        return {
            "version": "0.1",
            "log": {"level": "error", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(self.directory / "kept")}},
            "http": {"net": "unix", "addr": str(self._socket), "relativeurls": True},
        }

    def _wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not self._answers():
            dead = self._process is None or self._process.poll() is not None
            if dead or time.monotonic() > deadline:
                said = (self.directory / "log").read_text(encoding="utf-8", errors="replace")
                raise MrTunerError(
                    f"the registry does not start: {last_line(said)}",
                    f"Try {PROGRAM} serve by hand.",
                )
            time.sleep(0.02)

    def _answers(self) -> bool:
        connection = _Connection(self._socket)
        try:
            connection.request("GET", "/v2/")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


def require() -> None:
    """Raise MissingPart if the registry's program is not installed."""
    if shutil.which(PROGRAM) is None:
        raise MissingPart(
            f"program {PROGRAM} not found", f"Install it, on Debian: apt-get install {PROGRAM}."
        )


class _Counter:
    """Counts the bytes that pass through the relay."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen = Received()

    def take(self) -> Received:
        with self._lock:
            seen, self._seen = self._seen, Received()
        return seen

    def passed(self, size: int, *, manifest: bool) -> None:
        with self._lock:
            seen = self._seen
            self._seen = Received(
                seen.blobs + (0 if manifest else size), seen.manifests + (size if manifest else 0)
            )


class _Connection(HTTPConnection):
    """HTTP through a socket of the file system."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_PATIENCE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class _Relay(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, behind: Path, counter: _Counter) -> None:
        self.behind, self.counter = behind, counter
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: only the count matters."""

    def _relayed(self) -> None:
        relay = cast(_Relay, self.server)
        behind = _Connection(relay.behind)
        try:
            self._ask(behind)
            self._answer(behind.getresponse())
        except (OSError, HTTPException):
            self.close_connection = True
        finally:
            behind.close()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _relayed

    def _ask(self, behind: HTTPConnection) -> None:
        behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        chunked = self.headers.get("Transfer-Encoding", "").lower() == "chunked"
        for name, value in self.headers.items():
            if name.lower() not in _HOP:
                behind.putheader(name, value)
        if chunked:
            behind.putheader("Transfer-Encoding", "chunked")
        body = self._chunks() if chunked else self._counted()
        behind.endheaders(body, encode_chunked=chunked)

    def _counted(self) -> Iterator[bytes]:
        """The body of a request with a Content-Length."""
        yield from self._read(int(self.headers.get("Content-Length", 0)))

    def _chunks(self) -> Iterator[bytes]:
        """The body of a chunked request: each chunk is a hexadecimal length and its bytes."""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield from self._read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            """What follows the last chunk."""

    def _read(self, left: int) -> Iterator[bytes]:
        while left:
            piece = self.rfile.read(min(left, _CHUNK))
            if not piece:
                raise ConnectionError("the client went away")
            left -= len(piece)
            counter = cast(_Relay, self.server).counter
            counter.passed(len(piece), manifest="/manifests/" in self.path)
            yield piece

    def _answer(self, response: HTTPResponse) -> None:
        length = response.getheader("Content-Length")
        bodiless = self.command == "HEAD" or response.status in {204, 304}
        whole = b"" if bodiless or length is not None else response.read()
        self.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in _HOP | {"content-length"}:
                self.send_header(name, value)
        if length is not None or not bodiless:
            self.send_header("Content-Length", length or str(len(whole)))
        self.end_headers()
        if not bodiless:
            self.wfile.write(whole)
            shutil.copyfileobj(cast("IO[bytes]", response), self.wfile, _CHUNK)
