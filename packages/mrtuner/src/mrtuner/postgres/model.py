"""What a running server reports about itself, over SQL alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from mrtuner.facts import Missing
from mrtuner.findings import Command
from mrtuner.units import Bytes

#: Where a value in force comes from. "include" is any file other than postgresql.conf and
#: postgresql.auto.conf; "computed" means that the server computed the value itself.
Origin = Literal[
    "default", "file", "include", "postgresql.auto.conf", "command line", "environment",
    "role", "database", "client", "session", "computed",
]  # fmt: skip


#: A standby stops replaying if its value of one of these is below the primary's.
#: Source: PostgreSQL documentation, Hot Standby, Administrator's Overview.
FOLLOW_PRIMARY: Final = (
    "max_connections", "max_worker_processes", "max_wal_senders", "max_prepared_transactions",
    "max_locks_per_transaction",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of pg_settings, with the server's texts (in base units)."""

    name: str
    setting: str
    unit: str | None
    vartype: str
    context: str
    boot_val: str | None
    reset_val: str | None
    enumvals: tuple[str, ...]
    pending_restart: bool
    origin: Origin
    sourcefile: str | None  # None without pg_read_all_settings
    sourceline: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """ALTER ROLE or ALTER DATABASE … SET: takes precedence over the files for those sessions."""

    role: str | None
    database: str | None
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProblem:
    """A line of a configuration file that the server could not use. Source: pg_file_settings."""

    sourcefile: str | None  # None: no line
    sourceline: int | None
    name: str | None
    error: str

    @property
    def where(self) -> str:
        return f"{self.sourcefile}:{self.sourceline}" if self.sourcefile else "configuration files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A change in the configuration files that waits for a restart."""

    name: str
    value: str | None  # the value in the files; None: no longer there, or the role may not see it
    removed: bool = False  # its line is gone: the default will apply
    place: str | None = None  # file:line; None: its line is gone, or the role may not see it
    elsewhere: str | None = None  # the value in the other files; None: none there


PlatformName = Literal[
    "self-managed", "rds", "aurora", "cloud-sql", "alloydb", "azure", "cloudnativepg",
    "crunchy", "zalando", "patroni", "supabase", "neon", "aiven", "heroku",
]  # fmt: skip


#: Platforms whose machine and files only the provider reaches.
HOSTED: Final[frozenset[PlatformName]] = frozenset({
    "rds", "aurora", "cloud-sql", "alloydb", "azure", "supabase", "neon", "aiven", "heroku",
})  # fmt: skip


#: Platforms whose servers Patroni starts, with settings that it writes itself.
BY_PATRONI: Final[frozenset[PlatformName]] = frozenset({"patroni", "crunchy", "zalando"})


