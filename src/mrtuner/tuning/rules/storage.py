"""Reading and writing: concurrency, asynchronous I/O, the background writer."""

from __future__ import annotations

from mrtuner.formula import CPUS, greatest, least
from mrtuner.host.model import Storage
from mrtuner.tuning.situation import BufferWrites, Cpus, Data, Memory, Situation, Workload
from mrtuner.tuning.verdict import Basis, Change, Keep, Verdict, rule
from mrtuner.units import KiB

DOC = "documentation: Resource Consumption, I/O"
BACKGROUND = "documentation: Resource Consumption, Background Writer"
#: Reads worth asking for ahead. A disk has a few heads; flash has channels; a network volume
#: has latency to hide.
AHEAD = {
    Storage.HDD: 2,
    Storage.SSD: 128,
    Storage.NVME: 256,
    Storage.EBS: 128,
    Storage.NETWORK: 128,
    Storage.OVERLAY: 64,
}


@rule("effective_io_concurrency", source=DOC, risk="bitmap scans load the storage more")
def reads_ahead(storage: Storage) -> Verdict:
    """By kind of storage: 2 for disks, 128 for SSD and network volumes, 256 for NVMe."""
    return Change(AHEAD[storage], f"{storage} serves many requests at once")


@rule("maintenance_io_concurrency", source=DOC, risk="vacuum and recovery load the storage more")
def maintenance_reads_ahead(storage: Storage) -> Verdict:
    """As effective_io_concurrency, never below the default: recovery prefetch uses it too."""
    if storage is Storage.HDD:
        return Keep("the default suits a disk")
    return Change(AHEAD[storage], f"{storage} serves many requests at once; recovery uses it too")


@rule(
    "backend_flush_after",
    basis=Basis.MEASURED,
    source=DOC + "; docs/proof.md",
    risk="more writes where pages that left shared buffers are changed again soon after",
)
def no_flood_of_writes(workload: Workload, data: Data | None, memory: Memory | None) -> Verdict:
    """256 kB for web, OLTP and mixed, unless all data are known to fit a quarter of memory.
    Without it the kernel gathers what backends write and sends it in one flood, behind which
    every commit waits: stalls of 4 to 20 s were measured under an I/O limit, 0.1 s with it.
    """
    if workload in {Workload.OLAP, Workload.DESKTOP}:
        return Keep("throughput of large writes matters more than stalls")
    if data and memory and data.size * 4 <= memory.size:
        return Keep("all data fit shared buffers: backends write little")
    return Change(256 * KiB, "keeps the kernel from gathering writes into a flood that stalls all")


@rule(
    "io_method",
    source=DOC + "; release notes 18",
    risk="restart; io_uring needs a build with liburing and a kernel policy that allows it",
)
def workers_start_everywhere(situation: Situation) -> Verdict:
    """Left as it is. `worker` works everywhere; io_uring stops a server from starting where the
    build, seccomp or memlock is against it, so it is never advised unseen.
    """
    if situation.running.get("io_method") == "sync":
        return Change("worker", "reads ahead without blocking the backend")
    return Keep("`worker` starts everywhere; io_uring only where you have tried it")


@rule("io_workers", source="documentation: I/O; release notes 18", risk="none worth naming")
def a_reader_for_four_cpus() -> Verdict:
    """A quarter of the CPUs, three at least (the default) and 32 at most."""
    return Change(greatest(3, least(32, CPUS / 4)), "a quarter of the CPUs, three at least")


@rule("io_max_workers", source="documentation: I/O (19)", risk="none worth naming")
def readers_at_most() -> Verdict:
    """The pool of 19 grows by itself: up to half the CPUs, eight at least, 32 at most."""
    return Change(greatest(8, least(32, CPUS / 2)), "the pool grows as needed, up to this")


@rule("io_min_workers", source="documentation: I/O (19)", risk="none")
def readers_at_least() -> Verdict:
    """Left as it is: the pool of 19 grows by itself."""
    return Keep("the pool grows as needed")


@rule("io_max_combine_limit", source=DOC + "; release notes 18", risk="restart")
def larger_reads_allowed(workload: Workload) -> Verdict:
    """256 kB for OLAP; else left as it is. It only caps io_combine_limit, which is set with it
    (pgconfig raises the cap alone, and nothing changes).
    """
    if workload is not Workload.OLAP:
        return Keep("small reads: the default serves")
    return Change(256 * KiB, "lets scans ask for 256 kB at once")


@rule("io_combine_limit", source=DOC + "; release notes 17", risk="none worth naming")
def larger_reads(workload: Workload) -> Verdict:
    """256 kB for OLAP; else left as it is."""
    if workload is not Workload.OLAP:
        return Keep("small reads: the default serves")
    return Change(256 * KiB, "scans read 256 kB at once")


@rule("bgwriter_delay", source=BACKGROUND, risk="none")
def the_usual_round() -> Verdict:
    """Left as it is: a busier writer showed nothing or harm on a small machine."""
    return Keep("a busier writer showed no gain when measured")


@rule("bgwriter_lru_maxpages", source=BACKGROUND, risk="more writing ahead of need")
def when_backends_must_write(writes: BufferWrites | None, cpus: Cpus | None) -> Verdict:
    """500 where the writer was measured to stop early more than once a minute, on four CPUs or
    more; else left as it is.
    """
    if writes is None or cpus is None or cpus.count < 4:
        return Keep("nothing measured asks for more")
    if writes.clean_stops <= writes.window / 60:
        return Keep(f"the writer stopped early {writes.clean_stops} times: seldom")
    return Change(500, f"the writer stopped early {writes.clean_stops} times", Basis.MEASURED)


@rule("bgwriter_lru_multiplier", source=BACKGROUND, risk="none")
def the_usual_foresight() -> Verdict:
    """Left as it is."""
    return Keep("nothing measured asks for more")
