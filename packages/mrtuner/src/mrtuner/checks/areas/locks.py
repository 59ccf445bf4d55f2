"""Sessions that wait for locks of others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from mrtuner.checks.catalogue import check
from mrtuner.checks.state import Session, State
from mrtuner.findings import Command, Finding, Severity
from mrtuner.postgres.blocking import STOPPING, roots
from mrtuner.units import pretty_duration
from mrtuner.vacuum.commands import literal
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
    remedy="End the session at the root; commit or roll back a prepared transaction there. Let a "
    "vacuum go on: cancel what waits for it.",
    needs=("sessions",),
)
def lock_queue(state: State) -> Iterator[Finding]:
    """Sessions wait for a lock that another one holds.

    Whoever asks for the same lock later queues behind them, so that one forgotten transaction can
    stop an application. What helps is to end the session at the root, unless that is a vacuum.
    """
    known = {one.pid: one for one in state.sessions}
    waiting = {one.pid: one.blocked_by for one in state.sessions if one.blocked_by}
    behind: dict[int, list[Session]] = defaultdict(list)
    for pid, blocked_by in waiting.items():
        for root in roots(blocked_by, waiting):
            behind[root].append(known[pid])
    for pid, queue in sorted(behind.items(), key=lambda item: -len(item[1]))[:_SHOWN]:
        longest = max(one.state_seconds or 0 for one in queue)
        if longest >= _NOTICED or len(queue) >= _MANY:
            yield _queue(state, pid, known.get(pid), queue, longest)


def _queue(
    state: State, pid: int, root: Session | None, behind: Sequence[Session], longest: float
) -> Finding:
    count = max(len(behind), state.waiting) if len(behind) >= _LISTED else len(behind)
    who = enumerated(sorted({as_name(one.application or one.role or "?") for one in behind})[:3])
    wait = "wait" if count != 1 else "waits"
    severity = _severity(behind)
    return Finding(
        id="lock-queue",
        severity=severity,
        text=f"{plural(count, 'session')} of {who} {wait} for a lock of {_holder(pid, root)}, "
        f"the longest for {pretty_duration(longest)}",
        consequence="they do nothing until it ends, and whoever needs the same lock joins them",
        harm_in=None if severity is Severity.TO_KNOW else 0.0,
        cost=state.of_connections(count),
        since=state.at - longest,
        evidence=(
            *([described(root)] if root else []),
            *_behind(behind),
        ),
        basis="pg_stat_activity and pg_locks, now",
        remedy=_freed(pid, root, behind, severity),
    )  # fmt: skip


def _severity(behind: Sequence[Session]) -> Severity:
    """By those alone whose lock stops an application; one of an unknown kind may."""
    stopped = [one for one in behind if not one.waits_for or one.waits_for_kind in STOPPING]
    longest = max((one.state_seconds or 0 for one in stopped), default=0)
    if longest >= _STOPPED or len(stopped) >= _MANY:
        return Severity.DANGER
    return Severity.TO_DO if longest >= _NOTICED else Severity.TO_KNOW


def _freed(
    pid: int, root: Session | None, behind: Sequence[Session], severity: Severity
) -> tuple[str, ...]:
    """What lets the queue go on, and undoes the least."""
    if not pid:
        return _rolled_back(root)
    kind = root.backend_type if root else None
    if kind == "startup":
        return (
            "End the transaction on the primary that has locked the table: replay holds its lock "
            "until it ends, and cannot be terminated",
        )
    first = [one for one in behind if pid in one.blocked_by]
    snapshot = all(one.waits_for_kind == "virtualxid" for one in first)
    if kind == "autovacuum worker" or (
        snapshot and severity is not Severity.TO_KNOW and not (root and root.idle_in_transaction)
    ):
        why = (
            "The vacuum would begin again, and may be the one that prevents wraparound"
            if kind == "autovacuum worker" else "It holds nothing but its snapshot"
        )  # fmt: skip
        return (
            f"{why}: let it go on, cancel what waits for it, and repeat that later:",
            *(Command(f"SELECT pg_cancel_backend({one.pid});") for one in first[:_SHOWN]),
        )
    if severity is Severity.TO_KNOW:
        return (
            "Let it end, if it is meant so; if not:",
            Command(f"SELECT pg_terminate_backend({pid});"),
        )
    return (Command(f"SELECT pg_terminate_backend({pid});"),)


def _rolled_back(prepared: Session | None) -> tuple[str, ...]:
    if prepared is None:  # it has ended meanwhile, or took the lock without a name
        return (Command("SELECT gid, prepared, owner, database FROM pg_prepared_xacts;"),)
    return (
        f"Ask its transaction manager, then commit it or roll it back, in database "
        f"{prepared.database} and as role {prepared.role} or a superuser:",
        Command(f"ROLLBACK PREPARED {literal(prepared.application)};"),
    )


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
                f"{len(group)} sessions of {as_name(first.application or 'unnamed')}, "
                f"role {as_name(first.role or '?')}: "
                f"wait for {_waits_for(first)}; statement {cut(first.statement, _TEXT)}"
            )


def _waits_for(one: Session) -> str:
    return f"{one.waits_for} on {one.relation}" if one.relation else f"{one.waits_for}"


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
    return f"{root.who}, {root.state} for {pretty_duration(root.state_seconds or 0)}"


def described(one: Session) -> str:
    """Return a session as a piece of evidence: who it is, what it waits for, its statement."""
    place = f" from {one.client}" if one.client else ""
    wait = ""
    if one.waits_for:
        wait = f", waits for {_waits_for(one)} for {pretty_duration(one.state_seconds or 0)}"
    last = "last statement" if one.idle_in_transaction else "statement"
    text = f"; {last} {cut(one.statement, _TEXT)}" if one.statement else ""
    state = one.state or one.backend_type or "hidden"
    where = f"role {as_name(one.role or '?')}, database {as_name(one.database or '?')}"
    return f"{one.who}, {where}{place}: {state}{wait}{text}"
