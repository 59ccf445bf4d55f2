"""The lab's HTTP server on 127.0.0.1. It answers RDS calls itself and passes others to moto.

As at AWS, the request's signature names the service and region; unsigned requests are refused.
Calls are recorded before any faults that a test has switched on are applied.
"""

from __future__ import annotations

import io
import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import UsageError
from rdstune.lab.operations.supported import OPERATIONS
from rdstune.lab.recognise import Signed, action_in, action_of, signed
from rdstune.lab.refusals import Fault
from rdstune.lab.simulated_faults import Garbled, Trouble, Unreachable
from rdstune.lab.wire import Protocol
from rdstune.lab.world import World

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
_HOST: Final = "127.0.0.1"
_LOG: Final = logging.getLogger(__name__)
_UNSIGNED: Final = Fault(
    "MissingAuthenticationToken", "Request is missing Authentication Token", 403
)


@dataclass(frozen=True, slots=True)
class Reply:
    """An XML answer."""

    status: int
    body: bytes
    request: str

    def send(self, start: StartResponse) -> Iterable[bytes]:
        headers = [
            ("Content-Type", "text/xml"),
            ("Content-Length", str(len(self.body))),
            ("x-amzn-RequestId", self.request),
        ]
        start(f"{self.status} {HTTPStatus(self.status).phrase}", headers)
        return [self.body]


class Front:
    """The WSGI application."""

    def __init__(self, world: World, trouble: Trouble) -> None:
        self.world = world
        self.trouble = trouble
        self.calls: list[tuple[str, str]] = []  # (service, action), including refused calls
        self._rds = Protocol()
        self._moto_lock = threading.Lock()

    def __call__(self, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        caller = signed(environ.get("HTTP_AUTHORIZATION", ""), environ.get("QUERY_STRING", ""))
        body = _body(environ)
        try:
            if caller is not None and caller.service == "rds":
                return self._answer(caller, body).send(start)
            if caller is None and self._rds.knows(action_in(body)):
                return self._refusal(_UNSIGNED).send(start)
            return self._pass_on(environ, start, caller, body)
        except Garbled as garbled:
            start(garbled.status, [("Content-Type", "text/html")])
            return [garbled.body]
        except Unreachable:
            _hang_up(environ)
            raise ConnectionAbortedError from None  # the HTTP server ignores this silently

    def _refusal(self, fault: Fault) -> Reply:
        request = str(uuid.uuid4())
        return Reply(self._rds.status(fault), self._rds.refusal(fault, request), request)

    def reset(self) -> None:
        with self._moto_lock:
            if "_moto" in self.__dict__:
                from moto.moto_api._internal.models import moto_api_backend

                moto_api_backend.reset()

    def _answer(self, caller: Signed, body: bytes) -> Reply:
        request = str(uuid.uuid4())
        try:
            return Reply(200, self._operate(caller, body, request), request)
        except Fault as fault:
            return self._refusal(fault)
        except (Garbled, Unreachable):
            raise
        except Exception as error:
            _LOG.exception("an RDS call")
            return self._refusal(Fault("InternalFailure", f"error in the lab: {error!r}", 500))

    def _operate(self, caller: Signed, body: bytes, request: str) -> bytes:
        action = action_in(body)
        self._admit(caller, action)
        params = self._rds.parameters(action, body)
        if action not in OPERATIONS:
            raise Fault("InvalidAction", f"the lab does not support {action}")
        with self.world.lock:
            self.world.clock.run_due()
            result = OPERATIONS[action](self.world.region(caller.region), params)
        return self._rds.answer(action, result, request)

    def _admit(self, caller: Signed, action: str) -> None:
        self.calls.append((caller.service, action))
        self.trouble.check(caller.service, action, caller.region)

    def _pass_on(
        self, environ: Environ, start: StartResponse, caller: Signed | None, body: bytes
    ) -> Iterable[bytes]:
        if caller is not None:
            action = action_of(caller.service, environ, body)
            try:
                self._admit(caller, action)
            except Fault as fault:
                return _refused(fault, environ, start)
        with self._moto_lock:
            moto = self._moto
        answer: Iterable[bytes] = moto(environ, start)
        return answer

    @cached_property
    def _moto(self) -> Any:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        return DomainDispatcherApplication(create_backend_app)


def serve(front: Front, port: int) -> BaseWSGIServer:
    """Return a listening server, one thread per connection; the caller runs and closes it.

    Raises UsageError when the port is taken: werkzeug would end the program.
    """
    from moto.moto_server.werkzeug_app import MotoRequestHandler
    from werkzeug.serving import make_server

    class Quiet(MotoRequestHandler):
        """Does not log requests."""

        def log_request(self, *_: Any) -> None:
            """Log nothing."""

    try:
        listener = socket.create_server((_HOST, port))
    except OSError as error:
        raise UsageError(
            f"cannot listen on port {port}: {os.strerror(error.errno or 0)}",
            "Use another port, or none.",
        ) from None
    with listener:
        number = listener.getsockname()[1]
        return make_server(
            _HOST, number, front, threaded=True, request_handler=Quiet, fd=listener.fileno()
        )


def _body(environ: Environ) -> bytes:
    """Return the request's body, which stays readable."""
    if environ.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked":
        body = environ["wsgi.input"].read()
    else:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return bytes(body)


def _refused(fault: Fault, environ: Mapping[str, Any], start: StartResponse) -> Iterable[bytes]:
    """Answer with a fault for one of moto's services: in JSON if the request was, else in XML."""
    from json import dumps
    from xml.sax.saxutils import escape

    status = f"{fault.status or 400} Refused"
    if "HTTP_X_AMZ_TARGET" in environ:
        code = "AccessDeniedException" if fault.code == "AccessDenied" else fault.code
        body = dumps({"__type": code, "message": fault.message}).encode()
        start(status, [("Content-Type", "application/x-amz-json-1.1")])
        return [body]
    error = f"<Code>{escape(fault.code)}</Code><Message>{escape(fault.message)}</Message>"
    start(status, [("Content-Type", "text/xml")])
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        return [f"<ErrorResponse><Error>{error}</Error></ErrorResponse>".encode()]
    return [f"<Error>{error}</Error>".encode()]


def _hang_up(environ: Mapping[str, Any]) -> None:
    """Close the connection without an answer."""
    connection = environ.get("werkzeug.socket")
    if connection is not None:
        connection.shutdown(socket.SHUT_RDWR)
