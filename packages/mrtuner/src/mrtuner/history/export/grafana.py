"""A Grafana dashboard of the metrics of `export prometheus`.

Names of metrics, units and explanations come from the sources' own declarations.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from mrtuner.history.export.latest import LAG, LOAD, OWN, UP
from mrtuner.history.export.prometheus import metric, own_metric
from mrtuner.history.recording.source import Column, Kind, built_in

_OF: Final = '{server="$server"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelSeries:
    """One expression of a panel."""

    expression: str
    legend: str
    unit: str  # of Grafana
    interval: float  # seconds between two samples
    about: str
    line: bool = False  # drawn as a line over the stack, such as the number of CPUs


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart of the dashboard."""

    title: str
    series: tuple[PanelSeries, ...]
    stacked: bool = False


def _shown(
    source: str, *columns: str, by: tuple[str, ...] = (), top: int | None = None,
    hourly: bool = False, line: bool = False, how: str = "sum",
) -> tuple[PanelSeries, ...]:  # fmt: skip
    """Return a series for each column of a source: gauges as they are, counters per second.

    Rows are summed, or put together by the aggregation `how`, by the keys in `by`. Legends name the
    keys, and the column if there are several. `hourly` gives the growth in an hour, for rare
    events; `top` keeps only the highest rows.
    """
    declared = {one.name: one for one in built_in()[source].columns}
    rows = " ".join(f"{{{{{key}}}}}" for key in by)
    several = len(columns) > 1

    def series(column: Column) -> PanelSeries:
        name = column.name.removesuffix("_ms")
        units = _RATES if column.kind is Kind.COUNTER else _GAUGES
        return PanelSeries(
            expression=_expression(source, column, by, top, how, hourly=hourly),
            legend=f"{name} {rows}".strip() if several or not by else rows,
            unit="short" if hourly else units[column.unit],
            interval=built_in()[source].interval,
            about=f"{name}: {column.help}" if several or line else column.help,
            line=line,
        )

    return tuple(series(declared[name]) for name in columns)


def _expression(
    source: str, column: Column, by: tuple[str, ...], top: int | None, how: str, *, hourly: bool
) -> str:
    selected = f"{metric(source, column.name)}{_OF}"
    if hourly:
        selected = f"increase({selected}[1h])"
    elif column.kind is Kind.COUNTER:
        selected = f"rate({selected}[$__rate_interval])"
    summed = f"{how} by ({', '.join(('server', *by))}) ({selected})"
    return summed if top is None else f"topk({top}, {summed})"


#: Grafana's units of gauges, and of counters per second, by the column's unit.
_GAUGES: Final = {"bytes": "bytes", "s": "s", None: "short"}
_RATES: Final = {"bytes": "Bps", "ms": "percentunit", "s": "percentunit", "blocks": "ops",
                 None: "ops"}  # fmt: skip


_LOAD: Final = PanelSeries(
    expression=f"{own_metric(LOAD)}{_OF}", legend="{{wait_type}}", unit="short", interval=60,
    about=f"{OWN[LOAD]}, by what they wait for. Sessions above the line wait.",
)  # fmt: skip
_LAG: Final = PanelSeries(
    expression=f"max by (server, source) ({own_metric(LAG)}{_OF})", legend="{{source}}", unit="s",
    interval=60, about=OWN[LAG],
)  # fmt: skip
_UP: Final = PanelSeries(
    expression=f"{own_metric(UP)}{_OF}", legend="up", unit="short", interval=60, about=OWN[UP],
)  # fmt: skip

