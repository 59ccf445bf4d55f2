"""Vacuum: dead rows, sizes with bloat and TOAST, and how near transaction IDs are to their end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mrtuner.history.analysis.incidents.samples import LATE
from mrtuner.history.analysis.period import IN_PERIOD
from mrtuner.history.analysis.series import ChartLine, Kind, Measure, rate
from mrtuner.history.store.layout import last_value
from mrtuner.units import PAGE
from mrtuner.web.screens.screen import Chart, Screen, Table, View

_TABLE: Final = "schema || '.' || name"
_MOST: Final = 200
_COLUMNS: Final = (
    ("table", "Table", "text"),
    ("live", "Live rows", "integer"),
    ("dead", "Dead rows", "integer"),
    ("dead_share", "Dead", "share"),
    ("size", "Size", "bytes"),
    ("bloat", "Bloat, estimated", "bytes"),
    ("bloat_share", "Of the size", "share"),
    ("updated", "Updated", "integer"),
    ("hot", "Of them HOT", "share"),
    ("deleted", "Deleted", "integer"),
    ("autovacuums", "Autovacuums", "integer"),
    ("vacuumed", "Last vacuum seen", "moment"),
    ("indexes", "Indexes", "bytes"),
    ("toast", "TOAST", "bytes"),
    ("toast_bloat", "TOAST bloat at least", "bytes"),
    ("toast_dead", "Dead TOAST chunks", "integer"),
    ("age", "Transactions since freezing", "integer"),
)


_INDEXES: Final = (
    ("name", "Index", "text"),
    ("table", "Table", "text"),
    ("bytes", "Size", "bytes"),
    ("bloat", "Bloat, estimated", "bytes"),
    ("share", "Of the size", "share"),
)
_MOST_INDEXES: Final = 50
_UNKNOWN_BLOAT: Final = (
    "not recorded, or unknown: it takes ANALYZE, and a role that may read the tables (GRANT "
    "pg_read_all_data), since pg_stats shows column widths to nobody else"
)
_NO_BLOAT: Final = "no index has bloat"
_WORK: Final = (
    ("first", "Begun", "moment"),
    ("seconds", "For", "s"),
    ("command", "Command", "text"),
    ("table", "Table", "text"),
    ("database", "Database", "text"),
    ("phase", "Last phase", "text"),
    ("done", "Done", "share"),
    ("pid", "Process", "text"),
)
#: What a process works at; without a phase it has ended.
_RUN: Final = ("database", "relation", "phase")


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    unit, scale = view.seldom
    of_tables = view.splits("tables", {
        "dead": Measure(Kind.LAST, "dead"), "changed": rate("(updated + deleted)"),
        "autovacuums": rate("autovacuums", scale=scale),
        "size": Measure(Kind.LAST, "pages", scale=PAGE),
    }, _TABLE)  # fmt: skip
    charts = [
        Chart(
            name="dead", title="Dead rows", unit="rows",
            help="Estimated. They fall when a table is vacuumed, and after a crash.",
            series=of_tables["dead"],
        ),
        Chart(
            name="bloat", title="Bloat of tables, estimated", unit="bytes",
            missing=_UNKNOWN_BLOAT,
            help="Dead rows and free space at the last vacuum or analyze.",
            series=_bloat_of(view, "table"),
        ),
        Chart(
            name="index_bloat", title="Bloat of B-tree indexes, estimated", unit="bytes",
            missing=_UNKNOWN_BLOAT,
            help="What REINDEX would give back; where values repeat, at least that much.",
            series=_bloat_of(view, "index"),
        ),
        Chart(
            name="changed", title="Rows updated and deleted", unit="/s", stacked=True,
            series=of_tables["changed"],
        ),
        Chart(
            name="autovacuums", title="Autovacuums", unit=unit, stacked=True,
            series=of_tables["autovacuums"],
        ),
        Chart(
            name="size", title="Size of tables", unit="bytes",
            help="Without indexes and TOAST, as of the last vacuum or analyze.",
            series=of_tables["size"],
        ),
        Chart(
            name="ages", title="Age of transaction IDs", unit="transactions",
            help="At 2³¹ the server takes no more commands that write. Rounded down to 100,000.",
            zero="less than 100,000 all the time",
            series=view.split("ages", Measure(Kind.LAST, "age"), "database"),
        ),
    ]  # fmt: skip
    bloat = view.latest("bloat", _BLOAT_KEYS, _BLOAT)
    there = _tables(view, bloat)
    forgotten = _forgotten(view)
    largest = _largest(view, there, forgotten)
    work = _work(view, there)
    title = "Tables"
    if any(row["live"] is None for row in largest):
        title += (
            f": statistics began anew at {forgotten:%Y-%m-%d %H:%M:%S} UTC; live rows without a "
            "number are unknown until the next vacuum or analyze"
        )
    return charts, [
        Table(name="tables", title=title, columns=_COLUMNS, rows=largest,
              missing="no table was recorded in this period"),
        Table(name="indexes", title="Indexes, the most bloat first", columns=_INDEXES,
              rows=_indexes(bloat), missing=_NO_BLOAT if any(
                  row["kind"] == "index" and row["bloat"] is not None for row in bloat
              ) else _UNKNOWN_BLOAT),
        Table(name="work", title=_titled(work), columns=_WORK, rows=work,
              missing=view.unless_unrecorded("none was seen running")),
    ]  # fmt: skip


_COUNTED: Final = ("updated", "hot_updated", "deleted", "autovacuums")
_LAST: Final = ("live", "dead", "age", "pages", "index_pages", "toast_pages", "toast_dead")
_SEEN: Final = ("last_vacuum", "last_analyze")  # older recorders did not store them
_BLOAT: Final = ("bytes", "bloat", "toast_bloat", "table_name")
_IDENTITY: Final = ("database", "schema", "name", "relation")
_KEYS: Final = {name: name for name in _IDENTITY} | {"table": _TABLE}
_BLOAT_KEYS: Final = {name: name for name in (*_IDENTITY, "kind")}


def _bloat_of(view: View, kind: str) -> list[ChartLine]:
    bloat = Measure(Kind.LAST, "bloat")
    return view.split("bloat", bloat, _TABLE, where=f"kind = '{kind}'")


def _tables(view: View, bloat: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Return every table that exists at the end of the period, with its bloat if known."""
    known = {_identity(row): row for row in bloat if row["kind"] == "table"}
    columns = (*_LAST, *(name for name in _SEEN if view.history.has("tables", name)))
    unknown = dict.fromkeys(_BLOAT)
    return [
        known.get(_identity(row), unknown) | row
        for row in view.latest("tables", _KEYS, columns)
        if row["live"] is not None
    ]


