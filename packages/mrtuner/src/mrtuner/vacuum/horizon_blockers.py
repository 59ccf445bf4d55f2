"""What keeps dead rows of a database from being removed, and what to do about it.

By the server's own rule (ComputeXidHorizons in procarray.c; before 14 GetOldestXmin), the rows of
ordinary tables are kept for snapshots and transaction IDs of sessions and prepared transactions of
the same database, for slots and for standbys. Those of other databases only count for the catalogs
that all databases share, and for the oldest transaction ID of the server, by which it stops.

There is one path across databases. A new snapshot reaches back to the oldest writing transaction,
in any database (GetSnapshotData). So a long writer elsewhere keeps rows here for as long as a
session of this database holds a snapshot that was taken meanwhile. Such a session is not to blame,
however far it reaches back: the writer is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mrtuner.escape import damaged
from mrtuner.facts import Missing
from mrtuner.findings import by_hand
from mrtuner.postgres.quoting import literal
from mrtuner.vacuum.commands import drop_slot
from mrtuner.vacuum.model import HorizonBlocker, Kept, Picture
from mrtuner.wording import as_name

Row = dict[str, Any]

#: A standby reports its horizon every ten seconds (wal_receiver_status_interval); one that has not
#: moved for three times that long is being held [s].
_REPORTED: Final = 30.0
#: Our judgement: the share of a time in which something distorts the figures of all of it.
_MUCH: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The age from which on something that holds back vacuum is worth a report."""

    long: float = 300.0  # age of a session or a prepared transaction [s]
    #: Age of a session that works [s]: a dump or a report takes so long, and is best left alone.
    working: float = 3_600.0
    #: Age of an idle session whose horizon is far [s]: a busy server uses up many IDs in seconds.
    settled: float = 60.0
    #: Age of a horizon [transactions]: our judgement of how many rows matter. A busy server uses up
    #: so many in seconds, see `at`.
    far: int = 100_000

    def at(self, pace: float) -> Thresholds:
        """The same where `pace` IDs are used per second: far is what did not move for `settled`."""
        return replace(self, far=max(self.far, round(self.settled * pace)))


def pace(ids: int, seconds: float) -> float:
    """Return the IDs used per second. Less than a second shows no pace: many can end at once."""
    return ids / max(1.0, seconds)


