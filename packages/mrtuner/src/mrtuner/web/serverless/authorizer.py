"""The authoriser of the HTTP API: without a session, nothing reaches the viewer's function.

It loads nothing that is compiled, so that a refusal costs little.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from mrtuner.web.authentication import SignedAccess
from mrtuner.web.serverless.settings import access_of


@cache
def _access() -> SignedAccess:
    return access_of(os.environ)


def handler(event: Mapping[str, Any], context: object) -> dict[str, bool]:  # noqa: ARG001 - Lambda
    """Answer in the simple format: whether the request has a session."""
    return {"isAuthorized": _access().logged_in({"cookie": cookies_of(event)})}


def cookies_of(event: Mapping[str, Any]) -> str:
    """Return the cookies of an event of payload format 2.0, as the header has them."""
    listed = event.get("cookies") or ()
    headers = event.get("headers") or {}
    return "; ".join(
        [*listed, *(text for name, text in headers.items() if name.lower() == "cookie")]
    )
