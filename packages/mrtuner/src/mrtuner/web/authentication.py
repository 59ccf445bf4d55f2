"""Access to the viewer: one password, sessions, and a limit on failed attempts.

Without a session, everything but the login is refused. Sessions are in memory and end with
the process; or they are signed, for Lambda functions, which share no memory. Agents have no
session: each of their requests carries the password.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from mrtuner.errors import UsageError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

#: The prefix makes browsers insist on Secure, on Path=/ and on this host alone.
_COOKIE: Final = "__Host-mrtuner"
_HOURS: Final = 12
#: Failed attempts allowed per minute from one client. There is no limit for all together: whoever
#: reached it would lock everybody out, and a password of `_SHORTEST` characters needs none.
_ATTEMPTS: Final = 5
#: The network that one client of IPv6 usually has to itself [bits].
_PREFIX: Final = 64
_WITH_PORT: Final = re.compile(r"([0-9.]+|\[.+\]):[0-9]+")
_MINUTE: Final = 60.0
_SHORTEST: Final = 12
_LONGEST_BODY: Final = 4096
#: The longest that a form may take to arrive [s].
_PATIENCE: Final = 10.0
#: Where agents ask. No cookie opens it, so that no page of another site can use one.
AGENTS: Final = "/mcp"
#: Paths that the login page needs, open without a session.
_OPEN: Final = ("/login", "/icon.svg", "/assets/")


@dataclass(slots=True)
class Access:
    """The hash of the password, the open sessions, and the failed attempts."""

    hashed: str
    sessions: dict[str, float] = field(default_factory=dict)  # ends, by digest of the token
    failed: dict[str, deque[float]] = field(default_factory=dict)  # by client
    proxies: int = 0  # in front of this server, each of which adds its client to X-Forwarded-For
    lock: threading.Lock = field(default_factory=threading.Lock)
    proven: str | None = None  # digest of the password, once an agent gave it: a hash takes long

    def logged_in(self, headers: Mapping[str, str]) -> bool:
        """Whether a request has a session."""
        token = _token(headers.get("cookie", ""))
        end = self.sessions.get(_digest(token)) if token else None
        return end is not None and time.monotonic() < end

    def log_in(self, password: str, address: str) -> str | None:
        """Return a new session's token; None if the password is wrong.

        Raises:
            TooManyAttempts: from this client.
        """
        # One at a time: a hash costs memory and time on purpose.
        with self.lock:
            return self._begin_session() if self._is(password, address) else None

    def knows(self, headers: Mapping[str, str], address: str) -> bool:
        """Whether a request carries the password: ``Authorization: Bearer PASSWORD``.

        Raises:
            TooManyAttempts: from this client.
        """
        scheme, _, password = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not password:
            return False
        digest = _digest(password)
        with self.lock:
            if self.proven is not None and hmac.compare_digest(self.proven, digest):
                return True
            if not self._is(password, address):
                return False
            self.proven = digest
            return True

    def _is(self, password: str, address: str) -> bool:
        """Whether it is the password; the caller holds the lock."""
        from argon2 import PasswordHasher
        from argon2.exceptions import VerificationError

        client = client_of(address)
        self._refuse_too_many_attempts(client)
        try:
            PasswordHasher().verify(self.hashed, password)
        except VerificationError:
            self.failed.setdefault(client, deque()).append(time.monotonic())
            return False
        return True

    def _begin_session(self) -> str:
        token = secrets.token_urlsafe(32)
        now = time.monotonic()
        self.sessions = {one: end for one, end in self.sessions.items() if end > now}
        self.sessions[_digest(token)] = now + _HOURS * 3600
        return token

    def log_out(self, headers: Mapping[str, str]) -> None:
        self.sessions.pop(_digest(_token(headers.get("cookie", "")) or ""), None)

    def _refuse_too_many_attempts(self, client: str) -> None:
        begin = time.monotonic() - _MINUTE
        recent = {
            one: deque(at for at in times if at > begin) for one, times in self.failed.items()
        }
        self.failed = {one: times for one, times in recent.items() if times}
        if len(self.failed.get(client, ())) >= _ATTEMPTS:
            raise TooManyAttempts


@dataclass(slots=True)
class SignedAccess(Access):
    """Access by sessions that any process with the password's hash can check.

    A session is the time of its end, signed with a key derived from the hash, which holds 16 random
    bytes of salt. A new password therefore ends all sessions, but logging out only removes the
    cookie from the browser.
    """

    def logged_in(self, headers: Mapping[str, str]) -> bool:
        """Whether a request has a session."""
        token = _token(headers.get("cookie", "")) or ""
        end = token.partition(".")[0]
        if not end.isascii() or not end.isdecimal() or len(end) > 12:
            return False
        signed = hmac.compare_digest(self._signed(int(end)).encode(), token.encode())
        return signed and time.time() < int(end)

    def _begin_session(self) -> str:
        return self._signed(int(time.time()) + _HOURS * 3600)

    def _signed(self, end: int) -> str:
        key = hashlib.sha256(b"mrtuner session" + self.hashed.encode()).digest()
        signature = hmac.digest(key, str(end).encode(), "sha256")
        return f"{end}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def client_of(address: str) -> str:
    """Return what counts as one client: an address, or a network of IPv6. Proxies may add ports.

    >>> client_of("192.0.2.7"), client_of("2001:db8::7"), client_of("[2001:db8::8]:443")
    ('192.0.2.7', '2001:db8::/64', '2001:db8::/64')
    >>> client_of("::ffff:192.0.2.7"), client_of("192.0.2.7:51234")
    ('192.0.2.7', '192.0.2.7')
    """
    with_port = _WITH_PORT.fullmatch(address)
    try:
        found = ip_address(with_port[1].strip("[]") if with_port else address)
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ip_network((found, _PREFIX), strict=False))


class TooManyAttempts(Exception):
    """Too many attempts failed within the last minute."""


def hash_of(password: str) -> str:
    """Return the argon2 hash of a password, which is all that is stored.

    Raises:
        UsageError: it is too short.
    """
    from argon2 import PasswordHasher

    if len(password) < _SHORTEST:
        raise UsageError(
            f"the password has fewer than {_SHORTEST} characters",
            "Make one: openssl rand -base64 24.",
        )
    return PasswordHasher().hash(password)


def _is_open(path: str) -> bool:
    """Whether a path needs no session; one with ``..`` does, since it may lead elsewhere."""
    return path.startswith(_OPEN) and ".." not in path


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _token(cookies: str) -> str | None:
    try:
        found = SimpleCookie(cookies).get(_COOKIE)
    except CookieError:
        return None
    return found.value if found else None


class Gate:
    """ASGI middleware that requires a session."""

    def __init__(self, app: Any, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.requests import Request
        from starlette.responses import RedirectResponse

        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        path = scope["path"]
        answer: Any = self.app
        if path == "/login":
            answer = await _login(request, self.access)
        elif path == "/logout" and request.method == "POST" and own(request):
            self.access.log_out(request.headers)
            answer = RedirectResponse("/login", status_code=303)
            answer.delete_cookie(_COOKIE, path="/", secure=True, httponly=True, samesite="strict")
        elif path == AGENTS:
            answer = await _refused_agent(request, self.access) or self.app
        elif not _is_open(path) and not self.access.logged_in(request.headers):
            answer = RedirectResponse("/login", status_code=303)
            if path.startswith("/api/"):
                answer = error_answer(401, "not logged in", "Log in at /login.")
        await answer(scope, receive, send)


async def _login(request: Request, access: Access) -> Response:
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import RedirectResponse

    if request.method != "POST":
        return _page()
    if not own(request):
        return _page("The request came from another site.", 403)
    body = await _body(request)
    if body is None:
        return _page("That is too long.", 413)
    password = parse_qs(body.decode("utf-8", "replace")).get("password", [""])[0]
    address = _address(request, access.proxies)
    try:
        token = await run_in_threadpool(access.log_in, password, address)
    except TooManyAttempts:
        return _page("Too many attempts. Wait a minute.", 429)
    if token is None:
        return _page("That is not the password.", 403)
    answer = RedirectResponse("/", status_code=303)
    answer.set_cookie(
        _COOKIE, token, max_age=_HOURS * 3600, path="/", secure=True, httponly=True,
        samesite="strict",
    )  # fmt: skip
    return answer


async def _refused_agent(request: Request, access: Access) -> Response | None:
    """Return why an agent's request is refused; None if it carries the password."""
    from starlette.concurrency import run_in_threadpool

    address = _address(request, access.proxies)
    try:
        if await run_in_threadpool(access.knows, request.headers, address):
            return None
    except TooManyAttempts:
        return error_answer(429, "too many attempts", "Wait a minute.", {"Retry-After": "60"})
    hint = "Send the viewer's password: Authorization: Bearer …"
    return error_answer(401, "no access", hint, {"WWW-Authenticate": "Bearer"})


