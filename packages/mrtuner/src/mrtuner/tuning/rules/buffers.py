"""Shared buffers, huge pages, and buffers of temporary tables and vacuum."""

from __future__ import annotations

from fractions import Fraction

from mrtuner.formula.expression import MEMORY, Expr, greatest, least
from mrtuner.inputs import Workload
from mrtuner.tuning.budget import BACKEND, PAGE_TABLE_SHARE, Chosen, ceiling, shared_bound
from mrtuner.tuning.measured import FIVE_EIGHTHS, TWO_FIFTHS
from mrtuner.tuning.situation import BUSY_BACKENDS, Data, HugePages, Situation
from mrtuner.tuning.verdict import Basis, Change, Keep, OwnValue, Verdict, rule
from mrtuner.units import GiB, MiB, pretty_bytes

DOC = "documentation: Resource Consumption, Memory"
A_QUARTER = "a quarter: the kernel's cache and the sessions need the rest"
#: Two fifths of 4 GB.
SMALL_BUFFERS = 1638 * MiB
SMALL_MACHINE = 4 * GiB
#: Share of the ceiling for buffers plus the page tables and private memory of all sessions; the
#: rest is for sorts, vacuum and maintenance. Three fifths of memory under the usual ceiling.
RESIDENT = Fraction(2, 3)
#: Where the volume binds, buffers get all but this share of the ceiling for vacuum, maintenance and
#: descriptors, the server's own processes, and the default work_mem for each session.
OTHERS = Fraction(1, 5)
OTHERS_FIXED = 64 * MiB
DEFAULT_SORT = 2 * 4 * MiB  # with the usual hash_mem_multiplier
#: Buffers below this share of the wanted size are of no use: there are too many sessions.
LEAST_BUFFERS = Fraction(1, 8)


@rule(
    "shared_buffers",
    source=DOC + " (25 % of memory, up to 40 %); docs/measured-results.md",
    risk="restart; the server does not start if the kernel cannot provide that much",
    always=True,
)
def shared_buffers_by_memory_and_writes(
    situation: Situation, chosen: Chosen, data: Data | None, huge_pages: HugePages | None
) -> Verdict:
    """A quarter of memory. Two fifths for OLTP if the data are large enough to fill it, or if
    memory is 4 GB or less: pages that change often are then written less often. Five eighths for
    OLTP if memory is 4 GB or less, the data are larger and the volume allows at most 6,000 requests
    a second. Two fifths also if sessions had to write a tenth of all buffers themselves, for hours
    (16 and later), and the data can use it. A sixteenth on a desktop, which has other work. Less
    where many sessions need the memory: each takes its process and, without huge pages, page tables
    of up to 1/512 of the buffers.
    """
    sessions, machine = chosen.count("max_connections"), situation.machine
    if more := _up_to_five_eighths(situation, sessions, data):
        return more
    wanted = _repaid(situation, data)
    if not isinstance(wanted.to, Expr) or situation.memory is None:
        return wanted
    full = wanted.to.evaluate(machine)
    processes = sessions + chosen.count("max_worker_processes")
    bound = shared_bound(full, 16 * MiB, processes).evaluate(machine)
    held = huge_pages is not None and huge_pages.hold(bound)
    most = _beside_sessions(sessions, situation.ceiling, page_tables=not held)
    if full <= most.evaluate(machine):
        return wanted
    because = f"limited by the processes of {sessions} sessions: fewer sessions leave more"
    if not held:
        because = (
            f"limited by the page tables of {sessions} sessions: fewer sessions or huge "
            "pages leave more"
        )
    to = greatest(16 * MiB, wanted.to * LEAST_BUFFERS, least(wanted.to, most))
    return Change(to, because, Basis.ARITHMETIC)


def _beside_sessions(sessions: int, share: float, *, page_tables: bool) -> Expr:
    """The most buffers that leave room for what every session keeps permanently."""
    room = ceiling(share) * RESIDENT - sessions * BACKEND
    return room / (1 + Fraction(sessions, PAGE_TABLE_SHARE)) if page_tables else room


