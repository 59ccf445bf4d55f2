"""`rdstune maintenance`: what AWS will do to instances and when; and its rehearsal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli.common import check_option, exit_codes, options, prerequisites, targets, terminal
from mrtuner.cli.common.aws_options import account_options
from mrtuner.cli.common.commands import offer_verbs
from mrtuner.errors import UsageError
from rdstune.cli import change

if TYPE_CHECKING:
    from mrtuner.aws.session import Account
    from rdstune.fleet.maintenance import Upkeep
    from rdstune.fleet.rehearsal import RehearsalPatience, RehearsalPlan
    from rdstune.fleet.stagger import CalendarEntry


#: How long RDS may take to begin [s]: it reboots at once, but starts maintenance in its own time.
_AT_ONCE: Final = 120.0
_QUEUED: Final = 1800.0


@options.command("maintenance")
@click.argument(
    "instances",
    type=targets.InstanceArgument(),
    nargs=-1,
    metavar="[INSTANCE]...",
    shell_complete=offer_verbs,
)
@click.option(
    "--all", "everything", is_flag=True, help="Include every PostgreSQL instance of the region."
)
@click.option(
    "--timezone",
    metavar="ZONE",
    help="Time zone to show times in, such as Europe/Vienna.  [default: this machine's]",
)
@click.option(
    "--stagger-by",
    "tag",
    metavar="TAG",
    help="Instances with the same value of this tag take turns, like those of a cluster.",
)
@options.time_option("--gap", "Minimum time between two windows of one group.", default="30min")
@check_option.checks("something is pending or windows are too close together")
@account_options
@options.json_option
def command(
    instances: tuple[str, ...],
    everything: bool,
    timezone: str | None,
    tag: str | None,
    gap: float,
    check: check_option.Check,
    account: Account,
    as_json: bool,
) -> None:
    """Show pending maintenance of instances, when it happens, and how it affects clients.

    \b
    Examples:
      rdstune maintenance orders-db
      rdstune maintenance --all --timezone Europe/Vienna
      rdstune maintenance --all --stagger-by app     so that one app's instances take turns
      rdstune maintenance rehearse orders-test --connect postgresql://app@orders-test…/app
    """
    from mrtuner.aws.session import client
    from rdstune.fleet.maintenance import survey
    from rdstune.fleet.maintenance_windows import zone_named
    from rdstune.fleet.stagger import clashes

    if bool(instances) is everything:
        raise UsageError("give either instances or --all", "Name some instances, or use --all.")
    zone, now = zone_named(timezone), datetime.now(UTC)
    found = survey(client("rds", account), instances, now=now)
    calendar = _calendar(found, tag)
    minutes = round(gap / 60)
    if as_json:
        from rdstune.fleet.document import maintenance_document

        terminal.document(maintenance_document(found, calendar, gap=minutes, now=now))
    else:
        terminal.print_lines(_lines(found, calendar, minutes, zone, now))
    waits = any(item.work or item.windows_collide for item in found)
    check.conclude(found=waits or bool(clashes(calendar, gap=minutes)), unjudged=())


def _calendar(found: Sequence[Upkeep], tag: str | None) -> tuple[CalendarEntry, ...]:
    """Return the calendar; production and primaries keep their windows if possible."""
    from mrtuner.rehearsal.production import production_tag
    from rdstune.fleet.stagger import places

    rows = [item.instance for item in found]
    stays = [one.identifier for one in rows if production_tag(one.tags) or one.replicas]
    return places(rows, tag=tag, stays=stays)


def _lines(
    found: Sequence[Upkeep],
    calendar: Sequence[CalendarEntry],
    gap: int,
    zone: tzinfo | None,
    now: datetime,
) -> Iterator[str]:
    from rdstune.fleet.maintenance_text import calendar_lines, stagger_lines, upkeep_lines
    from rdstune.fleet.stagger import clashes, staggered

    if not found:
        yield "no PostgreSQL instance in this region"
    for place, item in enumerate(found):
        yield from [""] if place else []
        yield from upkeep_lines(item, zone, now, terminal.look(sys.stdout).width)
    if len(found) > 1:
        yield ""
        yield "next windows"
        yield from calendar_lines(found, zone)
    near = clashes(calendar, gap=gap)
    if near:
        yield ""
        yield "windows too close together"
        yield from stagger_lines(near, staggered(calendar, gap=gap), zone, now)


# The rehearsal.


@command.verb("rehearse")
@click.argument("instance", type=targets.InstanceArgument())
@change.connect_option(
    "as its clients do; the settings in it are part of the measurement", required=True
)
@click.option("--failover", is_flag=True, help="Reboot with failover; Multi-AZ instances only.")
@click.option(
    "--action", metavar="ACTION",
    help="Apply this pending maintenance action now, instead of rebooting.",
)  # fmt: skip
@click.option(
    "--times",
    type=click.IntRange(1, 20),
    default=1,
    show_default=True,
    help="Number of rehearsals.",
)
@options.every_option
@options.time_option("--give-up", "Time after which a probe counts as failed.", default="10s")
@options.steady_option
@options.time_option(
    "--start-timeout",
    "Stop if no outage has begun by then.  [default: 2min; with --action 30min]",
    name="quiet",
)
@options.time_option("--between", "Pause between two rehearsals.", default="2min")
@click.option("--no-write", is_flag=True, help="Probe with reads only, as for replicas.")
@options.html_option("Write the report, with a time line, as one HTML page.")
@account_options
@options.yes_option
@options.json_option
@click.pass_context
def rehearse(
    ctx: click.Context,
    /,
    instance: str,
    dsn: str,
    html: Path | None,
    account: Account,
    yes: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Reboot a non-production instance, and time the outage from the client's side.

    \b
    Examples:
      rdstune maintenance rehearse orders-test --connect postgresql://app@orders-test…/app
      rdstune maintenance rehearse orders-test --connect "$DSN" --failover --times 3 --yes
      rdstune maintenance rehearse orders-test --connect "$DSN" --html rehearsal.html
      rdstune maintenance rehearse orders-test --connect "$DSN" --action system-update

    Probes read and write throughout, without waiting for each other's answers: over new
    connections and over one that stays open. Writes go to a temporary schema, which is dropped at
    the end. An instance tagged as production is refused.
    """
    from mrtuner.aws.session import client
    from rdstune.fleet import rehearsal
    from rdstune.fleet.document import rehearsal_document
    from rdstune.fleet.rehearsal_page import lines, page

    options.warn_of_password(dsn)
    prerequisites.require("boto3", page=html)
    aws = client("rds", account)
    drawn = rehearsal.plan(
        aws, instance,
        failover=rest["failover"], action=rest["action"], times=rest["times"],
    )  # fmt: skip
    elsewhere = rehearsal.leads_elsewhere(dsn, drawn.instance)
    cautions = [elsewhere] if elsewhere else []
    _announce(drawn, cautions)
    terminal.confirm("Take it down?", yes=yes)
    with terminal.sigterm_as_interrupt():
        runs = rehearsal.rehearse(
            aws, dsn, drawn,
            schedule=_schedule(rest), patience=_patience(rest), tell=terminal.print_note,
        )  # fmt: skip
    endpoint = str(aws.meta.endpoint_url)
    told = rehearsal_document(
        drawn, runs,
        endpoint=endpoint, aws=".amazonaws.com" in endpoint, cautions=cautions,
    )  # fmt: skip
    terminal.answer_and_page(told, lines, page, as_json, html)
    if not all(run.settled and run.observation.went_away for run in runs):
        ctx.exit(exit_codes.FAILED)


