"""The plan of a recorded statement, when somebody asks for it: EXPLAIN, never ANALYZE."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mrtuner.errors import BadValue, MrTunerError, UsageError
from mrtuner.history.analysis.statements import recorded_text
from mrtuner.history.reading import History
from mrtuner.web.answers import statement_of
from mrtuner.web.period import period_of

if TYPE_CHECKING:
    from mrtuner.web.document import PlanAnswer


def plan_answer(
    history: History, servers: Mapping[str, str], given: Mapping[str, str]
) -> PlanAnswer:
    """Let the server of an instance plan a statement whose text was recorded.

    `servers` are connection strings by instance. Constants are unknown, so that it is the generic
    plan: the one for any values.

    Raises:
        UsageError: there is no such instance, or no connection string of it.
        BadValue: the statement did not run in the period that the address names.
        MrTunerError: the server would not plan it, or cannot be reached.
    """
    from psycopg.conninfo import make_conninfo

    from mrtuner.postgres.connect import connect
    from mrtuner.postgres.explain import CannotExplain, explaining
    from mrtuner.web import document

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
    with connect(make_conninfo(servers[about.instance], dbname=database)) as conn:
        try:
            with explaining(conn) as explainer:
                lines = explainer.text(text)
        except CannotExplain as why:
            raise MrTunerError(
                f"PostgreSQL would not plan it: {why}",
                "The role must be allowed to read its tables; a table without a schema must be in "
                "the role's search path.",
            ) from None
    return document.PlanAnswer(
        instance=about.instance, database=database, statement=str(statement), at=time.time(),
        lines=lines,
    )  # fmt: skip
