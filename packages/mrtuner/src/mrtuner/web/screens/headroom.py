"""Headroom: how near each limited resource is to its limit, and how `limits` judges it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from mrtuner.answers.ceilings import id_limits
from mrtuner.answers.host_charts import HOST_CHARTS, SOURCES
from mrtuner.answers.shares import Share, configurations, label, over_time
from mrtuner.history.analysis.free_space import free_space
from mrtuner.history.analysis.headroom import by_database
from mrtuner.history.analysis.series import ChartLine, Kind, Measure
from mrtuner.limits.assess import Limits
from mrtuner.limits.ceilings import Resource
from mrtuner.web.screens.ceiling_tables import tables
from mrtuner.web.screens.screen import Chart, Screen, Table, View, highest, known

_COLUMNS: Final = (
    ("resource", "Resource", "text"),
    ("highest", "Highest", "share"),
    ("average", "On average", "share"),
    ("last", "At the end", "share"),
    ("limit", "Its limit", "text"),
)
_SEQUENCES: Final = (
    ("sequence", "Sequence", "text"),
    ("used_by", "Its column", "text"),
    ("used", "Used up", "share"),
    ("maximum", "Highest number", "integer"),
)
_MOST_SEQUENCES: Final = 20
_FREE: Final = (
    ("mount", "File system", "text"),
    ("device", "Device", "text"),
    ("size", "Size", "bytes"),
    ("free", "Free", "bytes"),
    ("full_in", "Full in, if it goes on so", "s"),
)
#: What to do about the age of transaction IDs, which another command judges.
_FREEZE: Final = (
    "Transaction IDs are older than autovacuum_freeze_max_age: vacuum has to freeze. "
    "mrtuner vacuum DSN --history DIR names the tables, the time that is left, and what is in "
    "vacuum's way."
)


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    parts = list(configurations(view.history, view.about))
    found = [one.judged for one in parts if one.judged is not None]
    limits = [one.limits for one in found if one.limits is not None]
    ids = _transaction_ids(view)
    lines = _lines(view)
    shares = over_time(view.history, view.grid, lines, parts)
    charts = [
        Chart(
            name="shares", title="Share of each limit", unit="share",
            help="Each moment is divided by the limit of that moment.",
            series=[one.series for one in shares], limits=[("limit", 1.0)],
        ),
        *_of_host(view, lines, limits),
        Chart(
            name="connections", title="Sessions of clients", unit="sessions",
            series=known(
                view.lines("connections", {"clients": Measure(Kind.HIGHEST, "clients")})
            ) or view.lines("cloudwatch", {"clients": Measure(Kind.HIGHEST, "connections")}),
            **_ceilings(limits, frozenset({Resource.CONNECTIONS})),
        ),
        ids,
    ]  # fmt: skip
    rows = [row for one in shares if (row := _row(one)) is not None]
    # What was at its limit longer is tighter; how far a sample exceeds the limit means nothing.
    rows.sort(key=lambda row: (-min(row["highest"], 1.0), -row["average"]))
    return charts, [
        Table(name="headroom", title="Headroom, the tightest first", columns=_COLUMNS, rows=rows),
        *tables(found, [_FREEZE] if ids.reached else []),
        Table(
            name="sequences", title="Sequences, the most used first", columns=_SEQUENCES,
            rows=_sequences(view),
            missing="none recorded has been used yet, or the role may not read them",
        ),
        Table(
            name="filesystems", title="Free space, the first to be full first", columns=_FREE,
            rows=[asdict(one) for one in free_space(view.history, view.about)],
            missing=view.unless_unrecorded("recorded only on the server's own host"),
        ),
    ]  # fmt: skip


# Ceilings in the charts.


def _of_host(
    view: View, lines: Mapping[str, Sequence[ChartLine]], found: Sequence[Limits]
) -> list[Chart]:
    return [
        Chart(
            name=one.name, title=one.title, unit=one.unit, stacked=one.stacked, help=one.help,
            missing=view.unless_unrecorded(one.missing), series=lines.get(one.name, ()),
            **_ceilings(found, one.resources, one.scale),
        )
        for one in HOST_CHARTS
    ]  # fmt: skip


def _lines(view: View) -> dict[str, list[ChartLine]]:
    """Return the lines of all charts of the host, from its kernel or, without those, CloudWatch.

    One query asks for all of them, since each query reads all rows of the period.
    """
    for source in SOURCES:
        measures = {
            (chart.name, line): measure
            for chart in HOST_CHARTS
            for line, measure in chart.by(source).items()
        }
        numbered = {str(number): measure for number, measure in enumerate(measures.values())}
        series = known(view.lines(source, numbered))
        found: dict[str, list[ChartLine]] = {}
        for (chart, line), one in zip(measures, series, strict=False):
            found.setdefault(chart, []).append(ChartLine(line, one.values))
        if found:
            return found
    return {}


def _transaction_ids(view: View) -> Chart:
    """Return the chart of transaction ID age, with the ages that force a vacuum or stop writes."""
    series = by_database(view.history, view.grid)["age"] if view.has("ages") else []
    forced, stop = id_limits(view.history, view.about)
    limits = [(f"server takes no more writes {stop:,}", float(stop))]
    if forced is not None:
        limits.append((f"autovacuum_freeze_max_age {forced:,}", float(forced)))
    oldest = highest(series)
    return Chart(
        name="transaction_ids", title="Age of transaction IDs", unit="transactions", series=series,
        help="Beyond autovacuum_freeze_max_age, tables are vacuumed even if autovacuum is off. "
             "Rounded down to 100,000.",
        zero="less than 100,000 all the time",
        limits=limits, reached=[name for name, level in limits if oldest >= level],
    )  # fmt: skip


def _ceilings(
    found: Sequence[Limits], resources: frozenset[Resource], scale: float = 1.0
) -> dict[str, Any]:
    """Return a chart's ceilings at the end and all that were reached, with when they were."""
    limits = {
        label(one.resource, one.name, one.value): one.value * scale
        for part in found[-1:]
        for one in part.ceilings
        if one.resource in resources
    }
    reached, bands = dict[str, None](), []
    for part, one in ((each, one) for each in found for one in each.pegged):
        if one.resource not in resources:
            continue
        level = one.plateau.level if one.ceiling is None else one.ceiling.value
        name = f"unknown {one.resource} ceiling" if one.ceiling is None else one.ceiling.name
        text = label(one.resource, name, level)
        limits[text] = level * scale
        reached[text] = None
        bands += [
            (part.series.at(begin).timestamp(), part.series.at(end).timestamp())
            for begin, end in one.plateau.spans
        ]
    return {"limits": list(limits.items()), "reached": list(reached), "bands": bands}


def _sequences(view: View) -> Sequence[Mapping[str, Any]]:
    keys = {"database": "database", "sequence": "schema || '.' || name"}
    found = view.latest("sequences", keys, ("used", "maximum", "used_by"))
    known = [row for row in found if row["used"] is not None]
    return sorted(known, key=lambda row: (-row["used"], row["sequence"]))[:_MOST_SEQUENCES]


def _row(of: Share) -> Mapping[str, Any] | None:
    known = [value for value in of.series.values if value is not None]
    if not known:
        return None
    return {
        "resource": of.series.name, "highest": max(known), "average": sum(known) / len(known),
        "last": known[-1], "limit": of.limit,
    }  # fmt: skip


SCREEN: Final = Screen(
    name="headroom",
    title="Headroom",
    help="How near each limited resource is to its limit",
    sources=("connections", "host"),
    build=_build,
)
