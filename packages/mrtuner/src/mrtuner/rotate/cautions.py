"""Warnings about a server before and after a rotation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mrtuner.postgres.quoting import identifier
from mrtuner.rotate.equalize import owned_elsewhere
from mrtuner.rotate.login import loses_role
from mrtuner.rotate.model import RoleGroup
from mrtuner.rotate.roles import read_roles
from mrtuner.rotate.statements import rows
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection


def doubts(conn: Connection, group: RoleGroup, old: str | None, replicas: int) -> tuple[str, ...]:
    """Return, as text, every doubt about rotating away from a role."""
    found = (
        _socket(conn),
        _old_clients(conn),
        _unseen_replicas(conn, replicas),
        _expiry(conn, old),
        _first_password(conn, group, old),
        loses_role(conn.info.server_version),
        *(_left_over(conn, role, group) for role in (group.blue, group.green)),
    )
    return tuple(words for words in found if words)


_AURORA_READERS: Final = (
    "SELECT count(*) FROM aurora_replica_status() WHERE session_id <> 'MASTER_SESSION_ID'"
)


def _socket(conn: Connection) -> str:
    if not conn.info.host.startswith("/"):
        return ""
    return (
        f"this connection uses a socket, so a new secret has {conn.info.host} as its host: connect "
        "over TCP, as applications do"
    )


def _old_clients(conn: Connection) -> str:
    """Warn about clients without SCRAM.

    Source: PostgreSQL 10 release notes; pgjdbc's changelog, 42.2.0.
    """
    if rows(conn, "SHOW password_encryption")[0][0] == "scram-sha-256":
        return ""
    return (
        "this server creates md5 passwords, but the new one is SCRAM-SHA-256: clients older than "
        "libpq 10 or pgjdbc 42.2 cannot log in with it"
    )


def _unseen_replicas(conn: Connection, named: int) -> str:
    """Warn about replicas that were not named.

    Source: pg_stat_replication, whose rows everyone can see (also for backups and subscribers).
    Aurora's readers share the storage and have no row there: aurora_replica_status() lists them.
    """
    count = int(rows(conn, "SELECT count(*) FROM pg_stat_replication")[0][0])
    if rows(conn, "SELECT to_regproc('pg_catalog.aurora_replica_status') IS NOT NULL")[0][0]:
        count += int(rows(conn, _AURORA_READERS)[0][0])
    if count <= named:
        return ""
    return (
        f"{plural(count, 'replication client')} of this server, {named} given with --replica: "
        "sessions on the others are not seen"
    )


def _expiry(conn: Connection, role: str | None) -> str:
    query = (
        "SELECT rolvaliduntil::text FROM pg_roles WHERE rolname = %s AND isfinite(rolvaliduntil)"
    )
    found = rows(conn, query, [role])
    return f"{role} is valid until {found[0][0]}; the new password does not expire" if found else ""


def _first_password(conn: Connection, group: RoleGroup, old: str | None) -> str:
    """Warn of the group's own login: after the first rotation it has no turn, so it stays."""
    known = read_roles(conn, group).get(group.name)
    if old == group.name or known is None or not known.login:
        return ""
    return (
        f"{group.name} can still log in with a password of its own; once nobody uses it: "
        f"ALTER ROLE {identifier(group.name)} NOLOGIN PASSWORD NULL"
    )


def _left_over(conn: Connection, role: str, group: RoleGroup) -> str:
    if not (where := owned_elsewhere(conn, role)):
        return ""
    return (
        f"{role} itself owns objects in: {', '.join(where)}; transfer them to the group there: "
        f"REASSIGN OWNED BY {identifier(role)} TO {identifier(group.name)}"
    )
