"""Charts of a server's host, with lines measured by its kernel or by CloudWatch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mrtuner.history.analysis.host_work import CPU_ALL, CPU_USED
from mrtuner.history.analysis.series import Kind, Measure, rate, ratio
from mrtuner.limits.ceilings import Resource

ELSEWHERE: Final = "the recorder did not run on the server's host, and CloudWatch was not read"
_HELP: Final = "Ceilings are dashed lines, solid where reached; the time at one is shaded."


@dataclass(frozen=True, slots=True, kw_only=True)
class HostChart:
    """A chart of the host, and the resources whose ceilings are drawn into it."""

    name: str
    title: str
    unit: str
    host: Mapping[str, Measure]
    cloudwatch: Mapping[str, Measure]
    resources: frozenset[Resource] = frozenset()
    scale: float = 1.0  # from the ceilings' unit to the chart's
    stacked: bool = False
    help: str = _HELP
    missing: str = ELSEWHERE

    def by(self, source: str) -> Mapping[str, Measure]:
        return self.host if source == "host" else self.cloudwatch


#: Sources of the lines: the kernel's counters or, without them, CloudWatch.
SOURCES: Final = ("host", "cloudwatch")


def average(of: str, *, scale: float = 1.0) -> Measure:
    return Measure(Kind.AVERAGE, of, scale=scale)


HOST_CHARTS: Final = (
    HostChart(
        name="iops", title="Requests to the disk", unit="/s", stacked=True,
        host={"writes": rate("disk_writes"), "reads": rate("disk_reads")},
        cloudwatch={"writes": average("write_iops"), "reads": average("read_iops")},
        resources=frozenset({Resource.IOPS, Resource.READ_IOPS, Resource.WRITE_IOPS}),
    ),
    HostChart(
        name="throughput", title="Throughput of the disk", unit="bytes/s", stacked=True,
        host={"written": rate("disk_written_bytes"), "read": rate("disk_read_bytes")},
        cloudwatch={
            "written": average("write_throughput"), "read": average("read_throughput"),
        },
        resources=frozenset({
            Resource.THROUGHPUT, Resource.READ_THROUGHPUT, Resource.WRITE_THROUGHPUT,
        }),
    ),
    HostChart(
        name="network", title="Network", unit="bytes/s",
        host={"received": rate("received_bytes"), "sent": rate("sent_bytes")},
        cloudwatch={"received": average("received"), "sent": average("sent")},
        resources=frozenset({Resource.NETWORK_IN, Resource.NETWORK_OUT}),
    ),
    HostChart(
        name="cpu", title="CPU", unit="share", scale=0.01,
        host={"used": ratio(CPU_USED, CPU_ALL)},
        cloudwatch={"used": average("cpu", scale=0.01)},
        resources=frozenset({Resource.CPU}),
    ),
    HostChart(
        name="memory", title="Memory available", unit="bytes", help="",
        host={"available": Measure(Kind.LOWEST, "memory_available")},
        cloudwatch={"available": Measure(Kind.LOWEST, "free_memory")},
    ),
    HostChart(
        name="pressure", title="Time during which tasks waited", unit="share",
        help="Pressure stall information of the kernel: some task could not go on.",
        host={
            "for a CPU": rate("waited_cpu"), "for I/O": rate("waited_io"),
            "for memory": rate("waited_memory"),
        },
        cloudwatch={},
        missing="the recorder did not run on the server's host, or its kernel does not report it",
    ),
)  # fmt: skip
