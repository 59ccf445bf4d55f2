"""What opens connections: workloads with their pods, the pools in a pod, a pooler in between.

Every number is a `Fact`, which has its source. A pool without a limit has no number: None
stands for *unbounded* wherever connections are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod
from typing import Literal

from mrtuner.facts import Fact, Missing
from mrtuner_pods.observed.model import PoolerPool

#: A number of connections; None: unbounded.
Count = int | None


class RolloutStage(StrEnum):
    """How many pods there are at the same time, from the fewest to the most."""

    REST = "at rest"  # no rollout: as many as are wanted
    SURGE = "surge"  # a rollout's new pods, without those that are terminating
    FIRST_STEP = "first step"  # a rollout starts: surge, and the first that are terminating
    OVERLAP = "overlap"  # every new pod is there, and every old one still terminating


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """How many pods a workload can have.

    Kubernetes does not count terminating pods: a new one starts while the one it replaces still
    has its connections, for at most its grace period. New pods are at most `desired`, and so are
    old ones. Source: kubernetes#95498; documentation of Deployments, maxSurge.
    """

    desired: Fact[int]
    surge: Fact[int]
    unavailable: Fact[int]
    replaced_first: bool = False  # Recreate, StatefulSet: the old pod is gone before the new one
    grace: Fact[int] | None = None  # seconds; 0: nothing is terminating for long
    runs: Fact[Count] | None = None  # of a CronJob, at the same time

    def pods(self, stage: RolloutStage) -> Count:
        """Return the pods at a stage; None: unbounded, where runs of a CronJob pile up."""
        number = self.desired.value
        if self.runs is not None:
            return times(number, self.runs.value)
        if stage is RolloutStage.REST or self.replaced_first:
            return number
        with_surge = min(number + self.surge.value, 2 * number)
        if stage is RolloutStage.SURGE or (self.grace is not None and self.grace.value == 0):
            return with_surge
        if stage is RolloutStage.FIRST_STEP:
            return min(number + self.surge.value + self.unavailable.value, 2 * number)
        return 2 * number


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What the processes of one container open."""

    container: str
    processes: Fact[int]
    databases: Fact[int]  # each has a pool of its own
    size: Fact[Count]  # of one process, for one database
    overflow: Fact[int]
    threads: Fact[int] | None = None  # of one process; None: unknown, or an event loop
    framework: str | None = None
    role: str | None = None  # that it connects as, where its connection string says so
    database: str | None = None
    host: str | None = None
    application: str | None = None  # application_name of its sessions, where anything says so
    starts_first: bool = False  # an init container: gone before the others start
    pgbouncer: bool = False  # its connection string says that it leads to one

    @property
    def connections(self) -> Count:
        """The most connections that one pod's container can have."""
        each = total((self.size.value, self.overflow.value))
        return times(self.processes.value, self.databases.value, each)


