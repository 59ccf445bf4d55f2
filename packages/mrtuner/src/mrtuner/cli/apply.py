"""`mrtuner apply`: put the advice into force, with a way back."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrtuner.cli.common import change, options, role_settings, targets, terminal
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.answers.apply_and_undo import Applied, Proposal
    from mrtuner.change.settings.apply import Outcome, Restart
    from mrtuner.cli.common.document import ApplyDocument


@options.command("apply")
@click.argument("dsn", type=targets.ServerArgument())
@options.machine_options
@change.restart_options
@options.path_option(
    "--conf-dir", "DIR",
    "Write mrtuner.conf in this include_dir of the server instead of ALTER SYSTEM.",
    exists=True,
)  # fmt: skip
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, exists=True),
    metavar="FILE|DIR",
    help="Apply what mrtuner tune wrote (conf or JSON) or mrtuner search found, not fresh advice.",
)
@click.option(
    "--roles",
    is_flag=True,
    help="Set work_mem of the roles whose statements spill, and nothing else.",
)
@options.plans_option
@click.option("--no-plans", is_flag=True, help="Do not compare plans of statements.")
@click.option("--accept-worse-plans", is_flag=True, help="Apply even if a plan gets worse.")
@options.change_options
def command(
    dsn: str,
    restarting: change.Restarting,
    conf_dir: Path | None,
    source: Path | None,
    roles: bool,
    plans: int | None,
    no_plans: bool,
    accept_worse_plans: bool,
    asked: options.Asked,
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
      mrtuner apply postgresql://postgres@db/app --roles

    The plan is shown first, with the statements of pg_stat_statements whose execution plan it
    changes; if one gets worse, nothing is applied unless you accept that. Every step is recorded
    in a journal before it is taken, so that the next run finishes or reverts an interrupted
    change, and mrtuner undo restores exactly what was there.
    """
    from mrtuner.answers import apply

    options.warn_of_password(dsn)
    if roles:
        if conf_dir or source or restarting != change.Restarting():
            raise click.UsageError("--roles goes without --conf-dir, --from, --restart, --standby")
        with terminal.sigterm_as_interrupt():
            role_settings.CHANGE.put(dsn, partial(role_settings.planned, dsn, machine), asked)
        return
    with terminal.sigterm_as_interrupt(), asked.book() as book:
        recovered = restarting.finish_interrupted(dsn, book)
        done = apply(
            dsn,
            journal=book,
            restart=restarting.consent(due=False),
            asks=restarting.restart == "ask",
            wanted=None if source is None else change.wanted_in(source),
            conf_dir=conf_dir,
            standbys=restarting.of_standbys(),
            plans=0 if no_plans else plans,
            accept_worse_plans=accept_worse_plans,
            confirm=partial(_confirm, dsn, plans, restarting, accept_worse_plans, asked),
            tell=terminal.print_note,
            at=change.observed,
            **machine,
        )
    way_back = partial(change.undo_command, journal=asked.journal)
    undo = way_back(dsn, restarting.restart) if done.outcome.changed else None
    if asked.as_json:
        terminal.document(_document(done, recovered, undo))
        return
    change.say(done.outcome)
    if undo:
        terminal.print_note(f"to undo: {undo}")
        for standby in restarting.standbys:
            terminal.print_note(f"to undo on that standby, afterwards: {way_back(*standby)}")


def _confirm(
    dsn: str,
    plans: int | None,
    restarting: change.Restarting,
    accept_worse_plans: bool,
    asked: options.Asked,
    proposal: Proposal,
) -> Restart:
    """Show what can go wrong and what would change, and ask; return the restart agreed to."""
    from mrtuner.tuning.report.plans import plans as plans_text
    from mrtuner.tuning.report.text import dangers, plan_of_change

    plan, look = proposal.plan, terminal.look(sys.stderr)
    terminal.print_notes((*dangers(proposal.tuning, look), *plan_of_change(plan, look)))
    if proposal.plans and (plans is not None or proposal.plans.changed):
        terminal.print_notes(plans_text(proposal.plans, look))
    if not accept_worse_plans:
        proposal.refuse_worse_plans()
    if plan.steps and not plan.refused and not plan.elsewhere:
        asked.confirm(f"Change {plural(len(plan.steps), 'setting')}?")
    how = restarting.consent(due=bool(plan.restart))
    if plan.restart and how.run is not None:
        change.say_limit(dsn, how)
    return how


def _document(done: Applied, recovered: Outcome | None, undo: str | None) -> ApplyDocument:
    from mrtuner.change.document import ChangeOutcome, ChangePlan
    from mrtuner.cli.common.document import ApplyDocument
    from mrtuner.documents import UNSET, convert
    from mrtuner.tuning.document import query_plans

    return ApplyDocument(
        recovered=convert(recovered, ChangeOutcome) if recovered else None,
        plan=convert(done.plan, ChangePlan),
        outcome=convert(done.outcome, ChangeOutcome),
        undo=undo,
        plans=query_plans(done.plans) if done.plans else UNSET,
    )
