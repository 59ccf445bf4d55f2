"""Runs queries by name, and keeps what could not be read as a Missing with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from mrtuner.facts import Missing
from mrtuner.postgres.connect import codec, ended_session
from mrtuner.postgres.missing_grants import not_read
from mrtuner.postgres.sql import OLDEST, query

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

Row = dict[str, Any]

#: As in the scripts of an extension.
_EXTENSION_SCHEMA: Final = b"@extschema@"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTimeouts:
    """How long one query may take, and wait for a lock such as another session's ALTER TABLE."""

    statement: str = "30s"
    lock: str = "2s"


USUAL: Final = QueryTimeouts()


@dataclass(slots=True)
class Reader:
    """Runs queries by name and records what could not be read."""

    conn: Connection
    version_num: int
    patience: QueryTimeouts = USUAL
    missing: list[Missing] = field(default_factory=list)

    def rows(self, name: str, values: Sequence[object] | None = None) -> list[Row]:
        """Return all rows of a query that every role may run."""
        return rows_of(self.conn, name, self.version_num, values)

    def row(self, name: str) -> Row:
        """Return the only row of such a query."""
        return self.rows(name)[0]

    def rows_if_allowed(
        self, name: str, fact: str, hint: str | None = None, *,
        values: Sequence[object] | None = None,
    ) -> list[Row]:  # fmt: skip
        """Return the rows, or none plus a Missing `fact` if the role, a lock or the server forbids.

        One fact that cannot be read does not lose the others: only a session that ended raises.
        """
        import psycopg

        try:
            with self.conn.transaction():
                self.conn.execute(
                    "SELECT set_config('lock_timeout', %s, true), "
                    "set_config('statement_timeout', %s, true)",
                    [self.patience.lock, self.patience.statement],
                )
                return self.rows(name, values)
        except psycopg.Error as error:
            if ended_session(error):
                raise
            self.missing.append(not_read(fact, error, hint))
        return []

    def lacks(self, fact: str, why: str, hint: str | None = None) -> None:
        """Record that a fact could not be read, and why."""
        self.missing.append(Missing(fact, why, hint=hint))


def rows_of(
    conn: Connection, name: str, version_num: int, values: Sequence[object] | None = None
) -> list[Row]:
    """Return all rows of a query by its name, as dictionaries."""
    from psycopg.rows import dict_row

    text = with_schema(conn, query(name, version_num))
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(text, values).fetchall()


def with_schema(conn: Connection, text: bytes) -> bytes:
    """Return a query with the schema of pg_stat_statements in place of @extschema@.

    In search_path, that schema would bring functions of others along. Without the extension, the
    server refuses the query.
    """
    if _EXTENSION_SCHEMA not in text:
        return text
    schema = extension_schema(conn) or "pg_catalog"
    if b"%s" in text:  # psycopg reads every % of it
        schema = schema.replace("%", "%%")
    return text.replace(_EXTENSION_SCHEMA, schema.encode(codec(conn), "replace"))


def extension_schema(conn: Connection) -> str | None:
    """Return the schema of pg_stat_statements, quoted; None where it is not installed."""
    found = conn.execute(query("extension_schema", OLDEST)).fetchone()
    return None if found is None else str(found[0])