def server_name(host: str | None) -> str | None:
    """Return one name for a host that Kubernetes knows by several.

    >>> server_name("db.prod.svc.cluster.local"), server_name("DB:5432"), server_name("db.example")
    ('db', 'db', 'db.example')
    """
    if host is None:
        return None
    name = re.sub(r":\d+$", "", host.lower()).rstrip(".")
    first, _, rest = name.partition(".")
    return first if re.match(r"[^.]+\.svc(\.|$)", rest) else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Pods that are alike: a Deployment, an ECS service, a systemd unit, dynos of one kind."""

    name: str
    kind: str
    where: str  # file and line, or the options
    rollout: Rollout
    pools: tuple[Pool, ...]

    @property
    def per_pod(self) -> Count:
        """The most connections of one pod: init containers are gone before the others start."""
        running = total(one.connections for one in self.pools if not one.starts_first)
        first = [one.connections for one in self.pools if one.starts_first]
        if running is None or None in first:
            return None
        return max(running, *(number or 0 for number in first)) if first else running

    def connections(self, stage: RolloutStage) -> Count:
        return times(self.rollout.pods(stage), self.per_pod)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPool:
    """The connections of one pooler process to one database for one user."""

    entry: str  # the database's name for clients; *: any
    database: str | None  # as the server names it; None: unknown
    client: str | None  # who logs in; None: unknown, or anybody
    user: str | None  # at the server; None: unknown
    size: Fact[int]
    reserve: Fact[int]
    mode: str = "session"  # pool_mode

    @property
    def connections(self) -> int:
        return self.size.value + self.reserve.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooler:
    """PgBouncer: processes that are alike, each with its own pools.

    A process knows nothing of the others: every limit holds for each (pgbouncer#103).
    """

    where: str
    rollout: Rollout
    processes: Fact[int]  # in a pod
    max_client_conn: Fact[int]
    pools: tuple[ServerPool, ...]
    database_limits: dict[str, Fact[int]] = field(default_factory=dict)  # max_db_connections
    user_limits: dict[str, Fact[int]] = field(default_factory=dict)  # max_user_connections
    waits: bool = False  # for its clients, when it is told to end
    hosts: frozenset[str] = frozenset()  # of the servers behind it
    names: frozenset[str] = frozenset()  # by which clients reach it, as far as manifests say
    now: tuple[PoolerPool, ...] = ()  # what its pools do, if a running one was queried
    notes: tuple[str, ...] = ()
    unjudged: tuple[Missing, ...] = ()  # settings that were not read

    def servers(self, database: str | None = None, user: str | None = None) -> int:
        """The most server connections of one process: all, or those of one database or user."""
        return self.within_limits(
            one
            for one in self.pools
            if (database is None or one.database in {None, database})
            and (user is None or one.user in {None, user})
        )

    def within_limits(self, pools: Iterable[ServerPool]) -> int:
        """The most server connections that one process opens for some of its pools.

        A pool opens no more than it has clients; then the limits of databases and of users apply.
        """
        chosen = tuple(pools)
        return min(
            self._limited(chosen, "entry", self.database_limits),
            self._limited(chosen, "user", self.user_limits),
        )

    def _limited(self, pools: Iterable[ServerPool], by: str, limits: dict[str, Fact[int]]) -> int:
        sums: dict[str, int] = {}
        for one in pools:
            key = getattr(one, by) or ""
            most = min(one.connections, self.max_client_conn.value)
            sums[key] = sums.get(key, 0) + most
        return sum(
            min(number, limits[key].value) if key in limits else number
            for key, number in sums.items()
        )

    def processes_at(self, stage: RolloutStage) -> int:
        """The pooler's processes with server connections at a stage.

        A process told to stop closes its server connections at once, unless it `waits`.
        """
        if not self.waits and stage is not RolloutStage.REST:
            stage = RolloutStage.SURGE
        return (self.rollout.pods(stage) or 0) * self.processes.value

    def clients(self) -> int:
        return self.processes_at(RolloutStage.REST) * self.max_client_conn.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """Connections from elsewhere: monitoring, migrations, a person with psql."""

    name: str
    connections: Fact[int]


#: What sets a limit.
LimitKind = Literal["max_connections", "role", "database", "max_client_conn", "session pooling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit, and who takes how much of it."""

    name: str
    capacity: int
    how: str  # the arithmetic, with the source of each number
    workloads: tuple[Workload, ...]
    fixed: Mapping[RolloutStage, int]  # what others take: a pooler, monitoring
    kind: LimitKind = "max_connections"
    clients: bool = False  # of a pooler's clients, not of sessions at the server
    server: str | None = None  # whose limit it is, where several are named

    @property
    def demand(self) -> dict[RolloutStage, Count]:
        """The most connections that count towards it, at each stage."""
        return {
            stage: total([self.fixed[stage], *(one.connections(stage) for one in self.workloads)])
            for stage in RolloutStage
        }

    def fits(self, stage: RolloutStage) -> bool:
        demand = self.demand[stage]
        return demand is not None and demand <= self.capacity

    def strain(self, stage: RolloutStage) -> float:
        """Demand over capacity: the limit with the highest strain is exceeded first."""
        demand = self.demand[stage]
        if demand is None:
            return float("inf")
        return demand / self.capacity if self.capacity else float("inf") if demand else 0.0


def times(*numbers: Count) -> Count:
    """The product; 0 times unbounded is 0."""
    if 0 in numbers:
        return 0
    known = [number for number in numbers if number is not None]
    return None if len(known) < len(numbers) else prod(known)


def total(numbers: Iterable[Count]) -> Count:
    """The sum; None if any of them is unbounded."""
    result = 0
    for number in numbers:
        if number is None:
            return None
        result += number
    return result
