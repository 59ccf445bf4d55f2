"""A moment: the sessions that were sampled in it. A click on a chart leads here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mrtuner.history.analysis import AT_WORK, IN_PERIOD, WAIT_EVENT
from mrtuner.history.series import Kind, Measure
from mrtuner.web.screens.screen import Chart, Screen, Table, View

_MOST: Final = 500
_COLUMNS: Final = (
    ("time", "Time (UTC)", "time"),
    ("pid", "Process", "text"),
    ("wait", "Waits for", "text"),
    ("state", "State", "text"),
    ("query_id", "Statement", "statement"),
    ("text", "Text", "sql"),
    ("statement_seconds", "Age of the statement", "s"),
    ("transaction_seconds", "Age of the transaction", "s"),
    ("blocked_by", "Blocked by processes", "text"),
    ("database", "Database", "text"),
    ("role", "Role", "text"),
    ("application", "Application", "text"),
    ("backend_type", "Kind of process", "text"),
)


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    chart = Chart(
        name="load", title="Sessions at work", unit="sessions", stacked=True,
        series=view.split("sessions", Measure(Kind.NUMBER), WAIT_EVENT, where=AT_WORK),
    )  # fmt: skip
    rows = view.history.rows(
        f"""SELECT s.time, s.pid::VARCHAR AS pid, s.state, s.query_id::VARCHAR AS query_id, t.text,
                   {WAIT_EVENT} AS wait,
                   s.statement_seconds, s.transaction_seconds, s.blocked_by, s.database, s.role,
                   s.application, s.backend_type
            FROM sessions AS s LEFT JOIN statement_texts AS t ON t.query_id = s.query_id
            WHERE {IN_PERIOD}
            ORDER BY s.time, s.pid LIMIT {_MOST}""",
        view.about.parameters, inside=True,
    ) if view.has("sessions") else ()  # fmt: skip
    missing = "nobody was at work, or sessions of that time are kept as a summary only"
    return [chart], [
        Table(name="sessions", title="Sessions as sampled", columns=_COLUMNS, rows=rows,
              missing=missing)
    ]  # fmt: skip


SCREEN: Final = Screen(
    name="moment",
    title="Sessions",
    help="Which sessions were at work at a moment, and what each waited for",
    sources=("sessions",),
    build=_build,
)
