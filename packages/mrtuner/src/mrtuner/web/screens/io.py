"""I/O by kind of process, and how long the disk took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mrtuner.answers.host_charts import ELSEWHERE, average
from mrtuner.history.analysis.series import rate, ratio
from mrtuner.web.screens.screen import DATABASE, Chart, Screen, Table, View, known

_BY: Final = "backend_type || ', ' || context"
_SINCE: Final = "PostgreSQL counts this since version 16"


def _build(view: View) -> tuple[Sequence[Chart], Sequence[Table]]:
    bytes_of = view.splits(
        "io", {"reads": rate("read_bytes"), "writes": rate("(write_bytes + extend_bytes)")}, _BY,
        where="object <> 'wal'",
    )  # fmt: skip
    return [
        Chart(
            name="reads", title="Read from outside shared_buffers", unit="bytes/s", stacked=True,
            help="By kind of process and context. What the page cache of the kernel holds counts "
                 "as read, too.",
            series=bytes_of["reads"], missing=view.unless_unrecorded(_SINCE),
        ),
        Chart(
            name="writes", title="Written and extended", unit="bytes/s", stacked=True,
            help="If client backends write, they had to make room themselves.",
            series=bytes_of["writes"], missing=view.unless_unrecorded(_SINCE),
        ),
        _cache_hits(view),
        Chart(
            name="requests", title="Requests to the disk", unit="/s",
            missing=view.unless_unrecorded(ELSEWHERE),
            series=known(view.lines("host", {
                "reads": rate("disk_reads"), "writes": rate("disk_writes"),
            })) or view.lines("cloudwatch", {
                "reads": average("read_iops"), "writes": average("write_iops"),
            }),
        ),
        Chart(
            name="latency", title="Time of a request to the disk", unit="s",
            missing=view.unless_unrecorded(ELSEWHERE),
            series=known(view.lines("host", {
                "read": ratio("disk_read_time", "disk_reads"),
                "write": ratio("disk_write_time", "disk_writes"),
            })) or view.lines("cloudwatch", {
                "read": average("read_latency"), "write": average("write_latency"),
            }),
        ),
        Chart(
            name="temporary", title="Temporary files", unit="bytes/s", stacked=True,
            help="What sorts and hashes wrote beyond work_mem.",
            series=view.split("databases", rate("temp_bytes"), DATABASE),
        ),
    ], []  # fmt: skip


def _cache_hits(view: View) -> Chart:
    hits = {"hit ratio": ratio("blocks_hit", "(blocks_hit + blocks_read)")}
    return Chart(
        name="hits", title="Found in shared_buffers", unit="share",
        series=view.lines("databases", hits),
    )  # fmt: skip


SCREEN: Final = Screen(
    name="io",
    title="I/O",
    help="Which processes read and write, and how fast the disk answers",
    sources=("io", "host", "databases"),
    build=_build,
)
