"""A failed rollback: what is in force, and which command repairs it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from mrtuner.aws import rds
from mrtuner.aws.errors import AwsError
from mrtuner.change.journal import journal_directory
from mrtuner.change.record import ParameterChange
from mrtuner.errors import ApplyError, MrTunerError
from mrtuner.wording import first_few
from rdstune.live.plan import user_values
from rdstune.live.target import read_target

if TYPE_CHECKING:
    from rdstune.live.group_transaction import GroupTransaction

#: Most parameter names in a message; the journal has them all.
_NAMED: Final = 8


def rollback_failed(transaction: GroupTransaction, why: str, error: MrTunerError) -> ApplyError:
    """Return the error for values that could not be restored.

    It says `why` the rollback was attempted, why it failed, what the group contains and what is
    attached now; its hint has the command that continues the rollback.
    """
    reasons = [why, f"the old values could not be restored: {error.message}"]
    message = "; ".join([*filter(None, reasons), *_now(transaction)])
    return ApplyError(message, _hint(transaction, error))


def _now(transaction: GroupTransaction) -> Iterator[str]:
    """Yield what is in force, as far as AWS can still be queried."""
    group = transaction.group
    try:
        target = read_target(transaction.client, group.identifier)
    except MrTunerError as error:
        yield f"the current state cannot be read: {error.message}"
        return
    members = (
        f"{one.identifier} is {one.status} with group {target.group} "
        f"({target.statuses.get(one.identifier)})"
        for one in target.members
    )
    yield f"now {', '.join(members)}"
    try:
        rows = rds.parameters(transaction.client, group.name, transaction.scope, source="user")
    except AwsError as error:
        gone = f"group {group.name} does not exist"
        unread = f"the values of group {group.name} cannot be read: {error.message}"
        yield gone if error.not_found else unread
        return
    yield from _held(transaction, user_values(rows), attached=target.group == group.name)


def _held(
    transaction: GroupTransaction, now: Mapping[str, str], *, attached: bool
) -> Iterator[str]:
    """Yield which parameters have our value, and which have the previous one."""
    name, entries = transaction.group.name, transaction.change.entries
    ours = [one for one in entries if now.get(one.name) == one.after != one.before]
    back = [one for one in entries if now.get(one.name) == one.before != one.after]
    if ours:
        waits = ", not attached," if not attached else ""
        yield f"group {name}{waits} holds the new value of {_named(ours)}"
    if back:
        yield f"and the old value of {_named(back)}" if ours else f"group {name} is as before"


def _named(entries: list[ParameterChange]) -> str:
    return first_few([one.name for one in entries], _NAMED)


def _hint(transaction: GroupTransaction, error: MrTunerError) -> str:
    """Return the cause of the failed rollback first, then the command that repairs it."""
    group, directory = transaction.group, transaction.journal.directory
    words = ["rdstune", "undo", group.identifier, "--region", group.region]
    if directory != journal_directory():
        words += ["--journal", str(directory)]
    first = f"{error.hint} Then restore" if error.hint else "Restore"
    return f"{first} the old values with: {shlex.join(words)}"
