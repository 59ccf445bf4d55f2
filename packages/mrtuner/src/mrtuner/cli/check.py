"""`mrtuner check`: is this server all right, and if not, what comes first?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.answers.targets import RDS, TargetKind, kind_of
from mrtuner.cli.common import check_option, options, prerequisites, targets, terminal
from mrtuner.cli.common.aws_options import account_options
from mrtuner.errors import UsageError
from mrtuner.inputs import OF_A_CHECK

if TYPE_CHECKING:
    from mrtuner.answers.server_check import CheckTarget
    from mrtuner.aws.session import Account

_SEVERITIES: Final = ("danger", "to-do", "to-know")


@options.command("check")
@click.argument(
    "named", type=targets.ServerArgument(rds=True), nargs=-1, metavar="[DSN|rds:NAME]..."
)
@options.stacked(*(options.declared_option(name) for name in OF_A_CHECK))
@targets.config_option
@click.option(
    "--skip", metavar="ID[,ID]…", help="Leave out these checks; mrtuner explain lists them."
)
@click.option(
    "--fail-on", type=click.Choice(_SEVERITIES), default="to-do", show_default=True,
    help="Exit with status 3 from this severity on.",
)  # fmt: skip
@options.history_options("Also tell what went wrong within a day, as mrtuner record wrote there.")
@click.option(
    "--with", "including", multiple=True, metavar="NAME:WHAT",
    help="Also check pods:MANIFEST, whether its connections fit, or rds:NAME, the instance.",
)  # fmt: skip
@click.option(
    "--all", "everything", is_flag=True, help="Also name the checks that passed or were skipped."
)
@options.html_option("Write the findings as one HTML page.")
@account_options
@check_option.always_checks
@options.json_option
def command(
    named: tuple[str, ...],
    config: Path | None,
    skip: str | None,
    fail_on: str,
    history: Path | None,
    instance: str | None,
    including: tuple[str, ...],
    account: Account,
    everything: bool,
    html: Path | None,
    check: check_option.Check,
    as_json: bool,
    **machine: Any,
) -> None:
    """Find what is wrong with a server, the most urgent first, with what to do about it.

    \b
    Examples:
      mrtuner check postgresql://monitor@db/app
      mrtuner check                                  the server that psql would find
      mrtuner check rds:orders                       an instance of RDS, with what AWS tells of it
      mrtuner check --config fleet.toml              one list for all that are named there
      mrtuner check postgresql://monitor@db/app --memory 16GB --skip free-space
      mrtuner check postgresql://monitor@db/app --fail-on danger --json
      mrtuner check postgresql://monitor@db/app --history /var/lib/mrtuner
      mrtuner check postgresql://monitor@db/app --with pods:deployment.yaml
      mrtuner explain lock-queue                     what a check means

    Reads only, over one connection, and takes a few seconds at most. Tables and indexes are those
    of the connected database. Grant pg_monitor to the role. A danger loses data or service; to do
    is what costs or risks something; to know is the rest. The exit code is 3 if there is something
    from --fail-on on, or if a check could not judge.
    """
    from mrtuner.answers.server_check import check as check_one
    from mrtuner.answers.server_check import check_all
    from mrtuner.checks.document import check_document
    from mrtuner.findings import Severity

    prerequisites.require(page=html)
    left_out = [name.strip() for name in (skip or "").split(",") if name.strip()]
    if config is None and len(named) < 2:
        options.warn_of_password(*named or [None])
        reports = [
            check_one(
                *named, skip=left_out, history=history, instance=instance, including=including,
                account=account, **machine,
            )
        ]  # fmt: skip
    else:
        if including or any(value is not None for value in (history, *machine.values())):
            raise UsageError(
                "options about the machine, the history and --with are for one server",
                "Check the servers one by one; --config takes memory and cpus of each.",
            )
        reports = check_all(_named(named, config), skip=left_out, account=account)
    told = check_document(reports)
    if as_json:
        terminal.document(told)
    else:
        from mrtuner.checks.text import lines

        terminal.print_lines(lines(told, terminal.look(sys.stdout), everything=everything))
    if html is not None:
        from mrtuner.checks.page import page

        terminal.save_and_tell(html, page(told))
    limit = Severity(fail_on.replace("-", " "))
    check.conclude(
        found=any(one.as_bad_as(limit) for one in reports),
        unjudged=[missing for one in reports for missing in one.unjudged],
    )


def _named(named: Sequence[str], config: Path | None) -> list[CheckTarget]:
    """What is checked under each name: a server, an instance of RDS, or both."""
    from mrtuner.answers.server_check import CheckTarget
    from mrtuner.history.fleet_file import read_fleet

    of_rds = {one: one for one in named if kind_of(one) is TargetKind.RDS}
    servers = targets.servers_named([one for one in named if one not in of_rds], config)
    if config is not None:
        of_rds |= {one.name: f"{RDS}{one.identifier}" for one in read_fleet(config).managed}
    both = [
        CheckTarget(name, one.dsn, of_rds.pop(name, None), one.machine)
        for name, one in servers.items()
    ]
    return [*both, *(CheckTarget(name, rds) for name, rds in of_rds.items())]
