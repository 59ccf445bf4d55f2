"""Plans of statements under trial settings: in one read-only session, never executed.

EXPLAIN without ANALYZE plans and stops. Statements come from pg_stat_statements, where constants
are parameters: since 16 they are explained as generic plans; before 16 they are prepared and
explained with NULLs under plan_cache_mode = force_generic_plan, which ignores the values too.
Planning itself does happen: it calls functions labelled IMMUTABLE or STABLE, which are other
people's code, in a read-only transaction. Where nobody at a terminal answers for them, the session
must have no power to lend: a superuser's COPY TO PROGRAM runs there, and SET ROLE is no limit,
since a function may RESET it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from mrtuner.errors import MissingPart, Refused
from mrtuner.postgres.connect import ended_session, translated, use_role_search_path
from mrtuner.postgres.missing_grants import grant, refused
from mrtuner.postgres.named_queries import extension_schema, with_schema
from mrtuner.postgres.sql import query

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection

#: From this version on, a statement with parameters can be explained directly.
_GENERIC: Final = 160000
#: Planning takes milliseconds; a plan that takes this long is of no use here [ms].
_PATIENCE: Final = 5000
#: We do not wait for another session's ALTER TABLE, so nothing queues behind us [ms].
_LOCK_PATIENCE: Final = 500
#: Roles that this session has, or can SET, and that reach beyond the database.
_POWERS: Final = """SELECT FROM pg_catalog.pg_roles
    WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER')
      AND (rolsuper OR rolname IN ('pg_execute_server_program', 'pg_read_server_files',
                                   'pg_write_server_files'))"""
_NAME: Final = "mrtuner_explained"
#: How pg_stat_statements, from 18 on, writes that a list was longer: IN ($1 /*, ... */).
LONGER: Final = "/*, ... */"
#: pg_stat_statements writes constants as parameters; the client's own keep their numbers.
_PARAMETER: Final = re.compile(r"\$[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement from pg_stat_statements, in which the server has replaced the constants."""

    id: int
    text: str
    role: str | None  # None: dropped since
    calls: int
    seconds: float  # execution time of all calls together
    rows: int | None = None  # returned or changed by all calls together; None: unknown


@dataclass(frozen=True, slots=True)
class Explained:
    """A plan as the server describes it: the root of EXPLAIN (FORMAT JSON)."""

    root: Mapping[str, Any]

    @property
    def cost(self) -> float:
        """The plan's cost, in units of the cost settings it was made under."""
        return float(self.root["Total Cost"])


class CannotExplain(Exception):
    """The server would not plan this statement; carries its reason, verbatim."""


def top_statements(conn: Connection, number: int) -> tuple[Statement, ...]:
    """Return the most time-consuming statements of this database, in descending order.

    Raises MissingPart if pg_stat_statements is missing, not loaded or not visible to the role.
    """
    from psycopg import errors
    from psycopg.rows import dict_row

    with translated(), conn.transaction():
        if extension_schema(conn) is None:
            raise MissingPart(
                f"pg_stat_statements is not installed in the database {conn.info.dbname}",
                "Add it to shared_preload_libraries, restart, run CREATE EXTENSION "
                "pg_stat_statements here, and give the server time to work.",
            )
        with conn.cursor(row_factory=dict_row) as cursor:
            text = with_schema(conn, query("statements_top", conn.info.server_version))
            try:
                rows = cursor.execute(text, (number,)).fetchall()
            except errors.ObjectNotInPrerequisiteState:
                raise MissingPart(
                    "pg_stat_statements is installed but not loaded",
                    "Add it to shared_preload_libraries and restart the server.",
                ) from None
            except errors.InsufficientPrivilege as error:
                usual = "GRANT pg_read_all_stats TO the role, or connect as a superuser."
                raise MissingPart(
                    "this role may not read pg_stat_statements", grant(error, usual)
                ) from None
    return tuple(Statement(**row) for row in rows)


