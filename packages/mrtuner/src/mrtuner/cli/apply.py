"""`mrtuner apply`: put the advice into force, with a way back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrtuner.cli.common import change, options, targets, terminal
from mrtuner.errors import MissingPart, Refused
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.change.journal import Journal
    from mrtuner.change.settings.apply import Outcome, Restart, SettingsPlan, Standby
    from mrtuner.cli.common.document import ApplyDocument
    from mrtuner.tuning import Tuning
    from mrtuner.tuning.query_plans import Plans


@options.command("apply")
@click.argument("dsn", type=targets.ServerArgument())
@options.machine_options
@change.restart_option
@change.timeout_option
@click.option(
    "--conf-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Write mrtuner.conf in this include_dir of the server instead of ALTER SYSTEM.",
)
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Apply what an earlier mrtuner tune wrote (conf or JSON), not fresh advice.",
)
@change.standby_option
@options.plans_option
@click.option("--no-plans", is_flag=True, help="Do not compare plans of statements.")
@click.option("--accept-worse-plans", is_flag=True, help="Apply even if a plan gets worse.")
@options.change_options
def command(
    dsn: str,
    restart: str,
    timeout: float | None,
    conf_dir: Path | None,
    source: Path | None,
    standbys: Sequence[tuple[str, str]],
    plans: int | None,
    no_plans: bool,
    accept_worse_plans: bool,
    journal: Path | None,
    yes: bool,
    as_json: bool,
    **machine: Any,
) -> None:
    """Apply the advice: either all settings are verified, or none are changed.

    \b
    Examples:
      mrtuner apply postgresql://postgres@db/app
      mrtuner apply postgresql://postgres@db/app --restart 'systemctl restart postgresql'
      mrtuner apply postgresql://postgres@db/app --restart ask --workload oltp
      mrtuner apply postgresql://postgres@db/app --from mrtuner.conf --yes
      mrtuner apply postgresql://postgres@db/app --plans 50

    The plan is shown first, with the statements of pg_stat_statements whose execution plan it
    changes; if one gets worse, nothing is applied unless you accept that. Every step is recorded
    in a journal before it is taken, so that the next run finishes or reverts an interrupted
    change, and mrtuner undo restores exactly what was there.
    """
    from mrtuner.change.journal import Journal

    options.warn_of_password(dsn)
    with terminal.sigterm_as_interrupt(), Journal(journal) as book:
        recovered = change.finish_interrupted(dsn, book, restart, timeout)
        replicas = change.standbys_named(standbys)
        allowed = partial(change.consent, restart, timeout=timeout)
        tuning, plan = _prepare(dsn, source, restart, replicas, machine)
        for line in _shown(tuning, plan):
            terminal.print_note(line)
        found = None if no_plans else _plans(dsn, plans, plan)
        if found and not accept_worse_plans:
            _refuse_worse(found)
        outcome = _carried_out(dsn, plan, book, tuning, allowed, conf_dir, replicas, yes)
    undo = change.undo_command(dsn, restart, journal) if outcome.changed else None
    if as_json:
        terminal.document(_document(plan, recovered, outcome, undo, found))
        return
    change.say(outcome)
    if undo:
        terminal.print_note(f"to undo: {undo}")
        for address, how in standbys:
            again = change.undo_command(address, how, journal)
            terminal.print_note(f"to undo on that standby, afterwards: {again}")


def _prepare(
    dsn: str,
    source: Path | None,
    restart: str,
    standbys: Sequence[Standby],
    machine: dict[str, Any],
) -> tuple[Tuning, SettingsPlan]:
    from mrtuner.change.settings.apply import NEVER, Restart, checked, plan
    from mrtuner.tuning import changes, tune

    tuning = tune(dsn, **machine)
    assert tuning.server is not None  # noqa: S101 - a dsn was given
    settings = changes.wanted(tuning) if source is None else change.wanted_in(source)
    how = NEVER if restart == "never" else Restart(run=restart)
    return tuning, checked(dsn, plan(tuning.server, settings), how, standbys)


def _shown(tuning: Tuning, plan: SettingsPlan) -> list[str]:
    """What can go wrong already, and what the plan would do."""
    from mrtuner.tuning.report.text import dangers, plan_of_change

    look = terminal.look(sys.stderr)
    return [*dangers(tuning, look), *plan_of_change(plan, look)]


def _plans(dsn: str, number: int | None, plan: SettingsPlan) -> Plans | None:
    """What the plan would do to statements: always where it can be known, or else the reason."""
    from mrtuner.tuning.query_plans import BELIEFS, LIMITS, compare

    advised = {step.name: step.value for step in plan.steps}
    if number is None and not (BELIEFS | LIMITS).intersection(advised):
        return None
    try:
        found = compare(dsn, number or options.PLANS, advised)
    except MissingPart as missing:
        if number is not None:
            raise
        terminal.print_note(f"plans of statements were not compared: {missing.message}")
        return None
    if number is not None or found.changed:
        _print_plans(found)
    return found


def _print_plans(found: Plans) -> None:
    from mrtuner.tuning.report.plans import plans

    for line in plans(found, terminal.look(sys.stderr)):
        terminal.print_note(line)


def _refuse_worse(found: Plans) -> None:
    """Raise Refused if a plan costs more by its own estimate; --yes does not answer that."""
    if worse := [one for one in found.changed if one.verdict == "worse"]:
        raise Refused(
            f"{plural(len(worse), 'statement')} would get a worse plan",
            "Leave out the settings that the plans name, or add --accept-worse-plans.",
        )


def _carried_out(
    dsn: str,
    plan: SettingsPlan,
    book: Journal,
    tuning: Tuning,
    allowed: Callable[..., Restart],
    conf_dir: Path | None,
    standbys: Sequence[Standby],
    yes: bool,
) -> Outcome:
    """Ask for confirmation if there is something to change, and apply."""
    from mrtuner.change.settings.apply import apply
    from mrtuner.tuning import changes

    if plan.steps and not plan.refused and not plan.elsewhere:
        terminal.confirm(f"Change {plural(len(plan.steps), 'setting')}?", yes=yes)
    how = allowed(restarts=bool(plan.restart))
    if plan.restart and how.run is not None:
        change.say_limit(dsn, how)
    return apply(
        dsn,
        plan,
        book,
        restart=how,
        conf_dir=conf_dir,
        fits=changes.fits(tuning),
        standbys=standbys,
        at=change.observed,
    )


def _document(
    plan: SettingsPlan,
    recovered: Outcome | None,
    outcome: Outcome,
    undo: str | None,
    found: Plans | None,
) -> ApplyDocument:
    from mrtuner.change.document import ChangeOutcome, ChangePlan
    from mrtuner.cli.common.document import ApplyDocument
    from mrtuner.documents import UNSET, convert
    from mrtuner.tuning.document import query_plans

    return ApplyDocument(
        recovered=convert(recovered, ChangeOutcome) if recovered else None,
        plan=convert(plan, ChangePlan),
        outcome=convert(outcome, ChangeOutcome),
        undo=undo,
        plans=query_plans(found) if found else UNSET,
    )
