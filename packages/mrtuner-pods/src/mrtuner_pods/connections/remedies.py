"""Three ways to make it fit: fewer connections, a pooler, a larger server; each with its memory.

The memory is the least that the budget of `mrtuner tune` needs: the worst case of that many
sessions with the smallest useful work_mem.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated, Final

from mrtuner.described import Doc
from mrtuner.facts import Fact
from mrtuner.inputs import MOST_SESSIONS
from mrtuner.tuning.budget import draw_up
from mrtuner.tuning.feasibility import Solution, least_memory, solve
from mrtuner.tuning.situation import Memory, Situation
from mrtuner.units import Bytes
from mrtuner_pods.connections.database import Database
from mrtuner_pods.connections.model import (
    Count,
    Limit,
    Other,
    Pooler,
    RolloutStage,
    Workload,
    total,
)

#: PgBouncer's processes, where there is none yet: one, and the one that replaces it.
_NEW_POOLER: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeeded:
    """What a number of sessions needs of a server, by the budget of `mrtuner tune`."""

    sessions: Annotated[int, Doc("of applications")]
    max_connections: Annotated[int, Doc("including those that the server reserves")]
    memory: Annotated[
        Bytes | None, Doc("the minimum memory [bytes]; null: more than any machine has")
    ]
    work_mem: Annotated[
        Bytes | None, Doc("on this machine [bytes]; null: its memory is unknown or too small")
    ]
    fits: Annotated[bool | None, Doc("whether this machine has enough; null: unknown")]
    price: Annotated[Bytes | None, Doc("what one more connection adds to the worst case [bytes]")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FewerConnections:
    """What one workload alone would have to come down to."""

    workload: Annotated[str, Doc("its name")]
    connections: Annotated[
        int, Doc("of one process and database now, overflow included; 0: unbounded")
    ]
    at_most: Annotated[int | None, Doc("of each pool; null: no pool is small enough")]
    pods: Annotated[int, Doc("wanted now, up to an autoscaler's maximum")]
    pods_at_most: Annotated[int | None, Doc("pods with the current pools; null: not even one")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolerNeeded:
    """A pooler in transaction mode for all workloads."""

    servers: Annotated[int, Doc("server connections of all its processes, at most")]
    each: Annotated[int, Doc("max_db_connections of each process, for each database")]
    databases: Annotated[int, Doc("databases that the workloads use")]
    processes: Annotated[int, Doc("processes, including those of a rollout")]
    clients: Annotated[Count, Doc("clients that they must admit in total; null: unbounded")]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaysToFit:
    """Three ways to make it fit, each with the memory that it needs."""

    now: Annotated[MemoryNeeded, Doc("the current limit")]
    fewer: Annotated[
        tuple[FewerConnections, ...], Doc("of each workload that connects to the server")
    ]
    pooler: Annotated[PoolerNeeded | None, Doc("null: no connection is left for it")]
    pooler_needs: Annotated[MemoryNeeded | None, Doc("the memory with the pooler")]
    larger: Annotated[
        MemoryNeeded | None,
        Doc(
            "the memory for all connections; null: max_connections is enough, or they are "
            "unbounded or too many"
        ),
    ]


def remedies(
    workloads: Sequence[Workload], others: Sequence[Other], database: Database, *,
    limits: Sequence[Limit], pooler: Pooler | None, stage: RolloutStage,
    expected: Fact[float] | None,
) -> WaysToFit:  # fmt: skip
    """Return the three ways to fit the connections at a stage; `limits[0]` is max_connections."""
    reachable, usable = limits[0].demand[stage], limits[0].capacity
    reserved = database.max_connections.value - usable

    def needed(sessions: int) -> MemoryNeeded:
        return _needed(database.situation, sessions, reserved)

    new = _pooler(workloads, others, pooler, usable, stage=stage, expected=expected)
    enough = reachable is not None and usable < reachable <= MOST_SESSIONS - reserved
    return WaysToFit(
        now=needed(usable),
        fewer=tuple(_lowest(one for limit in limits for one in _fewer(limit, stage))),
        pooler=new,
        pooler_needs=None if new is None else needed(new.servers + _lasting(others)),
        larger=needed(reachable) if enough and reachable is not None else None,
    )


def _lasting(others: Sequence[Other]) -> int:
    return sum(one.connections.value for one in others)


def _fewer(limit: Limit, stage: RolloutStage) -> list[FewerConnections]:
    """What each workload alone would have to come down to; empty if the limit is kept."""
    if limit.fits(stage):
        return []
    found = []
    for one in limit.workloads:
        pools = [pool for pool in one.pools if not pool.starts_first]
        others = (other.connections(stage) for other in limit.workloads if other is not one)
        rest = total([limit.fixed[stage], *others])
        pods = one.rollout.pods(stage)
        if not pools or not pods or one.connections(stage) == 0:
            continue
        multiple = sum(pool.processes.value * pool.databases.value for pool in pools) * pods
        sizes = [total((pool.size.value, pool.overflow.value)) for pool in pools]
        left = None if rest is None else limit.capacity - rest
        found.append(
            FewerConnections(
                workload=one.name,
                connections=0 if None in sizes else max(size or 0 for size in sizes),
                at_most=None if left is None or left < multiple else left // multiple,
                pods=one.rollout.desired.value,
                pods_at_most=_pods(one, left, stage),
            )
        )
    return found


def _lowest(ways: Iterable[FewerConnections]) -> Iterator[FewerConnections]:
    """One way for each workload: what every limit admits."""
    found: dict[str, FewerConnections] = {}
    for one in ways:
        known = found.get(one.workload, one)
        found[one.workload] = replace(
            one,
            at_most=_least(known.at_most, one.at_most),
            pods_at_most=_least(known.pods_at_most, one.pods_at_most),
        )
    yield from found.values()


def _least(one: int | None, other: int | None) -> int | None:
    """The lower of two; None, which is nothing at all, is lower than any number."""
    return None if one is None or other is None else min(one, other)


def _pods(workload: Workload, left: int | None, stage: RolloutStage) -> int | None:
    """The most pods that may be wanted: a rollout can double them."""
    each = workload.per_pod
    if left is None or not each or workload.rollout.runs is not None:
        return None

    def needed(wanted: int) -> int:
        desired = Fact(wanted, workload.rollout.desired.source)
        return (replace(workload.rollout, desired=desired).pods(stage) or 0) * each

    found = bisect_right(range(1, workload.rollout.desired.value + 1), left, key=needed)
    return found or None


def _pooler(
    workloads: Sequence[Workload], others: Sequence[Other], pooler: Pooler | None, usable: int, *,
    stage: RolloutStage, expected: Fact[float] | None,
) -> PoolerNeeded | None:  # fmt: skip
    """All workloads through a pooler: the load's need where it is known, else all that is left."""
    processes = pooler.processes_at(stage) if pooler is not None else _NEW_POOLER
    pools = [pool for one in workloads for pool in one.pools]
    named = {pool.database for pool in pools if pool.database}
    databases = max(1, len(named), *(pool.databases.value for pool in pools))
    limits = processes * databases
    left = usable - _lasting(others)
    if processes < 1 or left < limits:
        return None
    servers = left // limits * limits
    if expected is not None:
        needed = ceil(expected.value / limits) * limits
        servers = min(servers, max(limits, needed))
    return PoolerNeeded(
        servers=servers,
        each=servers // limits,
        databases=databases,
        processes=processes,
        clients=total(one.connections(stage) for one in workloads),
    )


