"""What the rules are asked about: one class for each fact a rule may name in its signature.

A fact that nobody could give is simply absent from the `Situation`; a rule that names it is
then answered with `Unknown` by the engine and never runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from mrtuner.host.model import Storage
from mrtuner.units import Bytes, GiB

#: Beyond this share of memory the kernel has too little left for itself and its cache.
USUAL_CEILING: Final = 0.9


class Workload(StrEnum):
    """What the server is for. Where something was measured, the measurement wins over this."""

    WEB = "web"
    OLTP = "oltp"
    OLAP = "olap"
    MIXED = "mixed"
    DESKTOP = "desktop"

    @property
    def short_transactions(self) -> bool:
        """Many small transactions: latency matters, parallel query and JIT do not pay."""
        return self in {Workload.WEB, Workload.OLTP}


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory PostgreSQL may count on."""

    size: Bytes


@dataclass(frozen=True, slots=True)
class Cpus:
    """Whole CPUs the scheduler gives us."""

    count: int


@dataclass(frozen=True, slots=True)
class Disk:
    """The volume below the data directory; one of the figures may be unknown."""

    size: Bytes | None
    free: Bytes | None

    @property
    def room_for_wal(self) -> Bytes:
        """The most max_wal_size may claim: a tenth of the volume, a quarter of what is free."""
        known = [
            (size, part) for size, part in ((self.size, 10), (self.free, 4)) if size is not None
        ]
        return Bytes(max(GiB, min(size // part for size, part in known)))


@dataclass(frozen=True, slots=True)
class Data:
    """Size of all databases together."""

    size: Bytes


@dataclass(frozen=True, slots=True)
class Connections:
    """How many sessions are wanted (None: not said) and how many a live server has seen."""

    wanted: int | None
    seen: int | None = None


@dataclass(frozen=True, slots=True)
class Clock:
    """The kernel's clocksource; reading some of them costs a system call."""

    source: str


@dataclass(frozen=True, slots=True)
class Wal:
    """WAL and checkpoints of one window. Source: pg_stat_wal, pg_stat_checkpointer."""

    window: float  # seconds
    written: Bytes
    timed: int
    requested: int
    watched: bool = False  # sampled now, under load, rather than averaged since the last reset

    @property
    def representative(self) -> bool:
        """Long enough, or eventful enough, to believe more than a profile."""
        return self.watched or self.window >= 6 * 3600 or self.requested >= 3

    @property
    def peak_rate(self) -> float:
        """Bytes a second; an average over hours hides peaks, taken as three times it."""
        return self.written / self.window * (1 if self.watched else 3)


@dataclass(frozen=True, slots=True)
class Spills:
    """Temporary files of one window. Source: pg_stat_database."""

    window: float
    files: int
    size: Bytes


@dataclass(frozen=True, slots=True)
class DeadRows:
    """Large tables' share of dead rows. Source: pg_stat_user_tables."""

    table: str  # the worst one
    share: float
    tables: int  # how many large tables carry more than the scale factor allows for


@dataclass(frozen=True, slots=True)
class BufferWrites:
    """Who writes dirty buffers. Source: pg_stat_bgwriter, pg_stat_io."""

    by_backends: int
    clean_stops: int
    window: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything the rules may ask about one server, real or described."""

    major: int
    workload: Workload
    connections: Connections
    memory: Memory | None = None
    cpus: Cpus | None = None
    storage: Storage | None = None
    disk: Disk | None = None
    data: Data | None = None
    clock: Clock | None = None
    wal: Wal | None = None
    spills: Spills | None = None
    dead_rows: DeadRows | None = None
    buffer_writes: BufferWrites | None = None
    #: A live server's values as text in base units, and what its build takes; empty offline.
    running: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    enum_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Names that cannot be changed here, with the reason; they keep their value.
    fixed: Mapping[str, str] = field(default_factory=dict)
    ceiling: float = USUAL_CEILING

    @property
    def live(self) -> bool:
        """True when a running server was read."""
        return bool(self.running)

    @property
    def machine(self) -> dict[str, int]:
        """The variables of an expression that are known."""
        known: dict[str, int] = {}
        if self.memory:
            known["memory"] = self.memory.size
        if self.cpus:
            known["cpus"] = self.cpus.count
        return known
