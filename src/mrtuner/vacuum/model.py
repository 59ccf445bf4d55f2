"""The data read from a database for vacuum, and the advice on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from mrtuner.facts import Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Toast:
    """A TOAST table's state and counters; its rows are chunks."""

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

    Sizes are pg_class.relpages, as the last VACUUM or ANALYZE left them: reading the actual size
    takes a lock. Counters are from pg_stat_all_tables, since their last reset.
    """

    oid: int
    schema: str
    name: str
    parent: str | None  # the parent of a partition
    pages: int
    visible_pages: int
    index_pages: int
    indexes: int
    options: Mapping[str, str]  # reloptions
    age: int  # of relfrozenxid [transactions]
    multixact_age: int
    rows: int  # reltuples, which the trigger uses; n_live_tup before the first VACUUM
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
    relfilenode: int = 0  # changes with TRUNCATE, and with anything that rewrites the table


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The server's clock [s since 1970] and its transaction counters [transactions]."""

    at: float
    reset_at: float | None
    started_at: float
    transactions: int
    next_xid: int
    oldest_multixact: str
    multixact_age: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """All tables of a database at one moment."""

    moment: Moment
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What happened to a table per second, over the `seconds` observed.

    `gaps` counts the intervals left out because a counter fell in them (statistics were reset).
    `events` is the number of rows written from which the rates are computed.
    """

    seconds: float
    events: int
    inserts: float
    updates: float
    deletes: float
    hot_share: float | None  # of updates; None without any
    newpage_share: float | None
    vacuums: int
    vacuum_seconds: float | None  # of one vacuum, as measured; 18 and later
    toast_inserts: float
    toast_deletes: float
    gaps: int = 0
    vanished: float = 0.0  # rows gone without a DELETE: truncated, or INSERTs rolled back
    truncated: int = 0  # how often it got a new file without a known size

    @property
    def dead(self) -> float:
        """Dead row versions per second that vacuum has to remove.

        The next reader usually prunes a HOT update's old version, so that is not counted.
        """
        return self.updates * (1 - (self.hot_share or 0.0)) + self.deletes


class TableKind(StrEnum):
    """What kind of table vacuum has to deal with."""

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
    """One storage parameter of a table; `name` starts with toast. for its TOAST table."""

    name: str
    now: str | None  # None: not set for the table
    value: str
    because: str
    source: str  # where the rule comes from


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One server setting; `restart` if a reload is not enough."""

    name: str
    now: str
    value: str
    because: str
    restart: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Time to produce the dead rows that start a vacuum, and time to vacuum, both in seconds.

    `vacuum` is a minimum: the sleeps that the cost limit imposes on a worker that has the whole
    limit. `measured` is what the server took on average. Both are None if there is nothing to
    vacuum.
    """

    trigger: float  # dead rows that start a vacuum
    produce: float | None
    vacuum: float | None
    measured: float | None
    cost: float  # of one vacuum, in the units of vacuum_cost_limit

    @property
    def busy(self) -> float | None:
        """Share of one worker's time that the table takes; above 1 vacuum is never done."""
        if self.produce is None or self.vacuum is None:
            return None
        return max(self.vacuum, self.measured or 0.0) / self.produce


@dataclass(frozen=True, slots=True, kw_only=True)
class Amplification:
    """What updates do to the TOAST table.

    `per_update`: dead chunks per updated row, without those of deleted rows.
    `per_row`: live chunks per live row. `rewritten`: the share of updates that write a row's
    large values again, which deserves a look only if there is a `suspicion`.
    """

    per_update: float
    per_row: float
    rewritten: float
    chunks_an_hour: float
    suspicion: str | None  # None: nothing to suspect
    certainty: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """One table: its kind, what to set, and whether vacuum can keep up."""

    table: Table
    rates: Rates
    kind: TableKind
    because: str
    advice: tuple[Advice, ...]
    hints: tuple[str, ...]
    now: Work
    then: Work  # with the advice in force
    toast_now: Work | None
    amplification: Amplification | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """What keeps dead rows from being removed, and how to resolve it."""

    what: str
    name: str
    age: int | None  # how many transactions back its horizon is
    seconds: float | None
    remedy: str
    sql: str | None
    serious: bool
    throughout: bool = False  # present at every look of a watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Wraparound:
    """How close one counter is to its limit, and the time left [s] if its pace is known."""

    what: str  # transaction IDs, multixact IDs
    database: str
    age: int
    forced_at: int  # autovacuum_freeze_max_age or autovacuum_multixact_freeze_max_age
    stops_at: int
    pace: float | None  # used up per second
    certainty: str
    to_forced: float | None
    to_stop: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All data read: the samples, the settings in force, and what is in the way."""

    version_num: int
    database: str
    samples: tuple[Sample, ...]
    settings: Mapping[str, str]  # in base units, as pg_settings has them
    databases: tuple[tuple[str, int, int], ...]  # name, age, multixact age
    blockers: tuple[Blocker, ...]
    chunk: int  # bytes per TOAST chunk
    missing: tuple[Missing, ...]
    lost: str | None = None  # why the session was lost during the watch; None: it was not

    @property
    def major(self) -> int:
        """The server's major version."""
        return self.version_num // 10_000