def _forgotten(view: View) -> datetime | None:
    """Return when the server last lost its statistics.

    A crash loses them, and a standby that takes over has none.
    """
    lost: datetime | None = view.history.row(
        """SELECT max(time) AS time FROM events WHERE instance = $instance AND time < $end
           AND kind IN ('crash', 'failover', 'replaced')""",
        {"instance": view.about.instance, "end": view.grid.parameters["end"]},
    )["time"]  # fmt: skip
    return lost


def _unknown(
    view: View, there: Sequence[dict[str, Any]], forgotten: datetime | None
) -> Collection[tuple[Any, ...]]:
    """Return the tables whose rows nobody has counted since then, though they were there before.

    One that the first sample after it shows may have been there.
    """
    if forgotten is None:
        return ()
    since = int(forgotten.replace(tzinfo=UTC).timestamp())
    unseen = {
        _identity(row) for row in there
        if max(row.get(name) or 0 for name in _SEEN) < since
    }  # fmt: skip
    if not unseen:
        return ()
    later = timedelta(seconds=LATE * view.history.source("tables").interval)
    before = view.history.latest(
        f"""SELECT {", ".join(_IDENTITY)}, max(time) FROM tables WHERE {IN_PERIOD} GROUP BY ALL""",
        "tables", len(_IDENTITY), instance=view.about.instance, end=forgotten + later,
    )  # fmt: skip
    return unseen & {row[: len(_IDENTITY)] for row in before}


