"""The login as a Lambda function of its own, so that its page needs neither DuckDB nor S3."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from mrtuner.web.authentication import Gate
from mrtuner.web.serverless.settings import access_of, in_lambda

if TYPE_CHECKING:
    from mangum import Mangum


def login(environment: Mapping[str, str]) -> Mangum:
    """Return the handler of the function's events: /login and /logout, and nothing else.

    Raises:
        UsageError: a variable is not set.
    """
    from mangum import Mangum
    from starlette.applications import Starlette

    return Mangum(Gate(Starlette(), access_of(environment)), lifespan="off")


@cache
def _login() -> Mangum:
    return login(os.environ)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return dict(_login()(event, context))


if in_lambda(os.environ):
    _login()