#: What puts into force what ALTER SYSTEM wrote.
RELOAD: Final = "SELECT pg_reload_conf();"


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Who runs the server, how we can tell, and how settings are changed there."""

    name: PlatformName
    evidence: str
    alter_system: bool  # may MrTuner write with ALTER SYSTEM here?
    how: str  # one sentence: how a setting is changed on this platform
    #: Settings on the command line that started the server, which no file overrides.
    commanded: frozenset[str] = frozenset()

    @property
    def hosted(self) -> bool:
        """Whether a provider runs the machine, so that nobody else reaches its files."""
        return self.name in HOSTED

    @property
    def by_patroni(self) -> bool:
        """Whether Patroni starts the server, whatever the files say of the settings."""
        return self.name in BY_PATRONI

    def remedy(self, restart: bool = False, /, **settings: str) -> str:
        """How settings come into force here: SQL, or the platform's own way.

        Values are SQL literals. With `restart`, a reload is not enough.
        """
        if self.alter_system and (commanded := sorted(self.commanded.intersection(settings))):
            return (
                f"The command line that starts the server sets {', '.join(commanded)}, so ALTER "
                f"SYSTEM has no effect: take {', '.join(f'-c {one}' for one in commanded)} out of "
                "it, in the service or container, then restart"
            )
        if self.alter_system:
            *others, last = (
                f"ALTER SYSTEM SET {name} = {value};" for name, value in settings.items()
            )
            then = (f"{last} -- then restart",) if restart else (last, RELOAD)
            return Command(*others, *then)
        wanted = (f"{name} = {value}" for name, value in settings.items())
        return f"{', '.join(wanted)}. {self.how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One busy table. Rows, and counters since the last reset of statistics."""

    database: str
    schema: str
    name: str
    size: Bytes
    live_rows: int
    dead_rows: int
    written: int  # inserts + updates + deletes
    rows: int = 0  # reltuples, which autovacuum uses
    options: tuple[str, ...] = ()  # reloptions: fillfactor=90
    changed: int = 0  # updates + deletes
    updated: int = 0
    hot_updated: int = 0
    newpage_updated: int | None = None  # for lack of room on the old page; 16 and later

    @property
    def storage_parameters(self) -> dict[str, str]:
        return dict(option.partition("=")[::2] for option in self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioned:
    """The partitioned table of which a query without pruning takes most locks.

    Source: pg_partition_tree of the current database's tables, and their indexes.
    """

    schema: str
    name: str
    locks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slru:
    """One transaction-status cache or similar, since its last reset. Source: pg_stat_slru."""

    name: str  # as the server names it: subtransaction (Subtrans before 17)
    hits: int
    reads: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One replication slot and the WAL retained for it. Source: pg_replication_slots."""

    name: str
    kind: str  # physical, logical
    active: bool
    status: str | None  # reserved, extended, unreserved, lost
    retained: Bytes | None
    temporary: bool = False
    failover: bool | None = None  # whether standbys may keep a copy; None before 17
    synced: bool = False  # a copy of the primary's, if this is a standby
    idle: float | None = None  # seconds without a consumer; None: it has one, or before 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicts:
    """Queries that replay cancelled on a standby, by cause, since the last reset.

    Source: pg_stat_database_conflicts, all databases.
    """

    snapshot: int  # rows that they still needed were removed by vacuum on the primary
    lock: int  # a table that they read was locked exclusively
    bufferpin: int
    deadlock: int
    tablespace: int


#: The archiver looks for files each minute; a command may need some more for a file [s]. Chosen.
_ARCHIVED_BY: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Archiver:
    """What archive_command or archive_library has done. Source: pg_stat_archiver."""

    archived: int
    failed: int
    failing: bool  # the latest attempt failed
    behind: Bytes | None  # WAL written after the last archived file; None: not known
    idle: float | None = None  # seconds since a file was archived; None: none was
    failed_ago: float | None = None  # seconds since an attempt failed; None: none did
    waits: float | None = None  # seconds that the oldest file has waited; None: none waits

    @property
    def stuck(self) -> bool:
        """Whether a file waits for five minutes, and none was archived meanwhile.

        A command that is not found, or killed by a signal, ends the archiver, which counts no
        failure. Source: pgarch.c, pgarch_archiveXlog; shell_archive.c.
        """
        waits = self.waits or 0
        return waits >= _ARCHIVED_BY and (self.idle is None or self.idle >= waits)

    @property
    def trouble(self) -> float | None:
        """Seconds since archiving stopped, as far as the server tells."""
        return next((one for one in (self.waits, self.idle, self.failed_ago) if one), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JitWork:
    """JIT-compiled statements: calls, and seconds of compiling and of execution. The latter do not
    include what is compiled before execution starts.

    Source: pg_stat_statements of 15 and later.
    """

    calls: int
    compiling: float
    running: float
    seconds: float | None = None  # since the oldest of their counters began; 17 and later


#: Statements whose temporary files maintenance_work_mem governs, for PostgreSQL and for DuckDB.
INDEX_BUILDS: Final = (
    r"^(\s|--[^\n]*\n|/\*([^*]|\*+[^*/])*\*+/)*"
    r"(create\s+(unique\s+)?index|reindex|cluster|repack|vacuum|alter\s+table)([^a-z0-9_]|$)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpills:
    """Temporary files of one role's statements. Source: pg_stat_statements."""

    role: str
    statements: int
    calls: int
    size: Bytes
    largest: Bytes  # average per call, of the statement that writes most
    sessions: int  # open sessions of the role now
    seconds: float | None = None  # since the oldest of their counters began; 17 and later


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Counters of one window, from the last reset of statistics (or the last sample) until now.

    Source: pg_stat_wal; pg_stat_checkpointer (pg_stat_bgwriter before 17); pg_stat_io since 16;
    pg_stat_database. What the version does not have, or the role may not see, is None.
    """

    window: float  # seconds
    wal_bytes: Bytes | None
    checkpoints_timed: int | None
    checkpoints_requested: int | None
    temp_files: int | None
    temp_bytes: Bytes | None
    commits: int | None
    backend_writes: int | None  # buffers written by backends themselves
    clean_stops: int | None  # maxwritten_clean
    background_writes: int | None = None  # buffers written by checkpointer and background writer
    evictions: int | None = None  # by backends to make room; 16 and later (pg_stat_io)
    wal_buffers_full: int | None = None  # 14 and later
    active_ms: int | None = None  # all sessions' time in statements; 14 and later
    parallel_planned: int | None = None  # 18 and later
    parallel_launched: int | None = None
    peak_sessions: int | None = None  # highest number at one moment; only while watched
    peak_active: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One running PostgreSQL."""

    version_num: int  # 180006
    version: str  # 18.6
    settings: Mapping[str, Setting]
    overrides: tuple[Override, ...]
    file_problems: tuple[FileProblem, ...]
    pending: tuple[Pending, ...] = ()
    platform: Platform
    standby: bool
    standbys: int  # attached replicas
    connections: int  # client backends now
    databases: Mapping[str, Bytes]
    relations: tuple[Relation, ...]  # those of the current database, busiest first
    extensions: tuple[str, ...]  # installed in the current database
    activity: Activity
    data_directory: str | None
    local_pid: int | None  # the postmaster, if it runs on this host and is visible
    superuser: bool
    partitioned: Partitioned | None = None  # None: no table is partitioned
    slrus: tuple[Slru, ...] = ()
    slots: tuple[Slot, ...] = ()
    archiver: Archiver | None = None  # None: nothing is archived
    conflicts: Conflicts | None = None  # None: it is a primary, or they could not be read
    jit: JitWork | None = None
    role_spills: tuple[RoleSpills, ...] = ()  # most first
    active: int = 0  # client backends running a statement now
    missing: tuple[Missing, ...] = ()

    def text(self, name: str) -> str | None:
        """Return a setting's value as pg_settings has it; None if the role may not see it."""
        return self.settings[name].setting if name in self.settings else None

    @property
    def major(self) -> int:
        return self.version_num // 10000
