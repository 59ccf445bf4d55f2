"""Vacuum: dead rows, sizes with TOAST, and how near transaction IDs are to their end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mrtuner.history.series import Kind, Measure, rate
from mrtuner.history.store.layout import last_value
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


def _tables(view: View) -> Sequence[dict[str, Any]]:
    if not view.has("tables"):
        return ()
    counted = ", ".join(
        f"sum({name}) FILTER (WHERE time >= $begin)::BIGINT AS {name}"
        for name in ("updated", "hot_updated", "deleted", "autovacuums")
    )
    # What did not change has no row in the period, but is there all the same.
    rows = view.history.rows(
        f"""SELECT * FROM (
                SELECT {_TABLE} AS "table", {counted}, {last_value("live")} AS live,
                       {last_value("dead")} AS dead, {last_value("age")} AS age,
                       {last_value("pages")} * {_BLOCK} AS size,
                       {last_value("index_pages")} * {_BLOCK} AS indexes,
                       {last_value("toast_pages")} * {_BLOCK} AS toast,
                       {last_value("toast_dead")} AS toast_dead
                FROM tables WHERE instance = $instance AND time < $end
                GROUP BY schema, name, relation) AS t
            WHERE live IS NOT NULL ORDER BY dead DESC NULLS LAST, 1 LIMIT {_MOST}""",
        view.grid.parameters,
    )
    return [
        row | {
            "dead_share": _share(row["dead"], (row["dead"] or 0) + (row["live"] or 0)),
            "hot": _share(row["hot_updated"], row["updated"]),
        }
        for row in rows
    ]  # fmt: skip


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


SCREEN: Final = Screen(
    name="vacuum",
    title="Vacuum and TOAST",
    help="Which tables gather dead rows, and whether vacuum keeps up",
    sources=("tables", "ages"),
    build=_build,
)
