"""What is read of a database for vacuum, and what is said about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from mrtuner.facts import Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Toast:
    """A TOAST table's state and counters; a row of it is a chunk."""

    name: str
    pages: int
    options: Mapping[str, str]
    live: int
    dead: int
    inserted: int
    deleted: int
    age: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table's state and counters at one moment.

    Sizes are pg_class.relpages, as the last VACUUM or ANALYZE left them: reading a true size
    takes a lock. Counters are those of pg_stat_all_tables, since their last reset.
    """

    oid: int
    schema: str
    name: str
    parent: str | None  # of a partition
    pages: int
    visible_pages: int
    index_pages: int
    indexes: int
    options: Mapping[str, str]  # reloptions
    age: int  # of relfrozenxid [transactions]
    multixact_age: int
    rows: int  # reltuples, which the trigger goes by; n_live_tup before the first VACUUM
    live: int
    dead: int
    inserted: int
    updated: int
    hot_updated: int
    newpage_updated: int | None  # 16 and later
    deleted: int
    vacuums: int
    vacuum_seconds: float | None  # 18 and later
    toast: Toast | None
    relfilenode: int = 0  # another one after TRUNCATE, and after whatever writes the table anew


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The server's clock and its transaction counters, [s since 1970] and in transactions."""

    at: float
    reset_at: float | None
    started_at: float
    transactions: int
    next_xid: int
    oldest_multixact: str
    multixact_age: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Every table of a database at one moment."""

    moment: Moment
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What happened to a table, each second, over `seconds` that were seen.

    `gaps` counts intervals in which a counter fell (statistics were reset) and that are left
    out. `events` is the number of rows written that the rates rest on.
    """

    seconds: float
    events: int
    inserts: float
    updates: float
    deletes: float
    hot_share: float | None  # of updates; None without any
    newpage_share: float | None
    vacuums: int
    vacuum_seconds: float | None  # of one vacuum, measured; 18 and later
    toast_inserts: float
    toast_deletes: float
    gaps: int = 0
    vanished: float = 0.0  # rows gone without a DELETE: truncated, or their INSERT rolled back
    truncated: int = 0  # how often it was seen to get a new file without a size

    @property
    def dead(self) -> float:
        """Dead row versions that vacuum has to remove, each second.

        A HOT update's old version is usually pruned by the next reader, so it is left out.
        """
        return self.updates * (1 - (self.hot_share or 0.0)) + self.deletes

    @property
    def dead_counted(self) -> float:
        """Dead row versions that the trigger counts at most, each second: every old version."""
        return self.updates + self.deletes


class Kind(StrEnum):
    """What a table is to vacuum."""

    UNKNOWN = "unknown"
    STATIC = "static"
    APPEND_ONLY = "append-only"
    RELOADED = "truncated and reloaded"
    QUEUE = "queue-like"
    SHORT_LIVED = "short-lived"
    LONG_LIVED = "long-lived, often updated"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One storage parameter of a table; `name` begins with toast. for its TOAST table."""

    name: str
    now: str | None  # None: not set for the table
    value: str
    because: str
    source: str  # whose rule this is


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One server setting; `restart` when a reload is not enough."""

    name: str
    now: str
    value: str
    because: str
    restart: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Time to produce what starts a vacuum against time to vacuum it, all in seconds.

    `vacuum` is the least: the sleeps that the cost limit imposes on one worker that has the
    whole limit. `measured` is what the server took on average. Both None: nothing to vacuum.
    """

    trigger: float  # dead rows that start a vacuum
    produce: float | None
    vacuum: float | None
    measured: float | None
    cost: float  # of one vacuum, in the units of vacuum_cost_limit

    @property
    def busy(self) -> float | None:
        """Share of one worker's time that the table takes; above 1 it is never done."""
        if self.produce is None or self.vacuum is None:
            return None
        return max(self.vacuum, self.measured or 0.0) / self.produce


@dataclass(frozen=True, slots=True, kw_only=True)
class Amplification:
    """What an update does to the TOAST table.

    `per_update`: dead chunks for each updated row, those of deleted rows taken off.
    `per_row`: live chunks for each live row. `rewritten`: the share of updates that write a
    row's large values again; only with `suspicion` is it worth a look.
    """

    per_update: float
    per_row: float
    rewritten: float
    chunks_an_hour: float
    suspicion: str | None  # None: nothing to suspect
    certainty: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """One table: what it is, what to set, whether vacuum can follow."""

    table: Table
    rates: Rates
    kind: Kind
    because: str
    advice: tuple[Advice, ...]
    hints: tuple[str, ...]
    now: Work
    then: Work  # with the advice in force
    toast_now: Work | None
    amplification: Amplification | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """What keeps dead rows from being removed, and its remedy."""

    what: str
    name: str
    age: int | None  # transactions that its horizon lies back
    seconds: float | None
    remedy: str
    sql: str | None
    serious: bool
    throughout: bool = False  # it was there at every look of a watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Wraparound:
    """How far one counter is, as time where its pace is known [s]."""

    what: str  # transaction IDs, multixact IDs
    database: str
    age: int
    forced_at: int  # autovacuum_freeze_max_age or autovacuum_multixact_freeze_max_age
    stops_at: int
    pace: float | None  # used up each second
    certainty: str
    to_forced: float | None
    to_stop: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Everything read: the samples, the settings in force, and what stands in the way."""

    version_num: int
    database: str
    samples: tuple[Sample, ...]
    settings: Mapping[str, str]  # in base units, as pg_settings has them
    databases: tuple[tuple[str, int, int], ...]  # name, age, multixact age
    blockers: tuple[Blocker, ...]
    chunk: int  # bytes of a TOAST chunk
    missing: tuple[Missing, ...]
    lost: str | None = None  # why the session broke off during the watch; None: it did not

    @property
    def major(self) -> int:
        """The server's major version."""
        return self.version_num // 10_000
