"""What the server's host did in a period, according to its kernel or to CloudWatch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from mrtuner.described import Doc
from mrtuner.history.analysis.period import IN_PERIOD, HistoryPeriod, view_for
from mrtuner.history.reading import History

#: CPU time that was used, and all there was, over the columns of the host.
CPU_USED: Final = "(cpu_user + cpu_system + cpu_steal)"
CPU_ALL: Final = f"({CPU_USED} + cpu_iowait + cpu_idle)"
#: Each figure's dividend and divisor, over all samples and in each.
_HOST_FIGURES: Final = {
    "cpu": (CPU_USED, CPU_ALL),
    "iowait": ("cpu_iowait", CPU_ALL),
    "steal": ("cpu_steal", CPU_ALL),
    "throttled": ("group_throttled", "seconds"),
    "reads": ("disk_reads", "seconds"),
    "writes": ("disk_writes", "seconds"),
    "read_seconds": ("disk_read_time", "disk_reads"),
    "write_seconds": ("disk_write_time", "disk_writes"),
}
#: CloudWatch's column for each figure, and the divisor of its values.
_CLOUDWATCH_FIGURES: Final = {
    "cpu": ("cpu", 100),
    "reads": ("read_iops", 1),
    "writes": ("write_iops", 1),
    "read_seconds": ("read_latency", 1),
    "write_seconds": ("write_latency", 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFigure:
    """A figure of a period."""

    average: Annotated[float, Doc("over the period")]
    highest: Annotated[float, Doc("of the highest sample; of an hour, if only hours are kept")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryHost:
    """What the server's host did; null where it is not counted."""

    cpus: Annotated[int | None, Doc("CPUs that the server can use")]
    cpu: Annotated[HistoryFigure | None, Doc("share of the CPU time that was used")]
    iowait: Annotated[HistoryFigure | None, Doc("share idle while waiting for a disk")]
    steal: Annotated[HistoryFigure | None, Doc("share taken by the hypervisor")]
    throttled: Annotated[HistoryFigure | None, Doc("share of the time throttled by a CPU quota")]
    reads: Annotated[HistoryFigure | None, Doc("reads per second of the data directory's disk")]
    writes: Annotated[HistoryFigure | None, Doc("writes per second")]
    read_seconds: Annotated[HistoryFigure | None, Doc("time per read")]
    write_seconds: Annotated[HistoryFigure | None, Doc("time per write")]
    least_memory: Annotated[int | None, Doc("lowest available memory in bytes")]


def host_work(history: History, about: HistoryPeriod) -> HistoryHost | None:
    """Return what the host did, from its kernel or else CloudWatch; None without samples."""
    return _kernel_work(history, about) or _cloudwatch_work(history, about)


def _cloudwatch_work(history: History, about: HistoryPeriod) -> HistoryHost | None:
    if not history.has("cloudwatch"):
        return None
    view = view_for(history, "cloudwatch", about.begin)
    suffixes = ("", "", "") if view == "cloudwatch" else ("_avg", "_max", "_min")
    average, highest, lowest = suffixes
    figures = ", ".join(
        f"""avg({column}{average}) / {whole} AS {name}_average,
            max({column}{highest}) / {whole} AS {name}_highest"""
        for name, (column, whole) in _CLOUDWATCH_FIGURES.items()
    )
    row = history.row(
        f"""SELECT count(*) AS samples, min(free_memory{lowest}) AS least_memory, {figures}
            FROM {view} WHERE {IN_PERIOD}""",
        about.parameters, inside=True,
    )  # fmt: skip
    if not row["samples"]:
        return None
    least = row["least_memory"]
    return HistoryHost(
        cpus=None, iowait=None, steal=None, throttled=None,
        least_memory=None if least is None else int(least),
        **{name: _figure(row, name) for name in _CLOUDWATCH_FIGURES},
    )  # fmt: skip


def _kernel_work(history: History, about: HistoryPeriod) -> HistoryHost | None:
    if not history.has("host"):
        return None
    view = view_for(history, "host", about.begin)
    cpus, memory = (
        ("cpus", "memory_available") if view == "host" else ("cpus_last", "memory_available_min")
    )
    figures = ", ".join(
        f"""sum({part}) / nullif(sum({whole}) FILTER (WHERE {part} IS NOT NULL), 0)
                AS {name}_average,
            max({part} / nullif({whole}, 0)) AS {name}_highest"""
        for name, (part, whole) in _HOST_FIGURES.items()
    )
    row = history.row(
        f"""SELECT count(*) AS samples, max({cpus}) AS cpus, min({memory}) AS least_memory,
                   {figures}
            FROM {view} WHERE {IN_PERIOD}""",
        about.parameters, inside=True,
    )  # fmt: skip
    if not row["samples"]:
        return None
    return HistoryHost(
        cpus=row["cpus"],
        least_memory=row["least_memory"],
        **{name: _figure(row, name) for name in _HOST_FIGURES},
    )


def _figure(row: dict[str, Any], name: str) -> HistoryFigure | None:
    average, highest = row[f"{name}_average"], row[f"{name}_highest"]
    return None if average is None else HistoryFigure(average=average, highest=highest)
