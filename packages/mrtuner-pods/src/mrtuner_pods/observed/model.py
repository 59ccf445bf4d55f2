"""What monitoring saw of a load, each figure with its source. Times in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

from mrtuner.described import Doc
from mrtuner.facts import Fact, Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsMeasuredWaiting:
    """Waiting in front of the application, as it was measured."""

    source: Annotated[str, Doc("where it was read")]
    count: Annotated[int | None, Doc("requests")]
    mean: Annotated[float, Doc("mean")]
    p50: Annotated[float | None, Doc("median; null: only the mean is known")] = None
    p95: Annotated[float | None, Doc("95 % waited no longer")] = None
    p99: Annotated[float | None, Doc("99 % waited no longer")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSessions:
    """Sessions of one application at the database, now or on average while they were watched."""

    application: Annotated[str, Doc("application_name; empty: it has none")]
    role: Annotated[str, Doc("their role")]
    database: Annotated[str, Doc("their database")]
    sessions: Annotated[float, Doc("open; of a history, those active or in a transaction")]
    active: Annotated[float, Doc("of these, running a statement")]
    in_transaction: Annotated[float, Doc("of these, idle in a transaction")]
    clients: Annotated[int | None, Doc("addresses that they come from; null: not shown")]
    most: Annotated[int | None, Doc("the most of them at one moment; null: not known")] = None


#: An application, its role and its database.
Login = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsSeen:
    """The sessions of one server, by application, role and database."""

    source: str
    sessions: tuple[OpenSessions, ...]
    host: str | None = None  # of the server; None: not known
    idle: bool = True  # whether idle sessions are among them
    missing: tuple[Missing, ...] = ()  # what could not be seen
    samples: tuple[Mapping[Login, int], ...] = ()  # sessions at each moment; none: not kept

    def most(self, rows: Sequence[OpenSessions]) -> int:
        """Return the most sessions that these had together at one moment.

        Without samples that is at least what one of them had.
        """
        keys = [(one.application, one.role, one.database) for one in rows]
        together = [sum(sample.get(key, 0) for key in keys) for sample in self.samples]
        return max(together or [one.most or 0 for one in rows], default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolerPool:
    """A pool of PgBouncer, now or at the end of the reading."""

    database: Annotated[str, Doc("its database, as clients name it")]
    user: Annotated[str, Doc("its user")]
    mode: Annotated[str, Doc("session, transaction or statement")]
    clients: Annotated[int, Doc("that have a server connection")]
    waiting: Annotated[int, Doc("clients waiting for one")]
    longest_wait: Annotated[float, Doc("of them [s]")]
    servers: Annotated[int, Doc("server connections in use")]
    idle: Annotated[int, Doc("server connections that are idle")]


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
    waited: PodsMeasuredWaiting | None = None
    sessions: tuple[OpenSessions, ...] = ()
    pools: tuple[PoolerPool, ...] = ()
    warnings: tuple[str, ...] = ()

    def figures(self) -> Iterator[tuple[str, Fact[Any]]]:
        """Yield the figures that were seen, by the names of the inputs that they are for."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Fact):
                yield field.name, value


def in_database(busy: float, rate: float | None, source: str) -> Fact[float] | None:
    """A request's time in the database [s], by Little's law; `busy` [s/s] is what `source` saw.

    None without a `rate` of requests [1/s].
    """
    return Fact(busy / rate, f"{source} / {rate:g} requests/s") if rate else None


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
