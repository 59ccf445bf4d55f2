"""Who may hold how much memory."""

from __future__ import annotations

from mrtuner.formula import MEMORY, greatest, least
from mrtuner.tuning.situation import Data, Memory, Situation, Workload
from mrtuner.tuning.verdict import Basis, Change, Keep, Verdict, rule
from mrtuner.units import MiB, pretty_bytes

DOC = "documentation: Resource Consumption, Memory"
A_QUARTER = "a quarter: hot pages stay, the kernel's cache and the sessions keep the rest"
#: Two fifths of 4 GB.
SMALL_BUFFERS = 1638 * MiB


@rule(
    "shared_buffers",
    basis=Basis.MEASURED,
    source=DOC + " (25 % of memory, up to 40 %); docs/proof.md",
    risk="restart; the server does not start if the kernel cannot give that much",
    always=True,
)
def as_much_as_writes_repay(
    workload: Workload, data: Data | None, memory: Memory | None
) -> Verdict:
    """A quarter of memory, leaving the rest to the kernel's cache and to sessions. For OLTP two
    fifths where data are known to fill it, and on machines up to 4 GB, where I/O is short too: a
    page that is changed again before the next checkpoint is then written once. A sixteenth on a
    desktop, which has other work.
    """
    if workload is Workload.DESKTOP:
        return Change(greatest(MEMORY / 16, 16 * MiB), "a sixteenth: a desktop has other work")
    if workload is not Workload.OLTP:
        return Change(greatest(MEMORY / 4, 16 * MiB), A_QUARTER)
    filled = SMALL_BUFFERS if data is None else data.size * 5 // 4
    share = greatest(MEMORY / 4, 16 * MiB, least(MEMORY * 2 / 5, filled))
    if memory is None or min(memory.size * 2 // 5, filled) <= memory.size // 4:
        return Change(share, A_QUARTER)
    what = "on a small machine" if data is None else f"for {pretty_bytes(data.size)} of data"
    return Change(share, f"up to two fifths {what}: a page changed again soon is written once")


@rule(
    "huge_pages",
    basis=Basis.ARITHMETIC,
    source="documentation: Linux Huge Pages",
    risk="with on, the server does not start when too few are reserved",
)
def try_and_reserve(situation: Situation) -> Verdict:
    """Left at try: it starts everywhere but does nothing until pages are reserved, so the report
    says how many to reserve and how. With on, a server whose shared memory has grown stays down.
    """
    if situation.running.get("huge_pages") == "off":
        return Change("try", "uses reserved huge pages and starts without them too")
    return Keep("try uses what is reserved and starts without; see the pages to reserve")


@rule(
    "effective_cache_size",
    basis=Basis.ARITHMETIC,
    source="documentation: Query Planning, Planner Cost Constants",
    risk="none: an estimate for the planner, no memory is taken",
)
def what_can_be_cached(workload: Workload) -> Verdict:
    """Three quarters of memory: shared buffers and the kernel's cache together; half on a
    desktop.
    """
    if workload is Workload.DESKTOP:
        return Change(MEMORY / 2, "half: other programs need cache too")
    return Change(MEMORY * 3 / 4, "shared buffers and the kernel's cache together")


@rule(
    "temp_buffers",
    source=DOC,
    risk="each session that uses temporary tables keeps this much until it ends",
)
def small_temporary_tables() -> Verdict:
    """Left as it is; raise it in the sessions that fill large temporary tables."""
    return Keep("matters only to sessions with large temporary tables: set it there")


@rule(
    "vacuum_buffer_usage_limit",
    basis=Basis.CONVENTION,
    source="release notes 17: the default became 2 MB",
    risk="none worth naming: at most an eighth of shared buffers is used",
)
def the_newer_default(situation: Situation) -> Verdict:
    """2 MB where the version's own default is still 256 kB (16)."""
    if situation.major == 16:
        return Change(2 * MiB, "the default of 17 and later: fewer flushes during vacuum")
    return Keep("the default is fine since 17")
