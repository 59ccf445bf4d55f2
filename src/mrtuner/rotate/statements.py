"""Statements about roles: quoting, rows, and what a missing permission is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mrtuner.errors import MissingPart
from mrtuner.postgres.connect import translated

if TYPE_CHECKING:
    from psycopg.sql import Composable

    from mrtuner.postgres.connect import Connection


def rows(conn: Connection, query: Any, values: Any = None) -> list[tuple[Any, ...]]:
    """What a query gives. ConnectError when the server refuses it."""
    with translated():
        return conn.execute(query, values).fetchall()


def run(conn: Connection, statement: Any, *parts: Composable) -> None:
    """Run a statement with names and texts in its places."""
    from psycopg.sql import SQL

    conn.execute(SQL(statement).format(*parts))


def name(text: str) -> Composable:
    """An identifier; a customised setting's two parts are one of them."""
    from psycopg.sql import Identifier

    return Identifier(text)


def text(value: str) -> Composable:
    """A string."""
    from psycopg.sql import Literal

    return Literal(value)


@contextmanager
def permitted() -> Iterator[None]:
    """A missing permission as MissingPart, everything else as `translated` has it."""
    from psycopg.errors import InsufficientPrivilege

    with translated():
        try:
            yield
        except InsufficientPrivilege as error:
            reason, detail = error.diag.message_primary, error.diag.message_detail
            raise MissingPart(
                f"not permitted: {reason}" + (f" ({detail.rstrip('.')})" if detail else ""),
                "Connect as a role with CREATEROLE and ADMIN OPTION on the group "
                "(Amazon RDS: the master user; or a superuser).",
            ) from None
