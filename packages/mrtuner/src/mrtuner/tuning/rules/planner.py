"""What the planner believes about the machine and the data."""

from __future__ import annotations

from mrtuner.formula.expression import MEMORY, greatest, least
from mrtuner.inputs import Storage, Workload
from mrtuner.tuning.budget import Chosen, left_for_caches
from mrtuner.tuning.situation import Data, JitTime, Memory, Partitions, Situation, Throughput
from mrtuner.tuning.verdict import LZ4, Basis, Change, Keep, Offer, OwnValue, Unknown, Verdict, rule

DOC = "documentation: Query Planning, Planner Cost Constants"
#: From so many times memory on, reports read much that no cache has (our judgement).
FAR = 10


@rule(
    "effective_cache_size",
    basis=Basis.ARITHMETIC,
    source=DOC + "; memory budget in docs/concepts",
    risk="none: an estimate for the planner, it allocates no memory",
)
def effective_cache_size_by_memory(situation: Situation, chosen: Chosen) -> Verdict:
    """What is left for shared buffers and the kernel's cache when all active sessions hold their
    sorts. Three quarters of memory at most, half on a desktop, and never less than shared_buffers.
    Active are as many sessions as --active says, or as were seen, or else two for each CPU.
    """
    desktop = situation.workload is Workload.DESKTOP
    most = MEMORY / 2 if desktop else MEMORY * 3 / 4
    left = left_for_caches(chosen, situation)
    buffers = chosen.size("shared_buffers")
    active = situation.active(chosen.count("max_connections"))
    sessions = f"{active.count} active sessions ({active.how})"
    because = f"shared buffers and the kernel's cache, when {sessions} use all they may"
    if situation.memory:
        machine = situation.machine
        if left.evaluate(machine) < buffers.evaluate(machine):
            because = f"no less than shared_buffers: {sessions} may leave the kernel no cache"
        elif left.evaluate(machine) >= most.evaluate(machine):
            share = "half: other programs need cache too" if desktop else "three quarters"
            because = f"{share}; {sessions} should leave that much"
    formula = (
        f"{situation.ceiling:.0%} of memory - what {active.count} active sessions, processes and "
        f"autovacuum take, at most {most.prose()}, at least shared_buffers"
    )
    return Change(greatest(least(most, left), buffers), because, formula=formula)


@rule("seq_page_cost", source=DOC, risk="all plans may change")
def seq_page_cost_is_the_unit() -> Verdict:
    """Left as it is: the unit that every other cost is measured in."""
    return Keep("the unit of the other costs")


@rule("random_page_cost", source=DOC, risk="plans change: more index scans", own=OwnValue.LEFT)
def random_page_cost_by_storage(
    workload: Workload,
    storage: Storage | None,
    data: Data | None,
    memory: Memory | None,
    throughput: Throughput | None,
) -> Verdict:
    """1.1 on flash and network volumes, because most random reads hit a cache there, and wherever
    all data fit in three quarters of memory. For OLAP with data larger than memory 2 on local
    flash, and left as it is (4) on network volumes. For mixed 2 where data are over ten times
    memory and --iops is 6,000 at most. Left as it is on disks.
    """
    if data and memory and data.size < memory.size * 3 // 4:
        return Change(1.1, "all data fit in memory: a random read costs as much as any other")
    if storage is None:
        return Unknown(("--storage",))
    if storage is Storage.HDD:
        return Keep("a disk must seek")
    if workload is Workload.OLAP and data and memory and data.size > memory.size:
        return _uncached(storage)
    few = throughput is not None and throughput.few_requests
    if workload is Workload.MIXED and few and data and memory and data.size > FAR * memory.size:
        return Change(2.0, "data far exceed memory, and the volume allows few requests a second")
    return Change(1.1, "most random reads hit a cache, and those that miss do not wait for a seek")


def _uncached(storage: Storage) -> Verdict:
    """Random reads of uncached pages: these wait, while sequential ones are read ahead."""
    if storage in {Storage.SSD, Storage.NVME}:
        return Change(2.0, f"data exceed memory: reads miss the cache, and {storage} reads ahead")
    return Keep("data exceed memory: reads miss the cache, and each waits for the volume")


@rule("jit", source="documentation: Just-in-Time Compilation", risk="long queries may slow down")
def jit_by_workload(workload: Workload, jit_time: JitTime | None, situation: Situation) -> Verdict:
    """Off, since compiling costs more than a short query takes. For OLAP the version's default
    stays; 19 turned it off. It is off for OLAP too if compiling took a quarter of the time of the
    statements that were compiled.
    """
    share = jit_time.share if jit_time else None
    if jit_time and share is not None and share >= 0.25:
        calls = f"{jit_time.calls:,} compiled calls {situation.observed}"
        because = f"compiling took {share:.0%} of the time of {calls}"
        return Change(False, because, Basis.OBSERVED, calls_for_less=True)
    if workload is not Workload.OLAP:
        return Change(False, "compiling costs more than a short query takes")
    if share is not None:
        return Keep(f"compiling took only {share:.0%} of the time of compiled statements")
    return Keep("long queries may gain; the version's default stays")


@rule("default_statistics_target", source=DOC, risk="slower ANALYZE and planning")
def default_statistics_target_by_workload(workload: Workload) -> Verdict:
    """500 for OLAP; else left as it is (100)."""
    if workload is Workload.OLAP:
        return Change(500, "large tables with skewed values: finer histograms, slower planning")
    return Keep("100 suits most tables; raise it for single columns")


@rule(
    "default_toast_compression",
    source="documentation: Client Connection Defaults; release notes 14, 19",
    risk="affects new values only; a build without lz4 cannot use it",
)
def default_toast_compression_lz4(situation: Situation) -> Verdict:
    """lz4 where a live server proves that its build has it; else left as it is."""
    if situation.running.get("default_toast_compression") == "lz4":
        return Keep("already lz4")
    if "lz4" in situation.enum_values.get("default_toast_compression", ()):
        return Change("lz4", "this build has lz4: faster to write and read than pglz")
    if situation.live:
        return Keep("this build lacks lz4")
    if situation.major >= 19:
        return Keep("lz4 is the default since 19 where the build has it")
    return Keep("lz4 only if the build has it", Offer("lz4", LZ4))


def _partitionwise(workload: Workload, partitions: Partitions | None, what: str) -> Verdict:
    if workload is not Workload.OLAP or partitions is None:
        return Keep("planning takes longer and more memory; only large reports gain")
    return Change(True, f"{what} one by one; {partitions.table} is partitioned")


@rule("enable_partitionwise_join", source="documentation: Query Planning",
      risk="longer planning; each partition may use work_mem", suggestion=True)  # fmt: skip
def enable_partitionwise_join_by_partitions(
    workload: Workload, partitions: Partitions | None
) -> Verdict:
    """On for OLAP with partitioned tables, as a suggestion: set it for the role that reports."""
    return _partitionwise(workload, partitions, "joins partitions")


@rule("enable_partitionwise_aggregate", source="documentation: Query Planning",
      risk="longer planning; each partition may use work_mem", suggestion=True)  # fmt: skip
def enable_partitionwise_aggregate_by_partitions(
    workload: Workload, partitions: Partitions | None
) -> Verdict:
    """On for OLAP with partitioned tables, as a suggestion: set it for the role that reports."""
    return _partitionwise(workload, partitions, "aggregates partitions")
