"""Run Lambda functions on this machine with AWS's runtime interface emulator, without a container.

The interpreter sees the package of the functions, boto3 and the client of Lambda's runtime, and
no other packages that are installed here.
"""

from __future__ import annotations

import base64
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

#: The architecture, in Lambda's words, of packages that this interpreter can run.
ARCHITECTURE = {"x86_64": "x86_64", "aarch64": "arm64"}.get(platform.machine(), "")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
#: How long to wait for a cold start on a busy machine [s].
_PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Function:
    """A running function."""

    address: str

    def invoke(self, event: Mapping[str, Any]) -> Any:
        """What the handler returns, or Lambda's description of its error."""
        request = urllib.request.Request(
            f"{self.address}/2015-03-31/functions/function/invocations",
            json.dumps(event).encode(),
        )
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            return json.loads(answer.read())


@contextmanager
def function(
    package: Path, handler: str, environment: Mapping[str, str], fetched: Path
) -> Iterator[Function]:
    """Run a function of a package; `fetched` is the directory from `tools/fetch_lambda.py`."""
    front, back = _free_ports(2)
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": f"{package}:{fetched / 'runtime'}",
        "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8",
        "AWS_LAMBDA_FUNCTION_NAME": "viewer", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
        "AWS_LAMBDA_FUNCTION_TIMEOUT": "100", **environment,
    }  # fmt: skip
    command = [
        str(fetched / "emulator"), "--log-level", "error",
        "--runtime-interface-emulator-address", f"127.0.0.1:{front}",
        "--runtime-api-address", f"127.0.0.1:{back}",
        sys.executable, "-S", "-m", "awslambdaric", handler,
    ]  # fmt: skip
    # The function's temporary directory is deleted with it, like Lambda's /tmp.
    with tempfile.TemporaryFile() as said, tempfile.TemporaryDirectory() as tmp:
        process = subprocess.Popen(
            command, cwd=package, env=environment | {"TMPDIR": tmp}, stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip
        try:
            _wait_for(front, process)
            yield Function(f"http://127.0.0.1:{front}")
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=60)


def _free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in listeners]
    for one in listeners:
        one.close()
    return ports


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert process.poll() is None, "the emulator ended"
            time.sleep(0.05)
        else:
            return
    raise TimeoutError("the emulator does not answer")


def request(
    path: str, query: str = "", *, method: str = "GET", cookies: tuple[str, ...] = (),
    body: str | None = None, headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """An event of an HTTP API, payload format 2.0, as caused by a request from CloudFront.

    Source: API Gateway Developer Guide, working with AWS Lambda proxy integrations for HTTP APIs.
    """
    sent = {
        "host": "abcde12345.execute-api.eu-central-1.amazonaws.com", "accept-encoding": "gzip",
        "user-agent": "Amazon CloudFront", "x-forwarded-for": "203.0.113.7, 198.51.100.9",
        "x-forwarded-proto": "https", "x-forwarded-port": "443", **(headers or {}),
    }  # fmt: skip
    event = {
        "version": "2.0", "routeKey": f"{method} {path}", "rawPath": path, "rawQueryString": query,
        "headers": sent,
        "requestContext": {
            "accountId": "123456789012", "apiId": "abcde12345", "stage": "$default",
            "domainName": "abcde12345.execute-api.eu-central-1.amazonaws.com",
            "domainPrefix": "abcde12345", "requestId": "JKJaXmPLvHcESHA=", "routeKey": "$default",
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1",
                     "sourceIp": "198.51.100.9", "userAgent": "Amazon CloudFront"},
            "time": "23/Nov/2026:02:30:00 +0000", "timeEpoch": 1795401000000,
        },
        "isBase64Encoded": body is not None,
    }  # fmt: skip
    if cookies:
        event["cookies"] = list(cookies)
    if body is not None:
        event["body"] = base64.b64encode(body.encode()).decode()
    return event


def authorization(path: str, cookies: tuple[str, ...]) -> dict[str, Any]:
    """An event of an authoriser, payload format 2.0: the request without its body."""
    event = request(path, cookies=cookies)
    del event["isBase64Encoded"]
    return event | {
        "type": "REQUEST", "identitySource": list(cookies),
        "routeArn": "arn:aws:execute-api:eu-central-1:123456789012:abcde12345/$default/GET/api",
    }  # fmt: skip


def login(password: str, **headers: str) -> dict[str, Any]:
    """The event of a login as the page's form sends it."""
    form = {"content-type": "application/x-www-form-urlencoded", **headers}
    return request("/login", method="POST", body=urlencode({"password": password}), headers=form)


def body_of(answer: Mapping[str, Any]) -> bytes:
    """The body of an answer to an HTTP API."""
    import gzip

    body = str(answer["body"]).encode()
    if answer.get("isBase64Encoded"):
        body = base64.b64decode(body)
    return gzip.decompress(body) if answer["headers"].get("content-encoding") == "gzip" else body
