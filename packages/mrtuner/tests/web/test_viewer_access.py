"""Nobody gets in without the password, and the password cannot be guessed."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from served import PATIENCE, Viewer, in_a_browser, serving, serving_here

from command_line import run
from machine import PAGE, needs, require
from mrtuner.web.authentication import Access, hash_of
from mrtuner.web.screens import SCREENS

PASSWORD = "correct-horse-battery"


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secret") / "password"
    path.write_text(f"{PASSWORD}\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def closed(recorded: Path, secret: Path) -> Iterator[Viewer]:
    """A viewer with a password, as behind a proxy. No test may give it a wrong one."""
    with serving(recorded, "--password-file", str(secret), "--behind-proxy") as viewer:
        yield viewer


@pytest.fixture
def untried(recorded: Path) -> Iterator[Viewer]:
    """Another viewer, to which no wrong password has been given yet."""
    access = Access(hashed=hash_of(PASSWORD))
    with serving_here(recorded, access=access, proxy_headers=True) as viewer:
        yield viewer


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: str


def ask(viewer: Viewer, method: str, path: str, body: str = "", **headers: str) -> Answer:
    """Return the answer without following redirections."""
    connection = HTTPConnection(viewer.address.split("/")[2], timeout=60)
    try:
        connection.request(method, path, body or None, headers)
        found = connection.getresponse()
        return Answer(found.status, dict(found.headers), found.read().decode())
    finally:
        connection.close()


def log_in(viewer: Viewer, password: str, **headers: str) -> Answer:
    return ask(viewer, "POST", "/login", urlencode({"password": password}), **headers)


def session(viewer: Viewer) -> str:
    """The cookie of somebody who logged in."""
    given = log_in(viewer, PASSWORD)
    assert given.status == 303
    return str(given.headers["set-cookie"]).partition(";")[0]


ROUTES = [
    "/", "/index.html", "/tuner.html", "/api/fleet", "/api/tune?memory=1GB&cpus=1",
    *(f"/api/screens/{name}" for name in SCREENS), "/api/nothing", "/nothing",
    "/assets/../index.html", "/assets/../api/fleet",
    "/assets/..%2findex.html", "/LOGIN", "//api/fleet", "/./api/fleet",
]  # fmt: skip


def test_no_route_answers_without_a_session(closed: Viewer) -> None:
    for path in ROUTES:
        for method in ("GET", "HEAD", "POST", "PUT"):
            answer = ask(closed, method, path)
            assert answer.status in {303, 401, 404, 405}, (method, path)
            assert "mrtuner.fleet" not in answer.body
            assert 'id="app"' not in answer.body, path
            assert "db:5432" not in answer.body


def test_whoever_logs_in_sees_it_until_they_log_out(closed: Viewer) -> None:
    cookie = session(closed)
    assert ask(closed, "GET", "/api/fleet", Cookie=cookie).status == 200
    assert 'id="app"' in ask(closed, "GET", "/", Cookie=cookie).body
    assert ask(closed, "POST", "/logout", Cookie=cookie).status == 303
    assert ask(closed, "GET", "/api/fleet", Cookie=cookie).status == 401


def test_the_cookie_is_for_this_site_and_for_no_script(closed: Viewer) -> None:
    given = log_in(closed, PASSWORD).headers["set-cookie"].lower()
    for attribute in ("secure", "httponly", "samesite=strict", "path=/"):
        assert attribute in given
    assert "domain=" not in given
    assert given.startswith("__host-")


@pytest.mark.parametrize("password", ["", "wrong", PASSWORD[:-1], PASSWORD + " ", "\0", "ü" * 300])
def test_another_password_is_refused(untried: Viewer, password: str) -> None:
    answer = log_in(untried, password)
    assert answer.status == 403
    assert "set-cookie" not in answer.headers
    assert "That is not the password." in answer.body


@pytest.mark.parametrize(
    "cookie", ["__Host-mrtuner=", "__Host-mrtuner=x", "__Host-mrtuner=../../x", "=", ";;;", "\x7f"]
)
def test_a_made_up_session_is_none(closed: Viewer, cookie: str) -> None:
    assert ask(closed, "GET", "/api/fleet", Cookie=cookie).status == 401


def test_after_five_wrong_passwords_even_the_right_one_waits(untried: Viewer) -> None:
    assert [log_in(untried, "wrong").status for _ in range(7)] == [403] * 5 + [429] * 2
    late = log_in(untried, PASSWORD)
    assert (late.status, late.headers["retry-after"]) == (429, "60")


def test_one_client_cannot_lock_the_others_out(recorded: Path) -> None:
    """A wrong password a second from each of sixty clients, as the proxy in front names them."""
    access = Access(hashed=hash_of(PASSWORD), proxies=1)
    with serving_here(recorded, access=access, proxy_headers=True) as viewer:

        def tried(client: str, password: str) -> int:
            return log_in(viewer, password, **{"X-Forwarded-For": client}).status

        assert {tried(f"203.0.113.{n}", "wrong") for n in range(60)} == {403}
        assert [tried("2001:db8::1", "wrong"), tried("2001:db8::2", "wrong")] == [403, 403]
        # What a client itself writes into the header stands before what the proxy adds.
        made_up = [tried(f"198.51.100.{n}, 203.0.113.99", "wrong") for n in range(6)]
        assert made_up == [403] * 5 + [429]
        assert [tried(f"2001:db8::{n:x}", "wrong") for n in range(3, 7)] == [403] * 3 + [429]
        # Some proxies add the port, which differs with each connection, or write IPv4 as IPv6.
        with_port = [tried(f"198.18.0.1:{port}", "wrong") for port in range(50_000, 50_006)]
        assert with_port == [403] * 5 + [429]
        assert {tried(f"::ffff:198.18.1.{n}", "wrong") for n in range(10)} == {403}
        assert tried("192.0.2.1", PASSWORD) == 303


def test_the_page_is_told_that_one_can_log_out_and_then_the_session_ends(
    untried: Viewer, recorded: Path
) -> None:
    cookie = session(untried)
    assert json.loads(ask(untried, "GET", "/api/fleet", Cookie=cookie).body)["login"] is True
    gone = ask(untried, "POST", "/logout", Cookie=cookie)
    assert (gone.status, gone.headers["location"]) == (303, "/login")
    assert ask(untried, "GET", "/api/fleet", Cookie=cookie).status == 401
    with serving_here(recorded) as opened:
        assert json.loads(opened.get("api/fleet")[2])["login"] is False


def test_a_form_of_another_site_does_not_log_anybody_in_or_out(untried: Viewer) -> None:
    assert log_in(untried, PASSWORD, Origin="https://attacker.example").status == 403
    cookie = session(untried)
    ask(untried, "POST", "/logout", Cookie=cookie, Origin="https://attacker.example")
    assert ask(untried, "GET", "/api/fleet", Cookie=cookie).status == 200


def test_a_huge_form_is_refused_and_a_slow_client_holds_up_nobody(untried: Viewer) -> None:
    assert log_in(untried, "x" * 100_000).status == 413
    host, port = untried.address.split("/")[2].split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\npass")
        assert ask(untried, "GET", "/api/fleet").status == 401


@needs("ps")
def test_the_password_stands_nowhere(closed: Viewer) -> None:
    assert PASSWORD not in subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    page = ask(closed, "GET", "/login").body
    assert "password" in page
    assert PASSWORD not in page


def test_the_login_has_its_style_before_anybody_has_logged_in(closed: Viewer) -> None:
    require(PAGE)
    page = ask(closed, "GET", "/login").body
    (style,) = re.findall(r'<link rel="stylesheet" href="([^"]+)"', page)
    assert "prefers-color-scheme: dark" in ask(closed, "GET", style).body


@needs("openssl")
def test_with_a_certificate_it_speaks_tls(recorded: Path, secret: Path, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert,
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    options = ("--password-file", str(secret), "--tls-cert", str(cert), "--tls-key", str(key))
    with serving(recorded, *options) as viewer:
        assert viewer.address.startswith("https://")
        trust = ssl.create_default_context(cafile=str(cert))
        with urllib.request.urlopen(viewer.address, timeout=60, context=trust) as answer:
            assert answer.url.endswith("/login")
            assert re.search(r"<title>MrTuner: log in</title>", answer.read().decode())


def test_on_the_loopback_address_a_password_needs_no_certificate(
    recorded: Path, secret: Path
) -> None:
    """The password keeps out other users of the same machine."""
    with serving(recorded, "--password-file", str(secret)) as viewer:
        assert viewer.address.startswith("http://127.0.0.1:")
        assert viewer.get("api/fleet")[0] == 401


def test_the_address_for_all_of_a_machines_addresses_can_be_opened(
    recorded: Path, secret: Path
) -> None:
    host = "0.0.0.0"
    options = ("--host", host, "--password-file", str(secret), "--behind-proxy")
    with serving(recorded, *options) as viewer:
        assert viewer.address.split("/")[2].rpartition(":")[0] != host
        assert viewer.get("login")[0] == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--host", "0.0.0.0"), "anyone who can reach 0.0.0.0 would see statements"),
        (("--host", "::"), "anyone who can reach :: would see statements"),
        (("--host", "0.0.0.0", "--password-file", "{secret}"), "unencrypted"),
        (("--tls-cert", "{secret}"), "--tls-cert and --tls-key require each other"),
        (("--password-file", "{short}", "--behind-proxy"), "fewer than 12 characters"),
        (("--password-file", "{missing}", "--behind-proxy"), "cannot read"),
    ],
)
def test_what_is_unsafe_is_refused_before_anything_listens(
    recorded: Path, secret: Path, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    (tmp_path / "short").write_text("short\n", encoding="utf-8")
    places = {"secret": secret, "short": tmp_path / "short", "missing": tmp_path / "missing"}
    given = [option.format(**places) for option in options]
    done = run("serve", "--dir", recorded, "--port", "0", *given)
    assert done.exit_code in {1, 2, 4}
    assert message in done.stderr
    assert "HINT: " in done.stderr


@in_a_browser
def test_in_the_browser_one_logs_in_and_out(browser: Any, untried: Viewer) -> None:
    # Browsers accept secure cookies from this name without TLS.
    address = untried.address.replace("127.0.0.1", "localhost")
    page = browser.new_context().new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{address}#screen=load")
    page.fill("input[name=password]", PASSWORD)
    page.click("button")
    page.wait_for_selector("main h1:has-text('Waits')")
    page.get_by_role("button", name="Log out").click()
    page.wait_for_selector("input[name=password]")
    page.goto("about:blank")
    page.goto(f"{address}#screen=load")
    page.wait_for_selector("input[name=password]")
    page.context.close()
