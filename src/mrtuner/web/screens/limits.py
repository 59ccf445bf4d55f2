"""Headroom: how near each limited resource is to its limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mrtuner.history import headroom
from mrtuner.history.series import Kind, Measure, Series, rate
from mrtuner.web.screens.screen import Chart, Screen, Table, View

_COLUMNS: Final = (
    ("resource", "Resource", "text"),
    ("highest", "Highest", "share"),
    ("average", "On average", "share"),
    ("last", "At the end", "share"),
    ("limit", "Its limit", "text"),
)
_ELSEWHERE: Final = "the recorder did not run on the server's host"


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    shares = headroom.shares(view.history, view.grid)
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


def _row(of: Series) -> Mapping[str, Any] | None:
    known = [value for value in of.values if value is not None]
    if not known:
        return None
    return {
        "resource": of.name, "highest": max(known), "average": sum(known) / len(known),
        "last": known[-1],
        "limit": next(limit.meaning for limit in headroom.LIMITS if limit.name == of.name),
    }  # fmt: skip


SCREEN: Final = Screen(
    name="limits",
    title="Headroom",
    help="How near each limited resource is to its limit",
    sources=("connections", "host"),
    build=_build,
)
