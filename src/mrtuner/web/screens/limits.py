"""Headroom: how near each limited resource is to its limit, and what `limits` makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mrtuner.history import headroom
from mrtuner.history.analysis import CPU_ALL, CPU_USED
from mrtuner.history.series import Kind, Measure, Series, rate, ratio
from mrtuner.limits.assess import Limits
from mrtuner.limits.ceilings import Resource, binding
from mrtuner.limits.sentences import quantity
from mrtuner.web.ceilings import id_limits, judged
from mrtuner.web.screens.ceiling_tables import tables
from mrtuner.web.screens.screen import Chart, Screen, Table, View

_COLUMNS: Final = (
    ("resource", "Resource", "text"),
    ("highest", "Highest", "share"),
    ("average", "On average", "share"),
    ("last", "At the end", "share"),
    ("limit", "Its limit", "text"),
)
_ELSEWHERE: Final = "neither did the recorder run on the server's host, nor was CloudWatch asked"
_HELP: Final = "Ceilings are dashed lines, solid where reached; the time at one is shaded."
#: What to do about the age of transaction IDs: the judgement is that of another command.
_FREEZE: Final = (
    "Transaction IDs are older than autovacuum_freeze_max_age: vacuum has to freeze. "
    "mrtuner vacuum DSN --history DIR names the tables, the time that is left, and what is in "
    "vacuum's way."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picture:
    """A chart of the host: its lines by the kernel, and by CloudWatch, and what has ceilings."""

    name: str
    title: str
    unit: str
    host: Mapping[str, Measure]
    cloudwatch: Mapping[str, Measure]
    resources: frozenset[Resource] = frozenset()
    scale: float = 1.0  # from the ceilings' unit to the chart's
    stacked: bool = False
    help: str = _HELP
    missing: str = _ELSEWHERE


def _average(of: str, *, scale: float = 1.0) -> Measure:
    return Measure(Kind.AVERAGE, of, scale=scale)


_PICTURES: Final = (
    _Picture(
        name="iops", title="Requests to the disk", unit="/s", stacked=True,
        host={"writes": rate("disk_writes"), "reads": rate("disk_reads")},
        cloudwatch={"writes": _average("write_iops"), "reads": _average("read_iops")},
        resources=frozenset({Resource.IOPS, Resource.READ_IOPS, Resource.WRITE_IOPS}),
    ),
    _Picture(
        name="throughput", title="Throughput of the disk", unit="bytes/s", stacked=True,
        host={"written": rate("disk_written_bytes"), "read": rate("disk_read_bytes")},
        cloudwatch={
            "written": _average("write_throughput"), "read": _average("read_throughput"),
        },
        resources=frozenset({
            Resource.THROUGHPUT, Resource.READ_THROUGHPUT, Resource.WRITE_THROUGHPUT,
        }),
    ),
    _Picture(
        name="network", title="Network", unit="bytes/s",
        host={"received": rate("received_bytes"), "sent": rate("sent_bytes")},
        cloudwatch={"received": _average("received"), "sent": _average("sent")},
        resources=frozenset({Resource.NETWORK_IN, Resource.NETWORK_OUT}),
    ),
    _Picture(
        name="cpu", title="CPU", unit="share", scale=0.01,
        host={"used": ratio(CPU_USED, CPU_ALL)},
        cloudwatch={"used": _average("cpu", scale=0.01)},
        resources=frozenset({Resource.CPU}),
    ),
    _Picture(
        name="memory", title="Memory available", unit="bytes", help="",
        host={"available": Measure(Kind.LOWEST, "memory_available")},
        cloudwatch={"available": Measure(Kind.LOWEST, "free_memory")},
    ),
    _Picture(
        name="pressure", title="Time in which tasks waited", unit="share",
        help="Pressure stall information of the kernel: some task could not go on.",
        host={
            "for a CPU": rate("waited_cpu"), "for I/O": rate("waited_io"),
            "for memory": rate("waited_memory"),
        },
        cloudwatch={},
        missing="the recorder did not run on the server's host, or its kernel does not tell",
    ),
)  # fmt: skip


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    found = judged(view.history, view.about)
    ids = _transaction_ids(view)
    pictures = _drawn(view, found.limits)
    limits = {one.name: one.meaning for one in headroom.LIMITS}
    shares = headroom.shares(view.history, view.grid)
    for share, limit in _of_ceilings(pictures, found.limits):
        if share.name not in {one.name for one in shares}:
            shares.append(share)
            limits[share.name] = limit
    charts = [
        Chart(
            name="shares", title="Share of each limit", unit="share", series=shares,
            limits=[("limit", 1.0)],
        ),
        *pictures,
        Chart(
            name="connections", title="Sessions of clients", unit="sessions",
            series=_known(
                view.lines("connections", {"clients": Measure(Kind.HIGHEST, "clients")})
            ) or view.lines("cloudwatch", {"clients": Measure(Kind.HIGHEST, "connections")}),
            **_ceilings(found.limits, frozenset({Resource.CONNECTIONS})),
        ),
        ids,
    ]  # fmt: skip
    rows = [row for one in shares if (row := _row(one, limits)) is not None]
    rows.sort(key=lambda row: -row["highest"])
    return charts, [
        Table(name="headroom", title="Headroom, the tightest first", columns=_COLUMNS, rows=rows),
        *tables(found, [_FREEZE] if ids.reached else []),
    ]


# Ceilings in the charts.


def _drawn(view: View, found: Limits | None) -> list[Chart]:
    lines = _lines(view)
    return [
        Chart(
            name=one.name, title=one.title, unit=one.unit, stacked=one.stacked, help=one.help,
            missing=one.missing, series=lines.get(one.name, ()),
            **_ceilings(found, one.resources, one.scale),
        )
        for one in _PICTURES
    ]  # fmt: skip


def _lines(view: View) -> dict[str, list[Series]]:
    """The lines of all pictures, by the kernel or, where that was not asked, by CloudWatch.

    They are asked for at once: each query reads all rows of the period.
    """
    for source in ("host", "cloudwatch"):
        measures = {
            (picture.name, line): measure
            for picture in _PICTURES
            for line, measure in getattr(picture, source).items()
        }
        numbered = {str(number): measure for number, measure in enumerate(measures.values())}
        series = _known(view.lines(source, numbered))
        found: dict[str, list[Series]] = {}
        for (picture, line), one in zip(measures, series, strict=False):
            found.setdefault(picture, []).append(Series(line, one.values))
        if found:
            return found
    return {}


def _known(series: list[Series]) -> list[Series]:
    """The series, if any of them has a value."""
    return series if any(v is not None for one in series for v in one.values) else []


def _transaction_ids(view: View) -> Chart:
    """The age of the oldest transaction ID, with what forces a vacuum and what stops the server."""
    series = view.split("ages", Measure(Kind.LAST, "age"), "database")
    forced, stop = id_limits(view.history, view.about)
    limits = [(f"server takes no more writes {stop:,}", float(stop))]
    if forced is not None:
        limits.append((f"autovacuum_freeze_max_age {forced:,}", float(forced)))
    oldest = max((value or 0 for one in series for value in one.values), default=0)
    return Chart(
        name="transaction_ids", title="Age of transaction IDs", unit="transactions", series=series,
        help="Beyond autovacuum_freeze_max_age, tables are vacuumed whatever else is set.",
        limits=limits, reached=[name for name, level in limits if oldest >= level],
    )  # fmt: skip


def _ceilings(
    found: Limits | None, resources: frozenset[Resource], scale: float = 1.0
) -> dict[str, Any]:
    """The ceilings of a chart: known ones, levels that were learnt, and when they were reached."""
    if found is None:
        return {}
    limits = {
        _label(one.resource, one.name, one.value): one.value * scale
        for one in found.ceilings
        if one.resource in resources
    }
    reached, bands = [], []
    for one in found.pegged:
        if one.resource not in resources:
            continue
        level = one.plateau.level if one.ceiling is None else one.ceiling.value
        name = f"unknown {one.resource} ceiling" if one.ceiling is None else one.ceiling.name
        label = _label(one.resource, name, level)
        limits[label] = level * scale
        reached.append(label)
        bands += [
            (found.series.at(begin).timestamp(), found.series.at(end).timestamp())
            for begin, end in one.plateau.spans
        ]
    return {"limits": list(limits.items()), "reached": reached, "bands": bands}


def _label(resource: Resource, name: str, value: float) -> str:
    return f"{name} {quantity(resource, value)}"


# Shares.


def _of_ceilings(pictures: Sequence[Chart], found: Limits | None) -> Iterator[tuple[Series, str]]:
    """What disk and CPU carried, as a share of what they can for good, and what sets that."""
    if found is None:
        return
    drawn = {one.name: one.series for one in pictures}
    for name, picture, resource in (
        ("requests to the disk", "iops", Resource.IOPS),
        ("throughput of the disk", "throughput", Resource.THROUGHPUT),
        ("CPU", "cpu", Resource.CPU),
    ):
        most = binding(found.ceilings, resource)
        if most is not None and drawn.get(picture):
            scale = 100 if resource is Resource.CPU else 1.0
            steps = zip(*(one.values for one in drawn[picture]), strict=True)
            values = [_sum(step, scale / most.value) for step in steps]
            yield Series(name, values), _label(resource, most.name, most.value)


def _sum(values: Sequence[float | None], scale: float) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) * scale if len(known) == len(values) else None


def _row(of: Series, limits: Mapping[str, str]) -> Mapping[str, Any] | None:
    known = [value for value in of.values if value is not None]
    if not known:
        return None
    return {
        "resource": of.name, "highest": max(known), "average": sum(known) / len(known),
        "last": known[-1], "limit": limits[of.name],
    }  # fmt: skip


SCREEN: Final = Screen(
    name="limits",
    title="Headroom",
    help="How near each limited resource is to its limit",
    sources=("connections", "host"),
    build=_build,
)
