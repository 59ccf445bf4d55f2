"""Undo the latest change of an instance's parameter group, exactly.

Values that a user had set are set again, everything else is reset; the previously attached group
is attached again, and one that we created is deleted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mrtuner.aws import rds
from mrtuner.aws.calls import unless_missing
from mrtuner.change.journal import Journal, refuse_other
from mrtuner.change.record import Change, GroupChange, ParameterChange
from mrtuner.change.transaction import Observer, unobserved
from mrtuner.errors import Refused, UsageError
from rdstune.live.apply import (
    RdsOutcome,
    Reboot,
    begin,
    finish_or_revert_group,
    held,
    outcome,
    reboot_order,
    refuse_busy,
)
from rdstune.live.plan import user_values
from rdstune.live.replica_minimums import moves_back, refuse_floors
from rdstune.live.target import Target, read_target, users
from rdstune.live.wait import USUAL, Pace


def undo(
    client: Any,
    identifier: str,
    journal: Journal,
    *,
    reboot: Reboot = "never",
    force: bool = False,
    only: int | None = None,
    pace: Pace = USUAL,
    at: Observer = unobserved,
) -> RdsOutcome:
    """Undo the latest change of this instance or cluster.

    Refused, with the names, when one of its parameters has been changed or another group attached
    since, unless `force`; and if the change does not have the number `only`. UsageError when the
    journal has no change. An interrupted change counts: once it is cleaned up, the change before it
    stays.
    """
    recovered = finish_or_revert_group(client, identifier, journal, reboot=reboot, pace=pace, at=at)
    if recovered is not None and recovered.change_is_undone:
        return recovered
    target = read_target(client, identifier)
    done = last(journal, target)
    refuse_other(done, only)
    with held(journal, target, _group(done).name):
        target = read_target(client, identifier)
        draft = _draft(client, target, done, reboot, force)
        if not target.incompatible:  # being incompatible is one reason to undo
            refuse_busy(target)
            refuse_floors(
                client, target, moves_back(client, target, done), _group(done).name, reboot
            )
        transaction = begin(client, journal, draft, pace, at, reboot)
        transaction.carry_out()
    found = outcome("undone", transaction)
    return replace(found, change=done.id, changed=done.names)


def last(journal: Journal, target: Target) -> Change:
    """Return the change that an undo would revert. UsageError when there is none."""
    done = journal.last(target.arn)
    if done is None:
        raise UsageError(
            f"nothing to undo: the journal has no change of {target}",
            "If another journal was used, give it with --journal.",
        )
    return done


def _group(done: Change) -> GroupChange:
    assert done.group is not None  # noqa: S101 - found by the ARN of an RDS instance
    return done.group


def _draft(client: Any, target: Target, done: Change, reboot: Reboot, force: bool) -> Change:
    group = _group(done)
    now = _values(client, group, target)
    if not force:
        _refuse_changed(target, done, now)
    others = set(users(client, group.name, target.scope)) - {target.identifier}
    removes = group.creates and not others
    # A group that we created but others now use is kept; it is only detached here.
    entries = () if group.creates and others else _turned(done, now)
    moves = group.attached_before != group.attached_after
    waits = moves or any(one.restart for one in entries)
    reboots = reboot_order(target) if reboot == "now" and waits else ()
    return replace(
        done,
        entries=entries,
        restarts=bool(reboots),
        undoes=done.id,
        group=replace(
            group,
            attached_before=target.group,
            attached_after=group.attached_before,
            creates=False,
            removes=removes,
            reboots=reboots,
        ),
    )


def _values(client: Any, group: GroupChange, target: Target) -> dict[str, str]:
    scope = target.scope
    rows = unless_missing(lambda: rds.parameters(client, group.name, scope, source="user"))
    if rows is None:
        raise Refused(
            f"group {group.name} no longer exists",
            f"Attach {group.attached_before} to {target} yourself.",
        )
    return user_values(rows)


def _refuse_changed(target: Target, done: Change, now: dict[str, str]) -> None:
    group = _group(done)
    changed = [
        f"{one.name} (now {now.get(one.name, 'not set')}, applied {one.after or 'not set'})"
        for one in done.entries
        if now.get(one.name) != one.after
    ]
    if target.group != group.attached_after:
        changed.append(f"{target} uses group {target.group}")
    if changed:
        raise Refused(
            f"changed by someone else since: {', '.join(changed)}",
            "Revert that first, or overwrite it with --force.",
        )


def _turned(done: Change, now: dict[str, str]) -> tuple[ParameterChange, ...]:
    """Return the entries from the current values to those before the change."""
    return tuple(
        replace(one, before=now.get(one.name), after=one.before, in_force=now.get(one.name, ""))
        for one in done.entries
    )
