"""Connections, who blocks whom, and what the log says went wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mrtuner.history.analysis.active_sessions import session_statement
from mrtuner.history.analysis.period import IN_PERIOD
from mrtuner.history.analysis.series import Kind, Measure, rate
from mrtuner.history.recording.log.errors import SEVERITIES
from mrtuner.web.screens.blocking import NOBODY, blocking
from mrtuner.web.screens.screen import DATABASE, Chart, Screen, Table, View, highest

_MOST: Final = 200
_OLDEST: Final = (
    ("time", "Last seen", "time"),
    ("pid", "Process", "process"),
    ("application", "Application", "text"),
    ("state", "State", "text"),
    ("transaction_seconds", "Age of the transaction", "s"),
    ("text", "Text", "sql"),
    ("role", "Role", "text"),
    ("query_id", "Statement", "statement"),
)
_KINDS: Final = {
    "deadlocks": "deadlocks", "cancelled statements": "cancelled",
    "sessions refused, too many": "refused",
}  # fmt: skip
_SINCE: Final = "PostgreSQL counts this since version 14"
_NO_LOG: Final = "the recorder does not run on the server's machine, or may not read its log"
_PER_MINUTE: Final = 60.0
_SECOND: Final = 0.001  # from ms


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    maximum = view.lines("connections", {"maximum": Measure(Kind.HIGHEST, "maximum")})
    most = highest(maximum)
    gauges = ("active", "idle", "idle_in_transaction", "waiting")
    states = {name.replace("_", " "): Measure(Kind.HIGHEST, name) for name in gauges}
    charts = [
        Chart(
            name="connections", title="Sessions of clients", unit="sessions",
            help="The highest number in each step. Waiting: for a lock.",
            series=view.lines("connections", {"all": Measure(Kind.HIGHEST, "clients")} | states),
            limits=[(f"max_connections {most:.0f}", most)] if most else [],
        ),
        Chart(
            name="transaction", title="Oldest transaction", unit="s",
            help="While it is open, vacuum removes no row that died after it began.",
            series=view.lines("connections", {
                "age": Measure(Kind.HIGHEST, "oldest_transaction"),
            }),
        ),
        Chart(
            name="churn", title="Sessions begun", unit="/min", stacked=True,
            missing=view.unless_unrecorded(_SINCE),
            series=view.split("databases", rate("sessions", scale=_PER_MINUTE), DATABASE),
        ),
        Chart(
            name="time", title="How sessions spent their time", unit="sessions", stacked=True,
            missing=view.unless_unrecorded(_SINCE),
            help="The rest of the time of all sessions was spent idle. Counted "
                 "when a statement or transaction ends.",
            series=view.lines("databases", {
                "running statements": rate("active_ms", scale=_SECOND),
                "idle in a transaction": rate("idle_in_transaction_ms", scale=_SECOND),
            }),
        ),
        Chart(
            name="transactions", title="Transactions", unit="/s", stacked=True,
            series=view.lines("databases", {
                "committed": rate("commits"), "rolled back": rate("rollbacks"),
            }),
        ),
        Chart(
            name="log", title="Errors in the log, by severity", unit="/min", stacked=True,
            missing=view.unless_unrecorded(_NO_LOG),
            series=view.lines("log_errors", _per_minute(SEVERITIES)),
        ),
        _deadlocks_and_refusals(view),
    ]  # fmt: skip
    return charts, [
        blocking(view.history, view.grid.parameters, missing=view.unless_gone(NOBODY)),
        Table(
            name="oldest", title="Oldest transactions", columns=_OLDEST, rows=_oldest(view),
            missing=view.unless_gone("no transaction was seen open"),
        ),
    ]  # fmt: skip


def _deadlocks_and_refusals(view: View) -> Chart:
    return Chart(
        name="log_kinds", title="Deadlocks, cancelled and refused, in the log", unit="/min",
        missing=view.unless_unrecorded(_NO_LOG),
        series=view.lines("log_errors", _per_minute(_KINDS)),
    )  # fmt: skip


def _per_minute(columns: Mapping[str, str]) -> dict[str, Measure]:
    return {words: rate(column, scale=_PER_MINUTE) for words, column in columns.items()}


def _oldest(view: View) -> Sequence[dict[str, Any]]:
    """Each session when its transaction was oldest; of two as old, the one that waits is younger.

    Sampled rows of sessions are kept for a shorter time than their summary.
    """
    if not view.has("sessions"):
        return ()
    return view.history.rows(
        f"""SELECT time, s.pid::VARCHAR AS pid, role, application, state, transaction_seconds,
                   s.query_id::VARCHAR AS query_id, {session_statement(view.history)} AS text
            FROM (SELECT *, coalesce(blocked_by, '') <> '' AS waits,
                         row_number() OVER (PARTITION BY pid, role, application
                                            ORDER BY transaction_seconds DESC, time DESC) AS place
                  FROM sessions WHERE {IN_PERIOD} AND transaction_seconds > 0) AS s
            LEFT JOIN statement_texts AS t ON t.query_id = s.query_id
            WHERE place = 1 ORDER BY transaction_seconds DESC, waits, s.pid LIMIT {_MOST}""",
        view.grid.parameters,
        inside=True,
    )


SCREEN: Final = Screen(
    name="connections",
    title="Connections and locks",
    help="How many sessions there were, and which ones blocked others",
    sources=("connections", "databases", "sessions", "log_errors"),
    build=_build,
)
