"""What a change asks the live server: its identity, its values in force, its files.

Each function is one query or one command over SQL; apply.py decides what the answers mean.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, LiteralString

from mrtuner.change.journal import busy
from mrtuner.errors import ApplyError, MissingPart, Refused
from mrtuner.postgres.conf_file import LIST_QUOTED, elements, literals, same_value
from mrtuner.postgres.connect import ended_session, translated, why_lost

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

AUTO_CONF: Final = "postgresql.auto.conf"

#: "mrtuner" in ASCII: our key among the server's advisory locks.
LOCK: Final = int.from_bytes(b"mrtuner")
#: Held for a whole search, which changes the server again and again.
SEARCHING: Final = LOCK + 1
#: A killed client's session, and its lock with it, ends within this time [s].
_LOCK_PATIENCE: Final = 3.0
#: Sources of pg_settings that belong to a session and hide what the files give.
_OF_A_SESSION: Final = frozenset({
    "global", "user", "database", "database user", "client", "interactive", "session",
})  # fmt: skip
#: What no session may set, and another parameter that shows its values in the same way.
_SHOWN_LIKE: Final = {"log_timezone": "TimeZone"}
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

_WRITABLE: Final = (
    "Let the server's user write to its data directory, and read and write postgresql.auto.conf."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which server this is, and when it started."""

    server: str
    address: str
    started: str  # pg_postmaster_start_time() [s since 1970]
    system_identifier: str | None
    data_directory: str | None  # None without pg_read_all_settings

    @property
    def auto_conf(self) -> str | None:
        """The path of postgresql.auto.conf, as the server gives it."""
        return str(Path(self.data_directory) / AUTO_CONF) if self.data_directory else None


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """A row of pg_settings, as a new session sees it."""

    name: str
    setting: str
    unit: str | None
    vartype: str
    context: str
    boot_val: str | None
    source: str
    sourcefile: str | None  # also None without pg_read_all_settings
    pending_restart: bool

    @property
    def hidden(self) -> bool:
        """Whether this is our session's own value, which hides what the files give."""
        return self.source in _OF_A_SESSION

    @property
    def commanded(self) -> bool:
        """Whether the server's command line sets it, which overrides every file."""
        return self.source == "command line"

    def same(self, a: str, b: str) -> bool:
        """Whether two texts mean the same for this parameter."""
        return same_value(self.name, a, b, self.vartype, self.unit)

    def gives(self, value: str) -> bool:
        """Whether `value` is in force, or a value that the server derived from it.

        wal_buffers = -1 reads as 2048 once the server runs: a setting that means "choose" shows
        what was chosen.
        """
        if self.same(value, self.setting):
            return True
        automatic = self.boot_val in ("-1", "0") and self.same(value, self.boot_val)
        return automatic and self.source in ("override", "default")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSetting:
    """A row of pg_file_settings: one line of the configuration files, in order."""

    sourcefile: str | None  # None: no line, as for a line that was removed
    sourceline: int | None
    name: str | None  # None: the file itself cannot be read
    value: str | None
    error: str | None

    def __str__(self) -> str:
        if self.sourcefile is None:
            return "an unnamed file"
        return f"{self.sourcefile} line {self.sourceline}"


def identify(conn: Connection) -> Identity:
    """Identify the server. The session's address is kept, to find the server when it is down."""
    started, data_directory = _one(
        conn,
        "SELECT extract(epoch FROM pg_postmaster_start_time())::text,"
        " CASE WHEN pg_has_role('pg_read_all_settings', 'USAGE')"
        " THEN current_setting('data_directory') END",
    )
    system = _system_identifier(conn)
    address = f"{conn.info.host}:{conn.info.port}"
    return Identity(
        server=_server_key(conn, system, data_directory, address),
        address=address,
        started=started,
        system_identifier=system,
        data_directory=data_directory,
    )


def _system_identifier(conn: Connection) -> str | None:
    from psycopg import errors

    with translated():
        try:
            row = conn.execute("SELECT system_identifier::text FROM pg_control_system()").fetchone()
        except errors.InsufficientPrivilege:
            return None
    return None if row is None else row[0]


