"""Advice in force on a server, as a transaction in a journal, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from mrtuner.answers.proof.sides import refuse_left
from mrtuner.answers.recorded import Tell, silent
from mrtuner.change.settings import apply as settings
from mrtuner.change.settings.apply import NEVER, Outcome, Restart, SettingsPlan, Standby, Wanted
from mrtuner.change.transaction import Observer, unobserved
from mrtuner.errors import MissingPart, Refused
from mrtuner.inputs import PLANS, MachineInputs
from mrtuner.tuning import Tuning, changes, tune
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.change.journal import Journal
    from mrtuner.tuning.query_plans import Plans


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What would be applied: the advice, its steps, and what they do to plans of statements."""

    tuning: Tuning
    plan: SettingsPlan
    plans: Plans | None  # None: not compared

    def refuse_worse_plans(self) -> None:
        """Raise Refused if a statement's plan would cost more by its own estimate."""
        changed = self.plans.changed if self.plans else ()
        if worse := [one for one in changed if one.verdict == "worse"]:
            raise Refused(
                f"{plural(len(worse), 'statement')} would get a worse plan",
                "Leave out the settings that the plans name, or add --accept-worse-plans.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied(Proposal):
    """A proposal that was carried out, and an interrupted change that was cleaned up before it."""

    outcome: Outcome
    recovered: Outcome | None


def apply(
    dsn: str,
    *,
    journal: Journal,
    restart: Restart = NEVER,
    asks: bool = False,
    wanted: Sequence[Wanted] | None = None,
    conf_dir: Path | None = None,
    standbys: Sequence[Standby] = (),
    plans: int | None = None,
    accept_worse_plans: bool = False,
    confirm: Callable[[Proposal], Restart | None] = lambda _: None,
    tell: Tell = silent,
    at: Observer = unobserved,
    **machine: Unpack[MachineInputs],
) -> Applied:
    """Apply the advice for a server, or the settings `wanted`: all of it is verified, or nothing.

    Without a `restart`, what needs one stays pending. `conf_dir` is an include directory to write
    to instead of ALTER SYSTEM. The plans of the busiest `plans` statements are compared before
    (None: of 20, if the change can affect them; 0: of none). `confirm` sees the proposal: it may
    raise, or, which `asks` announces, return a way to restart. `machine` are inputs of `tune`.

    Raises:
        Refused: a plan gets worse and `accept_worse_plans` is not set, the change is unsafe, or a
            proof's or search's settings are in force.
        MissingPart: a permission is missing.
        ApplyError: the change failed; the settings were restored unless the message says otherwise.
    """
    recovered = settings.finish_or_revert_settings(dsn, journal, restart=restart, at=at)
    refuse_left(dsn, journal)
    tuning = tune(dsn, **machine)
    assert tuning.server is not None  # noqa: S101 - a dsn was given
    steps = settings.plan(tuning.server, changes.wanted(tuning) if wanted is None else wanted)
    plan = settings.checked(dsn, steps, restarts=asks or restart.run is not None, standbys=standbys)
    proposal = Proposal(tuning=tuning, plan=plan, plans=_plans(dsn, plans, plan, tell))
    how = confirm(proposal) or restart
    if not accept_worse_plans:
        proposal.refuse_worse_plans()
    outcome = settings.apply(
        dsn, plan, journal, restart=how, conf_dir=conf_dir, fits=changes.fits(tuning),
        standbys=standbys, at=at,
    )  # fmt: skip
    return Applied(
        tuning=tuning, plan=plan, plans=proposal.plans, outcome=outcome, recovered=recovered
    )


def undo(
    dsn: str,
    *,
    journal: Journal,
    restart: Restart = NEVER,
    standbys: Sequence[Standby] = (),
    force: bool = False,
    proof: bool = False,
    only: int | None = None,
    at: Observer = unobserved,
) -> Outcome:
    """Undo the latest change of a server: a value that was unset becomes unset again.

    Values that somebody changed since are overwritten only with `force`. The server's memory is
    checked as in `apply`, if it can be: a check that cannot be made must not prevent an undo.
    `only` is the number of the change that is meant.

    Raises:
        Refused: somebody changed one of its settings since, or the latest change is not `only`.
        UsageError: the journal has no change of this server.
        ApplyError: the change failed; the settings were restored unless the message says otherwise.
    """
    return settings.undo(
        dsn, journal, restart=restart, fits=_fits(dsn), standbys=standbys, force=force,
        proof=proof, only=only, at=at,
    )  # fmt: skip


def _fits(dsn: str) -> Callable[[Mapping[str, str]], bool]:
    try:
        return changes.fits(tune(dsn))
    except Refused:
        return lambda _values: True


def _plans(dsn: str, number: int | None, plan: SettingsPlan, tell: Tell) -> Plans | None:
    """What the plan would do to statements: always where it can be known, or else the reason."""
    from mrtuner.tuning.query_plans import BELIEFS, LIMITS, compare

    advised = {step.name: step.value for step in plan.steps}
    if number == 0 or (number is None and not (BELIEFS | LIMITS).intersection(advised)):
        return None
    try:
        return compare(dsn, number or PLANS, advised, trusted=True)  # only such a role may apply
    except MissingPart as missing:
        if number is not None:
            raise
        tell(f"plans of statements were not compared: {missing.message}")
        return None
