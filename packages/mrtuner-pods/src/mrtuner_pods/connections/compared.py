"""What was counted beside what the database saw: which workload's count is too low or too high.

A workload's sessions are recognised by their application_name, else by their role and database.
Where several workloads may have opened the same sessions, they are compared together; sessions that
no workload can have opened are compared by application and role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from mrtuner.described import Doc, document_name
from mrtuner.facts import Missing
from mrtuner.wording import enumerated, plural
from mrtuner_pods.connections.judge import Check
from mrtuner_pods.connections.model import (
    Count,
    Pool,
    RolloutStage,
    server_name,
    total,
)
from mrtuner_pods.observed.model import OpenSessions, SessionsSeen

Verdict = Literal["too low", "too high", "as counted", "not known"]
_POOLER: Final = "PgBouncer"


@document_name("ComparedCount")
@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What was counted for a workload beside the sessions that the database saw."""

    name: Annotated[
        str,
        Doc("the workload, several that cannot be told apart, or an application with its role"),
    ]
    workloads: Annotated[
        tuple[str, ...], Doc("these workloads; empty: none of them can have opened them")
    ]
    rest: Annotated[Count, Doc("connections counted without a rollout; null: unbounded")]
    reachable: Annotated[Count, Doc("those of the stage that was checked; null: unbounded")]
    seen: Annotated[int, Doc("the most sessions at one moment; of a history, the busy ones")]
    addresses: Annotated[int | None, Doc("that they came from; null: not known")]
    verdict: Annotated[
        Verdict, Doc("of the count; a history, which has no idle sessions, shows only too low")
    ]
    source: Annotated[str, Doc("who saw the sessions, and when")]


@dataclass(slots=True)
class _Part:
    """Workloads and sessions that belong together."""

    subjects: list[_Subject] = field(default_factory=list)
    sessions: list[OpenSessions] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """Whoever opens connections to the server: a workload, or a pooler for its clients."""

    name: str
    rest: Count
    reachable: Count
    logins: tuple[tuple[str | None, str | None], ...]  # role and database; None: unknown
    applications: tuple[str, ...] = ()  # names that its sessions are known to have
    anyone: bool = False  # its sessions may have any role: only its name is known


def compared(check: Check, seen: SessionsSeen) -> tuple[tuple[Compared, ...], tuple[Missing, ...]]:
    """Return the comparison, the largest gap first, and what of it makes the count unreliable."""
    subjects = list(_subjects(check, seen))
    parts = _parts(subjects, seen.sessions)
    rows = sorted((_compared(part, seen) for part in parts), key=_by_gap)
    low = (_too_low(row) for row in rows if row.verdict == "too low")
    return tuple(rows), (*seen.missing, *low)


def _by_gap(row: Compared) -> tuple[bool, int, str]:
    return row.verdict != "too low", -abs(row.seen - (row.rest or 0)), row.name


def _too_low(row: Compared) -> Missing:
    what = f"{plural(row.seen, 'session')} at once were seen ({row.source}), more than the "
    why = f"{what}{row.reachable} counted"
    hint = "give its real pool: --pool" if row.workloads else "name what opens them: --also NAME=N"
    return Missing(row.name, why, hint=hint)


# Who opens connections.


def _subjects(check: Check, seen: SessionsSeen) -> Iterator[_Subject]:
    server = server_name(seen.host)
    for one in check.workloads:
        if one.name in check.pooled:
            continue
        pools = [pool for pool in one.pools if _leads_to(pool, server, check.servers)]
        if not pools:
            continue
        yield _Subject(
            name=one.name,
            rest=one.connections(RolloutStage.REST),
            reachable=one.connections(check.stage),
            logins=tuple(dict.fromkeys((pool.role, pool.database) for pool in pools)),
            applications=tuple(
                name for pool in pools for name in (pool.application, pool.container) if name
            ),
        )
    pooler = check.pooler
    if pooler is not None:
        yield _Subject(
            name=_POOLER,
            rest=pooler.processes_at(RolloutStage.REST) * pooler.servers(),
            reachable=pooler.processes_at(check.stage) * pooler.servers(),
            logins=tuple(dict.fromkeys((pool.user, pool.database) for pool in pooler.pools)),
            applications=tuple(check.pooled),
        )
    for other in check.others:
        number = other.connections.value
        yield _Subject(name=other.name, rest=number, reachable=number,
                       logins=((other.name, None),), anyone=True)  # fmt: skip


def _leads_to(pool: Pool, server: str | None, servers: Sequence[str]) -> bool:
    return not servers or server_name(pool.host) in {None, server}


# Whose sessions they are.


def _parts(subjects: Sequence[_Subject], sessions: Sequence[OpenSessions]) -> list[_Part]:
    """Return subjects and sessions in parts that nothing connects."""
    parts = [_Part(subjects=[one]) for one in subjects]
    for row in sessions:
        may = {one.name for one in _candidates(subjects, row)}
        joined = _Part(sessions=[row])
        for part in [one for one in parts if may & {each.name for each in one.subjects}]:
            joined.subjects += part.subjects
            joined.sessions += part.sessions
            parts.remove(part)
        parts.append(joined)
    return parts


def _candidates(subjects: Sequence[_Subject], row: OpenSessions) -> list[_Subject]:
    """The subjects that may have opened these sessions, by the surest sign that any of them has."""
    named = [one for one in subjects if _is_named(one, row)]
    known = [one for one in subjects if _may_log_in(one, row, sure=True)]
    return named or known or [one for one in subjects if _may_log_in(one, row, sure=False)]


def _is_named(one: _Subject, row: OpenSessions) -> bool:
    """Whether an application_name is one of its names, or that of one of its pods."""
    may = one.anyone or _may_log_in(one, row, sure=False)
    names = (one.name, *one.applications)
    pods = re.compile(rf"{re.escape(one.name)}-[a-z0-9-]+")
    return may and (row.application in names or pods.fullmatch(row.application) is not None)


def _may_log_in(one: _Subject, row: OpenSessions, *, sure: bool) -> bool:
    """Whether it connects as this role to this database, as far as that is known."""
    return any(
        role in ({row.role} if sure else {None, row.role}) and database in {None, row.database}
        for role, database in one.logins
    )


# What differs.


def _compared(part: _Part, seen: SessionsSeen) -> Compared:
    rest = total(one.rest for one in part.subjects)
    reachable = total(one.reachable for one in part.subjects)
    most = seen.most(part.sessions)
    known = [row.clients for row in part.sessions if row.clients is not None]
    return Compared(
        name=_name(part),
        workloads=tuple(one.name for one in part.subjects),
        rest=rest,
        reachable=reachable,
        seen=most,
        addresses=max(known, default=None),
        verdict=_verdict(rest, reachable, most, idle=seen.idle),
        source=seen.source,
    )


def _name(part: _Part) -> str:
    if part.subjects:
        return enumerated(one.name for one in part.subjects)
    (row,) = part.sessions
    return f"{row.application or 'an unnamed application'} as {row.role or 'an unknown role'}"


def _verdict(rest: Count, reachable: Count, most: int, *, idle: bool) -> Verdict:
    """A history has no idle sessions: it shows a count that is too low, and no other."""
    if reachable is not None and most > reachable:
        return "too low"
    if rest is None or reachable is None or not idle:
        return "not known"
    return "too high" if most < rest else "as counted"
