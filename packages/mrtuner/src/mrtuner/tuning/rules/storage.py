"""Reading and writing: concurrency, asynchronous I/O, the background writer."""

from __future__ import annotations

from math import ceil

from mrtuner.formats.line import LINUX
from mrtuner.formula.expression import CPUS, greatest, least
from mrtuner.inputs import Storage, Workload
from mrtuner.tuning.budget import SPARED, USUAL_IO_WORKERS, Chosen, limited
from mrtuner.tuning.measured import FLUSH_AFTER
from mrtuner.tuning.situation import BufferWrites, Cpus, Situation
from mrtuner.tuning.verdict import Basis, Change, Keep, Offer, OwnValue, Unknown, Verdict, rule
from mrtuner.units import PAGE, Bytes, GiB, KiB, MiB, pretty_bytes

DOC = "documentation: Resource Consumption, I/O"
#: How much a backend may write before the kernel is asked to flush it (backend_flush_after).
FLUSH = 256 * KiB
SPREADS = "keeps the kernel from gathering writes into a burst that stalls every session"
#: Machines up to this size are short of I/O too; the stalls were measured on 2 GB.
SMALL = 4 * GiB
#: Bytes a second that backends write: 300 MB in the 30 s that the kernel may wait.
MUCH = 10 * MiB
BACKGROUND = "documentation: Resource Consumption, Background Writer"
#: Reads worth requesting ahead. Flash has channels, a network volume has latency to hide; a disk
#: has a few heads, for which the version's default suffices.
AHEAD = {
    Storage.SSD: 128,
    Storage.NVME: 256,
    Storage.EBS: 128,
    Storage.NETWORK: 128,
    Storage.OVERLAY: 64,
}
#: The most requests a process may have in flight since 18, and the most that wait for the I/O
#: workers. Source: aio_init.c, AioChooseMaxConcurrency; method_worker.c, io_worker_queue_size.
MOST_AT_ONCE = 64
#: Requests that are in flight for so long [s] keep a commit waiting behind them (our choice).
QUEUE = 0.025
#: Seccomp in /proc/PID/status of a process whose system calls are filtered. Source: proc(5).
FILTERED = 2
#: A ring takes 8 kB for up to 64 requests at once, and each process that the server may have gets
#: one at the start. Measured on 18.6 and 19rc1 with Linux 6.18: the lowest limit of locked memory
#: with which they start is 1,144 kB for 100 connections, 4,336 kB for 500, and 2,288 kB for 100 and
#: 128 requests.
RING = 8 * KiB
PROCESSES = {
    "max_connections": 100,
    "autovacuum_worker_slots": 16,
    "max_worker_processes": 8,
    "max_wal_senders": 10,
}
AUXILIARY = 9
AHEAD_SOURCE = DOC + "; 18: aio_init.c, method_worker.c"


@rule("effective_io_concurrency", source=AHEAD_SOURCE, risk="scans load the storage more")
def effective_io_concurrency_by_storage(storage: Storage, situation: Situation) -> Verdict:
    """128 for SSD and network volumes, 256 for NVMe. From 18 on no more than a process may have in
    flight: io_max_concurrency, or 64 if that is not set. With --iops no more than the volume
    serves in 25 ms, since commits wait behind them. Left as it is on hard disks. For a described
    desktop up to 17 only on Linux: servers on macOS and Windows do not start with it.
    """
    if storage is Storage.HDD:
        return Keep("a disk has few heads: the version's default keeps them busy")
    now = int(situation.running.get("effective_io_concurrency", 0))
    return _accepted(
        _ahead(situation, storage, now, f"{storage} serves many requests at once"), situation
    )


@rule(
    "maintenance_io_concurrency", source=AHEAD_SOURCE, risk="vacuum and recovery load the storage"
)
def maintenance_io_concurrency_by_storage(storage: Storage, situation: Situation) -> Verdict:
    """As effective_io_concurrency: recovery prefetch uses it too."""
    if storage is Storage.HDD:
        return Keep("a disk has few heads: the version's default keeps them busy")
    now = int(situation.running.get("maintenance_io_concurrency", 0))
    because = f"{storage} serves many requests at once; recovery uses it too"
    return _accepted(_ahead(situation, storage, now, because), situation)