def _server_key(
    conn: Connection, system: str | None, data_directory: str | None, address: str
) -> str:
    """Identify a server. A standby shares its primary's identifier, perhaps paths, not address."""
    if system is None:
        return f"{address}/{conn.info.dbname}"
    host = conn.info.host
    where = "local" if host.startswith("/") or host in _LOOPBACK else host
    return f"{system}@{where}:{data_directory or ''}:{conn.info.port}"


def lock(conn: Connection, key: int = LOCK) -> None:
    """Lock the server for this session, across all databases; Refused if already locked."""
    deadline = time.monotonic() + _LOCK_PATIENCE
    while not _locked(conn, key):
        if time.monotonic() > deadline:
            raise busy()
        time.sleep(0.1)


def _locked(conn: Connection, key: int) -> bool:
    """Take the lock. Advisory locks are per database, so no other database may hold the key."""
    with translated():
        taken = conn.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()
        others = conn.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"
            " AND pid <> pg_backend_pid() AND objsubid = 1"
            " AND classid::bigint = %s AND objid::bigint = %s",
            (key >> 32, key & 0xFFFFFFFF),
        ).fetchone()
        if taken == (True,) and others == (0,):
            return True
        conn.execute("SELECT pg_advisory_unlock_all()")
    return False


def may_read_settings(conn: Connection) -> bool:
    """Whether this role can see where values come from (pg_read_all_settings)."""
    return _one(conn, "SELECT pg_has_role('pg_read_all_settings', 'USAGE')") == (True,)


def may_read_files(conn: Connection) -> bool:
    """Whether this role may read pg_file_settings."""
    return _one(
        conn,
        "SELECT has_table_privilege('pg_file_settings', 'SELECT')"
        " AND has_function_privilege('pg_show_all_file_settings()', 'EXECUTE')",
    ) == (True,)


def require_reload(conn: Connection) -> None:
    """Raise MissingPart unless this role may reload the configuration."""
    allowed, role = _one(
        conn, "SELECT has_function_privilege('pg_reload_conf()', 'EXECUTE'), current_user"
    )
    if not allowed:
        raise MissingPart(
            f"the role {role} may not reload the configuration",
            f'Connect as a superuser, or: GRANT EXECUTE ON FUNCTION pg_reload_conf() TO "{role}".',
        )


def require_alter_system(conn: Connection, names: Sequence[str]) -> None:
    """Raise MissingPart unless this role may ALTER SYSTEM all of these; Refused if no one may."""
    superuser, role, allowed = _one(
        conn,
        "SELECT rolsuper, current_user, current_setting('allow_alter_system', true)"
        " FROM pg_roles WHERE rolname = current_user",
    )
    if allowed == "off":
        raise Refused(
            "ALTER SYSTEM is switched off on this server (allow_alter_system)",
            "Set allow_alter_system = on and reload, or apply with a file that it includes: "
            "--conf-dir DIR.",
        )
    denied = [] if superuser else _denied(conn, names)
    if denied:
        listed = ", ".join(denied)
        grant = f', or: GRANT ALTER SYSTEM ON PARAMETER {listed} TO "{role}"'
        raise MissingPart(
            f"the role {role} may not change {listed}",
            f"Connect as a superuser{grant if conn.info.server_version >= 150000 else ''}.",
        )


def _denied(conn: Connection, names: Sequence[str]) -> list[str]:
    """The names not granted to the role; before 15 only a superuser may change any."""
    if conn.info.server_version < 150000:
        return list(names)
    with translated():
        rows = conn.execute(
            "SELECT name FROM unnest(%s::text[]) AS name"
            " WHERE NOT has_parameter_privilege(name, 'ALTER SYSTEM')",
            (list(names),),
        ).fetchall()
    return [name for (name,) in rows]


