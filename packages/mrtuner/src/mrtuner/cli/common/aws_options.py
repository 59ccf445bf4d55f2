"""The options of commands that call AWS."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from mrtuner.cli.common import options

_account_options = options.stacked(
    click.option(
        "--region",
        metavar="REGION",
        help="AWS region to use.  [default: from AWS's configuration]",
    ),
    click.option("--profile", metavar="NAME", help="AWS profile to use.  [default: AWS_PROFILE]"),
)


def account_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --region and --profile; the command gets them as one `account`."""

    @wraps(function)
    def with_account(*args: Any, region: str | None, profile: str | None, **rest: Any) -> Any:
        from mrtuner.aws.session import Account

        return function(*args, account=Account(region=region, profile=profile), **rest)

    return _account_options(with_account)
