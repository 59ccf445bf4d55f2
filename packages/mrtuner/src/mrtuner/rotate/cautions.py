"""Warnings about a server before and after a rotation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrtuner.rotate.equalize import owned_elsewhere
from mrtuner.rotate.login import loses_role
from mrtuner.rotate.model import RoleGroup
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
        loses_role(conn.info.server_version),
        *(_left_over(conn, role, group) for role in (group.blue, group.green)),
    )
    return tuple(words for words in found if words)


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
    """
    count = int(rows(conn, "SELECT count(*) FROM pg_stat_replication")[0][0])
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


def _left_over(conn: Connection, role: str, group: RoleGroup) -> str:
    if not (where := owned_elsewhere(conn, role)):
        return ""
    return (
        f"{role} itself owns objects in: {', '.join(where)}; transfer them to the group there: "
        f"REASSIGN OWNED BY {role} TO {group.name}"
    )
