"""Log in as an application would, before any application does."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from mrtuner.errors import ConnectCause, ConnectError, Refused
from mrtuner.postgres.connect import connect
from mrtuner.postgres.quoting import identifier
from mrtuner.rotate.model import Credential, RoleGroup
from mrtuner.rotate.statements import rows

_OUT_OF_REACH: Final = frozenset({ConnectCause.NO_HOST, ConnectCause.REFUSED, ConnectCause.TIMEOUT})
_PLACE: Final = ("host", "port", "dbname")
#: The first minor release of each major that both obeys a login's SET role and keeps its role.
_KEEP_ROLE: Final = {13: 18, 14: 15, 15: 10, 16: 6, 17: 2}
_REPLAY_SECONDS: Final = 60.0  # a replica may lag this far behind
_POLL_SECONDS: Final = 0.5


def try_login(dsn: str, credential: Credential, group: RoleGroup) -> str:
    """Log in at the server. Return what that does not prove, as text; "" when it proves all.

    Raises ConnectError when the login fails; Refused when the session is not the group's.
    """
    with connect(_as(dsn, credential.username, credential.password)) as conn:
        current = str(rows(conn, "SELECT current_user")[0][0])
        asked = bool(conn.pgconn.used_password)
        version = conn.info.server_version
    if current != group.name:
        own = (
            "Look for a setting that overrides it: "
            f"ALTER ROLE {identifier(credential.username)} SET role."
        )
        raise Refused(
            f"{credential.username} logs in as {current}, not as {group.name}",
            f"{loses_role(version)}." if _ignores_role(version) else own,
        )
    return "" if asked else _NOT_ASKED


def loses_role(version: int) -> str:
    """Return how a release loses the role of ALTER ROLE … SET role, as text; "" if it does not.

    Source: release notes of 17.1 (CVE-2024-10978) and 17.2, and of the same days.

    >>> loses_role(170001)
    "PostgreSQL 17.1 ignores a login's SET role: update to 17.2 or later"
    >>> loses_role(160004)
    "PostgreSQL 16.4 ends a login's SET role at DISCARD ALL: update to 16.6 or later"
    >>> loses_role(180000)
    ''
    """
    major, minor = divmod(version, 10_000)
    good = _KEEP_ROLE.get(major, 0)
    if minor >= good:
        return ""
    how = "ends a login's SET role at DISCARD ALL"
    if _ignores_role(version):
        how = "ignores a login's SET role"
    return f"PostgreSQL {major}.{minor} {how}: update to {major}.{good} or later"


def _ignores_role(version: int) -> bool:
    """Whether it is the release before the good one: it ignores the setting at the login."""
    major, minor = divmod(version, 10_000)
    return minor == _KEEP_ROLE.get(major, 0) - 1


def try_replica(dsn: str, credential: Credential, group: RoleGroup) -> str:
    """Log in at a replica, once it has replayed the new login; otherwise as `try_login`."""
    deadline = time.monotonic() + _REPLAY_SECONDS
    while True:
        try:
            return try_login(dsn, credential, group)
        except ConnectError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_POLL_SECONDS)


def try_where_stored(dsn: str, found: Mapping[str, Any] | None, credential: Credential) -> str:
    """Log in where the secret sends applications, if that is elsewhere: a pooler, a proxy.

    Returns what could not be tried, as text. Raises ConnectError when the login fails there:
    applications' logins would too.
    """
    place = {key: found[key] for key in _PLACE if found and key in found}
    direct = credential.document()
    if all(str(place[key]) == str(direct[key]) for key in place):
        return ""
    where = f"{place.get('host', credential.host)}:{place.get('port', credential.port)}"
    try:
        elsewhere = _as(dsn, credential.username, credential.password, **place)
        connect(elsewhere, through_pooler=True).close()
    except ConnectError as error:
        if error.cause in _OUT_OF_REACH:
            return f"the secret points to {where}, which cannot be reached from here: not tested"
        raise ConnectError(
            f"{where}, to which the secret points, rejects the login: {error.message}",
            "A pooler must know both login roles (pgbouncer: auth_query, or both in "
            "auth_file); then run again, or run mrtuner rotate abort.",
        ) from None
    return ""


def _as(dsn: str, username: str, password: str, **place: Any) -> str:
    """Return the connection string for another role, without our own PGOPTIONS and options.

    A server that asks for the password in clear text does not get it. Source: libpq's
    require_auth, PostgreSQL 16.
    """
    from psycopg.conninfo import make_conninfo
    from psycopg.pq import version

    also = {"target_session_attrs": "any", "hostaddr": ""} if "host" in place else {}
    also |= {"require_auth": "!password"} if version() >= 160000 else {}
    return make_conninfo(dsn, user=username, password=password, options="", **also, **place)


_NOT_ASKED: Final = (
    "the server let the new role in without asking for a password (trust, peer or a certificate "
    "in pg_hba.conf), so the login proves nothing"
)