def _accepted(verdict: Verdict, situation: Situation) -> Verdict:
    """Only an offer for a desktop up to 17 whose system nobody gave: others start on Linux. What
    is written for Linux alone has the value.
    """
    linux = situation.live or situation.io_uring is not None  # which only its kernel shows
    if (
        linux
        or situation.workload is not Workload.DESKTOP
        or situation.major >= 18
        or not isinstance(verdict, Change)
    ):
        return verdict
    because = f"{verdict.because}, but macOS and Windows do not start with it up to 17"
    return Keep(because, Offer(str(verdict.to), LINUX))


def _ahead(situation: Situation, storage: Storage, now: int, because: str) -> Verdict:
    wanted, most = AHEAD[storage], _at_once(situation)
    iops = situation.throughput.iops if situation.throughput else None
    if iops is not None and (served := max(1, int(iops * QUEUE))) < min(wanted, most or wanted):
        return Change(served, f"what {iops:,} requests a second serve in 25 ms: commits wait too")
    if most is None or wanted <= most:
        return Change(wanted, because)
    if now > most:
        return Keep(f"more than {most} has no effect since 18, but does no harm")
    return Change(most, f"{because}; at most {most} per process since 18")


def _at_once(situation: Situation) -> int | None:
    """Requests that a process may have in flight; None before 18, where the kernel decides.

    With I/O workers, their queue ends at 64 as well.
    """
    if situation.major < 18:
        return None
    own = int(situation.running.get("io_max_concurrency", -1))
    if own <= 0:
        return MOST_AT_ONCE
    return own if situation.running.get("io_method") == "io_uring" else min(own, MOST_AT_ONCE)


@rule(
    "backend_flush_after",
    source=DOC + "; docs/measured-results.md",
    risk="more writes if pages evicted from shared buffers soon change again",
    own=OwnValue.LEFT,
)
def backend_flush_after_by_kernel(situation: Situation) -> Verdict:
    """256 kB for web, OLTP and mixed in three cases: on network volumes, on machines up to 4 GB,
    and if this server's backends are seen to write much. Not if all data fit a quarter of memory.
    Without it the kernel gathers what backends write and sends it in one burst, behind which every
    commit waits. On a small volume, stalls of 4 to 20 s were measured, and 0.1 s with it. In memory
    on fast storage it cost a few per cent, so it stays at 0 there.
    """
    if situation.workload in {Workload.OLAP, Workload.DESKTOP}:
        return Keep("throughput of large writes matters more than stalls")
    data, memory, writes = situation.data, situation.memory, situation.buffer_writes
    if data and memory and data.size * 4 <= memory.size:
        return Keep("all data fit shared buffers: backends write little")
    if writes and backends_write_much(writes):
        return Change(
            FLUSH, f"backends write much {situation.observed}: it {SPREADS}", Basis.OBSERVED
        )
    small = memory is not None and memory.size <= SMALL
    if small or situation.storage in {Storage.EBS, Storage.NETWORK}:
        where = "a small machine" if small else "a network volume"
        return Change(FLUSH, f"on {where} it {SPREADS}", measured=FLUSH_AFTER)
    if situation.storage is None:
        return Unknown(("--storage",))
    return Keep("no known gain on local storage; vm.dirty_background_bytes limits the burst")


def backends_write_much(writes: BufferWrites) -> bool:
    """Whether backends write enough for the kernel to gather a burst (our judgement)."""
    return writes.window > 0 and writes.by_backends * PAGE / writes.window > MUCH


@rule(
    "io_method",
    source=DOC + "; release notes 18",
    risk="restart; io_uring needs a build with liburing and a kernel policy that allows it",
    own=OwnValue.LEFT,
)
def io_method_worker(situation: Situation) -> Verdict:
    """Left as it is. `worker` works everywhere; io_uring stops a server from starting where the
    build, the kernel or a container does not allow it. We have measured no gain, so it is not
    advised anywhere; the reason names what is against it here.
    """
    running = situation.running.get("io_method")
    if running == "sync":
        return Change("worker", "reads ahead without blocking the backend")
    if running == "io_uring":
        return Keep("already in use; no measurement shows a difference from `worker`")
    against = _against_io_uring(situation) or "`worker` works everywhere"
    return Keep(f"no measurement shows a gain of io_uring, and {against}")


