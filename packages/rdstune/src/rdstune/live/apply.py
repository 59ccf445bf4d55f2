"""Apply a plan on RDS, undo it, and clean up after an interruption.

The three operations share one transaction (group_transaction.py) and the main job's journal. Each
reaches its target or restores the previous state, and reports which. `plan.make` shows what
`apply` would do; `undo` is in undo.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from mrtuner.aws import rds
from mrtuner.aws.errors import AwsError
from mrtuner.change import record as change
from mrtuner.change.journal import Journal
from mrtuner.change.record import Change, GroupChange, ParameterChange
from mrtuner.change.transaction import Observer, StepName, unobserved
from mrtuner.errors import Refused
from rdstune.live.group_transaction import GroupTransaction, reboot_waiting
from rdstune.live.incompatible_parameters import refuse_other_group
from rdstune.live.plan import RdsPlan, make, user_values
from rdstune.live.replica_minimums import (
    moves,
    moves_written,
    refuse_floors,
    refuse_reboot,
)
from rdstune.live.target import Target, read_target, users
from rdstune.live.wait import USUAL, Pace

__all__ = ["RdsPlan", "apply", "make"]

Reboot = Literal["never", "now"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RdsOutcome(change.Outcome):
    """The result of changing a parameter group; `waiting` lists instances."""

    target: str
    group: str
    calls: int = 0  # Modify and Reset calls in this run, each with at most 20 parameters


def apply(
    client: Any,
    plan: RdsPlan,
    journal: Journal,
    *,
    reboot: Reboot = "never",
    shared: bool = False,
    pace: Pace = USUAL,
    at: Observer = unobserved,
) -> RdsOutcome:
    """Carry out a plan: write in journalled calls, attach, wait, reboot if allowed, verify.

    An earlier interrupted change is cleaned up first. Before anything is touched, raises Refused
    for a group that others use (without `shared`), an instance that is modifying, and anything
    changed since the plan was made. Raises ApplyError later, with everything restored unless its
    message says otherwise.
    """
    if plan.shared and not shared and not plan.nothing:
        raise Refused(
            f"group {plan.group} is also used by {', '.join(plan.shared)}",
            "Use --shared to change them all, or --group NAME for a separate group.",
        )
    finish_or_revert_group(client, plan.target.identifier, journal, reboot=reboot, pace=pace, at=at)
    if plan.nothing:
        return _only_reboot(client, plan, journal, reboot, pace, at)
    with held(journal, plan.target, plan.group):
        target = read_target(client, plan.target.identifier)
        refuse_other_group(target, plan.group)
        if not target.incompatible:  # an incompatible one is repaired instead
            refuse_busy(target)
        _refuse_stale(client, plan, target)
        refuse_floors(client, target, moves(plan), plan.group, reboot)
        draft = _draft(plan, target, reboot)
        transaction = begin(client, journal, draft, pace, at, reboot)
        transaction.carry_out()
    return outcome("applied", transaction)


def _only_reboot(
    client: Any, plan: RdsPlan, journal: Journal, reboot: Reboot, pace: Pace, at: Observer
) -> RdsOutcome:
    """Reboot instances that wait for it, if allowed; nothing is written, so nothing journalled."""
    target = read_target(client, plan.target.identifier)
    waiting = tuple(name for name in reboot_order(target) if not target.runs_group(name))
    result: change.Result = "nothing"
    if reboot == "now" and waiting:
        with held(journal, target, target.group):
            refuse_busy(target)
            refuse_reboot(client, target, moves_written(client, journal, target))
            for name in waiting:
                at(StepName(f"reboot {name}"))
                reboot_waiting(client, name, pace)
        result, waiting = "rebooted", ()
    return RdsOutcome(result=result, target=target.identifier, group=target.group, waiting=waiting)


def finish_or_revert_group(
    client: Any,
    identifier: str,
    journal: Journal,
    *,
    reboot: Reboot = "never",
    pace: Pace = USUAL,
    at: Observer = unobserved,
) -> RdsOutcome | None:
    """Finish or revert this instance's interrupted change; None if there is none.

    A change whose group is as intended and attached as intended is finished (and rebooted, if
    this run may); any other is reverted. ApplyError when it could not be finished and was
    reverted.
    """
    target = read_target(client, identifier)
    found = journal.unfinished(target.arn)
    if found is None:
        return None
    with held(journal, target, found.group.name if found.group else target.group):
        unfinished = journal.unfinished(target.arn)
        if unfinished is None:
            return None
        transaction = GroupTransaction(client, journal, unfinished, pace, at, reboot == "now")
        done = transaction.finish_or_revert()
    return outcome(done.result, transaction, done.waiting if done.result == "reverted" else None)


# Refusals.


def refuse_busy(target: Target) -> None:
    """Refuse an instance that is modifying, stopped or broken."""
    if target.incompatible:
        raise Refused(
            f"{', '.join(target.incompatible)} does not start with its parameters"
            " (incompatible-parameters)",
            "rdstune diff shows what keeps it from starting; rdstune apply repairs its group.",
        )
    if not target.changeable:
        raise Refused(
            f"{target} is {target.busy or target.writer.status}, not available",
            "Wait until it is available, then run again.",
        )


def _refuse_stale(client: Any, plan: RdsPlan, target: Target) -> None:
    """Refuse if anything that the plan is based on has changed."""
    changed = [*_changed_target(plan.target, target), *_changed_group(client, plan)]
    if changed:
        raise Refused(
            f"changed since the plan was made: {', '.join(changed)}",
            "Run again to make a new plan.",
        )


def _changed_target(then: Target, now: Target) -> Iterator[str]:
    if now.group != then.group:
        yield f"{now} uses group {now.group} instead of {then.group}"
    if now.class_name != then.class_name:
        yield f"its class is {now.class_name} instead of {then.class_name}"
    if now.family != then.family:
        yield f"its version needs family {now.family} instead of {then.family}"


def _changed_group(client: Any, plan: RdsPlan) -> Iterator[str]:
    scope = plan.target.scope
    try:
        now = user_values(rds.parameters(client, plan.group, scope, source="user"))
    except AwsError as error:
        if error.not_found and plan.creates:
            return
        raise
    if plan.creates:
        yield f"group {plan.group} has been created"
        return
    yield from differing(plan.user_values, now)
    if new := set(users(client, plan.group, scope)) - {plan.target.identifier, *plan.shared}:
        yield f"group {plan.group} is now used by {', '.join(sorted(new))} too"


def differing(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Yield the parameters whose user-set value differs, with both values."""
    for name in sorted(then.keys() | now.keys()):
        if then.get(name) != now.get(name):
            yield f"{name} (now {now.get(name, 'not set')}, was {then.get(name, 'not set')})"


