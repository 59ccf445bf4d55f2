"""The service, region and action of a signed request to any AWS service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qs, parse_qsl, unquote

_SCOPE: Final = re.compile(r"Credential=[^/,\s]+/\d{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request")
#: Signing name: the name in botocore's models, where they differ.
_MODELS: Final = {"monitoring": "cloudwatch", "rds-db": "rds"}


#: Method, path, required query parameters, name.
_Operation = tuple[str, re.Pattern[str], frozenset[tuple[str, str]], str]


@dataclass(frozen=True, slots=True)
class Signed:
    """The data in a signature."""

    region: str
    service: str  # as signed, and as IAM spells it: monitoring is cloudwatch


def signed(authorization: str, query: str = "") -> Signed | None:
    """Read a version 4 signature, from the header or from a presigned URL."""
    match = _SCOPE.search(authorization)
    if match is None:
        asked = parse_qs(query).get("X-Amz-Credential", [""])[0]
        match = _SCOPE.search(f"Credential={unquote(asked)}")
    if match is None:
        return None
    region, service = match.groups()
    return Signed(region, _MODELS.get(service, service))


def action_of(service: str, environ: Mapping[str, Any], body: bytes) -> str:
    """Return an operation's name, from botocore's models; empty when it is unknown."""
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    if target:
        return str(target).rpartition(".")[2]
    path = environ.get("PATH_INFO", "/")
    cbor = re.fullmatch(r"/service/[^/]+/operation/(\w+)", path)
    if cbor:
        return cbor[1]
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        named = action_in(body)
        if named:
            return named
    return _by_path(service, environ["REQUEST_METHOD"], path, environ)


def action_in(body: bytes) -> str:
    """Return the operation named in a form; empty when it names none."""
    return dict(parse_qsl(body.decode(errors="replace"))).get("Action", "")


def _by_path(service: str, method: str, path: str, environ: Mapping[str, Any]) -> str:
    query = _pairs(environ.get("QUERY_STRING", ""))
    given = query | {(key, "") for key, _ in query}
    fits = [
        (-len(needed), len(name), name)
        for verb, pattern, needed, name in _operations(service)
        if verb == method and needed <= given and pattern.fullmatch(path)
    ]
    return min(fits)[2] if fits else ""


@cache
def _operations(service: str) -> tuple[_Operation, ...]:
    import botocore.session
    from botocore.exceptions import UnknownServiceError

    try:
        model = botocore.session.get_session().get_service_model(service)
    except UnknownServiceError:
        return ()
    found = []
    for name in model.operation_names:
        http = model.operation_model(name).http
        address, _, query = http["requestUri"].partition("?")
        found.append((http["method"], re.compile(_pattern(address)), _pairs(query), name))
    return tuple(found)


def _pairs(query: str) -> frozenset[tuple[str, str]]:
    return frozenset(parse_qsl(query, keep_blank_values=True))


def _pattern(address: str) -> str:
    """Return ``/2015-03-31/functions/{FunctionName}`` as a regular expression."""
    parts = re.split(r"(\{[^}]+\})", address)
    return "".join(
        (".+" if part.endswith("+}") else "[^/]+") if part.startswith("{") else re.escape(part)
        for part in parts
    ) + "/?"  # fmt: skip