def _against_io_uring(situation: Situation) -> str | None:
    """What would keep this server from using io_uring, as far as we see."""
    if situation.live and "io_uring" not in situation.enum_values.get("io_method", ()):
        return "this build lacks it"
    io_uring = situation.io_uring
    if io_uring is None:
        return None
    if io_uring.disabled:
        return f"kernel.io_uring_disabled = {io_uring.disabled} restricts it here"
    if io_uring.seccomp == FILTERED:
        return "a system call filter is in force here; those of containers usually forbid it"
    limit, rings = io_uring.locked_memory, _rings(situation)
    if limit is not None and limit < rings:
        return (
            f"the limit of locked memory is {pretty_bytes(limit)} here, "
            f"but its rings take {pretty_bytes(rings)}"
        )
    return None


def _rings(situation: Situation) -> Bytes:
    """The locked memory of the rings: one for each process that the server may have."""
    now = situation.running
    processes = AUXILIARY + sum(int(now.get(name, usual)) for name, usual in PROCESSES.items())
    deep = ceil(int(now.get("io_max_concurrency", MOST_AT_ONCE)) / MOST_AT_ONCE)
    return Bytes(processes * RING * max(deep, 1))


def _without_workers(situation: Situation) -> Verdict | None:
    if situation.running.get("io_method") == "io_uring":
        return Keep("only used with io_method = worker")
    return None


@rule("io_workers", source="documentation: I/O; release notes 18", risk="negligible")
def io_workers_by_cpus(situation: Situation, chosen: Chosen) -> Verdict:
    """A quarter of the CPUs, three at least (the default) and 32 at most; with their page tables no
    more than the memory budget spares.
    """
    wanted = greatest(USUAL_IO_WORKERS, least(32, CPUS / 4))
    to = limited("io_workers", wanted, chosen, situation, fewest=USUAL_IO_WORKERS)
    because = "a quarter of the CPUs, from three to 32" if to is wanted else SPARED
    return _without_workers(situation) or Change(to, because)


@rule("io_max_workers", source="documentation: I/O (19)", risk="negligible")
def io_max_workers_by_cpus(situation: Situation, chosen: Chosen) -> Verdict:
    """The pool of 19 grows by itself: up to half the CPUs, eight at least, 32 at most; with their
    page tables no more than the memory budget spares, or three.
    """
    wanted = greatest(8, least(32, CPUS / 2))
    return _without_workers(situation) or Change(
        limited("io_max_workers", wanted, chosen, situation, fewest=USUAL_IO_WORKERS),
        "the pool grows as needed, up to this size",
    )


@rule("io_min_workers", source="documentation: I/O (19)", risk="none")
def io_min_workers_by_cpus() -> Verdict:
    """Left as it is: the pool of 19 grows by itself."""
    return Keep("the pool grows as needed")


@rule("io_max_combine_limit", source=DOC + "; release notes 18", risk="restart")
def io_max_combine_limit_by_workload(workload: Workload) -> Verdict:
    """256 kB for OLAP; else left as it is. It only caps io_combine_limit, which is set with it
    (pgconfig raises the cap alone, and nothing changes).
    """
    if workload is not Workload.OLAP:
        return Keep("small reads: the default suffices")
    return Change(256 * KiB, "lets scans ask for 256 kB at once")


@rule("io_combine_limit", source=DOC + "; release notes 17", risk="negligible")
def io_combine_limit_by_workload(workload: Workload) -> Verdict:
    """256 kB for OLAP; else left as it is."""
    if workload is not Workload.OLAP:
        return Keep("small reads: the default suffices")
    return Change(256 * KiB, "scans read 256 kB at once")


@rule("bgwriter_delay", source=BACKGROUND, risk="none")
def bgwriter_delay_default() -> Verdict:
    """Left as it is: a busier writer was no better, or worse, on a small machine."""
    return Keep("a busier writer showed no gain when measured")


@rule("bgwriter_lru_maxpages", source=BACKGROUND, risk="more pages written earlier than needed")
def bgwriter_lru_maxpages_by_backend_writes(
    situation: Situation, writes: BufferWrites | None, cpus: Cpus | None
) -> Verdict:
    """500 where the writer was measured to stop early more than once a minute, on four CPUs or
    more; else left as it is.
    """
    if writes is None or cpus is None or cpus.count < 4:
        return Keep("no measurement calls for more")
    if writes.clean_stops <= writes.window / 60:
        return Keep(f"the writer stopped early only {writes.clean_stops} times")
    because = f"the writer stopped early {writes.clean_stops} times {situation.observed}"
    return Change(500, because, Basis.OBSERVED)


@rule("bgwriter_lru_multiplier", source=BACKGROUND, risk="none")
def bgwriter_lru_multiplier_default() -> Verdict:
    """Left as it is."""
    return Keep("no measurement calls for more")