USUAL: Final = Thresholds()
#: Whatever keeps a row, however young.
ANY: Final = Thresholds(long=0.0, working=0.0, settled=0.0, far=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Everything that may hold back the horizon, at one moment; rows of the queries ``vacuum_*``.

    `key` identifies a row; `xmin` is the oldest transaction ID that its snapshot may need, `xid`
    its own; either may be None.
    """

    sessions: Sequence[Row] = ()
    prepared: Sequence[Row] = ()
    slots: Sequence[Row] = ()
    feedback: Sequence[Row] = ()

    @property
    def everyone(self) -> Iterator[Row]:
        for rows in (self.sessions, self.prepared, self.slots, self.feedback):
            yield from rows


def blockers(
    looks: Sequence[Look], seconds: float = 0.0, thresholds: Thresholds = USUAL
) -> tuple[HorizonBlocker, ...]:
    """Return what was in the way at the last look, worst first; `seconds` passed since the first.

    Includes blockers that have been there for long, and those that were there at every look of a
    watch, however young.
    """
    seen = _Seen.of(looks, seconds, thresholds)
    now = looks[-1]
    found = [
        *(one for row in now.sessions for one in _session(row, seen)),
        *(one for row in now.slots for one in _slot(row, seen)),
        *(one for row in now.prepared for one in _prepared(row, seen)),
        *(one for row in now.feedback for one in _standby(row, seen)),
    ]
    return tuple(sorted(found, key=lambda one: (not one.serious, -(one.age or 0))))


def distortion(picture: Picture) -> Missing | None:
    """Why the figures of dead rows are those of a server that keeps them; None: they are not.

    Rows that must be kept cannot be pruned. So updates find no room in their page and are not HOT,
    and a vacuum reads what it cannot remove. A blocker matters if it has been there for a tenth of
    the time that the rates are taken over.
    """
    first, last = picture.samples[0].moment, picture.samples[-1].moment
    watched = last.at - first.at
    window = watched or last.counted_for
    ids = last.next_xid - first.next_xid if watched else last.transactions

    def lasting(one: HorizonBlocker) -> bool:
        if one.throughout:
            return True
        if one.seconds is not None:
            return one.seconds >= _MUCH * window
        return (one.age or 0) >= max(1, _MUCH * ids)

    found = [one for one in picture.blockers if one.keeps == "dead rows" and lasting(one)]
    if not found:
        return None
    why = f"{found[0].what} {found[0].name} keeps dead rows, which distorts the figures"
    return Missing("pace and fillfactor", why, hint="End what keeps them, then measure again.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What several looks show together."""

    seconds: float
    thresholds: Thresholds
    throughout: frozenset[str]  # keys of those that kept a snapshot or an ID for the whole watch
    renewed: frozenset[str]  # keys of those that kept neither while they were there
    reached: frozenset[str]  # transaction IDs that snapshots of this database reached back to
    writing: frozenset[str]  # transaction IDs at work at the last look

    @classmethod
    def of(cls, looks: Sequence[Look], seconds: float, thresholds: Thresholds) -> _Seen:
        kept: dict[str, set[str]] = {}
        for row in (row for look in looks for row in look.everyone):
            held = {row["xmin"], row["xid"]} - {None}
            kept[row["key"]] = kept.get(row["key"], held) & held
        always = frozenset.intersection(
            *(frozenset(row["key"] for row in look.everyone) for look in looks)
        )
        now = looks[-1]
        return cls(
            seconds=seconds,
            thresholds=thresholds,
            throughout=frozenset(key for key in always if kept[key] and len(looks) > 1),
            renewed=frozenset(key for key, held in kept.items() if not held),
            reached=frozenset(
                row["xmin"]
                for look in looks
                for row in look.sessions
                if row["here"] and row["xmin"] not in {None, row["xid"]}
            ),
            writing=frozenset(
                row["xid"] for row in (*now.sessions, *now.prepared) if row["xid"] is not None
            ),
        )

    def whole(self, row: Row) -> bool:
        """Whether it held the horizon for the whole watch."""
        return row["key"] in self.throughout

    def long(self, row: Row) -> bool:
        return (row["seconds"] or 0) >= self.thresholds.long

    def far(self, age: int | None) -> bool:
        """Whether a horizon of this age [transactions] is far back."""
        return (age or 0) >= self.thresholds.far

    def lasts(self, row: Row, far: bool) -> bool:
        """Whether a session has kept rows for longer than is usual; where its age is not known, as
        that of a subscriber that copies, a far horizon is enough.
        """
        if row["seconds"] is None and far:
            return True
        least = self.thresholds.long if _idle(row) else self.thresholds.working
        if far and _idle(row):
            least = min(least, self.thresholds.settled)
        return (row["seconds"] or 0) >= least and (far or row["key"] not in self.renewed)

    def carried(self, row: Row) -> bool:
        """Whether a session reaches back only because another one has been writing since then."""
        return row["xmin"] != row["xid"] and row["xmin"] in self.writing


def _session(row: Row, seen: _Seen) -> Iterator[HorizonBlocker]:
    """Sessions with a snapshot or a transaction ID; `seconds` is None if we may not see it."""
    if not row["here"]:
        yield from _session_elsewhere(row, seen)
        return
    carried = seen.carried(row)
    whole = seen.whole(row) and not carried
    far = seen.far(row["xid_age" if carried else "age"])
    long = seen.long(row) and row["key"] not in seen.renewed
    if not (long or whole or far):
        return
    serious = seen.lasts(row, far)
    idle = _idle(row)
    yield HorizonBlocker(
        what="session idle in transaction" if idle else "long transaction",
        name=_name(row),
        age=row["age"],
        seconds=row["seconds"],
        remedy=_IDLE if idle else _LONG,
        sql=_terminate(row) if serious else None,
        serious=serious,
        throughout=whole,
    )


def _session_elsewhere(row: Row, seen: _Seen) -> Iterator[HorizonBlocker]:
    """Sessions of other databases, if they write or keep much of the shared catalogs."""
    whole, reached = seen.whole(row), row["xid"] in seen.reached
    writes, far = row["xid"] is not None, seen.far(row["age"])
    if not (far or (writes and seen.long(row)) or (whole and reached)):
        return
    serious = (reached or far) and seen.lasts(row, far)
    scope = _scope(reached, serious)
    yield HorizonBlocker(
        what="session idle in transaction" if _idle(row) else "long transaction",
        name=f"{_name(row)} ({scope})",
        age=row["age"],
        seconds=row["seconds"],
        remedy=_REACHED if reached else _WRITER if writes else _READER,
        sql=_terminate(row) if serious else None,
        serious=serious,
        throughout=whole,
        keeps=_kept(reached, serious),
    )


def _scope(reached: bool, serious: bool) -> str:
    """What something in another database keeps."""
    if reached:
        return "holds back snapshots here"
    return "its database and shared catalogs" if serious else "shared catalogs only"


def _kept(reached: bool, serious: bool) -> Kept:
    if reached:
        return "dead rows"
    return "dead rows of another database" if serious else "dead rows of catalogs"


def _slot(row: Row, seen: _Seen) -> Iterator[HorizonBlocker]:
    """Replication slots that hold a horizon; catalog_xmin holds back the catalogs only.

    A consumer that restarts is away for a moment: the command that drops its slot comes later, and
    before 17, which do not tell since when it is away, never.
    """
    age = max(row["age"] or 0, row["catalog_age"] or 0)
    far = seen.far(age)
    held = row["age"] is not None and seen.whole(row) and age > 0 and seen.seconds >= _REPORTED
    if row["active"] and not (far or held):
        return
    kind = f"{row['type']} replication slot" + ("" if row["active"] else ", inactive")
    catalogs = row["age"] is None
    standby = f" of standby {row['standby']}" if row["standby"] else ""
    forgotten = row["idle"] is not None and row["idle"] >= seen.thresholds.long
    yield HorizonBlocker(
        what=kind,
        name=f"{row['name']}{standby}{' (system catalogs only)' if catalogs else ''}",
        age=age,
        seconds=None,
        remedy=_held_by(row),
        sql=drop_slot(row["name"]) if forgotten and not row["active"] else None,
        serious=far,
        throughout=held,
        keeps="dead rows of catalogs" if catalogs else "dead rows",
    )


def _held_by(row: Row) -> str:
    """What to do about a slot: an active physical one repeats what its standby reports."""
    if not row["active"]:
        return _SLOT
    if row["type"] == "logical":
        return _SLOT_ACTIVE
    return _FEEDBACK if row["age"] is not None else _SLOT_THERE


def _prepared(row: Row, seen: _Seen) -> Iterator[HorizonBlocker]:
    """Prepared transactions: they have no session, and they survive a restart."""
    whole, reached = seen.whole(row), row["xid"] in seen.reached
    holds = row["here"] or reached
    matters = seen.long(row) or seen.far(row["age"])
    if not (matters or (whole and holds)):
        return
    serious = matters if holds else seen.far(row["age"])
    scope = "" if row["here"] else f" ({_scope(reached, serious)})"
    sql = f"ROLLBACK PREPARED {literal(row['gid'])};"
    unknown = damaged(sql)
    words = by_hand(sql) if unknown else sql
    there = (
        f"In database {as_name(row['database'])}: {words}"
        if serious and not row["here"] else words if serious and unknown else ""
    )  # fmt: skip
    yield HorizonBlocker(
        what="prepared transaction",
        name=f"{row['gid']} of {row['owner']} in {row['database']}{scope}",
        age=row["age"],
        seconds=row["seconds"],
        remedy=" ".join(filter(None, (_PREPARED, there, "" if holds else _WRITER))),
        sql=sql if serious and row["here"] and not unknown else None,
        serious=serious,
        throughout=whole,
        keeps=_kept(holds, serious),
    )


def _standby(row: Row, seen: _Seen) -> Iterator[HorizonBlocker]:
    """Standbys whose hot_standby_feedback reports a far horizon, or one that does not move."""
    far = seen.far(row["age"])
    held = seen.whole(row) and bool(row["age"]) and seen.seconds >= _REPORTED
    if far or held:
        yield HorizonBlocker(
            what="standby feedback",
            name=row["application"] or f"process {row['pid']}",
            age=row["age"],
            seconds=None,
            remedy=_FEEDBACK,
            sql=None,
            serious=far,
            throughout=held,
        )


_IDLE: Final = (
    "End the session and set idle_in_transaction_session_timeout; the application does not commit."
)
_LONG: Final = (
    "Let it finish or terminate it; run long reports on a standby or split them (PostgreSQL 17 "
    "and later have transaction_timeout)."
)
_REACHED: Final = (
    "It writes, so it holds back every snapshot taken since, in this database too: let it finish "
    "or terminate it."
)
_WRITER: Final = (
    "By itself it keeps no rows of this database, but while it writes, it holds back every "
    "snapshot open here."
)
_READER: Final = "It keeps dead rows of shared catalogs, not of this database."
_SLOT: Final = (
    "Start its consumer, or drop the slot if it is no longer used; max_slot_wal_keep_size limits "
    "the WAL that it keeps."
)
_SLOT_THERE: Final = (
    "A logical slot on the standby holds it: start its consumer, or drop the slot there."
)
_SLOT_ACTIVE: Final = "Its consumer lags behind: check its lag and what it waits for."
_PREPARED: Final = (
    "Check with the transaction manager, then use COMMIT PREPARED or ROLLBACK PREPARED in its "
    "database."
)
_FEEDBACK: Final = (
    "Find the long query on the standby and end it, or set hot_standby_feedback = off there and "
    "accept canceled queries."
)


def _idle(row: Row) -> bool:
    return (row["state"] or "").startswith("idle in transaction")


def _name(row: Row) -> str:
    who = row["application"] or row["role"] or row["backend_type"]
    where = f" in database {row['elsewhere']}" if row["elsewhere"] else ""
    return f"process {row['pid']} ({who}){where}"


def _terminate(row: Row) -> str:
    return f"SELECT pg_terminate_backend({row['pid']});"
