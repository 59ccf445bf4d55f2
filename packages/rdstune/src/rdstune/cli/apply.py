"""`rdstune apply`: change an instance's parameter group, with a way back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli.common import options, targets, terminal
from mrtuner.cli.common.aws_options import account_options
from mrtuner.errors import BadValue, MrTunerError, Refused
from mrtuner.wording import plural
from rdstune.cli import change

if TYPE_CHECKING:
    from mrtuner.aws.session import Account
    from rdstune.live.apply import RdsOutcome, Reboot
    from rdstune.live.compare import InstanceMachine, ParameterLine
    from rdstune.live.plan import RdsPlan, WantedValue
    from rdstune.live.target import Target


@options.command("apply")
@click.argument("instance", type=targets.InstanceArgument())
@click.option(
    "--group", metavar="NAME", help="Parameter group to use; it is created if it does not exist."
)
@click.option("--shared", is_flag=True, help="Allow changing a group that other instances use too.")
@change.reboot_option
@change.workload_option
@change.connections_option
@options.path_option(
    "--from", "FILE",
    "Apply the group in this file (JSON, Terraform, CloudFormation), instead of our advice.",
    name="source", exists=True,
)  # fmt: skip
@change.compare_option
@change.poll_option
@account_options
@options.change_options
def command(
    instance: str,
    group: str | None,
    shared: bool,
    reboot: Reboot,
    workload: str,
    connections: int | None,
    source: Path | None,
    dsn: str | None,
    poll: float,
    account: Account,
    asked: options.Asked,
) -> None:
    """Apply our advice to an instance's parameter group: all of it, or nothing.

    \b
    Examples:
      rdstune apply my-instance
      rdstune apply my-instance --workload oltp --connections 200 --reboot now
      rdstune apply my-instance --group shop-postgres17 --yes
      rdstune apply my-instance --from group.tf --connect postgresql://me@my-instance/app

    The plan is shown first. A default group is never changed: a new group is created for the
    instance and attached, and its values wait for a reboot. Every call is recorded in a journal
    before it is made; the next run finishes or reverts an interrupted change, and rdstune undo
    restores exactly what was there. For an instance of a cluster, the cluster's group is changed.
    """
    from mrtuner.aws import session
    from rdstune.live.apply import apply

    options.warn_of_password(dsn)
    client = session.client("rds", account)
    with terminal.sigterm_as_interrupt(), asked.book() as book:
        change.prove(client, instance, dsn)
        recovered = change.finish_interrupted(client, instance, book, reboot, poll)
        prepared = _prepare(client, account, instance, group, source, dsn, workload, connections)
        for line in _shown(prepared):
            terminal.print_note(line)
        _agree(prepared.plan, reboot, asked, shared=shared)
        with change.telling(poll) as (at, pace):
            outcome = apply(
                client, prepared.plan, book,
                reboot=reboot, shared=shared or not asked.yes, pace=pace, at=at,
            )  # fmt: skip
    lines = _compared(client, prepared, dsn, outcome, poll)
    undo = change.undo_command(instance, account, reboot, asked.journal)
    undo = undo if outcome.result == "applied" else ""
    if asked.as_json:
        from rdstune.live.document import apply_document

        terminal.document(
            apply_document(
                prepared.plan, prepared.machine, prepared.notes,
                recovered=recovered, outcome=outcome, lines=lines, undo=undo or None,
            )
        )  # fmt: skip
    else:
        change.say(outcome)
        if undo:
            terminal.print_note(f"to undo: {undo}")
    _refuse_differences(lines)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The plan, and the machine on which its formulas are evaluated, if that is known."""

    plan: RdsPlan
    machine: InstanceMachine | None
    notes: tuple[str, ...]


def _prepare(
    client: Any,
    account: Account,
    instance: str,
    group: str | None,
    source: Path | None,
    dsn: str | None,
    workload: str,
    connections: int | None,
) -> Prepared:
    from rdstune.group.advice import advise, others_of, refuse_overflow
    from rdstune.live.diff import machine_of
    from rdstune.live.incompatible_parameters import of_target, refuse_other_group
    from rdstune.live.plan import make

    target = change.prove(client, instance, dsn, down=False)
    refuse_other_group(target, group or target.group)
    if source is not None:
        return _from_file(client, account, target, group, source, dsn)
    advised = advise(target, account, workload=workload, connections=connections, dsn=dsn)
    repairs = of_target(client, target, advised.settings, advised.design.instance_class)
    plan = make(client, target, [*advised.settings, *repairs], group)
    others, unknown = others_of(plan, account)
    tight = refuse_overflow(advised.design, plan, others)
    here = machine_of(client, target, advised.design.instance_class, dsn)
    return Prepared(plan, here, (*advised.notes, *unknown, *tight))


def _from_file(
    client: Any,
    account: Account,
    target: Target,
    group: str | None,
    source: Path,
    dsn: str | None,
) -> Prepared:
    """Prepare the group in a file. For an unknown class, a note says that nothing is evaluated."""
    from rdstune.group.advice import class_of, others_of, refuse_mistakes
    from rdstune.live.diff import machine_of
    from rdstune.live.incompatible_parameters import of_target
    from rdstune.live.plan import make

    wanted = _written(source, target.family)
    plan = make(client, target, wanted, group)
    try:
        known, notes = class_of(target, account)
    except BadValue as error:
        return Prepared(plan, None, (f"{error.message}: the results of formulas are not checked",))
    if repairs := of_target(client, target, wanted, known):
        plan = make(client, target, [*wanted, *repairs], group)
    others, unknown = others_of(plan, account)
    mistakes = refuse_mistakes(plan, known, str(source), others)
    return Prepared(plan, machine_of(client, target, known, dsn), (*notes, *unknown, *mistakes))


