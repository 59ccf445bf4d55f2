"""Memory for sorts and hashes: decided last, from what is useful and what the budget leaves.

What more of it gains was measured (docs/measured-results.md, sorts and hashes). A sort gains
until it needs only one merge pass. A large hash table was slower than batches that fit the CPU's
caches, whose temporary files mostly stay in the kernel's cache, so it keeps its default of 8 MB.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import Final

from mrtuner.formula.expression import MEMORY, Expr, as_expr, greatest, least
from mrtuner.inputs import Workload
from mrtuner.tuning.budget import Chosen, consumers, room_for_sessions
from mrtuner.tuning.situation import Data, Situation, Spills
from mrtuner.tuning.verdict import Basis, Change, Keep, Verdict, rule
from mrtuner.units import Bytes, GiB, KiB, MiB, pretty_bytes

DOC = "documentation: Resource Consumption, Memory"
#: A hash table's default (4 MB times 2), and one merge pass for a sort of 240 MB.
ENOUGH: Final = 8 * MiB
#: One merge pass for 16 GB: enough for what large reports sort and hash.
ENOUGH_FOR_REPORTS: Final = 64 * MiB
#: Memory that a merge needs for each sorted run. Source: tuplesort.c, tuplesort_merge_order: a
#: buffer of 32 blocks, and two blocks of overhead.
MERGE_INPUT: Final = 34 * 8 * KiB
#: When measured, above this even a sort that fits was slower than merging runs.
MOST: Final = GiB


@rule(
    "hash_mem_multiplier",
    basis=Basis.MEASURED,
    source=DOC + "; release notes 15; docs/measured-results.md, sorts and hashes",
    risk="large hash joins and aggregates use more batches, and more temporary files",
)
def hash_mem_multiplier_as_in_15(situation: Situation) -> Verdict:
    """1, since work_mem is raised instead: large hash tables were slower than batches that fit
    the CPU's caches. A value that you set stays and is counted.
    """
    if situation.major < 15:
        return Keep("1 is the default before 15; the budget counts it")
    if situation.live and situation.origins.get("hash_mem_multiplier") != "default":
        return Keep("set explicitly; the budget counts it")
    return Change(1.0, "work_mem is enough: larger hash tables were slower than several batches")


@rule(
    "work_mem",
    basis=Basis.MEASURED,
    source=DOC + "; docs/measured-results.md, sorts and hashes; memory budget in docs/concepts",
    risk="if too high, many sorts at once run out of memory",
    always=True,
)
def work_mem_within_the_budget(
    situation: Situation, chosen: Chosen, data: Data | None, spills: Spills | None
) -> Verdict:
    """8 MB, with which a sort of 240 MB takes one merge pass; for mixed and OLAP a thousandth of
    the data (of memory, where the data are not known), up to 64 MB. More where temporary files
    were measured that need it. Never more than the budget leaves to each: what is below the memory
    ceiling after shared memory, page tables, processes, autovacuum and maintenance, divided by
    every connection (with --active, by the active ones) and parallel worker and by
    hash_mem_multiplier.
    """
    active = situation.connections.active
    number = consumers(chosen, situation.workload, active)
    room = room_for_sessions(chosen, situation.major, situation.ceiling, situation.huge_pages)
    each = room / (number * chosen.hash_factor)
    enough, because = _enough(situation, data, spills)
    own = _set_by_hand(situation)
    if own and not _less(each, as_expr(own), situation) and _less(enough, as_expr(own), situation):
        return Keep("set to more than is usually useful, and the budget has room for it")
    formula = (
        f"({situation.ceiling:.0%} of memory - shared memory - page tables - processes - "
        f"autovacuum - maintenance) / {number} / {float(chosen.hash_factor):g}, "
        f"at most {enough.prose(lambda size: pretty_bytes(Bytes(size)))}"
    )
    wanted = greatest(64 * KiB, least(each, enough))
    if _less(each, enough, situation):
        sessions = chosen.count("max_connections")
        who = f"{sessions} connections" if active is None else f"{active} active sessions"
        because = f"what the budget leaves for {who} and the parallel workers"
        return Change(wanted, because, Basis.ARITHMETIC, formula=formula)
    return Change(wanted, because, formula=formula)


def _set_by_hand(situation: Situation) -> int | None:
    """A live server's own work_mem [bytes]; None if it is the default."""
    if not situation.live or situation.origins.get("work_mem", "default") == "default":
        return None
    return int(situation.running["work_mem"]) * KiB


def _enough(situation: Situation, data: Data | None, spills: Spills | None) -> tuple[Expr, str]:
    """The largest useful size [bytes], and why."""
    enough: Expr = as_expr(ENOUGH)
    if situation.workload in {Workload.MIXED, Workload.OLAP}:
        scale = MEMORY if data is None else as_expr(data.size)
        enough = greatest(ENOUGH, least(scale / 1024, ENOUGH_FOR_REPORTS))
    if spills and spills.files:
        average = Bytes(spills.size // spills.files)
        wanted = min(MOST, one_merge_pass(average))
        if _less(enough, as_expr(wanted), situation):
            why = f"one merge pass for temporary files of {pretty_bytes(average)} on average"
            return as_expr(wanted), why
    return enough, "one merge pass for large sorts; larger hash tables were slower when measured"


def one_merge_pass(size: Bytes) -> int:
    """Return the work_mem [bytes, whole MB] that sorts this many bytes in one merge pass.

    All size / work_mem runs, each with a buffer of MERGE_INPUT, have to fit into work_mem.
    """
    return ceil(sqrt(size * MERGE_INPUT) / MiB) * MiB


def _less(one: Expr, other: Expr, situation: Situation) -> bool:
    """Whether the first is smaller on this machine; False if the machine's memory is unknown."""
    machine = situation.machine
    return "memory" in machine and one.evaluate(machine) < other.evaluate(machine)
