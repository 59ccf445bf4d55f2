"""A rotation in one call, and its parts for a command that asks questions in between."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, TextIO

from mrtuner.change.journal import Journal
from mrtuner.errors import Refused, UsageError
from mrtuner.postgres.connect import connect
from mrtuner.rotate.journal import RotationJournal
from mrtuner.rotate.model import MOVED, Replica, RoleGroup, RotationState, RotationStep
from mrtuner.rotate.rotation import RotationResult, Rotator
from mrtuner.rotate.sessions import Patience
from mrtuner.rotate.stores import Store, absolute, check, store


def rotate(
    dsn: str,
    group: str,
    *,
    to: str | None = None,
    current: str | None = None,
    patience: Patience = Patience(),  # noqa: B008 - frozen
    replicas: Sequence[str] = (),
    journal: Path | None = None,
    tell: Callable[[str], None] = lambda _text: None,
) -> RotationResult:
    """Rotate the group's password, or continue an interrupted rotation; never ask for confirmation.

    `dsn` is for a role that administers the group, `to` a store as in `mrtuner rotate --to` (None:
    the last one), `current` the role that applications use, if it cannot be determined. `tell`
    receives each step as text. Returns when the old role is disabled, or unfinished if, after
    `patience.wait` [s], it is still in use (`holders`), or the new one was not seen in use
    and the store cannot confirm that it has the secret (`notices`); call it again in that case.

    Raises Refused for what would lock an application out, ConnectError when a login fails,
    MissingPart for a permission, ApplyError when the store or the journal cannot be written.
    """
    with opened(dsn, group, patience, replicas, journal, tell) as rotator, held(rotator):
        rotation, where = upcoming(rotator, to, current, sys.stdout)
        return rotator.run(rotation, where)


@contextmanager
def opened(
    dsn: str,
    group: str,
    patience: Patience,
    replicas: Sequence[str] = (),
    journal: Path | None = None,
    tell: Callable[[str], None] = lambda _text: None,
) -> Iterator[Rotator]:
    """Connect and yield everything that a rotation needs."""
    named = RoleGroup(group)
    with ExitStack() as stack:
        conn = stack.enter_context(connect(dsn))
        others = tuple(Replica(each, stack.enter_context(connect(each))) for each in replicas)
        book = RotationJournal(stack.enter_context(Journal(journal)))
        yield Rotator(
            dsn=dsn, conn=conn, group=named, book=book, patience=patience, replicas=others,
            tell=tell,
        )  # fmt: skip


@contextmanager
def held(rotator: Rotator) -> Iterator[None]:
    """Lock the group against other processes with this journal. Refused if one is at work."""
    with rotator.book.journal.hold(f"rotate {rotator.group.name} {rotator.server}"):
        yield


def upcoming(
    rotator: Rotator, to: str | None, current: str | None, out: TextIO
) -> tuple[RotationState, Store]:
    """Return the rotation to continue, else the next one, and where its secret goes."""
    last = rotator.last()
    named = absolute(to) if to is not None else (last.to if last else None)
    if named is None:
        raise UsageError(
            "no store is given for the secret", "Use --to file:PATH, or another store."
        )
    where = store(named, out)
    # Whether the role given as current is the one that the secret was handed out for.
    moved = last is not None and last.step in MOVED and current == last.new
    if last is None or last.finished or (current is not None and not moved):
        check(where)
        return rotator.plan(named, where, current), where
    if named != last.to:
        _refuse_two_places(last, out)
    if last.step not in _TAKEN:
        check(where)
    return replace(last, to=named, seen=last.seen or current is not None), where


#: The store of such a rotation is not written again, except when it is aborted.
_TAKEN: Final = MOVED | {RotationStep.ABORTING}


def _refuse_two_places(last: RotationState, out: TextIO) -> None:
    """Refuse another store: it could not get the password, which must not change any more."""
    stored = last.step in _TAKEN
    if last.step is RotationStep.STORING:
        stored = (store(last.to, out).read() or {}).get("username") == last.new
    if stored:
        raise Refused(
            f"the secret of the current rotation is already in {last.to}",
            "Leave out --to until the rotation has finished.",
        )