def _written(source: Path, family: str) -> list[WantedValue]:
    """Return the settings of the only group in a file.

    BadValue if there is not exactly one group, or if values are not known yet. Refused if its
    family is not the one that the instance needs.
    """
    from rdstune.group.read import read
    from rdstune.live.plan import WantedValue

    groups = read(source)
    if len(groups) != 1:
        names = ", ".join(one.name or "unnamed" for one in groups)
        raise BadValue(
            f"{source} contains {len(groups)} groups: {names}", "Use a file with one group."
        )
    if groups[0].family not in {None, family}:
        raise Refused(
            f"the group in {source} is of family {groups[0].family}, but the instance needs"
            f" {family}",
            f"Check the values for {family} and change the family in the file, or create the group"
            " again: rdstune render.",
        )
    unknown = [entry.name for entry in groups[0].entries if entry.value is None]
    if unknown or groups[0].unread:
        what = ", ".join([*unknown, *groups[0].unread])
        raise BadValue(
            f"{source} has values that are not known yet: {what}", "Write them as literals."
        )
    return [WantedValue(entry.name, entry.value or "") for entry in groups[0].entries]


def _agree(plan: RdsPlan, reboot: Reboot, asked: options.Asked, *, shared: bool) -> None:
    """Ask for confirmation, unless nothing changes or the change will be refused anyway."""
    if plan.nothing or (plan.shared and asked.yes and not shared):
        return
    what = f"Set {plural(len(plan.steps), 'parameter')} in {plan.group}"
    what += f" (also used by {', '.join(plan.shared)})" if plan.shared else ""
    what += " and reboot" if reboot == "now" and plan.reboot else ""
    asked.confirm(f"{what}?")


def _compared(
    client: Any, prepared: Prepared, dsn: str | None, outcome: RdsOutcome, poll: float
) -> tuple[ParameterLine, ...] | None:
    """Compare what was changed with the server; None without a connection string or a known class.

    A dynamic value may reach the server shortly after RDS says that it has: look again.
    """
    if dsn is None or prepared.machine is None:
        return None
    import time

    from rdstune.live.compare import differences

    for _ in range(_LOOKS):
        lines = _lines(client, prepared, dsn, outcome)
        if not differences(lines):
            break
        time.sleep(poll)
    return lines


#: How often to look: with the usual second in between, for half a minute.
_LOOKS: Final = 30


def _lines(
    client: Any, prepared: Prepared, dsn: str, outcome: RdsOutcome
) -> tuple[ParameterLine, ...]:
    from dataclasses import replace

    from mrtuner.aws import rds
    from rdstune.live.compare import compare, measured
    from rdstune.live.diff import read_settings

    target, here = prepared.plan.target, prepared.machine
    assert here is not None  # noqa: S101 - `_compared` has looked
    parameters = rds.parameters(client, outcome.group, target.scope)
    rows = read_settings(dsn, [row.name for row in parameters])
    if not outcome.waiting:  # else formulas of this group are not yet in force
        here = replace(here, memory=measured(parameters, rows, here))
    changed = [row for row in parameters if row.name in outcome.changed]
    newly = prepared.plan.attaches
    return compare(changed, here, rows, waiting=bool(outcome.waiting), newly=newly)


def _refuse_differences(lines: tuple[ParameterLine, ...] | None) -> None:
    from rdstune.live.compare import differences

    wrong = differences(lines or ())
    if wrong:
        said = "; ".join(
            f"{one.name} is {one.running} instead of {one.expected or one.value}" for one in wrong
        )
        raise MrTunerError(
            f"the server's values differ from its group's: {said}",
            "See rdstune diff; a role or a database may override it, or the memory may differ.",
        )


def _shown(prepared: Prepared) -> Iterator[str]:
    from mrtuner.present.text import heading, paragraph, table

    plan, look = prepared.plan, terminal.look(sys.stderr)
    if plan.nothing and not plan.left_alone:
        return
    yield from heading("the plan", look)
    yield from paragraph(_where(plan), look)
    if plan.steps:
        header = ("parameter", "takes effect", "evaluates to", "before -> after")
        yield from table(header, [_cells(step, prepared) for step in plan.steps], look)
    for left in plan.left_alone:
        yield from paragraph(f"left unchanged: {left.name} = {left.value}: {left.why}", look)
    if plan.shared:
        text = f"group {plan.group} is also used by {', '.join(plan.shared)}"
        yield from paragraph(text, look, style="warning")
    for warning in (*plan.warnings, *prepared.notes):
        yield from paragraph(warning, look, style="warning")


def _where(plan: RdsPlan) -> str:
    target = plan.target
    made = "a new group" if plan.creates else "group"
    text = f"{target} ({target.class_name}, {target.region}): {made} {plan.group}"
    text += f" of family {plan.family}"
    return f"{text}, attached instead of {target.group}" if plan.attaches else text


def _cells(step: Any, prepared: Prepared) -> tuple[str, ...]:
    from rdstune.live.compare import formula_gives

    when = "after a reboot" if step.name in prepared.plan.reboot else "at once"
    gives = formula_gives(step.value, prepared.machine)
    return (step.name, when, gives or "", f"{step.shown or 'not set'} -> {step.value}")
