"""Headroom: how near each limited resource is to its limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mrtuner.history.analysis import CPU_ALL, CPU_USED
from mrtuner.history.overview import TRANSACTIONS
from mrtuner.history.series import Kind, Measure, Series, rate, ratio
from mrtuner.web.screens.screen import Chart, Screen, Table, View

_COLUMNS: Final = (
    ("resource", "Resource", "text"),
    ("highest", "Highest", "share"),
    ("average", "On average", "share"),
    ("last", "At the end", "share"),
    ("limit", "Its limit", "text"),
)
_LIMITS: Final = {
    "connections": "max_connections",
    "CPU": "all CPU time of the host",
    "CPU quota": "time in which the quota held the server back",
    "transaction IDs": "2³¹ transactions since the oldest freeze",
    "multixact IDs": "2³¹ multixacts since the oldest freeze",
}
_ELSEWHERE: Final = "the recorder did not run on the server's host"


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    shares = headroom(view)
    charts = [
        Chart(
            name="shares", title="Share of each limit", unit="share", series=shares,
            limits=[("limit", 1.0)],
        ),
        Chart(
            name="iops", title="Requests to the disk", unit="/s", missing=_ELSEWHERE, stacked=True,
            help="A level that the line runs along for minutes is a ceiling: mrtuner limits tells "
                 "which.",
            series=view.lines("host", {
                "writes": rate("disk_writes"), "reads": rate("disk_reads"),
            }),
        ),
        Chart(
            name="throughput", title="Throughput of the disk", unit="bytes/s", stacked=True,
            missing=_ELSEWHERE,
            series=view.lines("host", {
                "written": rate("disk_written_bytes"), "read": rate("disk_read_bytes"),
            }),
        ),
        Chart(
            name="network", title="Network", unit="bytes/s", missing=_ELSEWHERE,
            series=view.lines("host", {
                "received": rate("received_bytes"), "sent": rate("sent_bytes"),
            }),
        ),
        Chart(
            name="memory", title="Memory available", unit="bytes", missing=_ELSEWHERE,
            series=view.lines("host", {"available": Measure(Kind.LOWEST, "memory_available")}),
        ),
        Chart(
            name="pressure", title="Time in which tasks waited", unit="share", missing=_ELSEWHERE,
            help="Pressure stall information of the kernel: some task could not go on.",
            series=view.lines("host", {
                "for a CPU": rate("waited_cpu"), "for I/O": rate("waited_io"),
                "for memory": rate("waited_memory"),
            }),
        ),
    ]  # fmt: skip
    rows = [row for one in shares if (row := _row(one)) is not None]
    rows.sort(key=lambda row: -row["highest"])
    return charts, [
        Table(name="headroom", title="Headroom, the tightest first", columns=_COLUMNS, rows=rows)
    ]


def headroom(view: View) -> list[Series]:
    """Shares of limits, where the limit is known."""
    parts = view.lines("connections", {
        "used": Measure(Kind.HIGHEST, "clients"), "maximum": Measure(Kind.HIGHEST, "maximum"),
    })  # fmt: skip
    found = [
        Series("connections", [
            used / most if used is not None and most else None
            for used, most in zip(parts[0].values, parts[1].values, strict=True)
        ])
    ] if parts else []  # fmt: skip
    found += view.lines("host", {
        "CPU": ratio(CPU_USED, CPU_ALL), "CPU quota": rate("group_throttled"),
    })  # fmt: skip
    for name, of in (("transaction IDs", "age"), ("multixact IDs", "multixact_age")):
        ages = view.split("ages", Measure(Kind.LAST, of, scale=1 / TRANSACTIONS), "database")
        found.append(Series(name, [_highest(values) for values in _steps(ages)]))
    return [one for one in found if any(value is not None for value in one.values)]


def _steps(series: Sequence[Series]) -> list[tuple[float | None, ...]]:
    return list(zip(*(one.values for one in series), strict=True))


def _highest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _row(of: Series) -> Mapping[str, Any] | None:
    known = [value for value in of.values if value is not None]
    if not known:
        return None
    return {
        "resource": of.name, "highest": max(known), "average": sum(known) / len(known),
        "last": known[-1], "limit": _LIMITS[of.name],
    }  # fmt: skip


SCREEN: Final = Screen(
    name="limits",
    title="Headroom",
    help="How near each limited resource is to its limit",
    sources=("connections", "host"),
    build=_build,
)
