"""Vacuum: dead rows, sizes with TOAST, and how near transaction IDs are to their end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mrtuner.history.analysis import IN_PERIOD
from mrtuner.history.series import Kind, Measure, rate
from mrtuner.web.screens.screen import Chart, Screen, Table, View

_TABLE: Final = "schema || '.' || name"
_BLOCK: Final = 8192
_HOUR: Final = 3600.0
_MOST: Final = 200
_COLUMNS: Final = (
    ("table", "Table", "text"),
    ("live", "Live rows", "integer"),
    ("dead", "Dead rows", "integer"),
    ("dead_share", "Dead", "share"),
    ("updated", "Updated", "integer"),
    ("hot", "Of them HOT", "share"),
    ("deleted", "Deleted", "integer"),
    ("autovacuums", "Autovacuums", "integer"),
    ("size", "Size", "bytes"),
    ("indexes", "Indexes", "bytes"),
    ("toast", "TOAST", "bytes"),
    ("toast_dead", "Dead TOAST chunks", "integer"),
    ("age", "Transactions since freezing", "integer"),
)


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    of_tables = view.splits("tables", {
        "dead": Measure(Kind.LAST, "dead"), "changed": rate("(updated + deleted)"),
        "autovacuums": rate("autovacuums", scale=_HOUR),
        "size": Measure(Kind.LAST, "pages", scale=_BLOCK),
    }, _TABLE)  # fmt: skip
    charts = [
        Chart(
            name="dead", title="Dead rows", unit="rows",
            help="Estimated. They fall when a table is vacuumed.",
            series=of_tables["dead"],
        ),
        Chart(
            name="changed", title="Rows updated and deleted", unit="/s", stacked=True,
            series=of_tables["changed"],
        ),
        Chart(
            name="autovacuums", title="Autovacuums", unit="/h", stacked=True,
            series=of_tables["autovacuums"],
        ),
        Chart(
            name="size", title="Size of tables", unit="bytes",
            help="Without indexes and TOAST, as of the last vacuum or analyze.",
            series=of_tables["size"],
        ),
        Chart(
            name="ages", title="Age of transaction IDs", unit="transactions",
            help="At 2³¹ the server takes no more commands that write.",
            series=view.split("ages", Measure(Kind.LAST, "age"), "database"),
        ),
    ]  # fmt: skip
    return charts, [
        Table(name="tables", title="Tables", columns=_COLUMNS, rows=_tables(view),
              missing="no table was recorded in this period")
    ]  # fmt: skip


_COUNTED: Final = ("updated", "hot_updated", "deleted", "autovacuums")
_LAST: Final = ("live", "dead", "age", "pages", "index_pages", "toast_pages", "toast_dead")
_IDENTITY: Final = ("schema", "name", "relation")


def _tables(view: View) -> Sequence[dict[str, Any]]:
    if not view.has("tables"):
        return ()
    # What did not change has no row in the period, but is there all the same.
    names = (*_IDENTITY, "table", *_LAST)
    last = ", ".join(f"last.{name} AS {name}" for name in _LAST)
    whole = ", ".join(f"'{name}': {name}" for name in _LAST)
    latest = view.history.latest(
        f"""SELECT {", ".join(_IDENTITY)}, {_TABLE}, {last} FROM (
                SELECT {", ".join(_IDENTITY)}, arg_max({{ {whole} }}, time) AS last
                FROM tables WHERE {IN_PERIOD} GROUP BY ALL) AS t""",
        "tables", len(_IDENTITY), instance=view.about.instance, end=view.grid.parameters["end"],
    )  # fmt: skip
    there = [row for row in (dict(zip(names, row, strict=True)) for row in latest)
             if row["live"] is not None]  # fmt: skip
    rows = sorted(there, key=lambda row: (-(row["dead"] or 0), row["table"]))[:_MOST]
    counted = ", ".join(f"sum({name})::BIGINT AS {name}" for name in _COUNTED)
    changes = view.history.rows(
        f"SELECT {', '.join(_IDENTITY)}, {counted} FROM tables WHERE {IN_PERIOD} GROUP BY ALL",
        view.grid.parameters, inside=True,
    )  # fmt: skip
    changed = {_identity(row): row for row in changes}
    nothing = dict.fromkeys(_COUNTED)
    return [_row(row | changed.get(_identity(row), nothing)) for row in rows]


def _identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _IDENTITY)


def _row(of: dict[str, Any]) -> dict[str, Any]:
    sizes = {"size": "pages", "indexes": "index_pages", "toast": "toast_pages"}
    return of | {
        "dead_share": _share(of["dead"], (of["dead"] or 0) + (of["live"] or 0)),
        "hot": _share(of["hot_updated"], of["updated"]),
        **{to: None if of[name] is None else of[name] * _BLOCK for to, name in sizes.items()},
    }


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


SCREEN: Final = Screen(
    name="vacuum",
    title="Vacuum and TOAST",
    help="Which tables gather dead rows, and whether vacuum keeps up",
    sources=("tables", "ages"),
    build=_build,
)