@contextmanager
def explaining(conn: Connection, *, trusted: bool = False) -> Iterator[Explainer]:
    """Open a read-only transaction for making plans; nothing of it remains.

    Raises Refused in a session that could reach beyond the database, unless its functions are
    `trusted`.
    """
    with translated():
        if not trusted and conn.execute(_POWERS).fetchall():
            raise Refused(
                f"the role {conn.info.user} could run programs on the server's host or access its "
                "files, and so could functions of others, which planning calls",
                "Connect as a role that is no superuser, with pg_monitor and membership in the "
                "roles whose statements it explains: GRANT pg_monitor, app TO watcher.",
            )
        conn.execute("BEGIN READ ONLY")
        try:
            conn.execute(f"SET LOCAL statement_timeout = {_PATIENCE}")
            conn.execute(f"SET LOCAL lock_timeout = {_LOCK_PATIENCE}")
            use_role_search_path(conn)
            yield Explainer(conn)
        finally:
            if not conn.closed:
                conn.execute("ROLLBACK")


@dataclass(slots=True)
class Explainer:
    """Makes plans in its own transaction."""

    conn: Connection
    _prepared: str | None = field(default=None)  # the text prepared under _NAME

    def plan(self, statement: Statement, settings: Mapping[str, str]) -> Explained:
        """Plan a statement under these settings (configuration text, by name) plus the session's.

        Settings and locks are released immediately. Raises CannotExplain with the server's reason.
        """
        return Explained(_root(self._explained(statement.text, "JSON", settings)))

    def text(self, statement: str) -> tuple[str, ...]:
        """Return the lines in which the server tells its plan; CannotExplain as `plan` does."""
        return tuple(str(line) for (line,) in self._explained(statement, "TEXT", {}))

    def _explained(
        self, text: str, form: Literal["JSON", "TEXT"], settings: Mapping[str, str]
    ) -> list[tuple[Any, ...]]:
        import psycopg

        _refuse_several(text)
        self.conn.execute("SAVEPOINT explained")
        try:
            for name, value in settings.items():
                self.conn.execute("SELECT pg_catalog.set_config(%s, %s, true)", (name, value))
            return self.conn.execute(self._command(text, form).encode()).fetchall()
        except psycopg.Error as error:
            if ended_session(error):
                raise
            raise CannotExplain(refused(error)) from None
        finally:
            if not self.conn.closed:
                self.conn.execute("ROLLBACK TO SAVEPOINT explained")

    def in_force(self, names: list[str]) -> dict[str, str]:
        """Return these settings of the session, in the format of SHOW, without unknown ones."""
        rows = self.conn.execute(
            "SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.pg_settings"
            " WHERE name = ANY(%s)"
            " AND context IN ('user', 'superuser')",
            (names,),
        ).fetchall()
        return dict(rows)

    def _command(self, text: str, form: str) -> str:
        if self.conn.info.server_version >= _GENERIC:
            return f"EXPLAIN (FORMAT {form}, GENERIC_PLAN) {text}"
        if not _PARAMETER.search(text):
            return f"EXPLAIN (FORMAT {form}) {text}"
        return f"EXPLAIN (FORMAT {form}) EXECUTE {self._prepare(text)}"

    def _prepare(self, text: str) -> str:
        """Prepare the statement (it survives a rollback); return its call with NULL parameters."""
        self.conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        if self._prepared is not None:
            self.conn.execute(f"DEALLOCATE {_NAME}")
            self._prepared = None
        self.conn.execute(f"PREPARE {_NAME} AS {text}".encode())
        self._prepared = text
        row = self.conn.execute(
            "SELECT pg_catalog.cardinality(parameter_types)"
            " FROM pg_catalog.pg_prepared_statements WHERE name = %s",
            (_NAME,),
        ).fetchone()
        values = ", ".join(["NULL"] * (row[0] if row else 0))
        return f"{_NAME}({values})" if values else _NAME


def _root(rows: list[tuple[Any, ...]]) -> Mapping[str, Any]:
    told = rows[0][0] if rows else None
    if not isinstance(told, list) or "Plan" not in told[0]:
        raise CannotExplain("the server returned no plan for it")
    root: Mapping[str, Any] = told[0]["Plan"]
    return root


def _refuse_several(text: str) -> None:
    """Refuse several statements: whatever follows a semicolon would be run, not explained."""
    if ";" in text.rstrip().rstrip(";"):
        raise CannotExplain("its text contains a semicolon, so it could be several statements")
