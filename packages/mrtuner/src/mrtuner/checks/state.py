"""One moment of a server, as the checks need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from mrtuner.facts import Missing
from mrtuner.findings import UNKNOWN
from mrtuner.wording import as_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from mrtuner.history.analysis.free_space import FreeSpace
    from mrtuner.history.analysis.incidents import Incident
    from mrtuner.history.analysis.role_peaks import RolePeak
    from mrtuner.limits import Limits
    from mrtuner.postgres.model import Server
    from mrtuner.tuning import Tuning
    from mrtuner.vacuum import Vacuum


#: A part of the state, and the first version without a limit to it. Source: multixact.c.
MEMBERS: Final = "multixact members"
UNLIMITED: Final = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionGroup:
    """The clients' sessions of one application, role and database."""

    application: str
    role: str | None
    database: str | None
    sessions: int
    active: int
    in_transaction: int
    addresses: int
    hidden: int  # those whose state the role may not see

    @property
    def who(self) -> str:
        """``shop (role app, database shop)``."""
        role, database = as_name(self.role or "?"), as_name(self.database or "?")
        return f"{as_name(self.application or 'unnamed')} (role {role}, database {database})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimit:
    """How many sessions a role or a database may have; -1: no limit of its own."""

    kind: str  # role, database
    name: str
    most: int
    superuser: bool
    reserved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordExpiry:
    """A role whose password expires soon, or has expired although it has sessions."""

    role: str
    expires: float  # [s since 1970]
    told: str  # the same as a date
    sessions: int
    later: bool | None  # whether a session began after that, without it; None: that is hidden


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session that waits for a lock, holds one that others wait for, or is in a transaction.

    Or a prepared transaction: process 0, with its name in place of an application's.
    """

    pid: int
    role: str | None
    database: str | None
    application: str
    client: str | None
    state: str | None
    backend_type: str | None
    waits_for: str | None  # the kind of lock and its mode; None: it waits for none
    blocked_by: tuple[int, ...]
    state_seconds: float | None  # since the state changed; of a waiting one: how long it waits
    statement: str  # without literals
    relation: tuple[str, ...] | None = None  # that it waits for: schema and name

    @property
    def who(self) -> str:
        """``nightly-import (process 9733)``, or ``prepared transaction payment-17``."""
        if not self.pid:
            return f"prepared transaction {as_name(self.application)}"
        return f"{self.called} (process {self.pid})"

    @property
    def called(self) -> str:
        given = self.application or self.role
        return as_name(given) if given else self.backend_type or "a hidden process"

    @property
    def waits_for_kind(self) -> str:
        """``relation`` of ``relation AccessShareLock``."""
        return (self.waits_for or "").partition(" ")[0]

    @property
    def idle_in_transaction(self) -> bool:
        return (self.state or "").startswith("idle in transaction")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """A client that receives WAL. Source: pg_stat_replication."""

    name: str
    address: str | None
    state: str | None
    sync_state: str | None
    behind: int | None  # bytes of WAL not yet replayed; None: not known, or it replays nothing
    seconds: float | None  # replay_lag; None: all is replayed, or it does not report
    replays: bool  # not a consumer of logical replication, nor one that only stores WAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """What a standby receives and replays."""

    streaming: bool | None  # None: the role may not see it
    paused: bool
    waiting: int | None  # bytes received and not replayed; None: none were ever streamed
    held: bool  # replay waits for a query here
    idle_seconds: float | None  # since the last transaction that was replayed was committed
    #: What is lower here than on the primary, with both values; None: the role may not see it.
    lower: Mapping[str, tuple[int, int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A subscription of logical replication, in any database."""

    name: str
    database: str
    enabled: bool
    running: bool
    errors: int | None  # since the last reset; None before 15


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceUse:
    """A sequence, with what its column can hold."""

    schema: str
    name: str
    share: float | None  # used; None: never used, or the role may not see it
    left: int | None  # numbers until its end, or that of its column's type if nearer
    ascends: bool
    cycles: bool  # it begins again at its end, although its column is a key
    narrow: bool  # whether the column's type ends no later than the sequence
    readable: bool
    table_schema: str | None  # of the column that it fills, with the next two; None: of none
    table: str | None
    column: str | None
    type: str | None  # of a domain: that below it
    domain: str | None  # as SQL writes it


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerKey:
    """A unique integer column that no sequence fills."""

    schema: str
    table: str
    column: str
    type: str  # of a domain: that below it
    domain: str | None  # as SQL writes it
    last: int | None  # the highest value that the last ANALYZE saw; None: the role may not see it
    most: int  # what the type can hold
    readable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnUsers:
    """What depends on an integer column that is near its end, or on those that reference it."""

    schema: str
    table: str
    column: str
    forbids: tuple[str, ...]  # another type: views, triggers
    partitions: bool  # it is part of a partition key, which cannot change its type at all
    #: Schema, table and column of those that reference it, integers too, and whether each is part
    #: of a partition key.
    refers: tuple[tuple[str, str, str, bool], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """An index that deserves a look: invalid, never used, or covered by another one."""

    schema: str
    table: str
    name: str
    size: int  # bytes, as the last VACUUM or ANALYZE left it
    valid: bool
    ready: bool  # writes maintain it, and it enforces what is unique among new rows
    live: bool  # false: DROP INDEX CONCURRENTLY was interrupted
    unique: bool
    building: bool  # or being dropped
    scans: int
    enforces: bool  # unique, a constraint, the replica identity, or what a table is clustered on
    constraint: bool  # it is that of a UNIQUE constraint
    same_as: str | None  # another index with the same columns, which enforces as much
    attached: bool  # to that of a partitioned table


@dataclass(frozen=True, slots=True, kw_only=True)
class UnindexedKey:
    """A foreign key without an index, whose parent has lost rows; counters since their reset."""

    schema: str
    name: str
    key: str
    parent_schema: str
    parent: str
    deleted: int  # rows of the parent
    scans: int  # of the whole table, with all of the rows that they read
    read: int
    size: int  # bytes, as the last VACUUM or ANALYZE left it
    partition: bool  # that was read most of those of its table
    columns: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionedIndex:
    """An index of a partitioned table that is invalid, since partitions lack theirs, or did."""

    schema: str
    table: str
    name: str
    enforces: bool  # whether it belongs to a constraint
    #: Schema and name of each partition, then of an index that can be attached, or None.
    lacking: Sequence[tuple[str, str, str | None, str | None]]
    unique: bool
    #: Schema and name of an index that is attached, and whether it is valid; None: none is.
    attached: tuple[str, str, bool] | None
    top: tuple[str, str]  # schema and name of the index to which it is attached, or its own


@dataclass(frozen=True, slots=True, kw_only=True)
class UnanalyzedTable:
    """A table whose statistics were never collected."""

    schema: str
    name: str
    rows: int  # as counted; of a partitioned table: of its partitions
    size: int | None  # bytes; None: it is partitioned, or locked
    partitioned: bool
    readable: bool  # whether it is known that it has rows, and no statistics
    off: bool  # whether autovacuum is off for it
    awaited: bool  # whether autovacuum will analyze it in its next round


@dataclass(frozen=True, slots=True, kw_only=True)
class OverdueVacuum:
    """A table with many dead rows, as VACUUM or ANALYZE left it when one last came."""

    oid: int
    seconds: float | None  # since then; None: never
    vacuumed: float | None  # seconds since the last VACUUM alone; None: never
    survived: int  # dead rows that the last VACUUM is known to have left; not above 0: none
    busy: bool  # whether every worker of autovacuum is at work


@dataclass(frozen=True, slots=True, kw_only=True)
class UnidentifiedTable:
    """A published table without a replica identity."""

    schema: str
    name: str
    updates: bool  # are published, and so fail; deletes, too
    deletes: bool
    changes: int  # such as fail, since the last reset of statistics
    index: str | None  # that can be the replica identity


@dataclass(frozen=True, slots=True, kw_only=True)
class DisabledConstraints:
    """A table on which triggers are disabled by which the server checks constraints."""

    schema: str
    name: str
    constraints: Sequence[str]
    triggers: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloggedTable:
    """A table with rows whose changes are not in WAL."""

    schema: str
    name: str
    rows: int  # an estimate
    size: int | None  # bytes; None: another session has locked it
    before: Sequence[Sequence[str]]  # schema and name of those that must become logged before it
    circular: bool  # these refer to each other, so none can be the first


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseHealth:
    """A database: checksum failures, collation."""

    name: str  # empty: the catalogs that all databases share
    checksum_failures: int | None  # None: checksums are off
    failed_at: float | None  # when the last was noticed [s since 1970]
    sorted: bool | None  # whether by a library's order, which may change; None: it sorts nothing
    collation: str | None  # the version recorded
    actual: str | None  # that of the library now

    @property
    def place(self) -> str:
        return f"database {self.name}" if self.name else "shared catalogs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collation:
    """A collation of this database whose version differs from the library's."""

    schema: str
    name: str
    recorded: str
    actual: str | None  # None: the library has none


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionVersion:
    """An extension that is older in this database than its files on the server."""

    name: str
    installed: str
    available: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileValue:
    """What the configuration files say of a parameter now, in force or not."""

    name: str
    value: str
    place: str  # file:line


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a history tells of the day before its last sample."""

    store: str  # its directory, or its address
    instance: str
    begin: datetime  # of that day, or the first sample
    end: datetime  # of that day
    incidents: Sequence[Incident]
    not_looked_for: Sequence[str]  # by the search for incidents, one sentence each
    filesystems: Sequence[FreeSpace]  # empty: those of the host were not recorded
    role_peaks: Sequence[RolePeak] | None  # None: sessions were not counted by role
    limits: Limits | None  # those that the host reached; None or without points: not known
    no_limits: str  # why they are not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What was read for the checks of other distributions, by the name of their entry point."""

    added: Mapping[str, Any] = field(default_factory=dict)
    missing: Mapping[str, Missing] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Added):
    """What was read, at one moment; what could not be read is in `missing`, by the part's name."""

    at: float  # the server's clock [s since 1970]
    database: str
    role: str  # of our session
    server: Server
    tuning: Tuning | None
    vacuum: Vacuum | None
    groups: tuple[SessionGroup, ...] = ()
    limits: tuple[ConnectionLimit, ...] = ()
    passwords: tuple[PasswordExpiry, ...] = ()
    sessions: tuple[Session, ...] = ()
    waiting: int = 0  # sessions that wait for a lock: more than `sessions` may list
    committing: int = 0  # sessions whose commit waits for a standby
    standbys: tuple[Standby, ...] = ()
    receiver: Receiver | None = None  # None: it is a primary
    subscriptions: tuple[Subscription, ...] = ()
    sequences: tuple[SequenceUse, ...] = ()
    keys: tuple[IntegerKey, ...] = ()
    users: tuple[ColumnUsers, ...] = ()
    indexes: tuple[Index, ...] = ()
    partitioned_indexes: tuple[PartitionedIndex, ...] = ()
    unindexed: tuple[UnindexedKey, ...] = ()
    unanalyzed: tuple[UnanalyzedTable, ...] = ()
    unidentified: tuple[UnidentifiedTable, ...] = ()
    unlogged: tuple[UnloggedTable, ...] = ()
    disabled: tuple[DisabledConstraints, ...] = ()
    overdue: tuple[OverdueVacuum, ...] = ()
    members: int | None = None  # of multixacts; None: the role may not see them, or 19 and later
    databases: tuple[DatabaseHealth, ...] = ()
    collations: tuple[Collation, ...] = ()
    extensions: tuple[ExtensionVersion, ...] = ()
    files: tuple[FileValue, ...] = ()
    recorded: Recorded | None = None  # None: no history was given

    def of_connections(self, number: int) -> float:
        """The share of max_connections that so many sessions are; one that is not known: half."""
        most = int(self.setting("max_connections") or 0)
        return min(1.0, number / most) if most else UNKNOWN

    def of_volume(self, size: int | None) -> float:
        """The share of the volume of WAL that so many bytes are; one that is not known: half."""
        host = self.tuning.host if self.tuning else None
        volume = (host.wal_size or host.disk_size) if host else None
        return min(1.0, size / volume.value) if size is not None and volume else UNKNOWN

    @property
    def on_primary(self) -> tuple[str, ...]:
        """What a standby says before commands that it refuses."""
        return ("On the primary:",) if self.server.standby else ()

    @property
    def naptime(self) -> float:
        """Seconds between two rounds of autovacuum in a database."""
        return float(self.setting("autovacuum_naptime") or 60)

    def setting(self, name: str) -> str | None:
        """A setting's text in base units; None if there is none, or the role may not see it."""
        found = self.server.settings.get(name)
        return None if found is None else found.setting
