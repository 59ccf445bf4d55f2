"""Reading what the checks need: one session, only SELECT, and a time limit for each query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mrtuner.change.settings.standbys import primary_values
from mrtuner.checks.state import (
    MEMBERS,
    UNLIMITED,
    Collation,
    ColumnUsers,
    ConnectionLimit,
    DatabaseHealth,
    DisabledConstraints,
    ExtensionVersion,
    FileValue,
    Index,
    IntegerKey,
    OverdueVacuum,
    PartitionedIndex,
    PasswordExpiry,
    Receiver,
    SequenceUse,
    Session,
    SessionGroup,
    Standby,
    State,
    Subscription,
    UnanalyzedTable,
    UnidentifiedTable,
    UnindexedKey,
    UnloggedTable,
)
from mrtuner.errors import ConnectError, Refused
from mrtuner.facts import Missing
from mrtuner.history.recording.statement_text import normalized
from mrtuner.postgres.connect import any_bytes, connect, translated
from mrtuner.postgres.missing_grants import SEE_FILES, SEE_STATS, SEE_SUBSCRIPTIONS
from mrtuner.postgres.named_queries import QueryTimeouts, Reader
from mrtuner.postgres.read_server import ORIGINS
from mrtuner.postgres.read_server import read as read_server
from mrtuner.tuning import Tuning, gather, next_start_of, tune_server
from mrtuner.tuning.situation import OF_OUR_SESSION
from mrtuner.vacuum.assess import Vacuum, judge
from mrtuner.vacuum.horizon_blockers import USUAL, pace
from mrtuner.vacuum.read import read as read_vacuum

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection
    from mrtuner.postgres.model import Platform, Server

#: In place of the statements of others. Source: pgstatfuncs.c, pg_stat_get_activity.
_HIDDEN: Final = "<insufficient privilege>"
#: A check must stay harmless on a server in trouble: what takes longer is not judged.
PATIENCE: Final = QueryTimeouts(statement="2s", lock="200ms")
_READ_ONLY: Final = "default_transaction_read_only"
#: A server that does not answer within this time [s] is a finding.
_PATIENCE_TO_CONNECT: Final = 4

#: Parts of the state, the query of each and the type of its rows.
_PARTS: Final[dict[str, tuple[str, type[Any]]]] = {
    "groups": ("sessions_by_application", SessionGroup),
    "limits": ("connection_limits", ConnectionLimit),
    "passwords": ("check_passwords", PasswordExpiry),
    "standbys": ("check_standbys", Standby),
    "subscriptions": ("check_subscriptions", Subscription),
    "sequences": ("check_sequences", SequenceUse),
    "keys": ("check_keys", IntegerKey),
    "indexes": ("check_indexes", Index),
    "partitioned_indexes": ("check_partitioned_indexes", PartitionedIndex),
    "unindexed": ("check_foreign_keys", UnindexedKey),
    "unanalyzed": ("check_unanalyzed", UnanalyzedTable),
    "unidentified": ("check_replica_identity", UnidentifiedTable),
    "unlogged": ("check_unlogged", UnloggedTable),
    "disabled": ("check_disabled_constraints", DisabledConstraints),
    "overdue": ("check_overdue", OverdueVacuum),
    "databases": ("check_databases", DatabaseHealth),
    "collations": ("check_collations", Collation),
    "extensions": ("check_extensions", ExtensionVersion),
    "files": ("check_files", FileValue),
}
#: What helps a role that may not read a part, if it is not pg_monitor.
_OTHER_RIGHTS: Final = {"files": SEE_FILES, "subscriptions": SEE_SUBSCRIPTIONS}
#: Parts in which a role without pg_read_all_stats sees nothing of others, or too little.
_OF_OTHERS: Final = ("sessions", "groups", "standbys", "receiver")


def read(dsn: str, said: gather.Flags, platform: Platform | None = None) -> State:
    """Read the server and the database that `dsn` leads to.

    `said` is what is known of its machine, `platform` who is known to run it. Raises ConnectError
    without a usable session.
    """
    with connect(dsn, timeout=_PATIENCE_TO_CONNECT) as conn, translated(), any_bytes(conn):
        conn.execute(
            "SELECT set_config('lock_timeout', %s, false), "
            "set_config('statement_timeout', %s, false)",
            [PATIENCE.lock, PATIENCE.statement],
        )
        [(setting, source)] = conn.execute(
            "SELECT setting, source FROM pg_catalog.pg_settings WHERE name = %s", [_READ_ONLY]
        ).fetchall()
        conn.execute("SELECT set_config(%s, 'on', false)", [_READ_ONLY])
        server = _before_ours(read_server(conn, PATIENCE), setting, source)
        return _state(conn, server, said, platform)


def _before_ours(server: Server, setting: str, source: str) -> Server:
    """With the switch that our session has set as it was before, if that is the server's own."""
    origin = ORIGINS.get(source, "session")
    if origin in OF_OUR_SESSION:
        return server
    own = replace(server.settings[_READ_ONLY], setting=setting, reset_val=setting, origin=origin)
    commanded = {_READ_ONLY} if origin == "command line" else set()
    platform = replace(server.platform, commanded=server.platform.commanded | commanded)
    return replace(server, settings={**server.settings, _READ_ONLY: own}, platform=platform)


