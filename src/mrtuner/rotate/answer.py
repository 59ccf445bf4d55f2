"""A rotation in one call, and the parts that a command puts its questions between."""

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
from mrtuner.rotate.model import MOVED, Group, Replica, Rotation, Step
from mrtuner.rotate.rotation import Outcome, Rotator
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
) -> Outcome:
    """Rotate the group's password, or go on with what was broken off; ask nobody.

    `dsn` is of a role that administers the group, `to` a store as `mrtuner rotate --to` takes it
    (as last time if None), `current` the role that applications use, where that cannot be told.
    `tell` gets each step in words. Ends when the old role is disabled, or unfinished when after
    `patience.wait` [s] somebody still uses it (`holders`), or nobody was seen to use the new one
    and the store cannot tell that it has the secret (`notices`); call it again then.

    Raises Refused for what would lock somebody out, ConnectError when a login fails, MissingPart
    for a permission, ApplyError when the store or the journal does not take it.
    """
    with opened(dsn, group, patience, replicas, journal, tell) as rotator, held(rotator, journal):
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
    """Everything that a rotation works with, connected."""
    named = Group(group)
    with ExitStack() as stack:
        conn = stack.enter_context(connect(dsn))
        others = tuple(Replica(each, stack.enter_context(connect(each))) for each in replicas)
        yield Rotator(
            dsn=dsn, conn=conn, group=named, book=RotationJournal(journal), patience=patience,
            replicas=others, tell=tell,
        )  # fmt: skip


@contextmanager
def held(rotator: Rotator, journal: Path | None) -> Iterator[None]:
    """Keep every other process with this journal away from the group. Refused if one is there."""
    key = f"rotate {rotator.group.name} {rotator.server}"
    with Journal(journal) as book, book.hold(key):
        yield


def upcoming(
    rotator: Rotator, to: str | None, current: str | None, out: TextIO
) -> tuple[Rotation, Store]:
    """The rotation to go on with, else the next one, and where its secret goes."""
    last = rotator.last()
    named = absolute(to) if to is not None else (last.to if last else None)
    if named is None:
        raise UsageError("nowhere to put the secret", "Say --to file:PATH, or another store.")
    where = store(named, out)
    if last is None or last.finished or (current is not None and not _moved_to(last, current)):
        check(where)
        return rotator.plan(named, where, current), where
    if named != last.to:
        _refuse_two_places(last, out)
    if last.step not in _TAKEN:
        check(where)
    return replace(last, to=named, seen=last.seen or current is not None), where


def _moved_to(rotation: Rotation, current: str) -> bool:
    """Whether the role that is said to be in use is the one that the secret was handed out for."""
    return rotation.step in MOVED and current == rotation.new


#: Nothing more is written to the store of such a rotation, unless it is taken back.
_TAKEN: Final = MOVED | {Step.ABORTING}


def _refuse_two_places(last: Rotation, out: TextIO) -> None:
    """A password that one place has cannot be had for another, nor be changed any more."""
    stored = last.step in _TAKEN
    if last.step is Step.STORING:
        stored = (store(last.to, out).read() or {}).get("username") == last.new
    if stored:
        raise Refused(
            f"the secret of the rotation under way is in {last.to} already",
            "Leave --to out until it has ended.",
        )
