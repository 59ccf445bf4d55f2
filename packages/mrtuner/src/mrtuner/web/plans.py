"""The plan of a recorded statement, when somebody asks for it: EXPLAIN, never ANALYZE."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mrtuner.errors import BadValue, MrTunerError, UsageError
from mrtuner.history.analysis.statements import recorded_text
from mrtuner.history.reading import History
from mrtuner.web.answers import statement_of
from mrtuner.web.period import period_of

if TYPE_CHECKING:
    from mrtuner.web.document import PlanAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A recorded statement, and the database whose server is asked for its plan."""

    instance: str
    dsn: str = field(repr=False)
    database: str
    statement: int
    text: str


def asked_statement(
    history: History, servers: Mapping[str, str], given: Mapping[str, str]
) -> Asked:
    """Return the statement that an address names; `servers` are connection strings by instance.

    Raises:
        UsageError: there is no such instance, or no connection string of it.
        BadValue: the statement did not run in the period that the address names.
    """
    about, statement = period_of(history, given), statement_of(given) or 0
    if about.instance not in servers:
        raise UsageError(
            f"no connection string of {about.instance} is known",
            "Name it in a file: mrtuner serve --config FILE.",
        )
    recorded = recorded_text(history, about, statement)
    if recorded is None:
        raise BadValue(
            f"the text of statement {statement} was not recorded in this period",
            "Top SQL lists the statements.",
        )
    text, database = recorded
    return Asked(
        instance=about.instance, dsn=servers[about.instance], database=database,
        statement=statement, text=text,
    )  # fmt: skip


def plan_answer(asked: Asked) -> PlanAnswer:
    """Let the server of an instance plan a statement whose text was recorded.

    Constants are unknown, so that it is the generic plan: the one for any values.

    Raises:
        MrTunerError: the server would not plan it, or cannot be reached.
    """
    from psycopg.conninfo import make_conninfo

    from mrtuner.postgres.connect import connect
    from mrtuner.postgres.explain import CannotExplain, explaining
    from mrtuner.web import document

    with connect(make_conninfo(asked.dsn, dbname=asked.database)) as conn:
        try:
            with explaining(conn) as explainer:
                lines = explainer.text(asked.text)
        except CannotExplain as why:
            raise MrTunerError(
                f"PostgreSQL would not plan it: {why}",
                "The role must be allowed to read its tables; a table without a schema must be in "
                "the role's search path.",
            ) from None
    return document.PlanAnswer(
        instance=asked.instance, database=asked.database, statement=str(asked.statement),
        at=time.time(), lines=lines,
    )  # fmt: skip