def _schedule(given: dict[str, Any]) -> Any:
    from mrtuner.rehearsal.observation import USUAL
    from mrtuner.rehearsal.probes import Schedule

    kinds = tuple(kind for kind in USUAL if not (kind.writes and given["no_write"]))
    return Schedule(interval=given["every"], timeout=given["give_up"], kinds=kinds)


def _patience(given: dict[str, Any]) -> RehearsalPatience:
    from rdstune.fleet.rehearsal import RehearsalPatience

    return RehearsalPatience(
        before=given["steady"], settle=given["steady"],
        quiet=given["quiet"] or (_QUEUED if given["action"] else _AT_ONCE),
        between=given["between"],
    )  # fmt: skip


def _announce(drawn: RehearsalPlan, cautions: Sequence[str]) -> None:
    instance, expected = drawn.instance, drawn.expected
    terminal.print_note(
        f"{instance.identifier}: {instance.class_name}, {instance.engine} "
        f"{instance.engine_version}, {drawn.deployment}"
    )
    often = f", {drawn.times} times" if drawn.times > 1 else ""
    terminal.print_note(f"planned: {drawn.what}{often}; all its sessions will be disconnected")
    if drawn.action is not None:
        terminal.print_note("this cannot be undone")
    terminal.print_note(f"AWS: {expected.words}")
    for caution in cautions:
        terminal.print_note(f"warning: {caution}")
