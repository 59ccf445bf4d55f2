"""The roles of a group on the server: reading them, making them equal, giving them passwords.

A password goes to the server as a SCRAM verifier, computed here by libpq: neither the wire nor
the server's log nor pg_stat_statements ever has the password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import MissingPart, Refused
from mrtuner.postgres.connect import connect, translated
from mrtuner.rotate.model import Credential, Group, Role, Session

if TYPE_CHECKING:
    from psycopg.sql import Composable

    from mrtuner.postgres.connect import Connection

#: Settings that hold lists of names, each of which is quoted for itself.
#: Source: GUC_LIST_QUOTE in guc_tables.c; pg_dump has the same list (variable_is_guc_list_quote).
_LISTS: Final = frozenset({
    "local_preload_libraries", "search_path", "session_preload_libraries",
    "shared_preload_libraries", "temp_tablespaces", "unix_socket_directories",
})  # fmt: skip
#: The application_name of every session of ours. Source: postgres.connect.
OURS: Final = "mrtuner"
_ATTRIBUTES: Final = ("inherit", "createdb", "createrole", "replication", "bypassrls")


def system_identifier(conn: Connection) -> str:
    """Which server this is, whatever its address. Source: pg_control_system()."""
    return str(_rows(conn, "SELECT system_identifier FROM pg_control_system()")[0][0])


def read_roles(conn: Connection, group: Group) -> dict[str, Role]:
    """The roles of the group that are there, by name."""
    rows = _rows(
        conn,
        "SELECT r.rolname, r.rolcanlogin, r.rolsuper, r.rolname = %(group)s OR EXISTS ("
        "   SELECT FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid"
        "   WHERE m.member = r.oid AND g.rolname = %(group)s)"
        " FROM pg_roles r WHERE r.rolname = ANY(%(roles)s)",
        {"group": group.name, "roles": list(group.roles)},
    )
    return {
        name: Role(name=name, login=login, superuser=superuser, member=member)
        for name, login, superuser, member in rows
    }


def sessions_of(conn: Connection, role: str) -> tuple[Session, ...]:
    """Who is logged in as a role, whatever role was set since.

    A prepared transaction is the group's, so that any login role of it may end it: none of these.
    Source: pg_stat_get_activity (usesysid is the session's user), twophase.c (GetUserId).
    """
    rows = _rows(
        conn,
        "SELECT pid, application_name, coalesce(host(client_addr), 'the socket'), datname,"
        "   coalesce(to_char(backend_start, 'YYYY-MM-DD HH24:MI:SS'), 'unknown')"
        " FROM pg_stat_activity WHERE usename = %s ORDER BY pid",
        [role],
    )
    return tuple(
        Session(pid=pid, application=name or "", address=address, database=database or "",
                since=since)
        for pid, name, address, database, since in rows
    )  # fmt: skip


def prepare(conn: Connection, group: Group, old: str | None) -> None:
    """Make what is missing of the group, and the two login roles equal. All of it or nothing.

    The next role gets the attributes, settings and memberships of the old one; logged in, both
    become the group (`SET role`), so that it owns what they make and its default privileges
    apply. What a login role owns in this database all the same goes to the group.
    """
    with _permitted(), conn.transaction():
        there = read_roles(conn, group)
        _refuse_strangers(group, there)
        if old in {group.blue, group.green}:
            _refuse_grants_of_its_own(conn, old, group)
        for name in group.roles:
            if name not in there:
                _run(conn, "CREATE ROLE {} NOLOGIN", _name(name))
        for name in (group.blue, group.green):
            if name not in there or not there[name].member:
                _run(conn, "GRANT {} TO {}", _name(group.name), _name(name))
            if name != old:
                _like(conn, name, old or group.name, group)
        if old in {group.blue, group.green} and _owns(conn, old):
            _reassign(conn, old, group.name)


def enable(conn: Connection, role: str, password: str) -> None:
    """Let a role log in with a password."""
    with _permitted():
        _run(
            conn,
            "ALTER ROLE {} LOGIN PASSWORD {} VALID UNTIL 'infinity'",
            _name(role),
            _text(verifier(conn, role, password)),
        )


def close(conn: Connection, role: str) -> None:
    """Take LOGIN away; the password stays, so that `open_again` is the way back."""
    with _permitted():
        _run(conn, "ALTER ROLE {} NOLOGIN", _name(role))


def open_again(conn: Connection, role: str) -> None:
    """Give LOGIN back, with the password that it had."""
    with _permitted():
        _run(conn, "ALTER ROLE {} LOGIN", _name(role))


def scramble(conn: Connection, role: str, password: str) -> None:
    """No login, and a password that nobody knows."""
    secret = verifier(conn, role, password)
    with _permitted():
        _run(conn, "ALTER ROLE {} NOLOGIN PASSWORD {}", _name(role), _text(secret))


def verifier(conn: Connection, role: str, password: str) -> str:
    """The SCRAM-SHA-256 verifier, whatever the server's password_encryption says."""
    made = conn.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
    return made.decode()


def try_login(dsn: str, credential: Credential, group: Group) -> bool:
    """Log in as an application would; whether the server asked for the password.

    ConnectError when it does not come in; Refused when it is not the group after that.
    """
    from psycopg.conninfo import make_conninfo

    login = make_conninfo(dsn, user=credential.username, password=credential.password)
    with connect(login) as conn:
        current = str(_rows(conn, "SELECT current_user")[0][0])
        asked = bool(conn.pgconn.used_password)
    if current != group.name:
        raise Refused(
            f"{credential.username} logs in as {current}, not as {group.name}",
            f"Look for a setting of role that hides it: ALTER ROLE {credential.username} SET role.",
        )
    return asked


@contextmanager
def alone(conn: Connection, group: Group) -> Iterator[None]:
    """Keep every other rotation of the group away, from whatever machine. Refused if one runs.

    The lock belongs to the session and ends with it. It is one of this database.
    """
    key = f"mrtuner rotate {group.name}"
    locked = _rows(conn, "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [key])[0][0]
    if not locked:
        raise Refused(f"another mrtuner is rotating {group.name} now", "Wait until it has ended.")
    try:
        yield
    finally:
        if not conn.closed:
            _rows(conn, "SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [key])


def _refuse_strangers(group: Group, there: dict[str, Role]) -> None:
    for role in there.values():
        if role.superuser:
            raise Refused(
                f"{role.name} is a superuser",
                "Give the application a role of its own, without SUPERUSER.",
            )
        if not role.member:
            raise Refused(
                f"there is a role {role.name} that is not a member of {group.name}",
                f"If it is the group's, run: GRANT {group.name} TO {role.name}.",
            )


def _refuse_grants_of_its_own(conn: Connection, role: str, group: Group) -> None:
    """What one login role alone was granted, applications would miss when they log in as the other.

    Source: pg_shdepend, which covers every database; deptype a: named in an object's ACL.
    """
    rows = _rows(
        conn,
        "SELECT DISTINCT coalesce(b.datname, 'all databases')"
        " FROM pg_shdepend d LEFT JOIN pg_database b ON b.oid = d.dbid"
        " WHERE d.deptype = 'a' AND d.refclassid = 'pg_authid'::regclass"
        "   AND d.classid NOT IN ('pg_default_acl'::regclass, 'pg_auth_members'::regclass)"
        "   AND d.refobjid = (SELECT oid FROM pg_roles WHERE rolname = %s) ORDER BY 1",
        [role],
    )
    if rows:
        where = ", ".join(database for (database,) in rows)
        raise Refused(
            f"{role} has privileges of its own, not of {group.name}, in: {where}",
            f"Grant them to {group.name} and revoke them from {role}, then run again.",
        )


def _like(conn: Connection, role: str, model: str, group: Group) -> None:
    """Give a role the attributes, memberships and settings of another."""
    _copy_attributes(conn, role, model)
    if model != group.name:
        _copy_memberships(conn, role, model)
    _copy_settings(conn, role, model)
    _run(conn, "ALTER ROLE {} SET role TO {}", _name(role), _text(group.name))


def _owns(conn: Connection, role: str) -> bool:
    """Whether a role owns anything in this database; default privileges do not count."""
    query = (
        "SELECT EXISTS (SELECT FROM pg_shdepend d JOIN pg_database b ON b.oid = d.dbid"
        " WHERE b.datname = current_database() AND d.deptype = 'o'"
        "   AND d.refclassid = 'pg_authid'::regclass AND d.classid <> 'pg_default_acl'::regclass"
        "   AND d.refobjid = (SELECT oid FROM pg_roles WHERE rolname = %s))"
    )
    return bool(_rows(conn, query, [role])[0][0])


def _reassign(conn: Connection, old: str, new: str) -> None:
    """REASSIGN OWNED, for which one has to be a member of both roles; for as long as it takes.

    Who makes a role from PostgreSQL 16 on may administer it but does not inherit it.
    """
    query = "SELECT pg_has_role(%s, 'USAGE')"
    lacking = [role for role in (old, new) if not _rows(conn, query, [role])[0][0]]
    inherit = " WITH INHERIT TRUE" if conn.info.server_version >= 160000 else ""
    by = " GRANTED BY CURRENT_USER" if inherit else ""
    for role in lacking:
        _run(conn, f"GRANT {{}} TO CURRENT_USER{inherit}{by}", _name(role))
    _run(conn, "REASSIGN OWNED BY {} TO {}", _name(old), _name(new))
    for role in lacking:
        _run(conn, f"REVOKE {{}} FROM CURRENT_USER{by}", _name(role))


def _copy_attributes(conn: Connection, role: str, model: str) -> None:
    """Only what differs: some of these can be named by a superuser only."""
    from psycopg.sql import SQL

    columns = ", ".join(f"rol{name}" for name in _ATTRIBUTES)
    query = f"SELECT rolconnlimit, {columns} FROM pg_roles WHERE rolname = %s"  # noqa: S608
    (limit, *wanted), (limit_now, *now) = (_rows(conn, query, [name])[0] for name in (model, role))
    words = [
        f"{'' if want else 'NO'}{name.upper()}"
        for name, want, have in zip(_ATTRIBUTES, wanted, now, strict=True)
        if want != have
    ]
    if limit != limit_now:
        words.append(f"CONNECTION LIMIT {limit}")
    if words:
        _run(conn, "ALTER ROLE {} {}", _name(role), SQL(" ".join(words)))


def _copy_memberships(conn: Connection, role: str, model: str) -> None:
    query = (
        "SELECT g.rolname FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid"
        " JOIN pg_roles r ON r.oid = m.member WHERE r.rolname = %s"
    )
    has, wants = ({name for (name,) in _rows(conn, query, [who])} for who in (role, model))
    for name in sorted(wants - has):
        _run(conn, "GRANT {} TO {}", _name(name), _name(role))
    for name in sorted(has - wants):
        _run(conn, "REVOKE {} FROM {}", _name(name), _name(role))


def _copy_settings(conn: Connection, role: str, model: str) -> None:
    for database in {name for who in (role, model) for name in settings_of(conn, who)}:
        _run(conn, "ALTER ROLE {}{} RESET ALL", _name(role), _in(database))
    for database, entries in settings_of(conn, model).items():
        for name, value in entries.items():
            _run(
                conn, "ALTER ROLE {}{} SET {} TO {}",
                _name(role), _in(database), _name(name), _value(name, value),
            )  # fmt: skip


def settings_of(conn: Connection, role: str) -> dict[str, dict[str, str]]:
    """What ALTER ROLE … SET has set, by database; "" is every database."""
    rows = _rows(
        conn,
        "SELECT coalesce(d.datname, ''), s.setconfig FROM pg_db_role_setting s"
        " JOIN pg_roles r ON r.oid = s.setrole LEFT JOIN pg_database d ON d.oid = s.setdatabase"
        " WHERE r.rolname = %s",
        [role],
    )
    return {database: dict(entry.split("=", 1) for entry in entries) for database, entries in rows}


def names_in(value: str) -> list[str]:
    """The names in a list setting.

    >>> names_in('"$user", public')
    ['$user', 'public']
    """
    parts = re.findall(r'"((?:[^"]|"")*)"|([^\s,"]+)', value)
    return [quoted.replace('""', '"') if quoted else plain for quoted, plain in parts]


def _value(name: str, value: str) -> Composable:
    from psycopg.sql import SQL

    if name not in _LISTS:
        return _text(value)
    return SQL(", ").join([_text(each) for each in names_in(value)] or [_text("")])


def _in(database: str) -> Composable:
    from psycopg.sql import SQL

    return SQL(" IN DATABASE {}").format(_name(database)) if database else SQL("")


def _name(text: str) -> Composable:
    """An identifier; a customised setting's two parts are one of them."""
    from psycopg.sql import Identifier

    return Identifier(text)


def _text(text: str) -> Composable:
    from psycopg.sql import Literal

    return Literal(text)


def _run(conn: Connection, statement: Any, *parts: Composable) -> None:
    from psycopg.sql import SQL

    conn.execute(SQL(statement).format(*parts))


def _rows(conn: Connection, query: Any, values: Any = None) -> list[tuple[Any, ...]]:
    with translated():
        return conn.execute(query, values).fetchall()


@contextmanager
def _permitted() -> Iterator[None]:
    """A missing permission as MissingPart, everything else as `translated` has it."""
    from psycopg.errors import InsufficientPrivilege

    with translated():
        try:
            yield
        except InsufficientPrivilege as error:
            reason = error.diag.message_primary
            raise MissingPart(
                f"not permitted: {reason}",
                "Connect as a role with CREATEROLE and ADMIN OPTION on the group "
                "(Amazon RDS: the master user; or a superuser).",
            ) from None
