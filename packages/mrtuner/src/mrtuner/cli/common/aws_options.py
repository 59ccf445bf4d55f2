"""The options of commands that call AWS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mrtuner.cli.common import options

if TYPE_CHECKING:
    from mrtuner.aws.session import Account


def _account(*, region: str | None, profile: str | None) -> Account:
    from mrtuner.aws.session import Account

    return Account(region=region, profile=profile)


#: The command gets them as one `account`.
account_options = options.gathered(
    "account", _account,
    region=click.option(
        "--region", metavar="REGION", help="AWS region to use.  [default: from AWS's configuration]"
    ),
    profile=click.option(
        "--profile", metavar="NAME", help="AWS profile to use.  [default: AWS_PROFILE]"
    ),
)  # fmt: skip