# The changes to write.


def _draft(plan: RdsPlan, target: Target, reboot: Reboot) -> Change:
    reboots = reboot_order(target) if reboot == "now" and plan.reboot else ()
    if not plan.steps and reboot == "now":
        reboots = reboot_order(target)  # another group is attached unchanged
    if target.incompatible:
        reboots = ()  # an instance that is down is rebooted anyway once its group is written
    return Change(
        server=target.arn,
        address=f"{target.region}/{target.identifier}",
        method="parameter group",
        entries=tuple(
            ParameterChange(
                name=step.name,
                before=step.before,
                after=step.value,
                restart=step.static,
                in_force=step.shown or "",
            )
            for step in plan.steps
        ),
        restarts=bool(reboots),
        group=GroupChange(
            region=target.region,
            scope=target.scope.value,
            identifier=target.identifier,
            name=plan.group,
            family=plan.family,
            attached_before=target.group,
            attached_after=plan.group,
            creates=plan.creates,
            reboots=reboots,
            # Unique: another program's group may have the same name.
            description=f"MrTuner for {target.identifier}, {datetime.now(UTC).isoformat()}",
        ),
    )


def reboot_order(target: Target) -> tuple[str, ...]:
    """Return what to reboot, readers first: a standby must not have less than its primary."""
    if target.restarts_as_one:
        return (target.identifier,)
    return tuple(one.identifier for one in reversed(target.members))


# Applying.


@contextmanager
def held(journal: Journal, target: Target, group: str) -> Iterator[None]:
    """Lock an instance and a group against other MrTuner processes with this journal."""
    account = ":".join(target.arn.split(":")[3:5])
    with journal.hold(target.arn), journal.hold(f"{target.scope} group {account} {group}"):
        yield


def begin(
    client: Any, journal: Journal, draft: Change, pace: Pace, at: Observer, reboot: Reboot
) -> GroupTransaction:
    return GroupTransaction(client, journal, journal.begin(draft), pace, at, reboot == "now")


def outcome(
    result: change.Result, transaction: GroupTransaction, waiting: Sequence[str] | None = None
) -> RdsOutcome:
    """Return the outcome of a finished transaction; `waiting` is looked up unless given."""
    group = transaction.group
    if waiting is None:
        waiting = read_target(transaction.client, group.identifier).waiting
    return RdsOutcome(
        **asdict(transaction.outcome(result, waiting)),
        target=group.identifier,
        group=group.name,
        calls=transaction.calls,
    )
