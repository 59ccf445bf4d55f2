"""Settings of single roles, with ALTER ROLE … SET in every database; see `catalog_transaction`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from mrtuner.change.catalog_transaction import CatalogTransaction, by_name, split
from mrtuner.change.record import Method, ParameterChange
from mrtuner.change.settings import live

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection


class RoleSettings(CatalogTransaction):
    """A change of roles' settings. New sessions of a role get them; open ones keep theirs."""

    METHOD: ClassVar[Method] = "role settings"
    WHOSE = "this server's roles"
    HINTS: ClassVar[Mapping[str, str]] = {
        "42501": "Connect as a superuser, or with CREATEROLE and ADMIN OPTION on the role.",
        "25006": "Connect to the primary: a standby follows it.",
    }

    @staticmethod
    def lock(conn: Connection) -> None:
        """Lock the whole server: roles are shared by its databases."""
        live.lock(conn)

    @staticmethod
    def key(system: str, database: str) -> str:  # noqa: ARG004 - roles are the whole server's
        return f"role settings in {system}"

    @staticmethod
    def values(conn: Connection, names: Collection[str]) -> dict[str, str | None]:
        own = {role: by_name(settings) for role, settings in conn.execute(_SETTINGS).fetchall()}
        return {name: own.get(role, {}).get(of) for name in names for role, of in (split(name),)}

    @staticmethod
    def alter(owner: str, entries: Sequence[ParameterChange]) -> Iterator[bytes]:
        from psycopg.sql import SQL, Identifier, Literal

        for one in entries:
            parameter = Identifier(split(one.name)[1])
            if one.after is None:
                made = SQL("ALTER ROLE {} RESET {}").format(Identifier(owner), parameter)
            else:
                made = SQL("ALTER ROLE {} SET {} TO {}").format(
                    Identifier(owner), parameter, Literal(one.after)
                )
            yield made.as_bytes(None)


#: 0 is every database.
_SETTINGS = (
    "SELECT r.rolname, s.setconfig FROM pg_catalog.pg_db_role_setting AS s "
    "JOIN pg_catalog.pg_roles AS r ON r.oid = s.setrole WHERE s.setdatabase = 0"
)
