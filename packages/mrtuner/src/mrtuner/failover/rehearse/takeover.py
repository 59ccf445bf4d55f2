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
    new = next(iter(_new_primaries(seen, asked)), None)
    if new is None:
        met = any(not one.good for one in seen.attempts if one.ended >= asked)
        return RehearsalEffect.INTERRUPTED if met else RehearsalEffect.NOTHING
    places = {(one.own, one.system, one.timeline) for one in primaries}
    here = (new.own, new.system, new.timeline)
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
    """Attempts after a new primary's first answer that an older server answered unusually.

    It may be replaced in its turn, by another or by itself after a restart.
    """
    since = {server.who: at for server, at in _new_primaries(seen, asked).items()}
    order = {who: number for number, who in enumerate(since)}
    usual = _led_to_standbys(seen.attempts, asked)
    for one in seen.attempts:
        if one.server is None or one.kind in usual:
            continue
        newest = max((order[who] for who, at in since.items() if at <= one.sent), default=-1)
        if order.get(one.server.who, -1) < newest:
            yield one


def _led_to_standbys(attempts: Sequence[Attempt], asked: float) -> set[ProbeKind]:
    """Kinds whose connection string prefers standbys."""
    before = (one for one in attempts if one.ended < asked and one.server is not None)
    return {one.kind for one in before if one.server is not None and one.server.standby}


def _new_primaries(seen: Observation, asked: float) -> dict[ServerIdentity, float]:
    """When each primary that was none before `asked` answered first, in that order."""
    known = {one.who for one in _primaries(seen, before=asked)}
    found: dict[ServerIdentity, float] = {}
    for one in sorted(seen.attempts, key=lambda one: one.ended):
        server = one.server
        if one.ended >= asked and server and not server.standby and server.who not in known:
            known.add(server.who)
            found[server] = one.ended
    return found


def _primaries(seen: Observation, *, before: float) -> set[ServerIdentity]:
    return primaries_of(one for one in seen.attempts if one.ended < before)
