"""The roles of a group on the server: who may log in, who is logged in, and their passwords.

The server gets a password as a SCRAM verifier, computed here by libpq: the password itself never
appears on the wire, in the server's log or in pg_stat_statements.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from mrtuner.errors import Refused
from mrtuner.rotate.model import Holder, Role, RoleGroup
from mrtuner.rotate.statements import name, permitted, rows, run, text

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

#: The application_name of all our sessions. Source: postgres.connect.
OURS: Final = "mrtuner"


def new_password() -> str:
    """Return 256 random bits in characters that need no quoting in a URI, a shell or ~/.pgpass."""
    return secrets.token_urlsafe(32)


def system_identifier(conn: Connection) -> str:
    """Return the identity of this server, whatever its address. Source: pg_control_system()."""
    return str(rows(conn, "SELECT system_identifier FROM pg_control_system()")[0][0])


def address(conn: Connection) -> str:
    """Return the host and port as given; of several hosts, all of them."""
    asked = conn.info.get_parameters()
    return f"{asked.get('host') or conn.info.host}:{asked.get('port') or conn.info.port}"


def read_roles(conn: Connection, group: RoleGroup) -> dict[str, Role]:
    """Return the existing roles of the group, by name."""
    found = rows(
        conn,
        "SELECT r.rolname, r.rolcanlogin, r.rolsuper, r.rolname = %(group)s OR EXISTS ("
        "   SELECT FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid"
        "   WHERE m.member = r.oid AND g.rolname = %(group)s)"
        " FROM pg_roles r WHERE r.rolname = ANY(%(roles)s)",
        {"group": group.name, "roles": list(group.roles)},
    )
    return {
        role: Role(name=role, login=login, superuser=superuser, member=member)
        for role, login, superuser, member in found
    }


def sessions_of(conn: Connection, role: str, server: str = "") -> tuple[Holder, ...]:
    """Return the sessions logged in as a role on this server, whatever role was set since.

    Prepared transactions do not count: they belong to the group, so any login role can end them.
    Without pg_read_all_stats only the address and the time are hidden.
    Source: pg_stat_get_activity (usesysid is the session's user), twophase.c (GetUserId).
    """
    found = rows(
        conn,
        "SELECT pid, coalesce(application_name, ''), coalesce(datname, ''),"
        "   CASE WHEN backend_start IS NULL THEN 'a hidden address'"
        "     ELSE coalesce(host(client_addr), 'the socket') END,"
        "   coalesce(to_char(backend_start, 'YYYY-MM-DD HH24:MI:SSOF'), 'a hidden time')"
        " FROM pg_stat_activity WHERE usename = %s ORDER BY pid",
        [role],
    )
    return tuple(
        Holder(
            pid=pid, application=application, address=where, database=database, since=since,
            server=server,
        )
        for pid, application, database, where, since in found
    )  # fmt: skip


def enable(conn: Connection, role: str, password: str) -> None:
    """Let a role log in with a password, without expiry."""
    with permitted():
        run(
            conn, "ALTER ROLE {} LOGIN PASSWORD {} VALID UNTIL 'infinity'",
            name(role), text(verifier(conn, role, password)),
        )  # fmt: skip


def close(conn: Connection, role: str) -> None:
    """Revoke LOGIN; the password stays, so that `open_again` can undo this."""
    with permitted():
        run(conn, "ALTER ROLE {} NOLOGIN", name(role))


def open_again(conn: Connection, role: str) -> None:
    """Restore LOGIN, with the role's previous password."""
    with permitted():
        run(conn, "ALTER ROLE {} LOGIN", name(role))


def scramble(conn: Connection, role: str, password: str) -> None:
    """Revoke LOGIN, and set a password that nobody knows."""
    secret = verifier(conn, role, password)
    with permitted():
        run(conn, "ALTER ROLE {} NOLOGIN PASSWORD {}", name(role), text(secret))


def verifier(conn: Connection, role: str, password: str) -> str:
    """Return the SCRAM-SHA-256 verifier, whatever the server's password_encryption."""
    made = conn.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
    return made.decode()


@contextmanager
def alone(conn: Connection, group: RoleGroup) -> Iterator[None]:
    """Lock the group against other rotations, from any machine. Refused if one is running.

    The lock belongs to the session and ends with it. It is local to a database, but roles belong
    to the whole server, so its holder checks whether it is also held in other databases.
    """
    _refuse_unfit(conn, group)
    key = f"mrtuner rotate {group.name}"
    locked = rows(conn, "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [key])[0][0]
    try:
        if not locked or _locked_elsewhere(conn, key):
            raise Refused(
                f"another mrtuner is rotating {group.name} now", "Wait until it has finished."
            )
        yield
    finally:
        if locked and not conn.closed:
            rows(conn, "SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [key])


def _locked_elsewhere(conn: Connection, key: str) -> bool:
    """Whether another database has the lock.

    Source: pg_locks, a bigint key: classid and objid are its halves, objsubid is 1.
    """
    query = (
        "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted"
        " AND pid <> pg_backend_pid() AND objsubid = 1"
        " AND (classid::bigint << 32) | objid::bigint = hashtextextended(%s, 0))"
    )
    return bool(rows(conn, query, [key])[0][0])


def _refuse_unfit(conn: Connection, group: RoleGroup) -> None:
    standby, user = rows(conn, "SELECT pg_is_in_recovery(), session_user")[0]
    if standby:
        raise Refused(
            "this server is a standby, where roles cannot be changed",
            "Connect to its primary, and give this one with --replica.",
        )
    if user in group.roles:
        raise Refused(
            f"logged in as {user}, one of the roles to rotate",
            "Connect as the role that administers them.",
        )
