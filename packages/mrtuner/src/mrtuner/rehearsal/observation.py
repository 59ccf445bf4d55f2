"""What probes saw of a server: attempts, the gaps between answers, the ledger of writes.

Times are seconds since the probes began. An attempt counts from the moment it was due, not
from when it could be made: otherwise a probe that waits for its turn would count a hang only once,
however many clients experienced it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import Annotated, Final

from mrtuner.described import Doc

#: An answer that takes longer [s] than this counts as an outage that the client waited through.
LATE: Final = 1.0


class ProbeKind(StrEnum):
    """What a probe does."""

    READ = "read"  # a new connection, then a query
    HELD = "held"  # a query on a connection that stays open; a new one when it is lost
    FLIGHT = "flight"  # a slow query, so that some are always in flight
    HELD_WRITE = "held-write"  # an INSERT on a connection that stays open
    WRITE = "write"  # a new connection, then an INSERT that the server acknowledges

    @property
    def words(self) -> str:
        return _WORDS[self]

    @property
    def writes(self) -> bool:
        return self in {ProbeKind.WRITE, ProbeKind.HELD_WRITE}

    @property
    def held(self) -> bool:
        """Whether it uses connections that stay open."""
        return self in {ProbeKind.HELD, ProbeKind.HELD_WRITE}


_WORDS: Final = {
    ProbeKind.READ: "new connection, read",
    ProbeKind.HELD: "held connection, read",
    ProbeKind.FLIGHT: "query in flight",
    ProbeKind.HELD_WRITE: "held connection, write",
    ProbeKind.WRITE: "new connection, write",
}

#: Three kinds that see every outage; the others show how each sort of client experiences it.
USUAL: Final = (ProbeKind.READ, ProbeKind.HELD, ProbeKind.WRITE)
#: The SQLSTATE with which a read-only server refuses a write.
READ_ONLY: Final = "25006"


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Which server answered; shows a restart as well as a move to another host."""

    started: datetime  # pg_postmaster_start_time()
    standby: bool  # pg_is_in_recovery()
    address: str | None = None  # the one that the client connected to; None for a Unix socket
    own: str | None = None  # inet_server_addr() and port, which a proxy does not hide
    timeline: int | None = None  # of its WAL; None on a standby, or without permission
    system: int | None = None  # its cluster's system_identifier, if permitted

    @property
    def who(self) -> tuple[object, ...]:
        """What tells it from other servers, by whichever of its addresses it was reached."""
        return self.system, self.started, self.standby, self.timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One probe: answered if `error` is None."""

    kind: ProbeKind
    due: float  # when the schedule called for it; for a query in flight, when its answer was due
    sent: float  # when it was made
    ended: float  # when the answer, the error or the timeout came
    error: str | None = None
    server: ServerIdentity | None = None
    sqlstate: str | None = None  # of the server's error, if it sent one
    given_up: bool = False  # by us, from outside: the client itself would have gone on waiting
    fresh: bool = True  # over a new connection; for a held one, because the old one was lost
    asked: float | None = None  # when the query was sent; None: it never was

    @property
    def answered(self) -> bool:
        """Whether the server did what it was asked."""
        return self.error is None

    @property
    def latency(self) -> float:
        """How long a client arriving when this attempt was due had to wait [s]."""
        return self.ended - self.due

    @property
    def good(self) -> bool:
        return self.answered and self.latency <= LATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A time without good answers to one kind of probe.

    The server was away for at least `least` and at most `most` seconds: probes only see it when
    they query.
    """

    kind: ProbeKind
    last_answer: float | None  # end of the last good answer before; None: there was none
    began: float  # when the first attempt of the gap was due
    first_failure: float | None  # when a client first got an error; None: it only waited
    answer: float | None  # when the first answer came; None: none while the probes ran
    least: float
    failed: int  # attempts that ended with an error
    late: int  # attempts answered late
    errors: tuple[str, ...]  # each one once, in order

    @property
    def most(self) -> float | None:
        """From the last answer before to the first one after [s]; None until there is one."""
        if self.answer is None:
            return None
        return self.answer - (self.began if self.last_answer is None else self.last_answer)


def gaps(attempts: Iterable[Attempt], kind: ProbeKind) -> tuple[Gap, ...]:
    """Return the times without good answers to one kind, in order."""
    mine = sorted((one for one in attempts if one.kind is kind), key=lambda one: one.due)
    found: list[Gap] = []
    last: float | None = None
    position = 0
    for good, members in groupby(mine, key=lambda one: one.good):
        stretch = list(members)
        if good:
            last = max(one.ended for one in stretch)
        else:
            found.append(_gap(stretch, last, mine[position:]))
        position += len(stretch)
    return tuple(found)