#: The rows of the dashboard and their panels.
ROWS: Final = {
    "Load": (
        Panel("Load by what sessions wait for, and CPUs",
              (_LOAD, *_shown("host", "cpus", line=True)), stacked=True),
        Panel("Sessions", _shown("connections", "clients", "active", "idle_in_transaction",
                                 "waiting", "maximum")),
        Panel("Transactions", _shown("databases", "commits", "rollbacks", by=("database",))),
        Panel("Oldest transaction", _shown("connections", "oldest_transaction")),
        Panel("Sessions by role and state",
              _shown("sessions_by_role", "sessions", by=("role", "state"), top=10)),
        Panel("Requests for locks that wait", _shown("locks", "waiting", by=("mode",))),
    ),
    "WAL and checkpoints": (
        Panel("WAL written", _shown("wal", "bytes")),
        Panel("WAL kept in pg_wal", _shown("wal_directory", "bytes")),
        Panel("Checkpoints per hour", _shown("checkpoints", "timed", "requested", hourly=True)),
        Panel("Time in checkpoints", _shown("checkpoints", "write_ms", "sync_ms")),
        Panel("WAL archived per hour", _shown("archiver", "archived", "failed", hourly=True)),
    ),
    "I/O": (
        Panel("Blocks read and found in shared_buffers",
              _shown("databases", "blocks_read", "blocks_hit", by=("database",))),
        Panel("Reads, by process", _shown("io", "read_bytes", by=("backend_type",))),
        Panel("Writes, by process", _shown("io", "write_bytes", by=("backend_type",))),
        Panel("Temporary files", _shown("databases", "temp_bytes", by=("database",))),
        Panel("Free space of file systems", _shown("filesystems", "free", by=("mount",))),
        Panel("Disk of the host", _shown("host", "disk_read_bytes", "disk_written_bytes")),
        Panel("CPU of the host",
              _shown("host", "cpu_user", "cpu_system", "cpu_iowait", "cpu_steal"), stacked=True),
    ),
    "Replication": (
        Panel("Replay lag",
              _shown("replication", "replay_lag", by=("application", "client"), how="max")),
        Panel("WAL not yet replayed",
              _shown("replication", "replay_behind", by=("application", "client"), how="max")),
        Panel("WAL kept for slots", _shown("slots", "retained", by=("name",))),
        Panel("WAL received and not replayed", _shown("receiver", "not_replayed")),
        Panel("Workers of subscriptions", _shown("subscriptions", "workers", by=("name",))),
    ),
    "Vacuum": (
        Panel("Age of transaction IDs", _shown("ages", "age", by=("database",))),
        Panel("Dead rows", _shown("tables", "dead", by=("database", "schema", "name"), top=10)),
        Panel("Autovacuums per hour", _shown("tables", "autovacuums", hourly=True, top=10,
                                            by=("database", "schema", "name"))),
        Panel("Size of databases", _shown("sizes", "bytes", by=("database",))),
        Panel("Scans of indexes", _shown("indexes", "scans", top=10,
                                         by=("database", "schema", "name"))),
        Panel("Invalid indexes", _shown("indexes", "invalid", by=("database",))),
    ),
    "Recorder": (
        Panel("Server answers", (_UP,)),
        Panel("Time since the last sample", (_LAG,)),
    ),
}  # fmt: skip
_WIDTH, _WIDE, _HIGH = 24, 12, 8


def dashboard() -> str:
    """Return a dashboard for Grafana 10 and later, as JSON to import."""
    server = {
        "name": "server", "type": "query", "datasource": _SOURCE, "refresh": 2,
        "sort": 1,
        "query": f"label_values({metric('connections', 'clients')}, server)",
    }  # fmt: skip
    source = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    found = {
        "title": "PostgreSQL by MrTuner", "uid": "mrtuner", "schemaVersion": 39, "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"}, "timezone": "utc",
        "templating": {"list": [source, server]}, "panels": _panels(),
    }  # fmt: skip
    return json.dumps(found, indent=2) + "\n"


_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def _panels() -> list[dict[str, Any]]:
    """Return the headings of the rows and their panels, two side by side."""
    found: list[dict[str, Any]] = []
    top = 0
    for heading, panels in ROWS.items():
        found.append({
            "type": "row", "title": heading, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": top, "w": _WIDTH, "h": 1},
        })  # fmt: skip
        for number, panel in enumerate(panels):
            row, column = divmod(number, 2)
            place = {"x": column * _WIDE, "y": top + 1 + row * _HIGH, "w": _WIDE, "h": _HIGH}
            found.append({**_panel(panel), "gridPos": place})
        top += 1 + (len(panels) + 1) // 2 * _HIGH
    return [{"id": number, **panel} for number, panel in enumerate(found, 1)]


def _panel(one: Panel) -> dict[str, Any]:
    custom = {"stacking": {"mode": "normal"}, "fillOpacity": 40} if one.stacked else {}
    lines = [
        {
            "matcher": {"id": "byName", "options": series.legend},
            "properties": [
                {"id": "custom.stacking", "value": {"mode": "none"}},
                {"id": "custom.fillOpacity", "value": 0},
                {"id": "custom.lineStyle", "value": {"fill": "dash"}},
            ],
        }
        for series in one.series
        if series.line
    ]
    return {
        "type": "timeseries",
        "title": one.title,
        "description": "\n".join(series.about for series in one.series),
        "datasource": _SOURCE,
        "fieldConfig": {
            "defaults": {"unit": one.series[0].unit, "custom": custom}, "overrides": lines,
        },
        "targets": [
            {
                "refId": chr(ord("A") + number), "expr": series.expression,
                "legendFormat": series.legend, "interval": f"{series.interval:.0f}s",
            }
            for number, series in enumerate(one.series)
        ],
    }  # fmt: skip