def in_force(conn: Connection, names: Sequence[str] | None = None) -> dict[str, InForce]:
    """The values in force for new sessions, by name; of all parameters unless named.

    `conn` must be a new session.
    """
    from psycopg.rows import class_row

    with translated(), conn.cursor(row_factory=class_row(InForce)) as cursor:
        rows = cursor.execute(
            "SELECT name, CASE WHEN ours THEN reset_val ELSE setting END AS setting, unit, vartype,"
            " context, boot_val, CASE WHEN ours AND reset_val = boot_val THEN 'default' ELSE source"
            " END AS source, sourcefile, pending_restart FROM pg_settings,"
            # What `connect` has set is none of the server's.
            " LATERAL (SELECT name IN ('search_path', 'extra_float_digits')"
            " AND source = 'session' AS ours) AS own"
            " WHERE %(names)s::text[] IS NULL OR name = ANY(%(names)s)",
            {"names": None if names is None else list(names)},
        ).fetchall()
    return {row.name: row for row in rows}


def shown(conn: Connection, row: InForce, value: str) -> str | None:
    """What pg_settings shows for a value once it is set; None unless this session may set it.

    Servers show some values otherwise than they are written: utc as UTC, the method that
    wal_compression = on stands for, log_min_messages in an order of their own.
    """
    from psycopg import Error

    name = _SHOWN_LIKE.get(row.name, row.name)
    if name == row.name and row.context not in ("user", "superuser"):
        return None
    try:
        with conn.transaction(force_rollback=True):
            conn.execute("SELECT set_config(%s, %s, true)", (name, value))
            return in_force(conn, [name])[name].setting
    except Error:
        return None


def file_lines(conn: Connection) -> tuple[FileSetting, ...] | None:
    """The configuration files as they are now, reloaded or not; None without permission."""
    if not may_read_files(conn):
        return None
    with translated():
        rows = conn.execute(
            "SELECT sourcefile, sourceline, name, setting, error FROM pg_file_settings"
            " ORDER BY seqno"
        ).fetchall()
    return tuple(
        FileSetting(sourcefile=file, sourceline=number, name=name, value=value, error=error)
        for file, number, name, value, error in rows
    )


def values_in(lines: Sequence[FileSetting], file_name: str) -> dict[str, str]:
    """The settings in the files of this name or path, by lower-case name; the last line wins."""
    return {
        line.name.lower(): line.value
        for line in lines
        if line.name and line.value is not None and is_file(line.sourcefile, file_name)
    }


def is_file(path: str | None, name: str) -> bool:
    """Whether a path from the server is this file, given by its full path or its last part."""
    if path is None:
        return False
    if "/" in name:
        return Path(path).resolve() == Path(name).resolve()
    return Path(path).name == name


def alter_system(conn: Connection, name: str, value: str | None) -> None:
    """Write an entry to postgresql.auto.conf, or remove it; ApplyError if refused."""
    from psycopg import Error, errors, sql

    def said(error: Error) -> str:
        return error.diag.message_primary or str(error)

    if value is not None and name in LIST_QUOTED and not elements(value):
        raise ApplyError(
            f"ALTER SYSTEM cannot write an empty list for {name}",
            f"Remove the entry instead: ALTER SYSTEM RESET {name}.",
        )
    parameter = sql.Identifier(*name.split("."))
    command = sql.SQL("ALTER SYSTEM RESET {}").format(parameter)
    if value is not None:
        command = sql.SQL("ALTER SYSTEM SET {} = {}").format(parameter, literals(name, value))
    try:
        conn.execute(command)
    except Error as error:
        why, hint = why_lost(error)
        if ended_session(error):
            raise ApplyError(
                f"the connection was lost while writing {name}: {why}", hint
            ) from error
        if isinstance(error, errors.DiskFull):
            raise ApplyError(f"the server could not write {name}: {said(error)}", hint) from error
        files = "Permission denied" in said(error)  # also of SQL, but then in lower case
        what = _WRITABLE if files else error.diag.message_hint
        raise ApplyError(f"the server refused {name} = {value}: {said(error)}", what) from error


def reload(conn: Connection) -> None:
    """Tell the server to reload its files, which it does a moment later."""
    with translated():
        conn.execute("SELECT pg_reload_conf()")


def _one(conn: Connection, query: LiteralString) -> tuple[Any, ...]:
    """The only row of a query that always returns one."""
    with translated():
        row = conn.execute(query).fetchone()
    return row or ()
