"""Whether another server took over, and which clients still used the old one.

Every answer identifies its server. A promoted standby keeps its start time but not its timeline; a
restarted primary has a new start time at its old address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from mrtuner.described import Doc
from mrtuner.rehearsal.observation import (
    READ_ONLY,
    Attempt,
    Observation,
    ProbeKind,
    ServerIdentity,
    primaries_of,
)


class RehearsalEffect(StrEnum):
    """What the rehearsal caused, as far as clients could see."""

    MOVED = "moved"  # another server is the primary
    RESTARTED = "restarted"  # the same one, restarted
    INTERRUPTED = "interrupted"  # the same one, never gone, but clients were without answers
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleAnswers:
    """What was sent to another server than the new primary after that one had answered."""

    reads: Annotated[int, Doc("reads answered there")]
    writes: Annotated[int, Doc("writes acknowledged there")]
    refused: Annotated[int, Doc("writes refused by a read-only server")]
    until: Annotated[float | None, Doc("when the last of them ended; null: there were none")]


def outcome(seen: Observation, asked: float) -> RehearsalEffect:
    """Decide by the servers that answered before and after `asked` [s]."""
    primaries = _primaries(seen, before=asked)
    new = _new_primary(seen, asked)
    if new is None or new.server is None:
        met = any(not one.good for one in seen.attempts if one.ended >= asked)
        return RehearsalEffect.INTERRUPTED if met else RehearsalEffect.NOTHING
    places = {(one.own, one.system, one.timeline) for one in primaries}
    here = (new.server.own, new.server.system, new.server.timeline)
    return RehearsalEffect.RESTARTED if here in places else RehearsalEffect.MOVED


def stale(seen: Observation, asked: float) -> StaleAnswers:
    """What was sent to the wrong server after `asked` [s]."""
    wrong = list(_wrong(seen, asked))
    refused = [one for one in seen.attempts if one.ended >= asked and one.sqlstate == READ_ONLY]
    return StaleAnswers(
        reads=sum(not one.kind.writes for one in wrong),
        writes=sum(one.kind.writes for one in wrong),
        refused=len(refused),
        until=max((one.ended for one in (*wrong, *refused)), default=None),
    )


def _wrong(seen: Observation, asked: float) -> Iterable[Attempt]:
    """Attempts after the new primary's first answer that another server answered unusually."""
    new = _new_primary(seen, asked)
    if new is None or new.server is None:
        return
    usual = _led_to_standbys(seen.attempts, asked)
    for one in seen.attempts:
        if one.server is None or one.sent < new.ended or one.kind in usual:
            continue
        if one.server.who != new.server.who:
            yield one


def _led_to_standbys(attempts: Sequence[Attempt], asked: float) -> set[ProbeKind]:
    """Kinds whose connection string prefers standbys."""
    before = (one for one in attempts if one.ended < asked and one.server is not None)
    return {one.kind for one in before if one.server is not None and one.server.standby}


def _new_primary(seen: Observation, asked: float) -> Attempt | None:
    """The first answer after `asked` from a primary that was not one before."""
    before = {one.who for one in _primaries(seen, before=asked)}
    after = (
        one
        for one in seen.attempts
        if one.ended >= asked
        and one.server is not None
        and not one.server.standby
        and one.server.who not in before
    )
    return min(after, key=lambda one: one.ended, default=None)


def _primaries(seen: Observation, *, before: float) -> set[ServerIdentity]:
    return primaries_of(one for one in seen.attempts if one.ended < before)
