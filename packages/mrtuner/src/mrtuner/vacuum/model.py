"""The data read from a database for vacuum, and the advice on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal

from mrtuner.described import Doc
from mrtuner.facts import Missing
from mrtuner.postgres.model import Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class ToastTable:
    """A TOAST table; its rows are chunks."""

    name: Annotated[str, Doc("its name")]
    pages: Annotated[int, Doc("its size as the last VACUUM left it")]
    options: Annotated[Mapping[str, str], Doc("storage parameters by name")]
    live: Annotated[int, Doc("live chunks")]
    dead: Annotated[int, Doc("dead chunks")]
    inserted: Annotated[int, Doc("chunks inserted since the last reset of statistics")]
    deleted: Annotated[int, Doc("chunks deleted since then")]
    age: Annotated[int, Doc("of its oldest transaction ID")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table's state and counters at one moment.

    Sizes are pg_class.relpages, as the last VACUUM or ANALYZE left them: reading the actual size
    takes a lock. Counters are from pg_stat_all_tables, since their last reset.
    """

    oid: Annotated[int, Doc("of the table")]
    schema: Annotated[str, Doc("its schema")]
    name: Annotated[str, Doc("its name")]
    parent: Annotated[str | None, Doc("of a partition, the parent")]
    pages: Annotated[int, Doc("size of the table as the last VACUUM or ANALYZE left it")]
    visible_pages: Annotated[int, Doc("of these, all-visible ones")]
    index_pages: Annotated[int, Doc("size of all indexes")]
    indexes: Annotated[int, Doc("number of indexes")]
    options: Annotated[Mapping[str, str], Doc("storage parameters by name")]
    age: Annotated[int, Doc("of its oldest transaction ID")]
    multixact_age: Annotated[int, Doc("of its oldest multixact ID")]
    #: reltuples, which the trigger uses; n_live_tup before the first VACUUM.
    rows: Annotated[int, Doc("rows as the last VACUUM or ANALYZE left them")]
    live: Annotated[int, Doc("live rows")]
    dead: Annotated[int, Doc("dead rows")]
    inserted: Annotated[int, Doc("rows inserted")]
    updated: Annotated[int, Doc("rows updated")]
    hot_updated: Annotated[int, Doc("of these, HOT")]
    newpage_updated: Annotated[int | None, Doc("of these, moved to another page; null before 16")]
    deleted: Annotated[int, Doc("rows deleted")]
    vacuums: Annotated[int, Doc("vacuums")]
    vacuum_seconds: Annotated[float | None, Doc("time of all vacuums; null before 18")]
    toast: Annotated[ToastTable | None, Doc("its TOAST table, or null")]
    made: Annotated[int | None, Doc("transaction IDs used since it was made")] = None
    frozen_pages: Annotated[int | None, Doc("of its pages, all-frozen ones; null before 18")] = None
    #: It changes with anything that rewrites the table, too.
    relfilenode: Annotated[int, Doc("its file: another one after a TRUNCATE")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The server's clock [s since 1970] and its transaction counters [transactions]."""

    at: float
    reset_at: float | None
    began_at: float  # of counters that nobody reset
    transactions: int
    next_xid: int
    oldest_multixact: str
    multixact_age: int
    elsewhere: int | None = None  # transactions of the other databases
    pace_elsewhere: float | None = None  # the same, per second, each since its own reset

    @property
    def counted_for(self) -> float:
        """How long the counters of the database have counted [s]."""
        return self.at - (self.began_at if self.reset_at is None else self.reset_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """All tables of a database at one moment."""

    moment: Moment
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What happened to a table per second, over the `seconds` observed."""

    seconds: Annotated[float, Doc("how long it was seen")]
    events: Annotated[int, Doc("rows written in that time")]
    inserts: Annotated[float, Doc("rows inserted")]
    updates: Annotated[float, Doc("rows updated")]
    deletes: Annotated[float, Doc("rows deleted")]
    hot_share: Annotated[float | None, Doc("share of updates that were HOT; null without any")]
    newpage_share: Annotated[
        float | None, Doc("share of updates that moved to another page; null before 16")
    ]
    vacuums: Annotated[int, Doc("vacuums in that time")]
    vacuum_seconds: Annotated[float | None, Doc("time of one vacuum; null before 18")]
    toast_inserts: Annotated[float, Doc("chunks inserted")]
    toast_deletes: Annotated[float, Doc("chunks deleted")]
    gaps: Annotated[int, Doc("intervals left out because statistics were reset in them")]
    #: Their table was truncated, or their INSERTs were rolled back.
    vanished: Annotated[float, Doc("rows gone without a DELETE")]
    truncated: Annotated[int, Doc("how often the table was seen to get an empty file")]

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
class StorageParameter:
    """A storage parameter that should change."""

    name: Annotated[str, Doc("the parameter; `toast.` begins those of the TOAST table")]
    now: Annotated[str | None, Doc("its value; null: not set for the table")]
    value: Annotated[str, Doc("what it should be")]
    because: Annotated[str, Doc("why")]
    source: Annotated[str, Doc("where the rule comes from")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSetting:
    """A setting of the server that should change."""

    name: Annotated[str, Doc("the parameter")]
    now: Annotated[str, Doc("its value")]
    value: Annotated[str, Doc("what it should be")]
    because: Annotated[str, Doc("why")]
    restart: Annotated[bool, Doc("whether a reload is not enough")]
    remedy: Annotated[str, Doc("how it comes into force on this server")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Time to produce the dead rows that start a vacuum, and time to vacuum, both in seconds.

    `vacuum` is a minimum: the sleeps that the cost limit imposes on a worker that has the whole
    limit. `measured` is what the server took on average. Both are None if there is nothing to
    vacuum.
    """

    trigger: Annotated[float, Doc("dead rows that start a vacuum")]
    produce: Annotated[float | None, Doc("time until there are so many; null: never")]
    vacuum: Annotated[float | None, Doc("time of a vacuum, at least")]
    measured: Annotated[float | None, Doc("the time that the server took, on average")]
    cost: Annotated[float, Doc("of one vacuum")]
    shared: Annotated[
        bool, Doc("whether it shares the server's cost limit; not if it has its own limit or delay")
    ] = True

    @property
    def busy(self) -> float | None:
        """Share of one worker's time that the table takes; above 1 vacuum is never done."""
        if self.produce is None or self.vacuum is None:
            return None
        return max(self.vacuum, self.measured or 0.0) / self.produce


@dataclass(frozen=True, slots=True, kw_only=True)
class ToastAmplification:
    """What updates do to the TOAST table."""

    per_update: Annotated[float, Doc("dead chunks for an updated row")]
    per_row: Annotated[float, Doc("live chunks for a live row")]
    rewritten: Annotated[float, Doc("share of updates that write large values again")]
    chunks_an_hour: Annotated[float, Doc("dead chunks of updates an hour")]
    suspicion: Annotated[str | None, Doc("what to look at; null: nothing")]
    certainty: Annotated[str, Doc("what this rests on")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """One table: its kind, what to set, and whether vacuum can keep up."""

    table: Table
    rates: Rates
    kind: TableKind
    because: str
    advice: tuple[StorageParameter, ...]
    hints: tuple[str, ...]
    now: Work
    then: Work  # with the advice in force
    toast_now: Work | None
    amplification: ToastAmplification | None


#: What is kept: of all tables, of the catalogs alone, of another database and what all databases
#: share, or transaction IDs that cannot be frozen.
Kept = Literal[
    "dead rows", "dead rows of catalogs", "dead rows of another database", "transaction IDs"
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonBlocker:
    """What keeps dead rows from being removed, or old transaction IDs in use."""

    what: Annotated[str, Doc("session, prepared transaction, replication slot, …")]
    name: Annotated[str, Doc("which one")]
    age: Annotated[int | None, Doc("of its horizon")]
    seconds: Annotated[float | None, Doc("how long it has been there")]
    remedy: Annotated[str, Doc("what to do about it")]
    sql: Annotated[str | None, Doc("the command for it, or null")]
    serious: Annotated[bool, Doc("whether it holds back enough to matter")]
    throughout: Annotated[bool, Doc("whether it was there at every reading of a watch")] = False
    keeps: Annotated[Kept, Doc("what is kept because of it")] = "dead rows"

    @property
    def replicates(self) -> bool:
        """Whether it is a slot or a standby's feedback, which keep rows but no multixacts.

        Source: multixact.c, GetOldestMultiXactId.
        """
        return "replication slot" in self.what or self.what == "standby feedback"


#: What runs out in a wraparound.
Counter = Literal["transaction IDs", "multixact IDs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WraparoundDistance:
    """How close a counter is to its limit."""

    what: Annotated[Counter, Doc("the counter")]
    database: Annotated[str, Doc("the database nearest to the limit")]
    age: Annotated[int, Doc("of its oldest ID")]
    forced_at: Annotated[int, Doc("the age at which a vacuum is forced")]
    stops_at: Annotated[int, Doc("the age at which the server assigns no more IDs")]
    pace: Annotated[float | None, Doc("IDs used up per second, or null")]
    certainty: Annotated[str, Doc("what the pace rests on")]
    to_forced: Annotated[float | None, Doc("seconds until a vacuum is forced, or null")]
    to_stop: Annotated[float | None, Doc("seconds until the stop, or null")]
    oldest: Annotated[
        str | None, Doc("the relation with that ID; null: one of another database")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All data read: the samples, the settings in force, and what is in the way."""

    version_num: int
    database: str
    samples: tuple[Sample, ...]
    settings: Mapping[str, str]  # in base units, as pg_settings has them
    databases: tuple[tuple[str, int, int], ...]  # name, age, multixact age
    blockers: tuple[HorizonBlocker, ...]
    chunk: int  # bytes per TOAST chunk
    missing: tuple[Missing, ...]
    platform: Platform
    oldest: Mapping[Counter, str] = field(default_factory=dict)  # relation with the oldest ID here
    lost: str | None = None  # why the session was lost during the watch; None: it was not
    young: tuple[HorizonBlocker, ...] = ()  # `blockers`, and those that were not there for long

    @property
    def major(self) -> int:
        return self.version_num // 10_000
