"""The facts that rules use: one class for each fact a rule may name in its signature.

A fact that could not be found is simply absent from the `Situation`; the engine then answers a
rule that needs it with `Unknown`, without running it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from mrtuner.inputs import Storage, Workload
from mrtuner.units import Bytes, GiB, MiB, pretty_duration

if TYPE_CHECKING:
    from mrtuner.host.model import IoUring

#: Origins of a value that somebody chose for the server; the others are defaults, or computed.
OF_A_PERSON: Final = frozenset({
    "file", "include", "postgresql.auto.conf", "command line", "environment",
})  # fmt: skip
#: Origins of a value that belongs to our session, and hides the server's.
OF_OUR_SESSION: Final = frozenset({"role", "database", "client", "session"})
#: Above this share of memory, too little is left for the kernel and its cache.
USUAL_CEILING: Final = 0.9
#: A desktop runs other programs too.
DESKTOP_CEILING: Final = 0.5
#: A volume that allows at most so many requests a second binds most loads that do not fit into
#: memory (our judgement: it did at 3,000 when measured, and did not at 16,000).
FEW_REQUESTS: Final = 6000
#: Sessions per CPU assumed to run a statement at the same moment, if unknown: while one computes,
#: another waits for storage or a lock.
ACTIVE_A_CPU: Final = 2
LEAST_ACTIVE: Final = 4
#: Linux's huge pages on x86-64, and on arm64 with pages of 4 kB; with 64 kB they have 512 MB.
HUGE_PAGE: Final = Bytes(2 * MiB)


def usual_ceiling(workload: Workload) -> float:
    """The share of memory that PostgreSQL may use if --ceiling does not say."""
    return DESKTOP_CEILING if workload is Workload.DESKTOP else USUAL_CEILING


def as_share(ceiling: float) -> Fraction:
    """The share that was meant: 0.3, and not the nearest binary fraction."""
    return Fraction(ceiling).limit_denominator(1000)


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory that PostgreSQL may count on."""

    size: Bytes


@dataclass(frozen=True, slots=True)
class Cpus:
    """Whole CPUs that the scheduler gives us."""

    count: int


