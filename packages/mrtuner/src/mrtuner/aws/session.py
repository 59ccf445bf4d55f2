"""An AWS account and region, and the clients for them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mrtuner import __version__
from mrtuner.aws.errors import translated
from mrtuner.extras import without

#: Retries of one call, unless AWS_MAX_ATTEMPTS is set. botocore's own default of 3 (5 in legacy
#: mode) gives up under the throttling that a fleet of instances causes.
ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class Account:
    """The profile and region; None leaves them to AWS's environment variables, files and roles."""

    region: str | None = None
    profile: str | None = None


def client(service: str, account: Account = Account()) -> Any:
    """Return a boto3 client for one service.

    botocore finds the endpoint, including AWS_ENDPOINT_URL; AWS_REGION, which the AWS CLI and the
    other SDKs use, takes precedence over botocore's AWS_DEFAULT_REGION. Throttled calls are
    retried at growing intervals (mode adaptive). Raises MissingPart without boto3; AwsError for
    an unknown profile, or a missing or invalid region.
    """
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise without("boto3") from None
    config = Config(retries=_retries(), user_agent_extra=f"mrtuner/{__version__}")
    region = account.region or os.environ.get("AWS_REGION") or None
    with translated(service, region):
        session = boto3.Session(
            botocore_session=_core(), profile_name=account.profile, region_name=region
        )
        return session.client(service, config=config)


def _core() -> Any:
    """Return a new session, for use in one thread, that shares the AWS models it has loaded.

    Otherwise an audit of all regions would load and keep the model of RDS once per region.
    """
    from botocore.session import Session

    core = Session()
    core.register_component("data_loader", _models())
    return core


@cache
def _models() -> Any:
    from botocore.session import Session

    return Session().get_component("data_loader")


def _retries() -> dict[str, Any]:
    """Return the retry settings that the environment leaves open: a Config would override it."""
    retries: dict[str, Any] = {}
    if "AWS_RETRY_MODE" not in os.environ:
        retries["mode"] = "adaptive"
    if "AWS_MAX_ATTEMPTS" not in os.environ:
        retries["total_max_attempts"] = ATTEMPTS
    return retries


def region_of(client: Any) -> str:
    return str(client.meta.region_name)
