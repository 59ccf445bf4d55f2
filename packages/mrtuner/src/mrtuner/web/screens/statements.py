"""Top SQL: the statements that took the most time, and the history of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mrtuner.history.analysis.coverage import seconds_of
from mrtuner.history.analysis.plans import logged_plans
from mrtuner.history.analysis.series import OTHER, ChartLine, rate, ratio
from mrtuner.history.analysis.statements import HistoryStatement, statements
from mrtuner.history.recorded.settings import settings
from mrtuner.web.screens.screen import Chart, Screen, Table, View, highest
from mrtuner.wording import cut

_TOP: Final = 50
_MISSING: Final = "pg_stat_statements was not recorded in this period"
_COLUMNS: Final = (
    ("text", "Text", "sql"),
    ("load", "Sessions kept busy", "sessions"),
    ("calls", "Calls", "integer"),
    ("mean", "Time per call", "s"),
    ("seconds", "Time", "s"),
    ("rows", "Rows", "integer"),
    ("blocks_read", "Blocks read", "integer"),
    ("temp_blocks", "Temporary blocks", "integer"),
    ("wal_bytes", "WAL", "bytes"),
    ("database", "Database", "text"),
    ("role", "Role", "text"),
    ("query_id", "Statement", "statement"),
)
_PLANS: Final = (
    ("shape", "Nodes", "plan"),
    ("executions", "Executions", "integer"),
    ("mean", "Time per execution", "s"),
    ("first", "First seen", "moment"),
    ("last", "Last seen", "moment"),
)
_SECOND: Final = 0.001  # from ms
_TIMING: Final = "track_io_timing"


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    if view.statement is not None:
        return _one(view, view.statement)
    works = statements(view.history, view.about, _TOP)
    busy = view.split("statements", rate("exec_ms", scale=_SECOND), "query_id")
    covered = seconds_of(view.history, view.about, "statements")
    missing = _MISSING if covered is None else "no statement ended in this period"
    texts = {
        str(work.query_id): cut(" ".join((work.text or str(work.query_id)).split()), 60)
        for work in works
    }
    chart = Chart(
        name="time", title="Time in statements", unit="sessions", stacked=True, missing=missing,
        help="How many sessions each statement keeps busy. Counted when a statement ends.",
        series=[
            ChartLine(texts.get(one.name, one.name), one.values) for one in _apart(busy, texts)
        ],
    )  # fmt: skip
    table = Table(
        name="statements", title="Statements", columns=_COLUMNS, missing=missing,
        rows=[_row(work, covered) for work in works],
    )  # fmt: skip
    return [chart], [table]


def _apart(series: Sequence[ChartLine], texts: dict[str, str]) -> Sequence[ChartLine]:
    """Return the lines with distinct names, since texts cut short may be equal."""
    names = [texts.get(one.name, one.name) for one in series]
    return [
        ChartLine(f"{name} · {one.name}", one.values)
        if one.name != OTHER and names.count(name) > 1
        else one
        for name, one in zip(names, series, strict=True)
    ]


def _row(work: HistoryStatement, covered: float | None) -> dict[str, Any]:
    return {name: getattr(work, name) for name, _, _ in _COLUMNS if hasattr(work, name)} | {
        # Beyond 2⁵³ a number loses digits in a browser.
        "query_id": str(work.query_id),
        "mean": work.seconds / work.calls if work.calls else None,
        "load": work.seconds / covered if covered else None,
    }


def _one(view: View, query: int) -> tuple[Sequence[Chart], Sequence[Table]]:
    where = f"query_id = {int(query)}"
    covered = seconds_of(view.history, view.about, "statements")
    missing = _MISSING if covered is None else "it did not end in this period"
    charts = [
        Chart(name=name, title=title, unit=unit, missing=missing,
              series=view.lines("statements", measures, where))
        for name, title, unit, measures in (
            ("calls", "Calls", "/s", {"calls": rate("calls")}),
            ("blocks", "Blocks per call", "blocks",
             {"read": ratio("blocks_read", "calls"), "hit": ratio("blocks_hit", "calls"),
              "temporary": ratio("(temp_blocks_read + temp_blocks_written)", "calls")}),
            ("rows", "Rows per call", "rows", {"rows": ratio("rows", "calls")}),
            ("wal", "WAL", "bytes/s", {"WAL": rate("wal_bytes")}),
        )
    ]  # fmt: skip
    charts.insert(1, _mean(view, where, missing))
    works = statements(view.history, view.about, query_id=query)
    rows = [_row(work, covered) for work in works]
    plans = [
        {"shape": one.shape, "executions": one.executions, "first": one.first.timestamp(),
         "mean": one.ms * _SECOND / one.executions, "last": one.last.timestamp()}
        for one in logged_plans(view.history, view.about, query)
    ]  # fmt: skip
    return charts, [
        Table(name="statements", title="Statement", columns=_COLUMNS, rows=rows, missing=missing),
        *([Table(name="plans", title="Its plans in the server's log", columns=_PLANS, rows=plans)]
          if plans else []),
    ]  # fmt: skip


def _mean(view: View, where: str, missing: str) -> Chart:
    """The time of a call; that of its reads is 0 as long as the server does not measure it."""
    time, reading = view.lines("statements", {
        "time": ratio("exec_ms", "calls", scale=_SECOND),
        "of it reading": ratio("read_ms", "calls", scale=_SECOND),
    }, where) or (ChartLine("time", []), ChartLine("of it reading", []))  # fmt: skip
    off = settings(view.history, view.about, _TIMING).get(_TIMING) == "off"
    unknown = off and highest([reading]) == 0
    return Chart(
        name="mean", title="Time per call", unit="s", missing=missing,
        series=[time] if unknown else [time, reading],
        help=f"How much of it was reading is unknown: {_TIMING} is off." if unknown else "",
    )  # fmt: skip


SCREEN: Final = Screen(
    name="statements",
    title="Top SQL",
    help="Which statements took the most time",
    sources=("statements",),
    build=_build,
)
