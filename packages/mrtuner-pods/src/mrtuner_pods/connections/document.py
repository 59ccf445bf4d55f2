"""Whether connections fit, as JSON: ``mrtuner.pods.check/1``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from mrtuner.documents import Doc, Document, NotJudged, Struct, convert, field
from mrtuner_pods.connections.compared import Compared
from mrtuner_pods.connections.model import LimitKind
from mrtuner_pods.connections.remedies import WaysToFit
from mrtuner_pods.observed.model import OpenSessions, PoolerPool

if TYPE_CHECKING:
    from mrtuner.facts import Fact
    from mrtuner_pods.connections.judge import Check, Term
    from mrtuner_pods.connections.model import Limit, RolloutStage, Workload

StageName = Literal["at rest", "surge", "first step", "overlap"]


class CountRead(Struct):
    """A number of the sum, and where it was read."""

    of: Annotated[str, Doc("what it belongs to: a workload, a container, PgBouncer, the database")]
    name: Annotated[str, Doc("pods, processes, pool, max_connections, …")]
    value: Annotated[int | None, Doc("the number; null: unbounded")]
    source: Annotated[str, Doc("file and line, variable, option, or default with its version")]


class ConnectionsOpened(Struct):
    """Who opens connections to the server."""

    name: Annotated[str, Doc("the workload, PgBouncer, or what was given with `--also`")]
    kind: Annotated[str, Doc("Deployment, CronJob, …; pods, pooler, other")]
    where: Annotated[str, Doc("file and line, or the options")]
    reachable: Annotated[int | None, Doc("the most connections at this stage; null: unbounded")]
    how: Annotated[str, Doc("the product in words")]
    server: Annotated[
        str | None, Doc("the server, where workloads name several; null: it may be any of them")
    ] = None


class StageOfRollout(Struct):
    """How many connections there can be with this many pods."""

    stage: Annotated[StageName, Doc("of a rollout, from the fewest pods to the most")]
    reachable: Annotated[int | None, Doc("connections to the server; null: unbounded")]
    fits: Annotated[bool, Doc("whether no limit is exceeded then")]
    gives: Annotated[list[str], Doc("the limits that are reached then")]


class ConnectionLimit(Struct):
    """One limit, and what can be reached of it."""

    name: Annotated[str, Doc("max_connections, a role's or a database's limit, max_client_conn")]
    admits: Annotated[int, Doc("how many are admitted")]
    reachable: Annotated[int | None, Doc("how many there can be; null: unbounded")]
    fits: Annotated[bool, Doc("whether no connection is refused")]
    clients: Annotated[bool, Doc("whether it limits PgBouncer's clients, not the server's")]
    how: Annotated[str, Doc("the arithmetic, with the source of each number")]
    kind: Annotated[LimitKind, Doc("what sets it")] = "max_connections"
    server: Annotated[
        str | None, Doc("whose limit it is, where workloads name several servers; null: only one")
    ] = None


class ExpectedConnections(Struct):
    """What the load needs on average."""

    value: Annotated[
        float, Doc("connections in use: requests per second x seconds that each holds one")
    ]
    source: Annotated[str, Doc("both numbers")]


class MostSeen(Struct):
    """The most sessions of clients that a history has of the server."""

    value: Annotated[int, Doc("how many")]
    source: Annotated[str, Doc("the history, and when")]


class PodsCheckDocument(Document, tag="mrtuner.pods.check/1"):
    """Written by `mrtuner pods check --json`."""

    fits: Annotated[
        bool, Doc("whether no limit can be exceeded at this stage, and everything was counted")
    ]
    stage: Annotated[StageName, Doc("that was checked")]
    reachable: Annotated[
        int | None,
        Doc(
            "connections to the server that can be reached, with several servers to the one with "
            "the most; null: unbounded"
        ),
    ]
    admits: Annotated[int, Doc("connections of applications that max_connections admits")]
    expected: Annotated[ExpectedConnections | None, Doc("null without `--rate` and `--hold`")]
    open_now: Annotated[int | None, Doc("sessions that the server has now; null without one")]
    gives_at: Annotated[
        StageName | None, Doc("the first stage at which a limit is exceeded; null if none is")
    ]
    first: Annotated[str, Doc("the limit that is exceeded first, or has the least to spare")]
    database: Annotated[str, Doc("the server whose limits these are")]
    terms: Annotated[list[ConnectionsOpened], Doc("who opens connections to the server")]
    clients: Annotated[
        list[ConnectionsOpened], Doc("who opens connections to PgBouncer; empty without one")
    ]
    stages: Annotated[list[StageOfRollout], Doc("every stage of a rollout")]
    limits: Annotated[list[ConnectionLimit], Doc("every limit")]
    numbers: Annotated[list[CountRead], Doc("every number in the sum")]
    ways: Annotated[
        WaysToFit | None, Doc("three ways to make it fit; null if no limit is exceeded")
    ]
    warnings: Annotated[list[str], Doc("what is probably a mistake")]
    notes: Annotated[list[str], Doc("what was assumed, and what was not counted")]
    sessions: Annotated[list[OpenSessions], Doc("open now, by application")] = field(
        default_factory=list
    )
    pools: Annotated[list[PoolerPool], Doc("of a running PgBouncer, now")] = field(
        default_factory=list
    )
    seen: Annotated[MostSeen | None, Doc("null without `--history`")] = None
    unjudged: Annotated[
        list[NotJudged], Doc("what could not be counted: the numbers are the least there can be")
    ] = field(default_factory=list)
    compared: Annotated[
        list[Compared], Doc("with sessions seen; empty without `--observe` and `--history`")
    ] = field(default_factory=list)


def pods_check_document(done: Check) -> PodsCheckDocument:
    from mrtuner_pods.connections.judge import of_workload
    from mrtuner_pods.connections.model import RolloutStage

    expected = done.expected
    return PodsCheckDocument(
        fits=done.fits,
        stage=done.stage.value,
        reachable=done.reachable(),
        admits=done.limits[0].capacity,
        expected=None if expected is None else convert(expected, ExpectedConnections),
        open_now=done.database.open_now,
        gives_at=None if done.gives_at is None else done.gives_at.value,
        first=done.first.name,
        database=done.database.where,
        terms=[_term(one, done.stage) for one in done.terms],
        clients=[
            _term(of_workload(one), done.stage) for one in done.workloads if one.name in done.pooled
        ],
        stages=[
            StageOfRollout(stage=stage.value, reachable=done.reachable(stage),
                           fits=all(one.fits(stage) for one in done.limits),
                           gives=[one.name for one in done.limits if not one.fits(stage)])
            for stage in RolloutStage
        ],
        limits=[_limit(one, done.stage) for one in done.limits],
        numbers=list(_numbers(done)),
        ways=done.remedies() if done.exceeds else None,
        warnings=list(done.warnings),
        notes=list(done.notes),
        sessions=list(done.database.sessions),
        pools=list(done.pooler.now if done.pooler else ()),
        seen=None if done.seen is None else convert(done.seen, MostSeen),
        unjudged=[convert(one, NotJudged) for one in done.unjudged],
        compared=list(done.compared),
    )  # fmt: skip


def _term(one: Term, stage: RolloutStage) -> ConnectionsOpened:
    return ConnectionsOpened(name=one.name, kind=one.kind, where=one.where,
                             reachable=one.reachable[stage], how=one.how[stage],
                             server=one.server)  # fmt: skip


def _limit(one: Limit, stage: RolloutStage) -> ConnectionLimit:
    return ConnectionLimit(name=one.name, admits=one.capacity, reachable=one.demand[stage],
                           fits=one.fits(stage), clients=one.clients, how=one.how,
                           kind=one.kind, server=one.server)  # fmt: skip


def _numbers(done: Check) -> Iterator[CountRead]:
    for workload in done.workloads:
        yield from _of_workload(workload)
    pooler = done.pooler
    if pooler is not None:
        yield _read("PgBouncer", "pods", pooler.rollout.desired)
        yield _read("PgBouncer", "surge", pooler.rollout.surge)
        yield _read("PgBouncer", "processes", pooler.processes)
        yield _read("PgBouncer", "max_client_conn", pooler.max_client_conn)
        for pool in pooler.pools:
            whose = f"PgBouncer, {pool.entry}{f' for {pool.user}' if pool.user else ''}"
            yield _read(whose, "pool", pool.size)
            yield _read(whose, "reserve", pool.reserve)
        for name, limit in pooler.database_limits.items():
            yield _read(f"PgBouncer, {name}", "max_db_connections", limit)
        for name, limit in pooler.user_limits.items():
            yield _read(f"PgBouncer, {name or 'a user'}", "max_user_connections", limit)
    for other in done.others:
        yield _read(other.name, "connections", other.connections)
    yield _read("database", "max_connections", done.database.max_connections)
    for name, kept in done.database.reserved.items():
        yield _read("database", name, kept)


def _of_workload(workload: Workload) -> Iterator[CountRead]:
    rollout = workload.rollout
    yield _read(workload.name, "pods", rollout.desired)
    if rollout.runs is not None:
        yield _read(workload.name, "runs", rollout.runs)
    elif not rollout.replaced_first:
        yield _read(workload.name, "surge", rollout.surge)
        yield _read(workload.name, "unavailable", rollout.unavailable)
    if rollout.grace is not None:
        yield _read(workload.name, "grace [s]", rollout.grace)
    for pool in workload.pools:
        whose = f"{workload.name}, {pool.container}"
        yield _read(whose, "processes", pool.processes)
        yield _read(whose, "databases", pool.databases)
        yield _read(whose, "pool", pool.size)
        if pool.overflow.value:
            yield _read(whose, "overflow", pool.overflow)
        if pool.threads is not None:
            yield _read(whose, "threads", pool.threads)


def _read(whose: str, name: str, fact: Fact[int] | Fact[int | None]) -> CountRead:
    return CountRead(of=whose, name=name, value=fact.value, source=fact.source)