def _needed(situation: Situation, sessions: int, reserved: int) -> MemoryNeeded:
    """What this many sessions of applications need, by the budget of one situation."""
    wanted = replace(situation, connections=replace(situation.connections, wanted=sessions))
    least = least_memory(wanted)
    answer = solve(wanted) if wanted.memory is not None else None
    priced = wanted if wanted.memory is not None or least is None else (
        replace(wanted, memory=Memory(least)))  # fmt: skip
    return MemoryNeeded(
        sessions=sessions,
        max_connections=sessions + reserved,
        memory=least,
        work_mem=answer.work_mem if answer is not None and answer.holds else None,
        fits=None if answer is None else answer.holds,
        price=_price(priced),
    )


def _price(situation: Situation) -> Bytes | None:
    """What one more connection adds to the worst case, with every other value as advised."""
    if situation.memory is None:
        return None
    answer = solve(situation)
    now, then = (_budget(situation, answer, more) for more in (0, 1))
    return Bytes(then - now)


def _budget(situation: Situation, answer: Solution, more: int) -> int:
    settled = answer.chosen.settled()
    plain = dict(settled.plain)
    plain["max_connections"] = settled.count("max_connections") + more
    budget = draw_up(
        replace(settled, plain=plain),
        major=situation.major, workload=situation.workload, share=situation.ceiling,
        machine=situation.machine, huge_pages=situation.huge_pages,
        active=situation.connections.active,
    )  # fmt: skip
    return budget.total if budget is not None else 0
