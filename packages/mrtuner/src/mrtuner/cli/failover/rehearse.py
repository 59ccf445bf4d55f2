"""`mrtuner failover rehearse`: let it fail over, and time it from the client's side."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrtuner.cli.common import check_option, exit_codes, options, prerequisites, targets, terminal
from mrtuner.cli.common.aws_options import account_options
from mrtuner.cli.common.commands import CliCommand
from mrtuner.wording import not_judged

if TYPE_CHECKING:
    from mrtuner.answers.failover_rehearsal import Arrangement
    from mrtuner.failover.rehearse.document import RehearsalDocument


@click.command("rehearse", cls=CliCommand)
@click.argument("dsn", type=targets.ServerArgument())
@click.option(
    "--trigger", "what", required=True, metavar="WHAT",
    help="What triggers the failover: rds:INSTANCE, patroni:URL, manual, or a command.",
)  # fmt: skip
@options.time_option("--within", "Longest acceptable wait of a client for an answer or an error.")
@click.option("--through", metavar="DSN", help="Probe through this pooler or proxy as well.")
@click.option(
    "--connections", type=click.IntRange(1, 500), default=10, show_default=True, metavar="N",
    help="Connections held open by each kind of probe, and limit on new ones at a time.",
)  # fmt: skip
@options.every_option
@options.time_option(
    "--give-up", "Time after which a probe counts as failed.  [default: twice --within, else 30s]"
)
@options.steady_option
@options.time_option(
    "--start-timeout",
    "Stop if nothing has happened after this long.  [default: 2min; with --trigger manual: "
    "--timeout]",
    name="quiet",
)
@options.time_option(
    "--timeout", "Stop after this long, whatever happens.", name="whole", default="10min"
)
@click.option("--no-write", is_flag=True, help="Probe with reads only, without a ledger of writes.")
@options.html_option("Write the report, with a time line, as one HTML page.")
@check_option.checks("a client waited longer than --within, or a write was lost or doubled")
@account_options
@options.yes_option
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    dsn: str,
    what: str,
    within: float | None,
    through: str | None,
    no_write: bool,
    html: Path | None,
    check: check_option.Check,
    yes: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Let a test server fail over, and time it from the client's side.

    \b
    Examples:
      mrtuner failover rehearse "$DSN" --trigger rds:orders-test --within 20s
      mrtuner failover rehearse "$DSN" --trigger patroni:http://db1:8008 --html rehearsal.html
      mrtuner failover rehearse "$DSN" --trigger 'ssh db2 pg_ctl promote -D /data' --yes
      mrtuner failover rehearse "$DSN" --trigger manual --through "$POOL_DSN"

    Probes read and write throughout, without waiting for each other's answers: over new
    connections, over many that stay open, and with queries in flight. Each answer shows which
    server gave it; writes are counted in a separate table that is dropped at the end. A command is
    run without a shell. The exit code is 1 if nothing failed over; with --check it is 3 if a
    client waited longer than --within, or an acknowledged write was lost, doubled, accepted by the
    old primary, or could not be counted. Servers tagged as production are refused.
    """
    from mrtuner.answers import rehearse
    from mrtuner.failover.rehearse.document import rehearsal_document

    prerequisites.require(page=html)
    options.warn_of_password(dsn)
    options.warn_of_password(through)
    with terminal.sigterm_as_interrupt():
        done = rehearse(
            dsn, what, within=within, through=through, write=not no_write,
            confirm=partial(_confirm, yes), tell=terminal.print_note, **rest,
        )  # fmt: skip
    told = rehearsal_document(
        done.ways, trigger=done.trigger, within=within, cautions=done.cautions
    )
    unjudged = [missing for one in done.ways for missing in one.unjudged(within)]
    for one in unjudged:
        terminal.print_note(not_judged(one.name, one.why, one.supply))
    _show(told, as_json, html)
    if not told.failed_over:
        ctx.exit(exit_codes.FAILED)
    check.conclude(found=not told.kept, unjudged=unjudged)


def _confirm(yes: bool, planned: Arrangement) -> None:
    terminal.print_note(f"planned: {planned.trigger.words}")
    for name, way in planned.ways.items():
        between = f", through {way.between}" if way.between else ""
        terminal.print_note(f"{name}: {way.place}{between}")
        schedule = planned.probes[name].schedule
        terminal.print_note(
            f"  at most {schedule.sessions} sessions at the same time, one probe of each of "
            f"{len(schedule.kinds)} kinds every {schedule.interval:g} s"
        )
        if any(kind.writes for kind in schedule.kinds):
            terminal.print_note(
                f"  schema {planned.probes[name].book.schema} is created there and dropped at the "
                "end"
            )
    terminal.print_note(f"it stops after {planned.whole:g} s at the latest")
    for caution in planned.cautions:
        terminal.print_note(f"warning: {caution}")
    terminal.confirm("Trigger the failover?", yes=yes)


def _show(told: RehearsalDocument, as_json: bool, html: Path | None) -> None:
    from mrtuner.failover.rehearse.page import lines, page

    terminal.answer_and_page(told, lines, page, as_json, html)
