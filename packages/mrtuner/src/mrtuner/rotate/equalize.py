"""Make the two login roles of a group equal, and the group the owner of what they create."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mrtuner.errors import Refused
from mrtuner.postgres.conf_file import literals
from mrtuner.postgres.connect import use_role_search_path
from mrtuner.postgres.quoting import identifier
from mrtuner.rotate.model import Role, RoleGroup
from mrtuner.rotate.roles import read_roles
from mrtuner.rotate.statements import name, permitted, rows, run

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

_ATTRIBUTES: Final = ("createdb", "createrole", "replication", "bypassrls")
#: What REASSIGN OWNED would transfer. Source: pg_shdepend (dbid 0: databases and tablespaces
#: themselves), shdepReassignOwned, which skips default privileges and user mappings.
_OWNED: Final = (
    "SELECT {} FROM pg_shdepend d LEFT JOIN pg_database b ON b.oid = d.dbid WHERE {}"
    " AND d.deptype = 'o' AND d.refclassid = 'pg_authid'::regclass"
    " AND d.classid NOT IN ('pg_default_acl'::regclass, 'pg_user_mapping'::regclass)"
    " AND d.refobjid = (SELECT oid FROM pg_roles WHERE rolname = %s)"
)

#: The roles that the administrator has made itself a member of: they stay as they were.
_GRANTED_BY_ITSELF: Final = (
    "SELECT g.rolname FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid"
    " JOIN pg_roles r ON r.oid = m.member AND r.oid = m.grantor WHERE r.rolname = current_user"
)


def prepare(conn: Connection, group: RoleGroup, old: str | None) -> None:
    """Create what the group lacks, and make the two login roles equal, in one transaction.

    The next role gets the attributes, settings and memberships of the old one. Once logged in,
    both become the group (`SET role`), so that it owns what they create and its default privileges
    apply. Anything a login role still owns in this database is transferred to the group.
    """
    with permitted(), conn.transaction():
        there = read_roles(conn, group)
        _refuse_strangers(group, there)
        if old == group.name:
            _refuse_another_role(conn, old)
        elif old is not None:
            _refuse_grants_of_its_own(conn, old, group)
        for role in group.roles:
            if role not in there:
                run(conn, "CREATE ROLE {} NOLOGIN", name(role))
        for role in (group.blue, group.green):
            if role not in there or not there[role].member:
                run(conn, "GRANT {} TO {}", name(group.name), name(role))
            if role != old:
                _like(conn, role, old or group.name, group)
    for role in (group.blue, group.green):
        hand_to_group(conn, group, role)


def hand_to_group(conn: Connection, group: RoleGroup, role: str) -> None:
    """Transfer a login role's objects here, and any databases it owns, to the group.

    It locks each table against everybody, so it waits only for a moment: Refused if one is in use.
    """
    from psycopg.errors import LockNotAvailable

    here = "d.dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))"
    if role != group.name and rows(conn, _OWNED.format("d.objid", here), [role]):
        with permitted():
            try:
                with conn.transaction():
                    run(conn, "SET LOCAL lock_timeout = '2s'")
                    _reassign(conn, role, group.name)
            except LockNotAvailable:
                raise Refused(
                    f"what {role} owns is in use, so {group.name} cannot become its owner now",
                    "Run again once no query or transaction uses its tables.",
                ) from None


def owned_elsewhere(conn: Connection, role: str) -> tuple[str, ...]:
    """Return the other databases in which a role owns objects."""
    found = rows(conn, _OWNED.format("b.datname", "b.datname <> current_database()"), [role])
    return tuple(sorted({database for (database,) in found}))


def settings_of(conn: Connection, role: str) -> dict[str, dict[str, str]]:
    """Return what ALTER ROLE … SET has set, by database; "" is every database."""
    found = rows(
        conn,
        "SELECT coalesce(d.datname, ''), s.setconfig FROM pg_db_role_setting s"
        " JOIN pg_roles r ON r.oid = s.setrole LEFT JOIN pg_database d ON d.oid = s.setdatabase"
        " WHERE r.rolname = %s",
        [role],
    )
    return {database: dict(entry.split("=", 1) for entry in entries) for database, entries in found}


def _refuse_strangers(group: RoleGroup, there: dict[str, Role]) -> None:
    for role in there.values():
        if role.superuser:
            raise Refused(
                f"{role.name} is a superuser",
                "Give the application a separate role without SUPERUSER.",
            )
        if not role.member:
            raise Refused(
                f"role {role.name} exists, but is not a member of {group.name}",
                "If it belongs to the group, run: "
                f"GRANT {identifier(group.name)} TO {identifier(role.name)}.",
            )


def _refuse_another_role(conn: Connection, group: str) -> None:
    """Refuse a login role that becomes another role: the group would own nothing."""
    becomes = {each["role"] for each in settings_of(conn, group).values() if "role" in each}
    if becomes - {group, "none"}:
        other = ", ".join(sorted(becomes))
        raise Refused(
            f"{group} becomes {other} when it logs in (ALTER ROLE … SET role)",
            f"Let {group} own what it creates: ALTER ROLE {identifier(group)} RESET role.",
        )


def _refuse_grants_of_its_own(conn: Connection, role: str, group: RoleGroup) -> None:
    """Refuse grants to one login role alone: applications would lose them as the other role.

    Source: pg_shdepend, which covers every database; deptype a: named in an object's ACL or in
    default privileges, whose own role is deptype o.
    """
    found = rows(
        conn,
        "SELECT DISTINCT coalesce(b.datname, 'all databases')"
        " FROM pg_shdepend d LEFT JOIN pg_database b ON b.oid = d.dbid"
        " WHERE d.refclassid = 'pg_authid'::regclass"
        "   AND (d.deptype = 'a' OR d.deptype = 'o' AND d.classid = 'pg_default_acl'::regclass)"
        "   AND d.classid <> 'pg_auth_members'::regclass"
        "   AND d.refobjid = (SELECT oid FROM pg_roles WHERE rolname = %s) ORDER BY 1",
        [role],
    )
    if found:
        where = ", ".join(database for (database,) in found)
        raise Refused(
            f"privileges are granted to {role} instead of {group.name} in: {where}",
            f"Grant them to {group.name} and revoke them from {role} (default privileges too), "
            "then run again.",
        )


def _like(conn: Connection, role: str, model: str, group: RoleGroup) -> None:
    """Give a role the attributes, memberships and settings of another."""
    _copy_attributes(conn, role, model, inherit=model != group.name)
    if model != group.name:
        _copy_memberships(conn, role, model)
    _copy_settings(conn, role, model, group)


def _copy_attributes(conn: Connection, role: str, model: str, *, inherit: bool) -> None:
    """Copy only what differs: some attributes can be set by a superuser only.

    A login role inherits from the group, or it could not connect to a database that only the group
    may: that is checked before it becomes the group. So the group's own INHERIT is not copied.
    """
    from psycopg.sql import SQL

    names = ("inherit", *_ATTRIBUTES) if inherit else _ATTRIBUTES
    columns = ", ".join(f"rol{each}" for each in names)
    query = f"SELECT rolconnlimit, {columns} FROM pg_roles WHERE rolname = %s"  # noqa: S608
    (limit, *wanted), (limit_now, *now) = (rows(conn, query, [each])[0] for each in (model, role))
    words = [
        f"{'' if want else 'NO'}{attribute.upper()}"
        for attribute, want, have in zip(names, wanted, now, strict=True)
        if want != have
    ]
    if limit != limit_now:
        words.append(f"CONNECTION LIMIT {limit}")
    if words:
        run(conn, "ALTER ROLE {} {}", name(role), SQL(" ".join(words)))


def _copy_memberships(conn: Connection, role: str, model: str) -> None:
    """Copy memberships with their options; of grants by several roles, what they allow together."""
    names = ("admin", "inherit", "set") if conn.info.server_version >= 160000 else ("admin",)
    columns = ", ".join(f"bool_or(m.{each}_option)" for each in names)
    query = (
        f"SELECT g.rolname, {columns}"  # noqa: S608
        " FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid"
        " JOIN pg_roles r ON r.oid = m.member WHERE r.rolname = %s GROUP BY g.rolname"
    )
    has, wants = (
        {group: dict(zip(names, on, strict=True)) for group, *on in rows(conn, query, [who])}
        for who in (role, model)
    )
    for each, options in sorted(wants.items()):
        if has.get(each) != options:
            _grant(conn, each, role, options)
    for each in sorted(has.keys() - wants):
        run(conn, "REVOKE {} FROM {}", name(each), name(role))


def _grant(conn: Connection, group: str, role: str, options: Mapping[str, bool]) -> None:
    """Make a role a member with these options, or change those that it has."""
    if "set" in options:
        words = ", ".join(f"{each.upper()} {str(on).upper()}" for each, on in options.items())
        run(conn, f"GRANT {{}} TO {{}} WITH {words}", name(group), name(role))
    elif options["admin"]:
        run(conn, "GRANT {} TO {} WITH ADMIN OPTION", name(group), name(role))
    else:
        run(conn, "GRANT {} TO {}", name(group), name(role))
        run(conn, "REVOKE ADMIN OPTION FOR {} FROM {}", name(group), name(role))


def _copy_settings(conn: Connection, role: str, model: str, group: RoleGroup) -> None:
    """Copy only settings that differ: some can be set by a superuser only."""
    has, wanted = settings_of(conn, role), settings_of(conn, model)
    wanted[""] = {**wanted.get("", {}), "role": group.name}
    for database in sorted(has.keys() | wanted.keys()):
        if has.get(database) != wanted.get(database):
            _set_all(conn, role, database, wanted.get(database, {}))


def _set_all(conn: Connection, role: str, database: str, entries: dict[str, str]) -> None:
    from psycopg.sql import SQL

    where = SQL(" IN DATABASE {}").format(name(database)) if database else SQL("")
    run(conn, "ALTER ROLE {}{} RESET ALL", name(role), where)
    for setting, value in entries.items():
        parts = name(role), where, name(setting), literals(setting, value)
        run(conn, "ALTER ROLE {}{} SET {} TO {}", *parts)


def _reassign(conn: Connection, old: str, new: str) -> None:
    """Run REASSIGN OWNED, as a member of both roles while it runs, which it requires.

    From PostgreSQL 16 on, the creator of a role may administer it but does not inherit it.
    """
    query = "SELECT pg_has_role(%s, 'USAGE')"
    lacking = [role for role in (old, new) if not rows(conn, query, [role])[0][0]]
    inherit = " WITH INHERIT TRUE" if conn.info.server_version >= 160000 else ""
    by = " GRANTED BY CURRENT_USER" if inherit else ""
    had = {role for (role,) in rows(conn, _GRANTED_BY_ITSELF)} if inherit else set()
    for role in lacking:
        run(conn, f"GRANT {{}} TO CURRENT_USER{inherit}{by}", name(role))
    use_role_search_path(conn)  # the user's event triggers run inside
    run(conn, "REASSIGN OWNED BY {} TO {}", name(old), name(new))
    for role in lacking:
        back = "INHERIT OPTION FOR " if role in had else ""
        run(conn, f"REVOKE {back}{{}} FROM CURRENT_USER{by}", name(role))