def _state(
    conn: Connection, server: Server, said: gather.Flags, platform: Platform | None
) -> State:
    if platform is not None:
        server = replace(server, platform=platform)
    reader = Reader(conn, server.version_num, PATIENCE)
    now = reader.row("check_now")
    parts: dict[str, Any] = {
        name: tuple(kind(**row) for row in reader.rows_if_allowed(query, name, hint))
        for name, (query, kind) in _PARTS.items()
        for hint in [_OTHER_RIGHTS.get(name, SEE_STATS)]
    }
    users = tuple(_users(reader, parts["sequences"], parts["keys"]))
    sessions = tuple(_sessions(reader))
    receiver = _receiver(conn, reader, server)
    # No other role lists them, or each check would leave an error in the server's log.
    listed = now["may_list"] and server.major < UNLIMITED
    members = reader.rows_if_allowed("check_multixact_members", MEMBERS) if listed else []
    missing = {one.name: one for one in (*server.missing, *reader.missing)}
    if not now["sees_all"]:
        why = "the role may not see the sessions of others"
        missing |= {name: Missing(name, why, hint=SEE_STATS) for name in _OF_OTHERS}
    state = State(
        at=now["at"], database=now["database"], role=conn.info.user, server=server,
        tuning=None, vacuum=None, sessions=sessions, users=users, waiting=now["waiting"],
        committing=now["committing"], receiver=receiver,
        members=members[0]["members"] if members else None, missing=missing, **parts,
    )  # fmt: skip
    tuning, without = _tuning(conn, server, said)
    end = reader.row("check_now")
    used = pace(end["next_xid"] - now["next_xid"], end["at"] - now["at"])
    vacuum, unread = _vacuum(conn, server.platform, used)
    return replace(
        state, tuning=tuning, vacuum=vacuum,
        missing={one.name: one for one in (*missing.values(), *without, *unread)},
    )  # fmt: skip


def _users(
    reader: Reader, sequences: Sequence[SequenceUse], keys: Sequence[IntegerKey]
) -> Iterator[ColumnUsers]:
    """What refers to the columns that are near their end; others are only listed as unreadable."""
    filled = [
        (one.table_schema, one.table, one.column)
        for one in sequences
        if one.column and one.readable
    ]
    columns = [*filled, *((one.schema, one.table, one.column) for one in keys if one.readable)]
    if not columns:
        return
    values = [list(names) for names in zip(*columns, strict=True)]
    for row in reader.rows_if_allowed("check_column_users", "users", values=values):
        forbids, refers = row["forbids"] or (), row["refers"] or ()
        yield ColumnUsers(
            schema=row["schema"], table=row["table"], column=row["column"],
            forbids=tuple(forbids), partitions=row["partitions"],
            refers=tuple(tuple(one) for one in refers),
        )  # fmt: skip


def _sessions(reader: Reader) -> Iterator[Session]:
    for row in reader.rows_if_allowed("check_sessions_and_locks", "sessions", SEE_STATS):
        statement = "" if row["statement"] == _HIDDEN else normalized(row["statement"] or "")
        lists = {name: row[name] and tuple(row[name]) for name in ("blocked_by", "relation")}
        yield Session(**{**row, **lists, "statement": statement})


def _receiver(conn: Connection, reader: Reader, server: Server) -> Receiver | None:
    """What a standby receives; of one that is paused also whether it would stop if resumed.

    One of 13 is never paused for a setting: it stops at once.
    """
    rows = reader.rows_if_allowed("check_receiver", "receiver", SEE_STATS)
    if not rows:
        return None
    found = Receiver(**rows[0])
    if not found.paused or server.major < 14:
        return replace(found, lower={})
    # Any other role's attempt would be an error in the server's log.
    needed = primary_values(conn) if server.superuser else None
    here = {name: int(server.settings[name].setting) for name in needed or ()}
    lower = (
        None
        if needed is None
        else {name: (here[name], value) for name, value in needed.items() if here[name] < value}
    )
    return replace(found, lower=lower)


def _tuning(
    conn: Connection, server: Server, said: gather.Flags
) -> tuple[Tuning | None, tuple[Missing, ...]]:
    """The advice, from which the dangers of the settings in force follow, and what it lacked."""
    try:
        tuning = tune_server(server, said, next_start_of(conn, server))
    except Refused as refused:
        return None, (Missing("tuning", refused.message, hint=refused.hint),)
    return tuning, tuning.missing


def _vacuum(
    conn: Connection, platform: Platform, used: float
) -> tuple[Vacuum | None, tuple[Missing, ...]]:
    """What vacuum needs, where `used` IDs a second are used: the pace of the whole reading."""
    thresholds = USUAL.at(used)
    try:
        vacuum = judge(
            read_vacuum(conn, patience=PATIENCE.statement, platform=platform, thresholds=thresholds)
        )
    except ConnectError as error:
        if conn.closed:
            raise
        return None, (Missing("vacuum", error.message, hint=error.hint),)
    return vacuum, vacuum.picture.missing
