"""Whose AWS account and which region, and the clients for them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mrtuner import __version__
from mrtuner.aws.errors import translated
from mrtuner.extras import without

#: Retries of one call, unless AWS_MAX_ATTEMPTS says otherwise. botocore's own default of 3 (5 in
#: legacy mode) gives up under the throttling that a fleet of instances meets.
ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class Account:
    """Where to look; None leaves it to AWS's own environment, files and roles."""

    region: str | None = None
    profile: str | None = None


def client(service: str, account: Account = Account()) -> Any:
    """A boto3 client of one service.

    Where it goes is botocore's to find out, AWS_ENDPOINT_URL included; AWS_REGION, which the AWS
    CLI and the other SDKs know, goes before botocore's AWS_DEFAULT_REGION. Throttled calls are
    retried with a slower and slower pace (mode adaptive). MissingPart without boto3; AwsError
    for an unknown profile, a missing region or an unusable one.
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
    """A session of its own, safe in its thread; what it reads of AWS's models it shares.

    An audit of all regions would else read, and keep, the model of RDS once for each.
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
    """What the environment does not already say; a Config would overrule it."""
    retries: dict[str, Any] = {}
    if "AWS_RETRY_MODE" not in os.environ:
        retries["mode"] = "adaptive"
    if "AWS_MAX_ATTEMPTS" not in os.environ:
        retries["total_max_attempts"] = ATTEMPTS
    return retries


def region_of(client: Any) -> str:
    """The region that a client speaks to."""
    return str(client.meta.region_name)
