"""Whether the connections that can be reached fit the database, and which limit is exceeded first.

*Can be reached* is a ceiling: every pod of the chosen stage with every connection its pools
allow. *Expected* is what the load needs on average, by Little's law: requests a second, times the
seconds that each holds a connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from mrtuner.facts import Fact, Missing
from mrtuner.wording import plural
from mrtuner_pods.connections.database import Database
from mrtuner_pods.connections.model import (
    Count,
    Limit,
    Other,
    Pool,
    Pooler,
    RolloutStage,
    ServerPool,
    Workload,
    server_name,
    total,
)
from mrtuner_pods.connections.pgbouncer import ANY
from mrtuner_pods.connections.remedies import WaysToFit, remedies

if TYPE_CHECKING:
    from mrtuner_pods.connections.compared import Compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One line of the sum: who opens connections to the server, and how many."""

    name: str
    kind: str
    where: str
    reachable: Mapping[RolloutStage, Count]
    how: Mapping[RolloutStage, str]  # in words: 20 pods x 2 processes x 5
    server: str | None = None  # that it connects to, where several are named; None: to any of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Whether the connections fit, with every term and every limit."""

    stage: RolloutStage
    terms: tuple[Term, ...]  # connections to the server
    limits: tuple[Limit, ...]
    workloads: tuple[Workload, ...]
    others: tuple[Other, ...]
    pooler: Pooler | None
    pooled: frozenset[str]  # workloads that go through it
    database: Database
    expected: Fact[float] | None  # connections in use on average
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    seen: Fact[int] | None = None  # the most sessions that a history has of the server
    unjudged: tuple[Missing, ...] = ()  # what could not be counted: there are at least so many
    compared: tuple[Compared, ...] = ()  # with the sessions that the database saw

    @property
    def exceeds(self) -> bool:
        """Whether a limit can be exceeded at the chosen stage, by what was counted alone."""
        return not all(one.fits(self.stage) for one in self.limits)

    @property
    def fits(self) -> bool:
        """Whether everything was counted, and no limit can be exceeded at the chosen stage."""
        return not self.exceeds and not self.unjudged

    @property
    def first(self) -> Limit:
        """The limit that is exceeded first, or has the least to spare."""
        return max(self.limits, key=lambda one: one.strain(self.stage))

    @property
    def gives_at(self) -> RolloutStage | None:
        """The first stage at which a limit is exceeded; None if all fit, up to the chosen one."""
        stages = list(RolloutStage)
        for stage in stages[: stages.index(self.stage) + 1]:
            if not all(one.fits(stage) for one in self.limits):
                return stage
        return None

    def remedies(self) -> WaysToFit:
        """Three ways to make it fit; solves the memory budget some sixty times."""
        workloads = self.limits[0].workloads if self.servers else self.workloads
        return remedies(
            workloads, self.others, self.database, limits=self.limits, pooler=self.pooler,
            stage=self.stage, expected=self.expected,
        )  # fmt: skip

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers that workloads name, where there are several: each is judged by itself."""
        return tuple(dict.fromkeys(one.server for one in self.limits if one.server is not None))

    def reachable(self, stage: RolloutStage | None = None, server: str | None = None) -> Count:
        """The most connections to a server at a stage, by default the chosen one.

        Where workloads name several servers, and none is chosen, to the one with the most.
        """
        if server is None and self.servers:
            each = [self.reachable(stage, one) for one in self.servers]
            return None if None in each else max(one or 0 for one in each)
        return total(
            one.reachable[stage or self.stage]
            for one in self.terms if server is None or one.server in {None, server}
        )  # fmt: skip


def judge(
    workloads: Sequence[Workload], database: Database, *,
    others: Sequence[Other] = (), pooler: Pooler | None = None,
    direct: frozenset[str] = frozenset(), stage: RolloutStage = RolloutStage.OVERLAP,
    expected: Fact[float] | None = None, seen: Fact[int] | None = None,
    notes: Sequence[str] = (), warnings: Sequence[str] = (),
    unjudged: Sequence[Missing] = (),
) -> Check:  # fmt: skip
    """Compare all terms with all limits; `direct` names workloads that avoid the pooler."""
    pooled = frozenset(
        one.name for one in workloads if pooler is not None and not _direct(one, pooler, direct)
    )
    if pooler is not None and any(_names(one, pooler) for one in workloads):
        pooled &= {one.name for one in workloads if _names(one, pooler)}
    servers, elsewhere = _servers(workloads, pooler, pooled, database)
    workloads = [part for one in workloads for part in _by_server(one, servers, pooled)]
    terms = tuple(_terms(workloads, others, pooler, pooled, servers))
    limits = tuple(
        _limits(workloads, others, database, pooler, pooled, servers=servers, stage=stage)
    )
    sessions = _sessions(workloads, pooler, pooled)
    said = [*warnings, *_superuser(sessions, database)]
    said += _more_than_reachable(terms, stage, database, seen)
    told = [*notes, *database.notes, *(pooler.notes if pooler else ())]
    told += _unmatched_limits(sessions, database)
    return Check(
        stage=stage,
        terms=terms,
        limits=limits,
        workloads=tuple(workloads),
        others=tuple(others),
        pooler=pooler,
        pooled=pooled,
        database=database,
        expected=expected,
        notes=tuple(dict.fromkeys(told)),
        warnings=tuple(dict.fromkeys(said)),
        seen=seen,
        unjudged=(
            *unjudged,
            *_behind_unknown_pooler(workloads, pooler),
            *(pooler.unjudged if pooler else ()),
            *elsewhere,
        ),
    )


def _names(workload: Workload, pooler: Pooler) -> bool:
    return any(server_name(pool.host) in pooler.names for pool in workload.pools)


def _servers(
    workloads: Sequence[Workload], pooler: Pooler | None, pooled: frozenset[str],
    database: Database,
) -> tuple[tuple[str, ...], list[Missing]]:  # fmt: skip
    """The servers that are named, none if there is only one; and those whose limits are unknown."""
    hosts = [
        pool.host for one in workloads if one.name not in pooled for pool in one.pools
    ]  # fmt: skip
    hosts += pooler.hosts if pooler is not None and pooled else ()
    named = tuple(dict.fromkeys(filter(None, map(server_name, hosts))))
    if len(named) < 2:
        return (), []
    if database.host is None:
        return named, []
    read = server_name(database.host)
    why = "its limits were not read: they are those of one server"
    return named, [
        Missing(one, why, hint="check it with a --database of its own")
        for one in named if one != read
    ]  # fmt: skip


def _by_server(one: Workload, servers: Sequence[str], pooled: frozenset[str]) -> Iterator[Workload]:
    """A workload, in parts if its pools lead to several servers."""
    if not servers or one.name in pooled:
        yield one
        return
    for server in dict.fromkeys(server_name(pool.host) for pool in one.pools):
        own = tuple(pool for pool in one.pools if server_name(pool.host) == server)
        yield replace(one, pools=own)


def _server_of(one: Workload, servers: Sequence[str]) -> str | None:
    return server_name(one.pools[0].host) if servers and one.pools else None


def _behind_unknown_pooler(
    workloads: Sequence[Workload], pooler: Pooler | None
) -> Iterator[Missing]:
    """Yield the clients of a pooler whose settings, which limit its sessions, are not here."""
    for name in dict.fromkeys(
        one.name for one in workloads
        if pooler is None and any(pool.pgbouncer for pool in one.pools)
    ):  # fmt: skip
        why = "it connects to a pooler, by its host, port or parameter, whose pools are not known"
        yield Missing(name, why, option="--pgbouncer FILE")


def _more_than_reachable(
    terms: Sequence[Term], stage: RolloutStage, database: Database, seen: Fact[int] | None
) -> Iterator[str]:
    """Warn of more sessions than all terms together can open: something else opens them."""
    reachable = total(one.reachable[stage] for one in terms)
    found = [] if database.open_now is None else [(database.open_now, "sessions are open now")]
    if seen is not None:
        found.append((seen.value, f"sessions were open: {seen.source}"))
    for number, what in found:
        if reachable is not None and number > reachable:
            yield (
                f"{number} {what}, more than the {reachable} possible: something else connects, "
                "or a pool is larger than it seems; name others with --also"
            )


def _direct(workload: Workload, pooler: Pooler, named: frozenset[str]) -> bool:
    """Whether a workload avoids the pooler: it is named, or its host is the server itself."""
    hosts = {server_name(pool.host) for pool in workload.pools}
    behind = {server_name(host) for host in pooler.hosts}
    return workload.name in named or bool(hosts & behind)


# Terms: what opens connections to the server.


def _terms(
    workloads: Sequence[Workload], others: Sequence[Other], pooler: Pooler | None,
    pooled: frozenset[str], servers: Sequence[str],
) -> Iterator[Term]:  # fmt: skip
    if pooler is not None:
        yield Term(
            server=_behind(pooler) if servers else None,
            name="PgBouncer",
            kind="pooler",
            where=pooler.where,
            reachable={
                stage: pooler.processes_at(stage) * pooler.servers() for stage in RolloutStage
            },
            how={
                stage: f"{plural(pooler.processes_at(stage), 'pooler')} x {pooler.servers()}"
                for stage in RolloutStage
            },
        )
    for one in workloads:
        if one.name not in pooled:
            yield replace(of_workload(one), server=_server_of(one, servers))
    for other in others:
        number = other.connections
        yield Term(
            name=other.name,
            kind="other",
            where=number.source,
            reachable=dict.fromkeys(RolloutStage, number.value),
            how=dict.fromkeys(RolloutStage, number.source),
        )


def _behind(pooler: Pooler) -> str | None:
    return server_name(next(iter(pooler.hosts), None))


def of_workload(one: Workload) -> Term:
    """The term of a workload, whether it goes to the server or to a pooler."""
    return Term(
        name=one.name,
        kind=one.kind,
        where=one.where,
        reachable={stage: one.connections(stage) for stage in RolloutStage},
        how={stage: _how(one, stage) for stage in RolloutStage},
    )


def _how(one: Workload, stage: RolloutStage) -> str:
    pods = one.rollout.pods(stage)
    many = "unbounded pods" if pods is None else plural(pods, "pod")
    each = " + ".join(filter(None, (_product(pool) for pool in one.pools if not pool.starts_first)))
    first = [pool for pool in one.pools if pool.starts_first]
    if first and one.per_pod != total(p.connections for p in one.pools if not p.starts_first):
        each = f"{count(one.per_pod)} of its init containers"
    return f"{many} x {f'({each})' if ' + ' in each else each or '0'}"


def _product(pool: Pool) -> str:
    parts = []
    if pool.processes.value != 1:
        parts.append(f"{pool.processes.value} processes")
    if pool.databases.value != 1:
        parts.append(f"{pool.databases.value} databases")
    size = count(pool.size.value)
    parts.append(f"({size} + {pool.overflow.value})" if pool.overflow.value else size)
    return " x ".join(parts)


def count(number: Count) -> str:
    """A number of connections, or *unbounded*."""
    return "unbounded" if number is None else f"{number:,}"


# Limits.


def _own_limits(
    kind: Literal["role", "database"], limits: Mapping[str, Fact[int]], used: frozenset[str | None],
    workloads: Sequence[Workload], pooler: Pooler | None,
) -> Iterator[Limit]:  # fmt: skip
    """The CONNECTION LIMIT of each role or database in use; the name "" is the one in use."""
    for name, limit in limits.items():
        if not name or name in used:
            only = {kind: name or None}
            yield Limit(
                name=f"limit of {f'{kind} {name}' if name else f'the {kind}'}",
                kind=kind,
                capacity=limit.value,
                how=limit.source,
                workloads=tuple(_matching(workloads, **only)),
                fixed=_through(pooler, **only),
            )


def _limits(
    workloads: Sequence[Workload], others: Sequence[Other], database: Database,
    pooler: Pooler | None, pooled: frozenset[str], *, servers: Sequence[str], stage: RolloutStage,
) -> Iterator[Limit]:  # fmt: skip
    """Every limit; those of the server with the least to spare come first."""
    named: Sequence[str | None] = servers or [None]
    each = [
        list(_of_server(workloads, others, database, pooler, pooled, server)) for server in named
    ]
    each.sort(key=lambda limits: -limits[0].strain(stage))
    for limits in each:
        yield from limits
    if pooler is not None:
        yield from _of_pooler(workloads, pooler, pooled)


def _of_server(
    workloads: Sequence[Workload], others: Sequence[Other], database: Database,
    pooler: Pooler | None, pooled: frozenset[str], server: str | None,
) -> Iterator[Limit]:  # fmt: skip
    """The limits of one server; a workload that names none may lead to any."""
    if pooler is not None and server is not None and _behind(pooler) not in {None, server}:
        pooler = None
    straight = tuple(
        one for one in workloads
        if one.name not in pooled
        and (server is None or _server_of(one, [server]) in {None, server})
    )  # fmt: skip
    sessions = _sessions(straight, pooler, pooled)
    elsewhere = sum(one.connections.value for one in others)
    through = _through(pooler)
    roles = frozenset(role for role, _ in sessions)
    databases = frozenset(name for _, name in sessions)
    limits = [
        Limit(
            name="max_connections",
            capacity=database.usable(roles),
            how=_usable(database, roles),
            workloads=straight,
            fixed={stage: number + elsewhere for stage, number in through.items()},
        ),
        *_own_limits("role", database.role_limits, roles, straight, pooler),
        *_own_limits("database", database.database_limits, databases, straight, pooler),
    ]
    for one in limits:
        named = f"{one.name} of {server}" if server is not None else one.name
        yield replace(one, name=named, server=server)


def _of_pooler(
    workloads: Sequence[Workload], pooler: Pooler, pooled: frozenset[str]
) -> Iterator[Limit]:
    clients = tuple(one for one in workloads if one.name in pooled)
    each, processes = pooler.max_client_conn, pooler.processes_at(RolloutStage.REST)
    yield Limit(
        name="max_client_conn of PgBouncer",
        kind="max_client_conn",
        capacity=pooler.clients(),
        how=f"{processes} x {each.value} ({each.source}), if clients are spread evenly",
        workloads=clients,
        fixed=dict.fromkeys(RolloutStage, 0),
        clients=True,
    )
    yield from _of_session_mode(clients, pooler, processes)


def _of_session_mode(
    clients: Sequence[Workload], pooler: Pooler, processes: int
) -> Iterator[Limit]:
    """The sessions of each pool in session mode, and of all where they share limits."""
    used = [
        (one, inside) for one in pooler.pools
        if one.mode == "session" and (inside := tuple(_clients_of(one, clients)))
    ]  # fmt: skip
    each = [pooler.within_limits([one]) for one, _ in used]
    together = pooler.within_limits(one for one, _ in used)
    shared = [("", together, tuple(clients))]
    if together == sum(each) or len(used) < len(pooler.pools):
        shared = []
    pools = [
        (f", {one.client or 'any user'} in {one.entry}" if used[1:] else "", most, inside)
        for (one, inside), most in zip(used, each, strict=True)
    ]
    for whose, most, inside in (*pools, *shared):
        yield Limit(
            name=f"server sessions of PgBouncer in session mode{whose}",
            kind="session pooling",
            capacity=processes * most,
            how=f"{processes} x {most}: with pool_mode = session ({pooler.where}), a "
            "client keeps its server session for as long as it is connected, as those of a pool "
            "are; the others wait",
            workloads=inside,
            fixed=dict.fromkeys(RolloutStage, 0),
            clients=True,
        )


def _clients_of(pool: ServerPool, workloads: Sequence[Workload]) -> Iterator[Workload]:
    name = None if pool.entry == ANY else pool.entry
    return _matching(workloads, role=pool.client, database=name)


def _usable(database: Database, roles: frozenset[str | None]) -> str:
    """The arithmetic of what max_connections leaves."""
    most = database.max_connections
    kept = " - ".join(
        f"{one.value} {name} ({one.source})" for name, one in database.reserved.items() if one.value
    )
    minus = f" - {kept}" if kept and database.usable(roles) < most.value else ""
    return f"{most.value} ({most.source}){minus}"


def _through(
    pooler: Pooler | None, *, role: str | None = None, database: str | None = None
) -> dict[RolloutStage, int]:
    """The pooler's server connections at each stage: all, or those of one role or database."""
    if pooler is None:
        return dict.fromkeys(RolloutStage, 0)
    servers = pooler.servers(database=database, user=role)
    return {stage: pooler.processes_at(stage) * servers for stage in RolloutStage}


