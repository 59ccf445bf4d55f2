"""The viewer as an ASGI application: an API over one store, and the files of the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.aws.errors import AwsError
from mrtuner.errors import BadValue, MissingPart, MrTunerError, Refused, UsageError
from mrtuner.web.authentication import AGENTS, Access, Gate, error_answer, own
from mrtuner.web.shared import SharedHistory

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from mrtuner.history.remote import RemoteStore

#: The page's built files.
STATIC: Final = files("mrtuner.web") / "static"
#: Pages load everything from their own origin, and no other page may frame them.
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
#: Tells the tuner page that the rules run on the server, so the browser need not load them.
_ENGINE: Final = '<meta name="engine" content="server" />'
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_LONGEST_QUERY: Final = 4096
#: A file whose name has a hash of its contents, as Vite writes it.
_HASHED: Final = re.compile(r"/assets/[\w.]+-[\w-]{8}\.\w+$")


def app(
    store: Path | RemoteStore, *, hosts: tuple[str, ...] = LOOPBACK,
    access: Access | None = None, records: Path | None = None, agents: Agents | None = None,
    servers: Mapping[str, str] | None = None,
) -> Starlette:  # fmt: skip
    """Return the viewer of a store; the caller closes its `state.store` at the end.

    Args:
        store: The store's directory, or the store on S3.
        hosts: Host names that a request may use. Others are refused, so that a page from elsewhere
            cannot reach this server through a name of its own.
        access: The login; None for none, which is only safe on the loopback address.
        records: A directory of benchmark records to show as well.
        agents: What answers agents, at `AGENTS`; only with a login.
        servers: Connection strings by instance, of servers that may be asked for plans.
    """
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.gzip import GZipMiddleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import HTMLResponse, JSONResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles

    shared = SharedHistory(store)
    known = servers or {}

    def fleet(request: Request) -> Response:
        from mrtuner.web.answers import fleet_answer

        return _answered(
            shared, request,
            lambda history, _: fleet_answer(
                history, records=bool(records), login=access is not None, servers=known
            ),
        )  # fmt: skip

    def screen(request: Request) -> Response:
        from mrtuner.web.answers import screen_answer

        name = request.path_params["name"]
        return _answered(shared, request, lambda h, given: screen_answer(h, name, given))

    def plan(request: Request) -> Response:
        from mrtuner.web.plans import asked_statement, plan_answer

        if not own(request):
            return error_answer(403, "the request came from another site", "Open the page itself.")
        if len(request.url.query) > _LONGEST_QUERY:
            return _too_long()
        with shared.lent() as history:
            asked = asked_statement(history, known, dict(request.query_params))
        return _as_json(plan_answer(asked))  # Others have the store while a server is waited for.

    def tune(request: Request) -> Response:
        if len(request.url.query) > _LONGEST_QUERY:
            return _too_long()
        if "instance" in request.query_params:
            from mrtuner.web.recorded_advice import recorded_answer

            return _answered(shared, request, recorded_answer)
        from mrtuner.web.tuner import answer

        told = answer(dict(request.query_params))
        return JSONResponse(told, status_code=400 if "error" in told else 200)

    def tuner(_: Request) -> Response:
        return HTMLResponse(tuner_page())

    page = StaticFiles(directory=str(STATIC), html=True, check_dir=False)
    shown = Starlette(
        routes=[
            Route("/api/fleet", fleet),
            Route("/api/screens/{name}", screen),
            Route("/api/plan", plan),
            Route("/api/tune", tune),
            *(_record_routes(records) if records else ()),
            *(_agent_routes(agents) if agents and access else ()),
            Route("/tuner.html", tuner),
            Mount("/", _Headers(page, _caching)),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False),
            Middleware(_Headers, headers=lambda *_: HEADERS),
            *([Middleware(Gate, access=access)] if access else []),
            Middleware(GZipMiddleware, minimum_size=1000),
        ],
        exception_handlers={404: _not_found, 405: _only_read, MrTunerError: _failed},
    )
    shown.state.store = shared
    return shown


def _record_routes(directory: Path) -> Iterator[Route]:
    """Yield the routes of benchmark records: their list, and the page and style of each."""
    import msgspec
    from starlette.responses import HTMLResponse, Response
    from starlette.routing import Route

    from mrtuner.web.benchmark_records import Records

    records = Records(directory)

    def listed(_: Request) -> Response:
        return Response(msgspec.json.encode(records.answer()), media_type="application/json")

    def page(request: Request) -> Response:
        return HTMLResponse(records.page(request.query_params.get("name", "")).html)

    def style(request: Request) -> Response:
        found = records.page(request.query_params.get("name", ""))
        return Response(found.style, media_type="text/css")

    for path, answer in (("", listed), ("/page", page), ("/style", style)):
        yield Route(f"/api/records{path}", answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """The tools of agents as an ASGI application, and the host names that a request may use."""

    app: Any
    hosts: tuple[str, ...]


def _agent_routes(agents: Agents) -> Iterator[Route]:
    """Yield the route of agents: POST only, and from no page of another site."""
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.routing import Route

    async def answered(scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        answer: Any = agents.app
        if not own(request):
            answer = error_answer(403, "the request came from another site", "Ask from a program.")
        elif request.method != "POST":
            unsupported = f"{request.method} is not supported"
            answer = error_answer(405, unsupported, "Agents use POST.", {"Allow": "POST"})
        await answer(scope, receive, send)

    hosts = list(agents.hosts)
    yield Route(AGENTS, TrustedHostMiddleware(answered, allowed_hosts=hosts, www_redirect=False))


def tuner_page() -> str:
    """Return the tuner page, marked so that it asks this server for advice."""
    page = (STATIC / "tuner.html").read_text(encoding="utf-8")
    return page.replace("<head>", f"<head>{_ENGINE}", 1)


def _answered(
    store: SharedHistory, request: Request, ask: Callable[[Any, Mapping[str, str]], Any]
) -> Response:
    """Return what `ask` answers about the store, as JSON. Runs in a thread."""
    if len(request.url.query) > _LONGEST_QUERY:
        return _too_long()
    with store.lent() as history:
        return _as_json(ask(history, dict(request.query_params)))


def _as_json(answer: Any) -> Response:
    import msgspec
    from starlette.responses import Response

    return Response(
        msgspec.json.encode(answer),
        status_code=400 if isinstance(answer, dict) and "error" in answer else 200,
        media_type="application/json", headers={"Cache-Control": "no-store"},
    )  # fmt: skip


def _too_long() -> Response:
    return error_answer(414, "the address is too long", "Give fewer parameters.")


def _failed(_: Request, error: Any) -> Response:
    """Answer with an error of ours, whichever route raised it."""
    return error_answer(_status(error), error.message, error.hint)


def _status(error: MrTunerError) -> int:
    if isinstance(error, Refused | MissingPart):
        return 503
    if isinstance(error, AwsError):
        return 502
    return 404 if isinstance(error, UsageError) and not isinstance(error, BadValue) else 400


def _not_found(request: Request, _: Exception) -> Response:
    return error_answer(404, f"there is nothing at {request.url.path}", "The page is at /.")


def _only_read(request: Request, error: Exception) -> Response:
    unsupported, headers = f"{request.method} is not supported", getattr(error, "headers", None)
    return error_answer(405, unsupported, "The page only reads: use GET.", headers)


def require_page() -> None:
    """Raise MissingPart if the page has not been built."""
    if not (STATIC / "index.html").is_file():
        raise MissingPart("the page has not been built", "In a checkout, run: make page.")


def _caching(path: str, status: int) -> Mapping[str, str]:
    """Return the header that tells browsers which of the page's files never change."""
    return {"Cache-Control": cache_control(path)} if status in {200, 304} else {}


def cache_control(path: str) -> str:
    """Return for how long browsers may keep a file of the page without asking again.

    >>> cache_control("/assets/index-DA9GkbYe.js"), cache_control("/assets/login.css")
    ('public, max-age=31536000, immutable', 'no-cache')
    """
    return "public, max-age=31536000, immutable" if _HASHED.search(path) else "no-cache"


class _Headers:
    """ASGI middleware that adds headers to responses, by path and status."""

    def __init__(self, app: Any, headers: Callable[[str, int], Mapping[str, str]]) -> None:
        self.app, self.headers = app, headers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                added = self.headers(scope["path"], message["status"]).items()
                extra = [(name.lower().encode(), value.encode()) for name, value in added]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        await self.app(scope, receive, sent)