def error_answer(
    status: int, message: str, hint: str | None, headers: Mapping[str, str] | None = None
) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse(
        {"error": {"message": message, "hint": hint}}, status_code=status, headers=headers
    )


def _address(request: Request, proxies: int) -> str:
    """Return the client's address; behind proxies, the one that the first of them has seen.

    What the client itself wrote into X-Forwarded-For stands before it, and does not count.
    """
    if proxies:
        given = ",".join(request.headers.getlist("x-forwarded-for"))
        seen = [one.strip() for one in given.split(",") if one.strip()]
        if len(seen) >= proxies:
            return seen[-proxies]
    return request.client.host if request.client else ""


async def _body(request: Request) -> bytes | None:
    """Return the part of the body that arrived in time; None if it is too long."""
    import asyncio
    from contextlib import suppress

    from starlette.requests import ClientDisconnect

    body = b""
    with suppress(ClientDisconnect, TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            async for part in request.stream():
                body += part
                if len(body) > _LONGEST_BODY:
                    return None
    return body


def own(request: Request) -> bool:
    """Whether a request came from this site's own page, or from no page.

    Browsers say so in Sec-Fetch-Site, which no script can set. Older ones send only Origin, which
    never matches behind a proxy that changes Host. A request with neither header is accepted.
    """
    if site := request.headers.get("sec-fetch-site"):
        return site in {"same-origin", "none"}
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def _page(wrong: str = "", status: int = 200) -> Response:
    """Return the login page: a plain form, which needs no script.

    The form has no action, so browsers keep the part of the address after #, which names the view.
    """
    from starlette.responses import HTMLResponse

    said = f'<p class="error" role="alert">{wrong}</p>' if wrong else ""
    return HTMLResponse(
        f"""<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>MrTuner: log in</title>
    <link rel="stylesheet" href="/assets/login.css" />
    <link rel="icon" href="/icon.svg" type="image/svg+xml" />
  </head>
  <body>
    <main>
      <h1>MrTuner</h1>
      {said}
      <form method="post">
        <label>Password <input type="password" name="password" required autofocus
          autocomplete="current-password" /></label>
        <button>Log in</button>
      </form>
    </main>
  </body>
</html>
""",
        status_code=status,
        headers={"Retry-After": "60"} if status == 429 else None,
    )