def _matching(
    workloads: Sequence[Workload], *, role: str | None = None, database: str | None = None
) -> Iterator[Workload]:
    """Each workload with only the pools that use, or may use, a role or a database."""
    for one in workloads:
        pools = tuple(
            pool for pool in one.pools
            if (role is None or pool.role in {None, role})
            and (database is None or pool.database in {None, database})
        )  # fmt: skip
        if pools:
            yield replace(one, pools=pools)


def _sessions(
    workloads: Sequence[Workload], pooler: Pooler | None, pooled: frozenset[str]
) -> frozenset[tuple[str | None, str | None]]:
    """The role and the database of every kind of session at the server; None: unknown."""
    found = {
        (pool.role, pool.database)
        for one in workloads if one.name not in pooled
        for pool in one.pools
    }  # fmt: skip
    if pooler is not None:
        found |= {(pool.user, pool.database) for pool in pooler.pools}
    return frozenset(found)


def _superuser(
    sessions: frozenset[tuple[str | None, str | None]], database: Database
) -> Iterator[str]:
    for role in sorted({role for role, _ in sessions if role in database.superusers}, key=str):
        yield (
            f"{role} is a superuser: it may use the reserved connections, and limits of roles and "
            "databases do not apply to it"
        )


def _unmatched_limits(
    sessions: frozenset[tuple[str | None, str | None]], database: Database
) -> Iterator[str]:
    """Limits that cannot be checked, since it is not known who connects."""
    roles, databases = _listed(database.role_limits), _listed(database.database_limits)
    if roles and any(role is None for role, _ in sessions):
        yield f"roles with limits: {roles}; --role names the one that the application connects as"
    if databases and any(name is None for _, name in sessions):
        named = "--dbname names the one that the application uses"
        yield f"databases with limits: {databases}; {named}"


def _listed(limits: Mapping[str, Fact[int]]) -> str:
    return ", ".join(f"{name} {one.value}" for name, one in limits.items() if name)
