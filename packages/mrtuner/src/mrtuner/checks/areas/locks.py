"""Sessions that wait for locks of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from mrtuner.checks.catalogue import CannotJudge, check
from mrtuner.checks.state import Session, State
from mrtuner.findings import Command, Finding, Severity
from mrtuner.postgres.lock_queue_roots import STOPPING, roots
from mrtuner.postgres.quoting import literal
from mrtuner.tuning.overrides import resets, servers_value, switched, whose
from mrtuner.units import pretty_duration
from mrtuner.wording import as_name, cut, enumerated, plural

#: A wait for a lock that a person notices, and one that stops work [s]; chosen, not measured.
_NOTICED: Final = 5.0
_STOPPED: Final = 60.0
_MANY: Final = 10
_SHOWN: Final = 5
_TEXT: Final = 100


@check(
    "lock-queue",
    judged="a session has waited for a lock on a table or a row for 5 s (danger: 60 s, or ten "
    "sessions wait); for a lock of another kind, such as an advisory one (to know)",
    source="documentation: Monitoring Locks, pg_blocking_pids; the times are chosen",
    remedy="Cancel the DDL in between that all others wait for, or end what is at the root. Let a "
    "vacuum go on: cancel what waits for it.",
    needs=("sessions",),
)
def lock_queue(state: State) -> Iterator[Finding]:
    """Sessions wait for a lock that another one holds.

    Whoever asks for the same lock later queues behind them, so that one forgotten transaction can
    stop an application. So does a DDL that waits for readers: whoever comes later waits for it.
    """
    if state.server.major < 14:  # which does not tell then who waits
        require_tracked(state)
    known = {one.pid: one for one in state.sessions}
    queues = _queues([one for one in state.sessions if one.blocked_by])
    for pids, behind in sorted(queues, key=lambda queue: -len(queue[1]))[:_SHOWN]:
        longest = max((one.state_seconds for one in behind if one.state_seconds), default=None)
        if (longest or 0) >= _NOTICED or len(behind) >= _MANY:
            yield _queue(state, {pid: known.get(pid) for pid in sorted(pids)}, behind, longest)


def require_tracked(state: State) -> None:
    """Raise CannotJudge where sessions do not tell what they do."""
    if state.setting("track_activities") == "off":
        found = switched(state.server, "track_activities", "off")
        if found and servers_value(state.server, "track_activities") is None:
            why = f"track_activities is off for {whose(*found)}"
            raise CannotJudge(why, " ".join(resets(state.server, found)))
        how = state.server.platform.remedy(track_activities="on")
        raise CannotJudge("track_activities is off", how)


#: Those at the root of a queue; None: not listed, or ended meanwhile.
_Roots = Mapping[int, Session | None]


def _queues(waiting: Sequence[Session]) -> list[tuple[frozenset[int], list[Session]]]:
    """Roots, and who waits for any of them: roots that keep the same session waiting are one queue.

    Ten readers of a table stop a DDL, and whoever comes after it, once and not ten times.
    """
    at_root = roots({one.pid: one.blocked_by for one in waiting})
    queues: list[tuple[frozenset[int], list[Session]]] = []
    for one in waiting:
        pids, behind = frozenset(at_root[one.pid]), [one]
        for queue in [each for each in queues if pids & each[0]]:
            queues.remove(queue)
            pids, behind = pids | queue[0], queue[1] + behind
        if pids:
            queues.append((pids, behind))
    return queues


def _queue(
    state: State, at_root: _Roots, behind: Sequence[Session], longest: float | None
) -> Finding:
    count = max(len(behind), state.waiting) if len(behind) >= _LISTED else len(behind)
    wait, they, them = "wait", "they do", "them"
    if count == 1:
        wait, they, them = "waits", "that session does", "it"
    severity, between = _severity(behind), _in_between(at_root, behind)
    if len(at_root) == 1:
        ((pid, root),) = at_root.items()
        holders, ends = f"a lock of {_holder(pid, root)}", "it ends"
    else:
        holders = f"locks of {plural(len(at_root), 'session')} of {_names(at_root.values())}"
        ends = "all of these end"
    if between:
        ends += f", or {_names(between)} gives up, for which the others wait"
    return Finding(
        id="lock-queue",
        severity=severity,
        text=f"{plural(count, 'session')} of {_names(behind)} {wait} for {holders}"
        + (f", the longest for {pretty_duration(longest)}" if longest else ""),
        consequence=f"{they} nothing until {ends}, and whoever needs the same lock joins {them}",
        harm_in=None if severity is Severity.TO_KNOW else 0.0,
        cost=state.of_connections(count),
        since=None if longest is None else state.at - longest,
        evidence=(*_holding(at_root), *_behind(behind)),
        basis="pg_stat_activity and pg_locks, now",
        remedy=tuple(_freed(at_root, behind, between, severity)),
    )


def _names(sessions: Iterable[Session | None]) -> str:
    return enumerated(sorted({one.called if one else "others" for one in sessions})[:3])


#: Locks on a table that a reader or a writer of rows does not ask for. Source: documentation,
#: Explicit Locking.
_STRONG: Final = frozenset({
    "relation ShareUpdateExclusiveLock", "relation ShareLock", "relation ShareRowExclusiveLock",
    "relation ExclusiveLock", "relation AccessExclusiveLock",
})  # fmt: skip


def _first(at_root: _Roots, behind: Sequence[Session]) -> Sequence[Session]:
    """Those whom a root itself keeps waiting."""
    return [one for one in behind if not at_root.keys().isdisjoint(one.blocked_by)]


def _in_between(at_root: _Roots, behind: Sequence[Session]) -> Sequence[Session]:
    """Those whose strong lock is all that the others wait for: without them, these go on at once.

    Nobody, if one forgotten transaction is at the root: to end that undoes less.
    """
    first = _first(at_root, behind)
    gates = all(
        one.waits_for in _STRONG and one.backend_type not in {"autovacuum worker", "startup"}
        for one in first
    )
    forgotten = len(at_root) == 1 and any(
        one and one.idle_in_transaction for one in at_root.values()
    )
    return first if gates and not forgotten and 2 * len(first) <= len(behind) else ()


def _severity(behind: Sequence[Session]) -> Severity:
    """By those alone whose lock stops an application; one of an unknown kind may."""
    stopped = [one for one in behind if not one.waits_for or one.waits_for_kind in STOPPING]
    longest = max((one.state_seconds or 0 for one in stopped), default=0)
    if longest >= _STOPPED or len(stopped) >= _MANY:
        return Severity.DANGER
    return Severity.TO_DO if longest >= _NOTICED else Severity.TO_KNOW


def _freed(
    at_root: _Roots, behind: Sequence[Session], between: Sequence[Session], severity: Severity
) -> Iterator[str]:
    """What lets the queue go on; first what undoes the least."""
    first = _first(at_root, behind)
    snapshot = severity is not Severity.TO_KNOW and all(
        one.waits_for_kind == "virtualxid" for one in first
    )
    kinds = {pid: one.backend_type if one else None for pid, one in at_root.items()}
    spared = [
        pid for pid, one in at_root.items()
        if kinds[pid] == "autovacuum worker"
        or (snapshot and pid and kinds[pid] != "startup" and not (one and one.idle_in_transaction))
    ]  # fmt: skip
    ended = {pid: one for pid, one in at_root.items() if pid not in spared}
    if spared:
        why = (
            "The vacuum would begin again, and may be the one that prevents wraparound"
            if any(kinds[pid] == "autovacuum worker" for pid in spared)
            else "It holds nothing but its snapshot"
        )
        yield f"{why}: let it go on, cancel what waits for it, and repeat that later:"
        yield from _signalled("pg_cancel_backend", [one.pid for one in first])
    elif between:
        yield f"Cancel what the others wait for, and repeat it later ({_names(between)}):"
        yield from _signalled("pg_cancel_backend", [one.pid for one in between])
    if ended and (spared or between):
        yield "Or, if that must not wait, end what it waits for:"
    elif severity is Severity.TO_KNOW and not spared and 0 not in ended:
        yield "Let it end, if it is meant so; if not:"
    yield from _ended(ended, any(one.waits_for_kind == "advisory" for one in first))


def _ended(at_root: _Roots, advisory: bool) -> Iterator[str]:
    """What ends each, and loses the least: a statement that runs is cancelled.

    A session keeps an advisory lock beyond its statement.
    """
    cancelled, terminated = list[int](), list[int]()
    for pid, one in at_root.items():
        if not pid:
            yield from _rolled_back(one)
        elif one and one.backend_type == "startup":
            yield (
                "End the transaction on the primary that has locked the table: replay holds its "
                "lock until it ends, and cannot be terminated"
            )
        elif one and one.state == "active" and not advisory:
            cancelled.append(pid)
        else:
            terminated.append(pid)
    yield from _signalled("pg_cancel_backend", cancelled)
    yield from _signalled("pg_terminate_backend", terminated)


def _signalled(function: str, pids: Sequence[int]) -> Iterator[Command]:
    if len(pids) == 1:
        yield Command(f"SELECT {function}({pids[0]});")
    elif pids:
        each = ", ".join(map(str, pids))
        yield Command(f"SELECT {function}(pid) FROM unnest(ARRAY[{each}]) AS pid;")  # noqa: S608


def _rolled_back(prepared: Session | None) -> tuple[str, ...]:
    if prepared is None:  # it has ended meanwhile, or took the lock without a name
        return (Command("SELECT gid, prepared, owner, database FROM pg_prepared_xacts;"),)
    return (
        f"Ask its transaction manager, then commit it or roll it back, in database "
        f"{prepared.database} and as role {prepared.role} or a superuser:",
        Command(f"ROLLBACK PREPARED {literal(prepared.application)};"),
    )


def _holding(at_root: _Roots) -> Iterator[str]:
    listed = sorted(
        filter(None, at_root.values()), key=lambda one: -(one.state_seconds or 0)
    )  # fmt: skip
    yield from map(described, listed[:_SHOWN])
    if listed[_SHOWN:]:
        yield f"and {plural(len(listed) - _SHOWN, 'other')} that hold a lock"


def _behind(behind: Sequence[Session]) -> Iterator[str]:
    """Who waits and is waited for, one by one; then the others, alike ones together."""
    asked = Counter(pid for one in behind for pid in set(one.blocked_by))
    between = [one for one in behind if asked[one.pid]]
    for one in between[:_SHOWN]:
        wait = "waits" if asked[one.pid] == 1 else "wait"
        yield f"{described(one)}; {plural(asked[one.pid], 'session')} {wait} for it"
    alike: dict[tuple[str, str | None, str, str], list[Session]] = {}
    for one in behind:
        if not asked[one.pid]:
            key = (one.application, one.role, _waits_for(one), one.statement)
            alike.setdefault(key, []).append(one)
    groups = sorted(alike.values(), key=lambda group: -len(group))
    for group in groups[:_SHOWN]:
        first = group[0]
        if len(group) == 1:
            yield described(first)
        else:
            yield (
                f"{len(group)} sessions of {', '.join([first.called, *_where(first)[:1]])}: "
                f"wait for {_waits_for(first)}; statement {cut(first.statement, _TEXT)}"
            )


def _waits_for(one: Session) -> str:
    return f"{one.waits_for} on {as_name(*one.relation)}" if one.relation else f"{one.waits_for}"


#: The query lists no more sessions that wait.
_LISTED: Final = 100


def _holder(pid: int, root: Session | None) -> str:
    if root is None:
        return f"process {pid}" if pid else "a prepared transaction"
    if root.backend_type == "startup":
        return f"replay (process {pid})"
    if root.state is None:
        hidden = "" if root.backend_type else ", of which this role may not see more"
        return f"{root.who}{hidden}"
    if root.state == "disabled":
        return f"{root.who}, whose state is not tracked (track_activities is off)"
    return f"{root.who}, {root.state}{_for(root.state_seconds)}"


def _for(seconds: float | None) -> str:
    return "" if seconds is None else f" for {pretty_duration(seconds)}"


def _where(one: Session) -> list[str]:
    """Role and database; background processes have none."""
    known = (("role", one.role), ("database", one.database))
    return [f"{what} {as_name(name)}" for what, name in known if name]


def described(one: Session) -> str:
    """Return a session as a piece of evidence: who it is, what it waits for, its statement."""
    place = f" from {one.client}" if one.client else ""
    wait = f", waits for {_waits_for(one)}{_for(one.state_seconds)}" if one.waits_for else ""
    last = "last statement" if one.idle_in_transaction else "statement"
    text = f"; {last} {cut(one.statement, _TEXT)}" if one.statement else ""
    state = one.state or one.backend_type or "hidden"
    return f"{', '.join([one.who, *_where(one)])}{place}: {state}{wait}{text}"