def _repaid(situation: Situation, data: Data | None) -> Change:
    """Return what workload, data, memory and counters call for, however many sessions there are."""
    workload = situation.workload
    if workload is Workload.DESKTOP:
        return Change(
            greatest(MEMORY / 16, 16 * MiB), "a sixteenth: a desktop runs other programs too"
        )
    usual = greatest(MEMORY / 4, 16 * MiB)
    share = situation.buffer_writes.share if situation.buffer_writes else None
    if share is not None and share >= BUSY_BACKENDS and data and workload is not Workload.OLAP:
        seen = f"sessions wrote {share:.0%} of all buffers to make room {situation.observed}"
        because = f"up to two fifths: {seen}"
        return _up_to_two_fifths(situation, usual, data.size * 5 // 4, because, Basis.OBSERVED)
    if workload is not Workload.OLTP:
        return Change(usual, A_QUARTER)
    what = "on a small machine" if data is None else f"for {pretty_bytes(data.size)} of data"
    because = f"up to two fifths {what}: pages that soon change again are written only once"
    filled = SMALL_BUFFERS if data is None else data.size * 5 // 4
    return _up_to_two_fifths(situation, usual, filled, because, None)


def _up_to_five_eighths(situation: Situation, sessions: int, data: Data | None) -> Change | None:
    """More than two fifths, where a small OLTP machine waits for a volume of few requests."""
    memory, volume = situation.memory, situation.throughput
    if situation.workload is not Workload.OLTP or not (memory and data and volume):
        return None
    if not volume.few_requests or not data.size > memory.size <= SMALL_MACHINE:
        return None
    room = ceiling(situation.ceiling) * (1 - OTHERS) - OTHERS_FIXED
    room = room - sessions * (BACKEND + DEFAULT_SORT)
    buffers = least(MEMORY * 5 / 8, room / (1 + Fraction(sessions, PAGE_TABLE_SHARE)))
    if buffers.evaluate(situation.machine) <= memory.size * 2 // 5:
        return None
    because = (
        f"up to five eighths: {pretty_bytes(data.size)} of data do not fit, and the volume allows "
        f"few requests ({volume.iops:,} a second)"
    )
    return Change(buffers, because, measured=FIVE_EIGHTHS)


def _up_to_two_fifths(
    situation: Situation, usual: Expr, filled: int, because: str, basis: Basis | None
) -> Change:
    """More than a quarter of memory, as far as `filled` [bytes] can use it."""
    most = greatest(usual, least(MEMORY * 2 / 5, filled))
    memory = situation.memory
    if memory is None or min(memory.size * 2 // 5, filled) <= memory.size // 4:
        return Change(most, A_QUARTER)
    return Change(most, because, basis, measured=TWO_FIFTHS)


@rule(
    "huge_pages",
    basis=Basis.ARITHMETIC,
    source="documentation: Linux Huge Pages",
    risk="with on, the server does not start if too few are reserved",
    own=OwnValue.LEFT,
)
def huge_pages_where_shared_memory_is_large(situation: Situation) -> Verdict:
    """Left at try: it starts everywhere but does nothing until pages are reserved, so the report
    says how many to reserve and how. With on, a server whose shared memory has grown stays down.
    """
    if situation.running.get("huge_pages") == "off":
        return Change("try", "uses reserved huge pages and starts without them too")
    return Keep(
        "try uses reserved pages and starts without them too; the report says how many to reserve"
    )


@rule(
    "temp_buffers",
    source=DOC,
    risk="each session that uses temporary tables keeps this much until it ends",
)
def temp_buffers_for_small_tables() -> Verdict:
    """Left as it is; raise it in the sessions that fill large temporary tables."""
    return Keep("matters only for sessions with large temporary tables: set it there")


@rule(
    "vacuum_buffer_usage_limit",
    basis=Basis.CONVENTION,
    source="release notes 17: the default became 2 MB",
    risk="negligible: at most an eighth of shared buffers is used",
)
def vacuum_buffer_usage_limit_as_in_17(situation: Situation) -> Verdict:
    """2 MB where the version's own default is still 256 kB (16)."""
    if situation.major == 16:
        return Change(2 * MiB, "the default of 17 and later: fewer flushes during vacuum")
    return Keep("the default is fine since 17")
