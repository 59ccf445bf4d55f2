"""What the planner believes of the machine and the data."""

from __future__ import annotations

from mrtuner.host.model import Storage
from mrtuner.tuning.situation import Data, Memory, Situation, Workload
from mrtuner.tuning.verdict import Change, Keep, Unknown, Verdict, rule

DOC = "documentation: Query Planning, Planner Cost Constants"


@rule("seq_page_cost", source=DOC, risk="all plans may change")
def the_unit_of_cost() -> Verdict:
    """Left as it is: the unit that every other cost is measured in."""
    return Keep("the unit of the other costs")


@rule("random_page_cost", source=DOC, risk="plans change: more index scans")
def how_much_worse_random_reads_are(
    storage: Storage | None, data: Data | None, memory: Memory | None
) -> Verdict:
    """1.1 on flash and network volumes, and wherever all data fit in three quarters of memory;
    left as it is on disks.
    """
    if data and memory and data.size < memory.size * 3 // 4:
        return Change(1.1, "all data fit in memory: a random read costs as much as any other")
    if storage is None:
        return Unknown(("--storage",))
    if storage is Storage.HDD:
        return Keep("a disk must seek")
    return Change(1.1, f"{storage} reads any page almost as fast as the next")


@rule("jit", source="documentation: Just-in-Time Compilation", risk="long queries may slow down")
def compile_only_long_queries(workload: Workload) -> Verdict:
    """Off, except for OLAP, where the version's default stays (19 turned it off): compiling
    costs more than a short query takes.
    """
    if workload is Workload.OLAP:
        return Keep("long queries may gain; the version's default stays")
    return Change(False, "compiling costs more than a short query takes")


@rule("default_statistics_target", source=DOC, risk="slower ANALYZE and planning")
def finer_histograms(workload: Workload) -> Verdict:
    """500 for OLAP; else left as it is (100)."""
    if workload is Workload.OLAP:
        return Change(500, "large tables with skewed values: finer histograms, slower planning")
    return Keep("100 serves most tables; raise single columns")


@rule(
    "default_toast_compression",
    source="documentation: Client Connection Defaults; release notes 14, 19",
    risk="new values only; a dump restored on a build without lz4 needs the other",
)
def faster_toast(situation: Situation) -> Verdict:
    """lz4 where a live server proves that its build has it; else left as it is."""
    if situation.running.get("default_toast_compression") == "lz4":
        return Keep("lz4 already")
    if "lz4" in situation.enum_values.get("default_toast_compression", ()):
        return Change("lz4", "this build has lz4: faster to write and read than pglz")
    return Keep("this build lacks lz4" if situation.live else "lz4 only where the build has it")
