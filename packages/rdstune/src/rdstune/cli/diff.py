"""`rdstune diff`: what the group says, what it gives, what the server runs, what we advise."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from mrtuner.cli.common import check_option, options, targets, terminal
from mrtuner.cli.common.aws_options import account_options
from mrtuner.wording import not_judged
from rdstune.cli import change

if TYPE_CHECKING:
    from mrtuner.aws.session import Account
    from rdstune.live.compare import ParameterLine
    from rdstune.live.diff import Diff


@options.command("diff")
@click.argument("instance", type=targets.InstanceArgument())
@click.option("--against", metavar="GROUP", help="Compare this group instead of the attached one.")
@change.compare_option
@change.workload_option
@change.connections_option
@click.option("--all", "everything", is_flag=True, help="Also list parameters that need no change.")
@check_option.checks("there is something to do")
@account_options
@options.json_option
def command(
    instance: str,
    against: str | None,
    dsn: str | None,
    workload: str,
    connections: int | None,
    everything: bool,
    check: check_option.Check,
    account: Account,
    as_json: bool,
) -> None:
    """Compare an instance's parameter group with its server and with our advice.

    \b
    Examples:
      rdstune diff my-instance
      rdstune diff my-instance --connect postgresql://me@my-instance/app
      rdstune diff my-instance --against shop-postgres17 --workload oltp --check

    Nothing is changed. Without --connect, the memory used in formulas is estimated, and values
    are ranges; with --connect, the memory is derived from the server's settings.
    """
    from mrtuner.aws import session
    from rdstune.group.advice import advise
    from rdstune.live.diff import diff
    from rdstune.live.document import diff_document

    options.warn_of_password(dsn)
    client = session.client("rds", account)
    target = change.prove(client, instance, dsn, down=False)
    advised = advise(target, account, workload=workload, connections=connections, dsn=dsn)
    found = diff(
        client,
        target,
        advised.design.instance_class,
        against=against,
        dsn=dsn,
        advised=advised.values,
        newly=change.attached_lately(target),
    )
    notes = (*advised.notes, *found.notes)
    screen = _screen(found, notes, everything=everything)
    terminal.answer(diff_document(found, notes), screen, as_json)
    check.conclude(found=found.to_do, unjudged=found.unjudged)


def _screen(found: Diff, notes: Sequence[str], *, everything: bool) -> Iterator[str]:
    from mrtuner.present.text import heading, paragraph, table

    look = terminal.look(sys.stdout)
    target = found.target
    yield from heading(f"{target}, {target.class_name}, group {found.group}", look)
    for one in found.unjudged:
        yield from paragraph(not_judged(one.name, one.why, one.supply), look, style="warning")
    yield from paragraph(f"DBInstanceClassMemory: {found.machine.memory}", look)
    lines = [line for line in found.lines if everything or _worth_telling(line)]
    if lines:
        header = ("parameter", "group gives", "running", "advice gives", "group -> advice")
        yield from table(header, [_cells(line) for line in lines], look)
    for title, some in (("differs", found.differing), ("waits for a reboot", found.waiting)):
        if some:
            yield from paragraph(f"{title}: {', '.join(line.name for line in some)}", look)
    if found.down:
        yield from paragraph(_why_down(found), look, style="warning")
    for note in notes:
        yield from paragraph(note, look, style="warning")
    if not lines and not found.unjudged:
        yield "nothing to change"


def _why_down(found: Diff) -> str:
    down = ", ".join(found.target.incompatible)
    why = found.why_down
    if why is None or not why.culprits:
        return f"{down} does not start (incompatible-parameters): no value in its group explains it"
    named = ", ".join(f"{name} = {value}" for name, value in why.culprits.items())
    remedy = f"rdstune apply {found.target.identifier} repairs the group and reboots it"
    if why.overruled:
        names = ", ".join(why.overruled)
        remedy = f"{names} is set in its own group {why.own_group}: reset it there"
    return f"{down} does not start (incompatible-parameters) because of {named}: {remedy}"


def _worth_telling(line: ParameterLine) -> bool:
    from rdstune.live.compare import ParameterVerdict

    amiss = line.verdict in (ParameterVerdict.DIFFERS, ParameterVerdict.WAITS)
    return amiss or line.advised is not None or line.source == "user"


def _cells(line: ParameterLine) -> tuple[str, ...]:
    advice = f" -> {line.advised}" if line.advised else ""
    return (
        line.name,
        str(line.expected or "-"),
        "-" if line.running is None else line.running,
        str(line.advised_gives or "-"),
        f"{line.value or 'not set'}{advice}",
    )
