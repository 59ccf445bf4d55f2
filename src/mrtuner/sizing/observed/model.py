"""What monitoring saw of a load, each figure with its source. Times in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from mrtuner.facts import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """How long requests waited in front of the application, measured."""

    source: str
    count: int | None  # requests; None where only their mean is known
    mean: float
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsOf:
    """The sessions of one application at a database, on average over the time they were watched."""

    application: str  # application_name; empty where it has none
    role: str
    database: str
    sessions: float
    active: float  # of them running a statement
    in_transaction: float  # of them idle in a transaction
    clients: int | None  # addresses that they come from; None: hidden, or over a local socket


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNow:
    """A pool of PgBouncer at this moment: SHOW POOLS."""

    database: str
    user: str
    mode: str
    clients: int  # that have a server connection
    waiting: int  # clients waiting for one
    longest_wait: float  # of them
    servers: int  # server connections in use
    idle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Figures of a load; None where they were not seen."""

    rate: Fact[float] | None = None
    samples: Fact[tuple[float, ...]] | None = None  # service times, as they are distributed
    service_time: Fact[float] | None = None  # its mean, where there is no distribution
    cpu_time: Fact[float] | None = None
    database_time: Fact[float] | None = None
    database_cpus: Fact[int] | None = None
    max_connections: Fact[int] | None = None
    pooler: Fact[int] | None = None
    waited: Waited | None = None
    sessions: tuple[SessionsOf, ...] = ()
    pools: tuple[PoolNow, ...] = ()
    warnings: tuple[str, ...] = ()

    def figures(self) -> Iterator[tuple[str, Fact[Any]]]:
        """Yield the figures that were seen, by the names of the inputs that they are for."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Fact):
                yield field.name, value


def together(seen: Iterable[Observed]) -> Observed:
    """Combine what several sources saw; if two have the same figure, the first one's is used."""
    several = list(seen)
    found: dict[str, Any] = {}
    for one in several:
        found |= {name: fact for name, fact in one.figures() if name not in found}
    if {"samples", "service_time"} <= found.keys():
        del found["service_time"]
    return Observed(
        waited=next((one.waited for one in several if one.waited is not None), None),
        sessions=tuple(row for one in several for row in one.sessions),
        pools=tuple(row for one in several for row in one.pools),
        warnings=tuple(dict.fromkeys(text for one in several for text in one.warnings)),
        **found,
    )
