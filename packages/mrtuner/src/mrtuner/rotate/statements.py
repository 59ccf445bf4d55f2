"""SQL statements about roles: quoting, rows, and errors for missing permissions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mrtuner.errors import MissingPart, Refused
from mrtuner.escape import damaged
from mrtuner.postgres.connect import translated

if TYPE_CHECKING:
    from psycopg.sql import Composable

    from mrtuner.postgres.connect import Connection


def rows(conn: Connection, query: Any, values: Any = None) -> list[tuple[Any, ...]]:
    """Return a query's rows. ConnectError when the server refuses it."""
    with translated():
        return conn.execute(query, values).fetchall()


def run(conn: Connection, statement: Any, *parts: Composable) -> None:
    """Run a statement with identifiers and strings filled in."""
    from psycopg.sql import SQL

    conn.execute(SQL(statement).format(*parts))


def name(text: str) -> Composable:
    """Return an identifier; a custom setting's two parts are one identifier.

    Refused for a name that was not read whole: another may be shown in the same way.
    """
    from psycopg.sql import Identifier

    if damaged(text):
        raise Refused(f"the name {text} holds what is no text here", "Rename it, then run again.")
    return Identifier(text)


def text(value: str) -> Composable:
    from psycopg.sql import Literal

    return Literal(value)


@contextmanager
def permitted() -> Iterator[None]:
    """Raise a missing permission as MissingPart, and other errors as `translated` does."""
    from psycopg.errors import InsufficientPrivilege

    with translated():
        try:
            yield
        except InsufficientPrivilege as error:
            reason, detail = error.diag.message_primary, error.diag.message_detail
            raise MissingPart(
                f"not permitted: {reason}" + (f" ({detail.rstrip('.')})" if detail else ""),
                "Connect as a superuser, or as a role with CREATEROLE and ADMIN OPTION on the "
                "group (on Amazon RDS, the master user).",
            ) from None