@dataclass(frozen=True, slots=True)
class Disk:
    """The volume of the data directory; either figure may be unknown."""

    size: Bytes | None
    free: Bytes | None

    @property
    def room_for_wal(self) -> Bytes:
        """The most max_wal_size may claim: a tenth of the volume, a quarter of what is free.

        The server's default of 1 GB, though, if that is at most a quarter of the volume.
        """
        known = [
            (size, part) for size, part in ((self.size, 10), (self.free, 4)) if size is not None
        ]
        least = GiB if self.size is None else min(GiB, self.size // 4)
        return Bytes(max(least, min(size // part for size, part in known)))


@dataclass(frozen=True, slots=True)
class WalDisk:
    """The volume that pg_wal has, or may have, to itself; its figures may be unknown."""

    size: Bytes | None
    free: Bytes | None

    @property
    def room_for_wal(self) -> Bytes | None:
        """The most max_wal_size may claim: half of the volume, half of what is free.

        The other half is for what max_wal_size does not limit: slots, a stuck archiver, bursts.
        """
        known = [part // 2 for part in (self.size, self.free) if part is not None]
        return Bytes(min(known)) if known else None


@dataclass(frozen=True, slots=True)
class Throughput:
    """What the volume of the data directory can do; either figure may be unknown."""

    iops: int | None  # operations per second
    bandwidth: Bytes | None  # bytes per second

    @property
    def few_requests(self) -> bool:
        """Whether the volume is known to allow so few requests that saving one pays."""
        return self.iops is not None and self.iops <= FEW_REQUESTS


@dataclass(frozen=True, slots=True)
class Rto:
    """The longest crash recovery allowed [s]."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Data:
    """Total size of all databases."""

    size: Bytes


@dataclass(frozen=True, slots=True)
class Connections:
    """Application sessions, wanted and seen; active ones run a statement. None: unknown."""

    wanted: int | None
    seen: int | None = None  # open when a live server was read
    active: int | None = None  # at the same moment, as given by the user
    seen_active: int | None = None  # at the same moment, as a live server's counters show
    held: int | None = None  # the most that leave enough work_mem, if fewer than usual


@dataclass(frozen=True, slots=True)
class Active:
    """Sessions expected to run a statement at the same moment, and how we know."""

    count: int
    how: str


@dataclass(frozen=True, slots=True)
class HugePages:
    """Huge pages that are proved, or stated, to hold shared memory."""

    covers: Bytes | None  # shared memory up to this size; None: any size
    source: str
    reserved: int = 0  # so many bytes of the memory that counts are in them, in use or not

    def hold(self, shared: int) -> bool:
        """Whether shared memory of this size [bytes] needs no small pages."""
        return self.covers is None or shared <= self.covers


@dataclass(frozen=True, slots=True)
class Clock:
    """The kernel's clocksource; reading some of them costs a system call."""

    source: str


class Seen(StrEnum):
    """How counters were observed."""

    RESET = "reset"  # since the last reset of statistics
    WATCHED = "watched"  # for as long as --watch said
    RECORDED = "recorded"  # in a history, at its busiest times


#: Counters since a reset move a value only if they cover an hour [s] and some checkpoint cycles.
ENOUGH_SECONDS: Final = 3600.0
ENOUGH_CHECKPOINTS: Final = 3


@dataclass(frozen=True, slots=True)
class Window:
    """The time that a server's counters cover."""

    seconds: float
    checkpoints: int | None
    seen: Seen
    loaded: str | None = None  # the table whose rows were loaded in this time, if that dominates it

    @property
    def long_enough(self) -> bool:
        """Whether the counters show the usual load, and not a moment or a bulk load."""
        if self.seen is Seen.RECORDED:
            return True
        several = self.checkpoints is not None and self.checkpoints >= ENOUGH_CHECKPOINTS
        return several and self.seconds >= ENOUGH_SECONDS and self.loaded is None

    @property
    def shows_wal_rate(self) -> bool:
        """Whether the rate of WAL may be used: a watched minute under load shows a peak."""
        return self.long_enough or self.seen is Seen.WATCHED

    @property
    def words(self) -> str:
        """The window as the end of a reason."""
        if self.seen is Seen.RECORDED:
            return "in the recorded history"
        how = "watched" if self.seen is Seen.WATCHED else "since statistics were reset"
        return f"in {pretty_duration(self.seconds)} {how}"


@dataclass(frozen=True, slots=True)
class Wal:
    """WAL and checkpoints in one window. Source: pg_stat_wal, pg_stat_checkpointer."""

    window: float  # seconds
    written: Bytes
    timed: int
    requested: int
    watched: bool = False  # sampled under load just now, rather than averaged since the last reset

    @property
    def peak_rate(self) -> float:
        """Bytes a second; the average of a long window hides peaks, assumed three times as high."""
        return self.written / self.window * (1 if self.watched else 3)


@dataclass(frozen=True, slots=True)
class Spills:
    """Temporary files in one window. Source: pg_stat_database."""

    window: float
    files: int
    size: Bytes


@dataclass(frozen=True, slots=True)
class DeadRows:
    """Large tables past their own threshold (storage parameters included): autovacuum is behind.

    Source: pg_stat_user_tables, pg_class.reloptions.
    """

    table: str  # the worst one
    times: float  # its dead rows, as a multiple of its autovacuum threshold
    tables: int


#: Sessions that write this share of all buffers themselves wait for the storage.
BUSY_BACKENDS: Final = 0.1
#: With fewer buffers than this (80 MB), shares mean nothing.
SOME_BUFFERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class BufferWrites:
    """Who writes dirty buffers. Source: pg_stat_bgwriter, pg_stat_checkpointer, pg_stat_io.

    Before 16 `by_backends` includes new pages and bulk operations, and `evictions` is None: only
    since 16 do the two show whether sessions had to make room themselves.
    """

    by_backends: int
    clean_stops: int
    window: float
    by_others: int | None = None  # checkpointer and background writer
    evictions: int | None = None  # by sessions, clean and dirty; 16 and later

    @property
    def share(self) -> float | None:
        """Share of all written buffers that a session wrote to make room; None if unknown."""
        if self.evictions is None or self.by_others is None:
            return None
        written = self.by_backends + self.by_others
        return self.by_backends / written if written >= SOME_BUFFERS else None


@dataclass(frozen=True, slots=True)
class FullWalBuffers:
    """How often a session had to write WAL because the buffers were full. Source: pg_stat_wal."""

    times: int
    window: float

    @property
    def rate(self) -> float:
        """Average number per second."""
        return self.times / self.window if self.window > 0 else 0.0


@dataclass(frozen=True, slots=True)
class ParallelWorkers:
    """Workers that plans asked for and workers that started. Source: pg_stat_database (18)."""

    planned: int
    launched: int

    @property
    def missing(self) -> float:
        """The share that did not start; 0 if fewer than 100 were planned."""
        return 1 - self.launched / self.planned if self.planned >= 100 else 0.0

    @property
    def words(self) -> str:
        """How many did not start."""
        return f"{self.missing:.0%} of {self.planned:,} planned workers could not start"


@dataclass(frozen=True, slots=True)
class Commits:
    """Commits a second on average, in all databases. Source: pg_stat_database."""

    rate: float


@dataclass(frozen=True, slots=True)
class Transactions:
    """How long transactions ran statements on average [s], while a load was watched.

    Source: pg_stat_database (14).
    """

    took: float


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitioned table of which a query takes most locks: on its partitions and indexes."""

    table: str
    locks: int


@dataclass(frozen=True, slots=True)
class JitTime:
    """Time of statements that were JIT-compiled [s]. Source: pg_stat_statements (15)."""

    calls: int
    compiling: float
    running: float  # as the server counts it: without what is compiled before execution starts

    @property
    def share(self) -> float | None:
        """Share of their time spent compiling; None if the time is too short to tell."""
        spent = max(self.running, self.compiling)
        return self.compiling / spent if spent >= 1 and self.calls >= 10 else None


@dataclass(frozen=True, slots=True)
class Slrus:
    """Reads a second from the transaction-status caches, by parameter. Source: pg_stat_slru.

    Only since 17: earlier caches have no parameter.
    """

    reads: Mapping[str, float]
    misses: Mapping[str, float]  # the share of accesses that had to read


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything that rules may ask about one server, real or described."""

    major: int
    workload: Workload
    connections: Connections
    memory: Memory | None = None
    cpus: Cpus | None = None
    storage: Storage | None = None
    filesystem: str | None = None  # of the data directory, as the kernel names it
    disk: Disk | None = None
    wal_disk: WalDisk | None = None
    throughput: Throughput | None = None
    rto: Rto | None = None
    data: Data | None = None
    clock: Clock | None = None
    io_uring: IoUring | None = None
    window: Window | None = None  # of the counters below; those that it cannot support are None
    huge_pages: HugePages | None = None  # None: not proved, so page tables count
    huge_page: Bytes = HUGE_PAGE  # the size of those that the server asks for
    whole_memory: Bytes | None = None  # `memory` with all that is reserved as huge pages
    wal: Wal | None = None
    spills: Spills | None = None
    dead_rows: DeadRows | None = None
    buffer_writes: BufferWrites | None = None
    full_wal_buffers: FullWalBuffers | None = None
    parallel_workers: ParallelWorkers | None = None
    commits: Commits | None = None
    transactions: Transactions | None = None
    partitions: Partitions | None = None
    jit_time: JitTime | None = None
    slrus: Slrus | None = None
    #: A live server's values as text in base units, and what its build accepts; empty offline.
    running: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    enum_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Parameters that cannot be changed here, with the reason; they keep their value.
    fixed: Mapping[str, str] = field(default_factory=dict)
    #: Parameters whose own value may be made smaller, because the user named them.
    lower: frozenset[str] = frozenset()
    ceiling: float = USUAL_CEILING

    def within_ceiling(self) -> Situation:
        """Return the machine whose usual ceiling this one is: rules take shares of its memory."""
        usual = usual_ceiling(self.workload)
        if self.memory is None or self.ceiling >= usual:
            return self
        share = as_share(self.ceiling) / as_share(usual)
        return replace(self, memory=Memory(Bytes(int(self.memory.size * share))), ceiling=usual)

    def active(self, sessions: int) -> Active:
        """Return how many of `sessions` are expected to run a statement at the same moment."""
        said, seen = self.connections.active, self.connections.seen_active
        if said is not None:
            return Active(min(said, sessions), "as given")
        if seen is not None:
            return Active(min(seen, sessions), "as observed")
        if self.cpus is None:
            return Active(sessions, "all of them, since the number of CPUs is unknown")
        if self.workload is Workload.DESKTOP:
            return Active(min(LEAST_ACTIVE, sessions), "one user")
        usual = max(LEAST_ACTIVE, ACTIVE_A_CPU * self.cpus.count)
        how = f"{ACTIVE_A_CPU} per CPU, at least {LEAST_ACTIVE}"
        return Active(min(usual, sessions), how)

    def chosen_by_person(self, name: str) -> bool:
        """Whether somebody set a live server's parameter, in a file or at its start."""
        return self.origins.get(name) in OF_A_PERSON

    @property
    def observed(self) -> str:
        """The window of the server's counters, as the end of a reason based on them."""
        return self.window.words if self.window else "on this server"

    @property
    def peaks_assumed(self) -> bool:
        """Whether how many sessions are active at once was judged by an average, and not seen."""
        return self.window is not None and self.window.seen is Seen.RESET

    @property
    def may_use_huge_pages(self) -> bool:
        """Whether pages that are reserved would be used; not where somebody switched them off."""
        return "huge_pages" not in self.fixed and self.running.get("huge_pages") != "off"

    @property
    def all_in_huge_pages(self) -> Situation:
        """The same with all shared memory in huge pages, so that none of them is idle."""
        memory = Memory(self.whole_memory) if self.whole_memory else self.memory
        return replace(self, huge_pages=HugePages(None, "--huge-pages"), memory=memory)

    @property
    def live(self) -> bool:
        """True when a running server was read."""
        return bool(self.running)

    @property
    def machine(self) -> dict[str, int]:
        """The known variables of an expression."""
        known: dict[str, int] = {}
        if self.memory:
            known["memory"] = self.memory.size
        if self.cpus:
            known["cpus"] = self.cpus.count
        return known
