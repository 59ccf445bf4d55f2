"""The sessions that were sampled at a moment. A click on a chart leads here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from mrtuner.history.analysis.active_sessions import WAIT_EVENT, beats_by_minute, busiest_minute
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod
from mrtuner.history.analysis.series import Kind, Measure
from mrtuner.history.store.summaries import AT_WORK
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


#: For a longer period [s], the sessions of its busiest minute are listed.
_LONGEST: Final = 120.0
_SUMMARY: Final = (
    ("sessions", "Average sessions", "sessions"),
    ("wait", "Wait event", "text"),
    ("state", "State", "text"),
    ("query_id", "Statement", "statement"),
    ("text", "Text", "sql"),
    ("database", "Database", "text"),
    ("role", "Role", "text"),
    ("backend_type", "Kind of process", "text"),
)


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    chart = Chart(
        name="load", title="Active sessions", unit="sessions", stacked=True,
        series=view.split("sessions", Measure(Kind.NUMBER), WAIT_EVENT, where=AT_WORK),
    )  # fmt: skip
    about, title = _shown(view)
    rows = _sampled(view, about)
    if rows:
        return [chart], [Table(name="sessions", title=title, columns=_COLUMNS, rows=rows)]
    # Sampled rows are kept for a shorter time than the summary of each minute.
    return [chart], [
        Table(
            name="sessions", title=f"{title}, summed up by minute", columns=_SUMMARY,
            rows=_summed(view, about), missing="no session was active",
        )
    ]  # fmt: skip


def _shown(view: View) -> tuple[HistoryPeriod, str]:
    """Return the period whose sessions are listed, and the title of their table."""
    if view.about.seconds <= _LONGEST or not view.has("sessions"):
        return view.about, "Sessions as sampled"
    busiest = busiest_minute(view.history, view.about)
    if busiest is None:
        return view.about, "Sessions as sampled"
    at, _ = busiest
    minute = replace(view.about, begin=at, end=at + timedelta(minutes=1))
    return minute, f"Sessions of the busiest minute, {at:%Y-%m-%d %H:%M} UTC"


def _sampled(view: View, about: HistoryPeriod) -> Sequence[dict[str, Any]]:
    if not view.has("sessions"):
        return ()
    return view.history.rows(
        f"""SELECT s.time, s.pid::VARCHAR AS pid, s.state, s.query_id::VARCHAR AS query_id, t.text,
                   {WAIT_EVENT} AS wait,
                   s.statement_seconds, s.transaction_seconds, s.blocked_by, s.database, s.role,
                   s.application, s.backend_type
            FROM sessions AS s LEFT JOIN statement_texts AS t ON t.query_id = s.query_id
            WHERE {IN_PERIOD}
            ORDER BY s.time, s.pid LIMIT {_MOST}""",
        about.parameters, inside=True,
    )  # fmt: skip


def _summed(view: View, about: HistoryPeriod) -> Sequence[dict[str, Any]]:
    """Return the active sessions of whole minutes, on average over the samples."""
    if not view.has("sessions"):
        return ()
    whole = replace(about, begin=about.begin.replace(second=0, microsecond=0))
    beats = sum(beats_by_minute(view.history, whole).values())
    if not beats:
        return ()
    return view.history.rows(
        f"""SELECT sum(s.samples) / {int(beats)} AS sessions, {WAIT_EVENT} AS wait, s.state,
                   s.query_id::VARCHAR AS query_id, any_value(t.text) AS text, s.database, s.role,
                   s.backend_type
            FROM sessions_by_minute AS s LEFT JOIN statement_texts AS t ON t.query_id = s.query_id
            WHERE {IN_PERIOD}
            GROUP BY s.wait_type, s.wait_event, s.state, s.query_id, s.database, s.role,
                     s.backend_type
            ORDER BY 1 DESC, 2, 4 LIMIT {_MOST}""",
        whole.parameters, inside=True,
    )  # fmt: skip


SCREEN: Final = Screen(
    name="moment",
    title="Sessions",
    help="Which sessions were active at a moment, and what each waited for",
    sources=("sessions",),
    build=_build,
)
