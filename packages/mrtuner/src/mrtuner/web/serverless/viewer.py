"""The viewer as a Lambda function behind an HTTP API (payload format 2.0)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from mrtuner.aws.session import client
from mrtuner.history.remote import RemoteStore
from mrtuner.history.store.s3 import place_of
from mrtuner.web.app import app
from mrtuner.web.serverless.settings import PLACE, access_of, in_lambda, setting

if TYPE_CHECKING:
    from mangum import Mangum


def viewer(environment: Mapping[str, str]) -> Mangum:
    """Return the handler of the function's events.

    Raises:
        UsageError: a variable is not set.
        BadValue: the store is not on S3.
    """
    from mangum import Mangum

    # Load it now, so that the first request does not wait for it.
    import mrtuner.web.answers  # noqa: F401

    store = RemoteStore(place_of(setting(environment, PLACE)), client("s3"))
    # CloudFront calls it by the name of the API, which is not known here.
    shown = app(store, hosts=("*",), access=access_of(environment))
    return Mangum(shown, lifespan="off")


@cache
def _viewer() -> Mangum:
    return viewer(os.environ)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return dict(_viewer()(event, context))


if in_lambda(os.environ):
    _viewer()
