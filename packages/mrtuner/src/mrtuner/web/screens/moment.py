"""The sessions of a moment, the largest group first. A click on a chart leads here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from mrtuner.history.analysis.active_sessions import (
    WAIT_EVENT,
    beats_by_minute,
    busiest_minute,
    session_statement,
)
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, minute_of
from mrtuner.history.analysis.series import Kind, Measure
from mrtuner.history.store.summaries import AT_WORK
from mrtuner.web.screens.blocking import blocking
from mrtuner.web.screens.screen import NOT_RECORDED, Chart, Screen, Table, View

_MOST: Final = 500
_COLUMNS: Final = (
    ("time", "Time (UTC)", "time"),
    ("pid", "Process", "process"),
    ("application", "Application", "text"),
    ("wait", "Waits for", "text"),
    ("text", "Text", "sql"),
    ("state", "State", "text"),
    ("statement_seconds", "Age of the statement", "s"),
    ("transaction_seconds", "Age of the transaction", "s"),
    ("blocked_by", "Blocked by processes", "text"),
    ("role", "Role", "text"),
    ("database", "Database", "text"),
    ("backend_type", "Kind of process", "text"),
    ("query_id", "Statement", "statement"),
)
_GROUPS: Final = (
    ("sessions", "Average sessions", "sessions"),
    ("text", "Text", "sql"),
    ("application", "Application", "text"),
    ("wait", "Mostly waits for", "text"),
    ("state", "State", "text"),
    ("processes", "Processes", "integer"),
    ("pid", "One of them", "process"),
    ("statement_seconds", "Oldest statement", "s"),
    ("transaction_seconds", "Oldest transaction", "s"),
    ("role", "Role", "text"),
    ("database", "Database", "text"),
    ("query_id", "Statement", "statement"),
)
_BACKGROUND_COLUMNS: Final = (
    ("sessions", "Average number", "sessions"),
    ("backend_type", "Kind of process", "text"),
    ("wait", "Mostly waits for", "text"),
)
#: What a session waits for; one that is idle needs no CPU.
_WAIT: Final = f"CASE WHEN state NOT LIKE 'idle%' OR wait_type IS NOT NULL THEN {WAIT_EVENT} END"
#: SQL condition for a process of the server's own, which runs nobody's statement. A role that may
#: not see what others do sees no kind of process: it may be anybody's.
_BACKGROUND: Final = (
    "(backend_type IS NOT NULL AND state IS NULL OR "
    "coalesce(backend_type, '') IN ('autovacuum worker', 'walsender'))"
)
#: For a longer period [s], the sessions of its busiest minute are listed.
_LONGEST: Final = 120.0
_SUMMARY: Final = (
    ("sessions", "Average sessions", "sessions"),
    ("text", "Text", "sql"),
    ("wait", "Wait event", "text"),
    ("state", "State", "text"),
    ("database", "Database", "text"),
    ("role", "Role", "text"),
    ("backend_type", "Kind of process", "text"),
    ("query_id", "Statement", "statement"),
)


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    chart = Chart(
        name="load", title="Active sessions", unit="sessions", stacked=True,
        series=view.split("sessions", Measure(Kind.NUMBER), WAIT_EVENT, where=AT_WORK),
    )  # fmt: skip
    about, title = _shown(view)
    rows = _sampled(view, about)
    if view.process is not None:
        return [chart], [
            Table(
                name="sessions", title=_each(f"Process {view.process}", rows), columns=_COLUMNS,
                rows=rows,
                missing=view.unless_gone(f"process {view.process} is in no sample of this period"),
            )
        ]  # fmt: skip
    if rows:
        return [chart], _tables(view, about, title, rows)
    # Sampled rows are kept for a shorter time than the summary of each minute.
    whole = replace(about, begin=minute_of(about.begin))
    beats = sum(beats_by_minute(view.history, whole).values()) if view.has("sessions") else 0
    return [chart], [
        Table(
            name="sessions", title=f"{title}, summed up by minute", columns=_SUMMARY,
            rows=_summed(view, whole, beats) if beats else (),
            missing="no session was active" if beats else NOT_RECORDED,
        )
    ]  # fmt: skip


def _tables(
    view: View, about: HistoryPeriod, title: str, rows: Sequence[dict[str, Any]]
) -> Sequence[Table]:
    """Return the sessions by statement and application, who blocks whom, and each sample."""
    text = session_statement(view.history)
    tables = [
        Table(
            name="groups", title=f"{title}, by statement and application", columns=_GROUPS,
            rows=_grouped(view, about, f"NOT {_BACKGROUND}", f"s.query_id, {text}, s.application"),
            missing="no session of a client was at work",
        ),
        blocking(view.history, about.parameters),
        Table(name="sessions", title=_each(title, rows), columns=_COLUMNS, rows=rows),
        Table(
            name="background", title="Background processes", columns=_BACKGROUND_COLUMNS,
            rows=_grouped(view, about, _BACKGROUND, "s.backend_type"),
        ),
    ]  # fmt: skip
    return [one for one in tables if one.rows or one.name == "groups"]


def _each(title: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return the title of a table with each sample, which says how many it leaves out."""
    of_all = rows[0]["of_all"] if rows else 0
    left_out = f": the first {len(rows):,} of {of_all:,}" if of_all > len(rows) else ""
    return f"{title}, each sample{left_out}"


