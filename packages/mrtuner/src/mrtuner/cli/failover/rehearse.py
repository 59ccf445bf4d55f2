"""`mrtuner failover rehearse`: let it fail over, and time it from the client's side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner import extensions
from mrtuner.cli.common import checks, exit_codes, options, prerequisites, targets, terminal
from mrtuner.cli.common.aws_options import account_options
from mrtuner.cli.common.commands import Command
from mrtuner.errors import UsageError
from mrtuner.wording import not_judged

if TYPE_CHECKING:
    from mrtuner.failover.rehearse.document import RehearsalDocument
    from mrtuner.failover.rehearse.paths import ClientPath
    from mrtuner.failover.rehearse.report import Rehearsed
    from mrtuner.rehearsal.probes import Probes, Schedule
    from mrtuner.rehearsal.run import Patience, Trigger

#: Without --give-up, a probe is given up after this many times --within, so that a hang that is
#: slightly too long is still measured to its end.
_BEYOND: Final = 2.0
_PATIENT: Final = 30.0


@click.command("rehearse", cls=Command)
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
@checks.check_option("a client waited longer than --within, or an acknowledged write was lost")
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
    html: Path | None,
    check: checks.Check,
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
    client waited longer than --within or an acknowledged write was lost. Servers tagged as
    production are refused.
    """
    from mrtuner.rehearsal.run import rehearse

    prerequisites.require(page=html)
    with ExitStack() as stack:
        trigger = _trigger(what, rest, stack)
        trigger.check()
        cautions = tuple(trigger.cautions(dsn))
        ways = dict(_ways(dsn, through))
        schedule = _schedule(within, rest)
        for way in ways.values():
            _require_room(way, schedule)
        probes = _probes(ways, schedule)
        _announce(trigger, ways, probes, rest["whole"])
        for caution in cautions:
            terminal.print_note(f"warning: {caution}")
        terminal.confirm("Trigger the failover?", yes=yes)
        with terminal.sigterm_as_interrupt():
            runs = rehearse(
                trigger, list(probes.values()), patience=_patience(what, rest),
                sources=[_names(ways, stack)], tell=terminal.print_note,
            )  # fmt: skip
    from mrtuner.failover.rehearse.document import rehearsal_document

    found = _judged(ways, runs)
    unjudged = [missing for one in found for missing in one.unjudged(within)]
    told = rehearsal_document(
        found, trigger=trigger.words, within=within, cautions=cautions
    )  # fmt: skip
    for one in unjudged:
        terminal.print_note(not_judged(one.name, one.why, one.supply))
    _show(told, as_json, html)
    if not told.failed_over:
        ctx.exit(exit_codes.FAILED)
    check.conclude(found=not told.kept, unjudged=unjudged)


def _trigger(what: str, given: Mapping[str, Any], stack: ExitStack) -> Trigger:
    kind, _, rest = what.partition(":")
    if (made := extensions.load(extensions.TRIGGERS, kind)) is not None:
        trigger: Trigger = made(rest, given["account"])
        return trigger
    if kind == "patroni":
        from mrtuner.failover.rehearse.patroni import Patroni

        return Patroni(rest)
    from mrtuner.failover.rehearse.triggers import Command as Run
    from mrtuner.failover.rehearse.triggers import Manual

    return Manual(terminal.print_note) if what == "manual" else stack.enter_context(Run(what))


def _ways(dsn: str, through: str | None) -> Iterator[tuple[str, ClientPath]]:
    from mrtuner.failover.rehearse.paths import look

    options.warn_of_password(dsn)
    yield "direct", look(dsn)
    if through is not None:
        options.warn_of_password(through)
        yield "pool", look(through)


def _schedule(within: float | None, given: Mapping[str, Any]) -> Schedule:
    from mrtuner.rehearsal.observation import ProbeKind
    from mrtuner.rehearsal.probes import Schedule

    patience = given["give_up"] or (_PATIENT if within is None else _BEYOND * within)
    if within is not None and patience <= within:
        raise UsageError(
            f"a probe given up after {patience:g} s cannot show whether a client waits "
            f"{within:g} s",
            "Give a longer --give-up than --within.",
        )
    return Schedule(
        interval=given["every"],
        timeout=patience,
        kinds=tuple(kind for kind in ProbeKind if not (kind.writes and given["no_write"])),
        held=given["connections"],
        at_once=given["connections"],
    )


def _require_room(way: ClientPath, schedule: Schedule) -> None:
    writes = any(kind.writes for kind in schedule.kinds)
    way.require(writes=writes, sessions=schedule.sessions)


def _probes(ways: Mapping[str, ClientPath], schedule: Schedule) -> dict[str, Probes]:
    from mrtuner.rehearsal.probes import Probes

    return {name: Probes(way.dsn, schedule) for name, way in ways.items()}


def _patience(what: str, given: Mapping[str, Any]) -> Patience:
    from mrtuner.rehearsal.run import Patience

    usual = Patience()
    quiet = given["quiet"] or (given["whole"] if what == "manual" else usual.quiet)
    return Patience(
        before=given["steady"], settle=given["steady"], quiet=quiet, whole=given["whole"],
        poll=min(usual.poll, given["steady"]),
    )  # fmt: skip


def _names(ways: Mapping[str, ClientPath], stack: ExitStack) -> Any:
    from mrtuner.failover.rehearse.dns import Names, of

    found = [name for way in ways.values() for name in of(way.parameters)]
    return stack.enter_context(Names(tuple(dict.fromkeys(found))))


def _announce(
    trigger: Trigger, ways: Mapping[str, ClientPath], probes: Mapping[str, Probes], whole: float
) -> None:
    terminal.print_note(f"planned: {trigger.words}")
    for name, way in ways.items():
        between = f", through {way.between}" if way.between else ""
        terminal.print_note(f"{name}: {way.place}{between}")
        schedule = probes[name].schedule
        terminal.print_note(
            f"  at most {schedule.sessions} sessions at the same time, one probe of each of "
            f"{len(schedule.kinds)} kinds every {schedule.interval:g} s"
        )
        if any(kind.writes for kind in schedule.kinds):
            terminal.print_note(
                f"  schema {probes[name].book.schema} is created there and dropped at the end"
            )
    terminal.print_note(f"it stops after {whole:g} s at the latest")


def _judged(ways: Mapping[str, ClientPath], runs: Sequence[Any]) -> list[Rehearsed]:
    from mrtuner.failover.rehearse.report import rehearsed

    return [rehearsed(name, way, run) for (name, way), run in zip(ways.items(), runs, strict=True)]


def _show(told: RehearsalDocument, as_json: bool, html: Path | None) -> None:
    from mrtuner.failover.rehearse.page import lines, page

    terminal.answer_and_page(told, lines, page, as_json, html)
