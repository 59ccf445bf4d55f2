"""Settings of the functions, from environment variables that `viewer.yaml` sets."""

from __future__ import annotations

from collections.abc import Mapping

from mrtuner.errors import UsageError
from mrtuner.web.authentication import SignedAccess

#: Where recorders publish: s3://BUCKET/PREFIX.
PLACE = "MRTUNER_HISTORY_DIR"
#: The argon2 hash of the password.
PASSWORD_HASH = "MRTUNER_PASSWORD_HASH"  # noqa: S105 - the name of a variable


#: CloudFront and the HTTP API, which add their clients to X-Forwarded-For.
_PROXIES = 2


def setting(environment: Mapping[str, str], name: str) -> str:
    """Return a variable of the environment.

    Raises:
        UsageError: it is not set.
    """
    if not (value := environment.get(name)):
        raise UsageError(f"{name} is not set", f"Set {name} in the function's environment.")
    return value


def in_lambda(environment: Mapping[str, str]) -> bool:
    """Whether this runs in Lambda, which gives more CPU while it loads the handler."""
    return "AWS_LAMBDA_FUNCTION_NAME" in environment


def access_of(environment: Mapping[str, str]) -> SignedAccess:
    """Return the access that all functions share.

    Raises:
        UsageError: there is no hash; with an empty one, anyone could sign a session.
    """
    return SignedAccess(hashed=setting(environment, PASSWORD_HASH), proxies=_PROXIES)