def _grouped(view: View, about: HistoryPeriod, where: str, by: str) -> Sequence[dict[str, Any]]:
    """Return groups of sessions with their number on average over the samples, largest first."""
    return view.history.rows(
        f"""SELECT count(*) / any_value(b.beats) AS sessions,
                   any_value({session_statement(view.history)}) AS text,
                   any_value(s.application) AS application,
                   any_value(s.backend_type) AS backend_type, mode({_WAIT}) AS wait,
                   mode(s.state) AS state, count(DISTINCT s.pid) AS processes,
                   max_by(s.pid, coalesce(s.transaction_seconds, 0))::VARCHAR AS pid,
                   max(s.statement_seconds) AS statement_seconds,
                   max(s.transaction_seconds) AS transaction_seconds,
                   any_value(s.role) AS role, any_value(s.database) AS database,
                   any_value(s.query_id)::VARCHAR AS query_id
            FROM sessions AS s LEFT JOIN statement_texts AS t ON t.query_id = s.query_id
            CROSS JOIN (SELECT count(*) AS beats FROM samples
                        WHERE {IN_PERIOD} AND source = 'sessions') AS b
            WHERE s.instance = $instance AND s.time >= $begin AND s.time < $end AND {where}
            GROUP BY {by} ORDER BY 1 DESC, 2, 3 LIMIT {_MOST}""",
        about.parameters, inside=True,
    )  # fmt: skip


def _shown(view: View) -> tuple[HistoryPeriod, str]:
    """Return the period whose sessions are listed, and the title of their table.

    That is the whole period for one process: it has a row in each sample, not as many as all.
    """
    if view.process is not None:
        return view.about, "Sessions"
    if view.about.seconds <= _LONGEST or not view.has("sessions"):
        return view.about, "Sessions"
    busiest = busiest_minute(view.history, view.about)
    if busiest is None:
        return view.about, "Sessions"
    at, _ = busiest
    minute = replace(view.about, begin=at, end=at + timedelta(minutes=1))
    return minute, f"Sessions of the busiest minute, {at:%Y-%m-%d %H:%M} UTC"


def _sampled(view: View, about: HistoryPeriod) -> Sequence[dict[str, Any]]:
    if not view.has("sessions"):
        return ()
    process = "" if view.process is None else f" AND s.pid = {int(view.process)}"
    return view.history.rows(
        f"""SELECT s.time, s.pid::VARCHAR AS pid, s.state, s.query_id::VARCHAR AS query_id,
                   {session_statement(view.history)} AS text, {_WAIT} AS wait,
                   s.statement_seconds, s.transaction_seconds, s.blocked_by, s.database, s.role,
                   s.application, s.backend_type, count(*) OVER () AS of_all
            FROM sessions AS s LEFT JOIN statement_texts AS t ON t.query_id = s.query_id
            WHERE {IN_PERIOD}{process}
            ORDER BY {_BACKGROUND}, s.time, s.pid LIMIT {_MOST}""",
        about.parameters, inside=True,
    )  # fmt: skip


def _summed(view: View, whole: HistoryPeriod, beats: int) -> Sequence[dict[str, Any]]:
    """Return the active sessions of whole minutes, on average over so many samples."""
    return view.history.rows(
        f"""SELECT sum(s.samples) / {int(beats)} AS sessions, {WAIT_EVENT} AS wait, s.state,
                   s.query_id::VARCHAR AS query_id, any_value(t.text) AS text, s.database, s.role,
                   s.backend_type
            FROM sessions_by_minute AS s LEFT JOIN statement_texts AS t ON t.query_id = s.query_id
            WHERE {IN_PERIOD}
            GROUP BY s.wait_type, s.wait_event, s.state, s.query_id, s.database, s.role,
                     s.backend_type
            ORDER BY {_BACKGROUND}, 1 DESC, 2, 4 LIMIT {_MOST}""",
        whole.parameters, inside=True,
    )  # fmt: skip


SCREEN: Final = Screen(
    name="moment",
    title="Sessions",
    help="Which sessions were active at a moment, and what each waited for",
    sources=("sessions",),
    build=_build,
)
