"""Before and after: two periods of the same length, statement by statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from mrtuner.history.analysis.coverage import recorded, seconds_of
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.analysis.series import ChartLine, Kind, Measure, rate, shifted
from mrtuner.history.analysis.statements import HistoryStatementChange, statement_changes
from mrtuner.history.store.summaries import AT_WORK
from mrtuner.web.period import usual_comparison
from mrtuner.web.screens.screen import Chart, Screen, Table, View

_TOP: Final = 50
_COLUMNS: Final = (
    ("text", "Text", "sql"),
    ("ran", "Ran", "text"),
    ("more_load", "More sessions busy", "sessions"),
    ("calls_before", "Calls before", "integer"),
    ("calls_after", "Calls after", "integer"),
    ("mean_before", "Time per call before", "s"),
    ("mean_after", "Time per call after", "s"),
    ("read_before", "Blocks read per call before", "blocks"),
    ("read_after", "Blocks read per call after", "blocks"),
    ("query_id", "Statement", "statement"),
)


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    before = view.before or usual_comparison(view.history, view.about)
    if before is None:
        return _refused("nothing was recorded before this period: choose a later one")
    spans = []
    for one in (before, view.about):
        found = recorded(view.history, one)
        if found is None:
            told = _span(one.begin, one.end)
            return _refused(f"nothing was recorded from {told}: choose another period")
        spans.append(_span(found.first, found.last))
    earlier = shifted(view.grid, before)
    charts = [
        Chart(name=name, title=title, unit=unit, series=[
            ChartLine(label, one.values)
            for label, grid in (("after", view.grid), ("before", earlier))
            for one in replace(view, grid=grid).split(source, measure, "''", where=where)
        ])
        for name, title, unit, source, measure, where in (
            ("load", "Active sessions", "sessions", "sessions", Measure(Kind.NUMBER), AT_WORK),
            ("commits", "Transactions", "/s", "databases", rate("commits"), "true"),
            ("wal", "WAL written", "bytes/s", "wal", rate("bytes"), "true"),
        )
    ]  # fmt: skip
    title = f"Statements, the largest changes first; before is {spans[0]}, after {spans[1]}"
    return charts, [_statements(view, before, title)]


def _refused(missing: str) -> tuple[Sequence[Chart], Sequence[Table]]:
    """Return no charts, and why: every statement would seem new, or gone."""
    return [], [
        Table(name="statements", title="Statements", columns=_COLUMNS, rows=(), missing=missing)
    ]


def _statements(view: View, before: HistoryPeriod, title: str) -> Table:
    """Compare the statements, if they were recorded in both periods."""
    lacking = [
        name
        for name, one in (("before", before), ("after", view.about))
        if not view.has("statements") or not seconds_of(view.history, one, "statements")
    ]
    rows = [] if lacking else statement_changes(view.history, before, view.about, top=_TOP)
    where = "neither period" if len(lacking) == 2 else f"one period only, not {''.join(lacking)}"
    return Table(
        name="statements", columns=_COLUMNS, rows=[_row(one) for one in rows], title=title,
        missing=f"pg_stat_statements was recorded in {where}" if lacking else "no statement ran",
    )  # fmt: skip


def _span(begin: datetime, end: datetime) -> str:
    return f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"


def _row(of: HistoryStatementChange) -> dict[str, Any]:
    some = of.after or of.before
    row: dict[str, Any] = {
        "query_id": None if some is None else str(some.query_id),
        "text": of.text, "more_load": of.more_load, "ran": _ran(of),
    }  # fmt: skip
    for name, work in (("before", of.before), ("after", of.after)):
        row[f"calls_{name}"] = work.calls if work else None
        row[f"mean_{name}"] = work.seconds / work.calls if work and work.calls else None
        row[f"read_{name}"] = work.blocks_read / work.calls if work and work.calls else None
    return row


def _ran(of: HistoryStatementChange) -> str:
    if of.before is None:
        return "only after"
    return "only before" if of.after is None else "both"


SCREEN: Final = Screen(
    name="compare",
    title="Before and after",
    help="What changed between two periods",
    sources=("sessions", "statements", "databases", "wal"),
    build=_build,
)
