"""Steps that only an administrator of the machine can take: pages, kernel settings, checksums.

Each step is a function of known facts and yields nothing where there is nothing to gain. Sysctls
are written for the running kernel; the same lines in a file in /etc/sysctl.d survive a reboot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mrtuner.inputs import Workload
from mrtuner.tuning.advice import ManualStep
from mrtuner.tuning.budget import Budget, Chosen
from mrtuner.tuning.feasibility import Solution, pages_for
from mrtuner.tuning.situation import HUGE_PAGE, Situation
from mrtuner.units import Bytes, GiB, MiB, pretty_bytes
from mrtuner.wording import enumerated

if TYPE_CHECKING:
    from mrtuner.host.model import Host, HugePages, VirtualMemory
    from mrtuner.postgres.model import Server

#: From this size on, 1 GB pages save a level of the page tables compared with 2 MB ones.
LARGE_SHARED: Final = 64 * GiB
#: Dirty pages that the kernel may gather before writing, if the volume's speed is unknown.
DIRTY: Final = 256 * MiB
#: From this size on, the kernel's default of 10 % of memory makes a noticeable burst.
BURST: Final = GiB
USUAL_RATIO: Final = 10
SWAPPINESS: Final = 10
#: Share [%] of RAM that may be committed; the rest is for the kernel.
COMMIT: Final = 90
#: The end of every sysctl step.
KEEP: Final = "  # also in a file of /etc/sysctl.d/"


def steps(
    situation: Situation,
    chosen: Chosen,
    budget: Budget | None,
    host: Host | None,
    server: Server | None,
    *,
    reserved: Solution | None = None,
) -> Iterator[ManualStep]:
    """Yield all steps for this machine; none if a provider manages it.

    `reserved` is the solution with huge pages reserved, if they are not proved.
    """
    if server and not server.platform.alter_system:
        return
    vm = host.vm.value if host and host.vm else None
    yield from reserve_huge_pages(situation, chosen, budget, host, reserved)
    if not chosen.plain.get("backend_flush_after"):  # which limits the same writes
        yield from dirty_pages(situation, vm)
    if vm and situation.workload is not Workload.DESKTOP:
        yield from overcommit(vm, host, budget)
        yield from swapping(vm, host)
        yield from transparent_huge_pages(host)
        yield from numa(vm, budget)
    yield from checksums(situation, server)


def reserve_huge_pages(
    situation: Situation,
    chosen: Chosen,
    budget: Budget | None,
    host: Host | None,
    with_them: Solution | None,
) -> Iterator[ManualStep]:
    """Huge pages to reserve for shared memory: the machine's, or 1 GB if it is very large."""
    gain = _gain(chosen, budget, with_them)
    if with_them is not None:
        budget = with_them.budget
    if budget is None or budget.shared < GiB or not situation.may_use_huge_pages:
        return
    proved = situation.huge_pages
    if proved and proved.covers is not None and proved.hold(budget.shared):
        return
    found = host.huge_pages.value if host and host.huge_pages else None
    size = found.size if found else HUGE_PAGE
    if situation.huge_page != size:  # huge_page_size: the kernel's command line reserves them
        return
    pages, own = pages_for(budget, size), _own_pages(situation, found)
    others = max(0, found.used - own) if found else 0
    if found and found.reserved >= pages + others:
        return
    if found and found.allowed is not None and found.allowed + own < pages:
        return  # a cgroup's limit, in Kubernetes hugepages-2Mi, has to be raised first
    commands = [f"sysctl -w vm.nr_hugepages={pages + others}{KEEP}"]
    if situation.major >= 15:
        commands.append(
            'postgres -D "$PGDATA" -C shared_memory_size_in_huge_pages  # the exact '
            "number; stop the server first"
        )
    besides = f" beside the {others} that others use" if others else ""
    yield ManualStep(
        f"reserve {pages} huge pages of {pretty_bytes(size)} for shared memory{besides}, so that "
        f"huge_pages = try takes effect{gain}",
        tuple(commands),
        now="" if found is None else f"{found.reserved} reserved",
        risk="nothing else can use reserved memory, even while the server is down",
    )
    if situation.major >= 14 and budget.shared >= LARGE_SHARED and size < GiB:
        yield _huge_pages_of_1_gb(budget, host)