def _gap(stretch: Sequence[Attempt], last: float | None, onward: Sequence[Attempt]) -> Gap:
    """Make a gap of `stretch`; `onward` is all attempts from its first one on."""
    first = stretch[0]
    failures = [one for one in stretch if not one.answered]
    waits = [one.latency for one in stretch if one.answered]
    return Gap(
        kind=first.kind,
        last_answer=last,
        began=first.due,
        first_failure=min((one.ended for one in failures), default=None),
        answer=min((one.ended for one in onward if one.answered), default=None),
        least=max(stretch[-1].due - first.due, max(waits, default=0.0)),
        failed=len(failures),
        late=len(waits),
        errors=tuple(dict.fromkeys(one.error for one in failures if one.error)),
    )


def steady(attempts: Iterable[Attempt], kinds: Collection[ProbeKind], *, since: float) -> bool:
    """Whether every kind was probed since then, and every such attempt got a good answer."""
    recent = [one for one in attempts if one.due >= since and one.kind in kinds]
    return {one.kind for one in recent} >= set(kinds) and all(one.good for one in recent)


def primaries(attempts: Iterable[Attempt], *, since: float) -> set[ServerIdentity]:
    """Return the servers that have answered since then and accepted writes."""
    return primaries_of(one for one in attempts if one.due >= since)


def primaries_of(attempts: Iterable[Attempt]) -> set[ServerIdentity]:
    """Return the servers that answered these and accepted writes."""
    answers = (one.server for one in attempts)
    return {one for one in answers if one is not None and not one.standby}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLedger:
    """What became of the writes."""

    sent: Annotated[int, Doc("writes sent")]
    acknowledged: Annotated[int, Doc("of these, acknowledged by the server")]
    found: Annotated[int, Doc("of those sent, in the table afterwards")]
    lost: Annotated[
        tuple[int, ...], Doc("numbers of writes that were acknowledged but are missing")
    ]
    unacknowledged: Annotated[
        int, Doc("in the table but never acknowledged: a retry would have written them twice")
    ]
    duplicated: Annotated[
        tuple[int, ...], Doc("numbers of writes in the table more than once")
    ] = ()


def balanced(sent: int, acknowledged: set[int], rows: Collection[int]) -> WriteLedger:
    """Return the ledger of `sent` writes, numbered from one; `rows` is what the table contains."""
    found = set(rows)
    return WriteLedger(
        sent=sent,
        acknowledged=len(acknowledged),
        found=len(found),
        lost=tuple(sorted(acknowledged - found)),
        unacknowledged=len(found - acknowledged),
        duplicated=tuple(sorted(one for one, times in Counter(rows).items() if times > 1)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything that the probes saw, from their first attempt to their last."""

    began: datetime  # UTC, of second 0
    seconds: float
    interval: float
    timeout: float  # after which an attempt was given up
    kinds: tuple[ProbeKind, ...]
    attempts: tuple[Attempt, ...]  # in the order in which they were due
    skipped: int  # attempts skipped because too many were still unanswered
    ledger: WriteLedger | None = None
    left_behind: str | None = None  # our schema, if it could not be dropped

    @property
    def servers(self) -> tuple[ServerIdentity, ...]:
        """The servers that answered, in order of first appearance."""
        answers = sorted(self.attempts, key=lambda one: one.ended)
        return tuple(dict.fromkeys(one.server for one in answers if one.server is not None))

    @property
    def restarted(self) -> bool:
        """Whether servers with different start times answered."""
        return len({server.started for server in self.servers}) > 1

    @property
    def went_away(self) -> bool:
        return self.restarted or any(True for _ in self.all_gaps())

    @property
    def lag(self) -> float:
        """The most by which this machine sent an attempt late [s]."""
        return max((one.sent - one.due for one in self.attempts), default=0.0)

    def gaps(self, kind: ProbeKind) -> tuple[Gap, ...]:
        return gaps(self.attempts, kind)

    def all_gaps(self) -> Iterator[Gap]:
        for kind in self.kinds:
            yield from self.gaps(kind)

    def at(self, moment: datetime) -> float:
        """Convert wall-clock time to seconds of this observation."""
        return (moment - self.began) / timedelta(seconds=1)
