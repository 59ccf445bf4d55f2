"""The table that probes write to: created first, counted and dropped at the end.

It is in a schema of its own with a unique name. The user's event triggers run when it is made and
dropped, so sessions keep the role's search_path. Its rows have no primary key, so that a write
which arrives twice is seen, not refused.
"""

from __future__ import annotations

import secrets
from itertools import count
from typing import Any, Final, LiteralString

from mrtuner.errors import ConnectError
from mrtuner.postgres.connect import connect, translated
from mrtuner.rehearsal.observation import WriteLedger, balanced

SCHEMA_PREFIX: Final = "mrtuner_probe_"


class LedgerTable:
    """One ledger: its table, the numbers sent to it, and those that were acknowledged."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.schema = SCHEMA_PREFIX + secrets.token_hex(4)
        self.sent = 0
        self._numbers = count(1)
        self._acknowledged: set[int] = set()
        self.made = False  # and not dropped

    def make(self) -> None:
        """Create the schema. ConnectError if that is not allowed."""
        with connect(self.dsn, through_pooler=True, own_search_path=True) as conn, translated():
            conn.execute(self.named("CREATE SCHEMA {schema} CREATE TABLE ledger (id int NOT NULL)"))
            self.made = True

    def number(self) -> int:
        return next(self._numbers)

    def acknowledge(self, number: int) -> None:
        """Record that the server reported this write as committed."""
        self._acknowledged.add(number)

    def close(self) -> tuple[WriteLedger | None, str | None]:
        """Return the count, if it could be taken, and the schema's name if it still exists."""
        ledger = None
        try:
            ledger = self._counted() if self.made else None
            self.drop()
        except ConnectError:
            return ledger, self.schema
        return ledger, None

    def _counted(self) -> WriteLedger:
        with connect(self.dsn, through_pooler=True, own_search_path=True) as conn, translated():
            rows = conn.execute(self.named("SELECT id FROM {table}")).fetchall()
        return balanced(self.sent, self._acknowledged, [row[0] for row in rows])

    def drop(self) -> None:
        if not self.made:
            return
        with connect(self.dsn, through_pooler=True, own_search_path=True) as conn, translated():
            conn.execute(self.named("DROP SCHEMA IF EXISTS {schema} CASCADE"))
        self.made = False

    def named(self, statement: LiteralString) -> Any:
        """Compose a statement on {schema} or {table}."""
        from psycopg.sql import SQL, Identifier

        return SQL(statement).format(
            schema=Identifier(self.schema), table=Identifier(self.schema, "ledger")
        )