def _own_pages(situation: Situation, pages: HugePages | None) -> int:
    """Pages in use that are proved to be the server's: the sysctl sets the sum with all others."""
    proved = situation.huge_pages.covers if situation.huge_pages else None
    return max(0, proved // pages.size - pages.unclaimed) if proved and pages else 0


def _gain(chosen: Chosen, budget: Budget | None, with_them: Solution | None) -> str:
    """Return what huge pages gain, in words: larger settings, or faster cached reads."""
    if with_them is None or budget is None or not budget.page_tables:
        return " (worth most for cached reads)"
    gains = []
    for name in ("shared_buffers", "work_mem"):
        before = chosen.settled().size(name).evaluate({})
        after = with_them.chosen.settled().size(name).evaluate({})
        if after != before:
            gains.append(f"{name} {pretty_bytes(after)} instead of {pretty_bytes(before)}")
    saved = f": saves up to {pretty_bytes(budget.page_tables)} of page tables"
    return f"{saved}; then --huge-pages gives {enumerated(gains)}" if gains else saved


def _huge_pages_of_1_gb(budget: Budget, host: Host | None) -> ManualStep:
    pages = pages_for(budget, Bytes(GiB))
    vm = host.vm.value if host and host.vm else None
    reserved = vm.gigantic if vm else None
    return ManualStep(
        f"or {pages} pages of 1 GB instead: shared memory is large enough for them",
        (
            f"# on the kernel's command line: hugepagesz=1G hugepages={pages}",
            "ALTER SYSTEM SET huge_page_size = '1GB';  -- then restart",
        ),
        now="" if reserved is None else f"{reserved} reserved",
        risk="contiguous memory is available only at boot; not every CPU supports 1 GB pages",
    )


def dirty_pages(situation: Situation, vm: VirtualMemory | None) -> Iterator[ManualStep]:
    """Limit what the kernel gathers before writing, if backend_flush_after does not."""
    if situation.memory is None or situation.workload in {Workload.OLAP, Workload.DESKTOP}:
        return
    if vm and vm.dirty_background_bytes:
        return
    ratio = USUAL_RATIO if vm is None else vm.dirty_background_ratio
    memory = situation.memory.size if vm is None or vm.ram is None else vm.ram
    if ratio is None or memory * ratio // 100 < BURST:
        return
    least = _a_second_of_writing(situation)
    yield ManualStep(
        f"let the kernel start writing at {pretty_bytes(least)} of dirty pages instead of "
        f"{ratio} % of memory ({pretty_bytes(memory * ratio // 100)}): commits wait behind "
        "shorter bursts",
        (f"sysctl -w vm.dirty_background_bytes={least}{KEEP}",),
        now="" if vm is None else f"vm.dirty_background_ratio = {ratio}",
        risk="pages that soon change again are written more often, whichever program writes them",
    )
    if vm and not vm.dirty_bytes and vm.dirty_ratio is not None:
        yield ManualStep(
            f"and make writers wait at {pretty_bytes(8 * least)} instead of "
            f"{vm.dirty_ratio} % of memory: they wait sooner, but not as long",
            (f"sysctl -w vm.dirty_bytes={8 * least}{KEEP}",),
            now=f"vm.dirty_ratio = {vm.dirty_ratio}",
            risk="bulk loads and backups slow down to the volume's pace sooner",
        )


def _a_second_of_writing(situation: Situation) -> int:
    """What the volume writes in a second, in whole MB; `DIRTY` if unknown."""
    known = situation.throughput
    if known is None or known.bandwidth is None:
        return DIRTY
    return max(64 * MiB, min(DIRTY * 4, known.bandwidth // MiB * MiB))


def overcommit(vm: VirtualMemory, host: Host | None, budget: Budget | None) -> Iterator[ManualStep]:
    """Advise strict overcommit, on a machine that PostgreSQL has to itself.

    Not inside a cgroup with a memory limit, where the limit kills processes anyway; nor if more is
    already committed, since programs would fail. The limit is a share of the memory that is not in
    huge pages; shared memory may be in them soon. Source: PostgreSQL documentation, Linux Memory
    Overcommit; the kernel's Documentation/filesystems/proc.rst, CommitLimit.
    """
    if vm.overcommit_memory in {None, 2} or vm.ram is None or vm.committed is None:
        return
    swap = host.swap.value if host and host.swap else 0
    huge = max(host.in_huge_pages if host else 0, budget.shared if budget else 0)
    if (host and host.limited) or vm.committed > (vm.ram - huge) * COMMIT // 100 + swap:
        return
    yield ManualStep(
        "let the kernel refuse memory that it does not have, so that a statement fails "
        "instead of the out-of-memory killer ending the server (only on a machine "
        "dedicated to PostgreSQL)",
        (f"sysctl -w vm.overcommit_ratio={COMMIT} vm.overcommit_memory=2{KEEP}",),
        now=f"vm.overcommit_memory = {vm.overcommit_memory}, {pretty_bytes(vm.committed)} of "
        f"{pretty_bytes(vm.ram)} committed",
        risk="programs that reserve more memory than they use may not start; huge pages that are "
        "reserved later lower the limit",
    )


def swapping(vm: VirtualMemory, host: Host | None) -> Iterator[ManualStep]:
    """Make the kernel drop cache before it swaps programs out, if there is swap."""
    swap = host.swap.value if host and host.swap else 0
    if not swap or vm.swappiness is None or vm.swappiness <= SWAPPINESS:
        return
    yield ManualStep(
        "let the kernel drop cache before it swaps out sessions",
        (f"sysctl -w vm.swappiness={SWAPPINESS}{KEEP}",),
        now=f"vm.swappiness = {vm.swappiness}, {pretty_bytes(swap)} of swap",
        risk="unused memory stays in RAM and leaves less for the cache",
    )


def transparent_huge_pages(host: Host | None) -> Iterator[ManualStep]:
    """Give transparent huge pages only to programs that ask, instead of `always`.

    Source: PostgreSQL documentation, huge_pages: their use is discouraged.
    """
    pages = host.huge_pages.value if host and host.huge_pages else None
    if pages is None or pages.transparent != "always":
        return
    yield ManualStep(
        "give transparent huge pages only to programs that ask for them: the kernel "
        "stalls sessions while it assembles such pages",
        (
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
            "  # and transparent_hugepage=madvise on the kernel's command line",
        ),
        now="always",
        risk="programs that benefit from them without asking become slower",
    )


def numa(vm: VirtualMemory, budget: Budget | None) -> Iterator[ManualStep]:
    """Spread shared memory over all nodes if it is more than half of one node's share."""
    if vm.nodes < 2 or vm.ram is None or budget is None:
        return
    if vm.zone_reclaim_mode:
        yield ManualStep(
            "let a node borrow memory from another before it drops cache",
            (f"sysctl -w vm.zone_reclaim_mode=0{KEEP}",),
            now=f"vm.zone_reclaim_mode = {vm.zone_reclaim_mode}",
            risk="some reads come from the other node",
        )
    if budget.shared > vm.ram // vm.nodes // 2:
        yield ManualStep(
            f"spread shared memory over the {vm.nodes} NUMA nodes: otherwise one of them fills up",
            (
                'numactl --interleave=all pg_ctl start -D "$PGDATA"',
                "# or in the systemd unit: NUMAPolicy=interleave, NUMAMask=all",
            ),
            now=f"{vm.nodes} nodes of {pretty_bytes(vm.ram // vm.nodes)}",
            risk="restart; every session gets average memory latency",
        )


def checksums(situation: Situation, server: Server | None) -> Iterator[ManualStep]:
    """Enable data checksums, if the server runs without them."""
    if server is None or situation.running.get("data_checksums") != "off":
        return
    size = sum(server.databases.values())
    yield ManualStep(
        "enable data checksums: without them, pages damaged by storage go unnoticed",
        (
            'pg_ctl stop -D "$PGDATA"',
            'pg_checksums --enable --progress -D "$PGDATA"',
            'pg_ctl start -D "$PGDATA"',
        ),
        now="data_checksums = off",
        risk=f"the server is down while {pretty_bytes(size)} is read and written; standbys need "
        "the same; hint bits are then logged, so WAL grows",
    )
