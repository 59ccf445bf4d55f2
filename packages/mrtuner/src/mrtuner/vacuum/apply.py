"""Storage parameters of one database's tables, set and restored; see `change.catalog_transaction`.

Server settings are set by `mrtuner apply`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from mrtuner.change.catalog_transaction import CatalogTransaction, Wanted, by_name, split
from mrtuner.change.record import Method, ParameterChange
from mrtuner.escape import damaged
from mrtuner.postgres.quoting import quoted
from mrtuner.vacuum.commands import qualified

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection
    from mrtuner.vacuum.assess import Vacuum
    from mrtuner.vacuum.model import Table

_TOAST: Final = "toast."


def wanted(found: Vacuum) -> Wanted:
    """Return what the advice wants and why, by `entry_name`.

    A table whose name is damaged is left out.
    """
    return {
        entry_name(one.table, item.name): (item.value, item.because)
        for one in found.tables
        for item in one.advice
        if not damaged(qualified(one.table))
    }


def entry_name(table: Table, parameter: str) -> str:
    """The name of a table's parameter in a change: both, with the table quoted as in SQL."""
    return f"{quoted(table.schema, table.name)} {parameter}"


class StorageParameters(CatalogTransaction):
    """A change of storage parameters; a table is named as in SQL, quoted."""

    METHOD: ClassVar[Method] = "storage parameters"
    WHOSE = "this database's tables"
    HINTS: ClassVar[Mapping[str, str]] = {
        "55P03": "A vacuum or another ALTER holds the table: run again later.",
        "42501": "Connect as the owner of the tables or as a superuser.",
        "53200": "Raise max_locks_per_transaction, or run --format sql in parts.",
    }

    @staticmethod
    def key(system: str, database: str) -> str:
        return f"storage parameters of {database} in {system}"

    @staticmethod
    def values(conn: Connection, names: Collection[str]) -> dict[str, str | None]:
        relations = sorted({split(name)[0] for name in names})
        found = {row[0]: row[1:] for row in conn.execute(_OPTIONS, (relations,)).fetchall()}
        return {name: _value(name, found) for name in names}

    @staticmethod
    def alter(owner: str, entries: Sequence[ParameterChange]) -> Iterator[bytes]:
        """Yield SET for parameters with a value, and RESET for those that become unset."""
        put = [f"{split(one.name)[1]} = {one.after}" for one in entries if one.after is not None]
        drop = [split(one.name)[1] for one in entries if one.after is None]
        for verb, parts in (("SET", put), ("RESET", drop)):
            if parts:
                yield f"ALTER TABLE {owner} {verb} ({', '.join(parts)})".encode()


_OPTIONS: Final = (
    "SELECT given.name, c.reloptions, t.reloptions FROM unnest(%s::text[]) AS given(name) "
    "JOIN pg_catalog.pg_class AS c ON c.oid = to_regclass(given.name) "
    "LEFT JOIN pg_catalog.pg_class AS t ON t.oid = c.reltoastrelid"
)


def _value(name: str, found: Mapping[str, Sequence[list[str] | None]]) -> str | None:
    relation, parameter = split(name)
    own, toast = found.get(relation, (None, None))
    if parameter.startswith(_TOAST):
        return by_name(toast).get(parameter.removeprefix(_TOAST))
    return by_name(own).get(parameter)