def _largest(
    view: View, there: Sequence[dict[str, Any]], forgotten: datetime | None
) -> Sequence[dict[str, Any]]:
    """Return the tables with most dead rows or most bloat, with what was done to them.

    Live rows that the server has `forgotten` since are unknown.
    """
    if not there:
        return ()
    chosen = {
        _identity(row): row
        for what in ("dead", "bloat")
        for row in sorted(there, key=lambda row: (-(row[what] or 0), row["table"]))[: _MOST // 2]
    }
    rows = sorted(chosen.values(), key=lambda row: (-(row["dead"] or 0), row["table"]))
    unknown = _unknown(view, rows, forgotten)
    counted = ", ".join(f"sum({name})::BIGINT AS {name}" for name in _COUNTED)
    changes = view.history.rows(
        f"""SELECT {", ".join(_IDENTITY)}, {counted},
                   max(CASE WHEN vacuums + autovacuums > 0 THEN time END) AS vacuumed
            FROM tables WHERE {IN_PERIOD} GROUP BY ALL""",
        view.grid.parameters, inside=True,
    )  # fmt: skip
    changed = {_identity(row): row for row in changes}
    nothing = dict.fromkeys((*_COUNTED, "vacuumed"))
    return [
        _row(
            row | changed.get(_identity(row), nothing)
            | ({"live": None} if _identity(row) in unknown else {})
        )
        for row in rows
    ]  # fmt: skip


def _indexes(bloat: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    found = [row for row in bloat if row["kind"] == "index" and row["bloat"]]
    found.sort(key=lambda row: (-row["bloat"], row["name"]))
    return [
        row | {
            "name": f"{row['schema']}.{row['name']}",
            "table": f"{row['schema']}.{row['table_name']}",
            "share": _share(row["bloat"], row["bytes"]),
        }
        for row in found[:_MOST_INDEXES]
    ]  # fmt: skip


def _work(view: View, there: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Return the commands seen running: when, for how long, and how far they got.

    A process may do the same again: each run ends with a row without a phase, or with another
    table. It is unknown when one began that was running before the period.
    """
    if not view.has("progress"):
        return ()
    names = {(row["database"], row["relation"]): row["table"] for row in there}
    before = view.history.latest(
        f"""SELECT pid::VARCHAR, command, {", ".join(map(last_value, _RUN))}
            FROM progress WHERE {IN_PERIOD} GROUP BY pid, command""",
        "progress", 2, instance=view.about.instance, end=view.grid.parameters["begin"],
    )  # fmt: skip
    running = {tuple(run) for *run, phase in before if phase is not None}
    found = view.history.rows(
        f"""WITH marked AS (
                SELECT *, CASE WHEN lag(phase) OVER w IS NOT NULL
                                AND lag(database) OVER w IS NOT DISTINCT FROM database
                                AND lag(relation) OVER w IS NOT DISTINCT FROM relation
                               THEN 0 ELSE 1 END AS begins, row_number() OVER w AS place
                FROM progress WHERE {IN_PERIOD}
                WINDOW w AS (PARTITION BY pid, command ORDER BY time)),
            numbered AS (
                SELECT *, sum(begins) OVER (PARTITION BY pid, command ORDER BY time) AS run
                FROM marked)
            SELECT n.pid::VARCHAR AS pid, command, database, relation, min(time) AS first,
                   min(place) AS place, date_diff('second', min(time), max(time)) AS seconds,
                   arg_max(phase, time) AS phase,
                   arg_max({{'share': done / nullif(total, 0)}}, time).share AS done
            FROM numbered AS n WHERE phase IS NOT NULL
            GROUP BY n.pid, command, database, relation, run
            ORDER BY first DESC, n.pid LIMIT {_MOST}""",
        view.grid.parameters, inside=True,
    )  # fmt: skip
    for row in found:
        run = row["pid"], row["command"], row["database"], row["relation"]
        row["table"] = names.get(run[2:])
        if row["place"] == 1 and run in running:
            row["first"] = None
    return found


def _titled(work: Sequence[dict[str, Any]]) -> str:
    title = "Vacuums and other maintenance, the latest first"
    if any(row["first"] is None for row in work):
        title += ": those without a beginning began before this period, and took longer"
    return title


def _identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _IDENTITY)


def _row(of: dict[str, Any]) -> dict[str, Any]:
    sizes = {"size": "pages", "indexes": "index_pages", "toast": "toast_pages"}
    rows = None if of["live"] is None else of["live"] + (of["dead"] or 0)
    return of | {
        "dead_share": _share(of["dead"], rows),
        "hot": _share(of["hot_updated"], of["updated"]),
        "bloat_share": _share(of["bloat"], of["bytes"]),
        **{to: None if of[name] is None else of[name] * PAGE for to, name in sizes.items()},
    }


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


SCREEN: Final = Screen(
    name="vacuum",
    title="Vacuum, bloat, TOAST",
    help="Which tables gather dead rows and bloat, and whether vacuum keeps up",
    sources=("tables", "ages"),
    build=_build,
)
