"""CloudFront and API Gateway on loopback, as far as the template defines them.

Paths are routed by its cache behaviours and routes; the site's files come from the directory that
would be uploaded, with the template's headers; the functions run on Lambda's emulator.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from mimetypes import guess_type
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lambda_emulator import Function, authorization, body_of, request

#: Not passed on as headers: CloudFront's policy withholds only Host; API Gateway splits cookies.
_OWN = {"host", "cookie", "connection"}


@contextmanager
def distribution(
    resources: Mapping[str, Any], site: Path, functions: Mapping[str, Function]
) -> Iterator[str]:
    """Serve the page until the block ends, and yield its address; `functions` are by resource."""
    lock = threading.Lock()  # An emulator answers one request at a time.

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            path, query = urlsplit(self.path).path, urlsplit(self.path).query
            if _origin(resources, path) == "site":
                self._file(site / (path.lstrip("/") or "index.html"))
                return
            length = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(length).decode() if length else None
            cookies = tuple(
                part.strip() for part in self.headers.get("cookie", "").split(";") if part.strip()
            )
            headers = {
                name.lower(): value for name, value in self.headers.items()
                if name.lower() not in _OWN
            }  # fmt: skip
            event = request(
                path, query, method=self.command, cookies=cookies, body=body, headers=headers
            )
            with lock:
                self._send(*_api(resources, event, cookies, functions))

        def _file(self, path: Path) -> None:
            headers = dict(_headers(resources))
            if not path.resolve().is_relative_to(site) or not path.is_file():
                self._send(403, headers, [], b"AccessDenied")
                return
            kind = guess_type(path.name)[0] or "application/octet-stream"
            self._send(200, headers | {"content-type": kind}, [], path.read_bytes())

        def _send(
            self, status: int, headers: Mapping[str, str], cookies: list[str], body: bytes
        ) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name not in {"content-length", "content-encoding"}:
                    self.send_header(name, value)
            for cookie in cookies:
                self.send_header("set-cookie", cookie)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        # Browsers accept secure cookies from this name without TLS.
        yield f"http://localhost:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _origin(resources: Mapping[str, Any], path: str) -> str:
    config = resources["Distribution"]["Properties"]["DistributionConfig"]
    for behaviour in config["CacheBehaviors"]:
        if fnmatchcase(path, behaviour["PathPattern"]):
            return str(behaviour["TargetOriginId"])
    return str(config["DefaultCacheBehavior"]["TargetOriginId"])


def _api(
    resources: Mapping[str, Any], event: Mapping[str, Any], cookies: tuple[str, ...],
    functions: Mapping[str, Function],
) -> tuple[int, Mapping[str, str], list[str], bytes]:  # fmt: skip
    """Answer as an HTTP API does, whose own errors have their own form."""
    method, path = event["requestContext"]["http"]["method"], event["rawPath"]
    routes = [
        (name, one["Properties"]) for name in functions
        for one in resources[name]["Properties"].get("Events", {}).values()
    ]  # fmt: skip
    name, route = next(
        (
            (name, one) for name, one in routes
            if one["Method"] == method and fnmatchcase(path, one["Path"].replace("{proxy+}", "*"))
        ),
        ("", None),
    )  # fmt: skip
    if route is None:
        return 404, {}, [], b'{"message":"Not Found"}'
    if "Auth" not in route:
        if not cookies:  # The authoriser's identity source is missing.
            return 401, {}, [], b'{"message":"Unauthorized"}'
        if not functions["Authorizer"].invoke(authorization(path, cookies))["isAuthorized"]:
            return 403, {}, [], b'{"message":"Forbidden"}'
    answer = functions[name].invoke(event)
    return answer["statusCode"], answer["headers"], answer.get("cookies", []), body_of(answer)


def _headers(resources: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    config = resources["Headers"]["Properties"]["ResponseHeadersPolicyConfig"]
    for item in config["CustomHeadersConfig"]["Items"]:
        yield item["Header"], item["Value"]
    security = config["SecurityHeadersConfig"]
    yield "Content-Security-Policy", security["ContentSecurityPolicy"]["ContentSecurityPolicy"]
    yield "X-Frame-Options", security["FrameOptions"]["FrameOption"]
    yield "X-Content-Type-Options", "nosniff"
