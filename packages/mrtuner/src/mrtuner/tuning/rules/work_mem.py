"""Memory for sorts and hashes: decided last, from what is useful and what the budget leaves.

What more of it gains a sort was measured (docs/measured-results.md, sorts and hashes): it gains
until it needs only one merge pass. What hash tables gain depends on where their batches go. They
are quick in the kernel's cache and ruinous on a slow volume, so their multiplier is never
lowered.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import Final

from mrtuner.formula.expression import MEMORY, Expr, as_expr, greatest, least
from mrtuner.inputs import Workload
from mrtuner.tuning.budget import ENOUGH, Chosen, consumers, room_for_sessions
from mrtuner.tuning.measured import ONE_MERGE_PASS, SPILLED_GROUPS
from mrtuner.tuning.situation import Data, Situation, Spills
from mrtuner.tuning.verdict import Basis, Change, Keep, Verdict, rule
from mrtuner.units import Bytes, GiB, KiB, MiB, pretty_bytes

DOC = "documentation: Resource Consumption, Memory"
#: One merge pass for 15 GB: enough for what large reports sort.
ENOUGH_FOR_REPORTS: Final = 64 * MiB
#: Memory that a merge needs for each sorted run. Source: tuplesort.c, tuplesort_merge_order: a
#: buffer of 32 blocks, and two blocks of overhead.
MERGE_INPUT: Final = 34 * 8 * KiB
#: From here on an analytic server may take more than was measured to pay, since there is room; if
#: its data are not known, they are taken to be larger than memory (our judgement).
LARGE: Final = 128 * GiB
#: When measured, above this even a sort that fits was slower than merging runs.
MOST: Final = GiB


@rule(
    "hash_mem_multiplier",
    basis=Basis.ARITHMETIC,
    source=DOC + "; release notes 15",
    risk="if too high, many hash joins at once run out of memory",
)
def hash_mem_multiplier_never_lowered() -> Verdict:
    """Left as it is, and counted in the memory budget. A lower one would make hash joins,
    aggregates and hashed subplans spill, and turn NOT IN over many rows into a loop.
    """
    return Keep("less would make hash joins and subplans spill; the budget counts it")


@rule(
    "work_mem",
    basis=Basis.CONVENTION,
    source=DOC + "; docs/measured-results.md, sorts and hashes; memory budget in docs/concepts",
    risk="if too high, many sorts at once run out of memory",
    always=True,
)
def work_mem_within_the_budget(
    situation: Situation, chosen: Chosen, data: Data | None, spills: Spills | None
) -> Verdict:
    """8 MB: with it a sort of 240 MB takes one merge pass. For mixed and OLAP as much as sorts all
    data in one pass (a thousandth of memory, if the data are not known), up to 64 MB, for OLAP on
    128 GB and more up to 1 GB. For OLAP with more data than memory, or unknown data on 128 GB and
    more, at least 64 MB and up to 1 GB, half of what the budget leaves: the kernel's cache will not
    hold the temporary files. More if the server's temporary files need it. Never more than the
    memory budget allows: what remains after shared memory, page tables, processes and maintenance,
    divided by the number of sessions and parallel workers that may sort at once, and by
    hash_mem_multiplier.
    """
    active = situation.connections.active
    number = consumers(chosen, situation.workload, active)
    room = room_for_sessions(chosen, situation.major, situation.ceiling, situation.huge_pages)
    each = room / (number * chosen.hash_factor)
    enough, because, basis = _enough(situation, data, spills, each)
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
    measured = SPILLED_GROUPS if _files_leave_the_cache(situation, data) else ONE_MERGE_PASS
    return Change(wanted, because, basis, formula=formula, measured=measured)


def _enough(
    situation: Situation, data: Data | None, spills: Spills | None, each: Expr
) -> tuple[Expr, str, Basis | None]:
    """The largest useful size [bytes], why, and on what basis if it is not the rule's own."""
    enough: Expr = as_expr(ENOUGH)
    why, basis = None, None
    if situation.workload in {Workload.MIXED, Workload.OLAP}:
        most = MEMORY / 1024 if data is None else as_expr(one_merge_pass(data.size))
        large = situation.workload is Workload.OLAP and _large(situation)
        enough = greatest(ENOUGH, least(most, MOST if large and data else ENOUGH_FOR_REPORTS))
    if _files_leave_the_cache(situation, data):
        enough, why = as_expr(ENOUGH_FOR_REPORTS), "temporary files would not stay in the cache"
        half = least(each / 2, MOST)
        if _less(enough, half, situation):
            enough, basis, why = half, Basis.CONVENTION, f"half of what the budget leaves: {why}"
    if spills and spills.files:
        average = Bytes(spills.size // spills.files)
        wanted = min(MOST, one_merge_pass(average))
        if _less(enough, as_expr(wanted), situation):
            files = f"temporary files of {pretty_bytes(average)} on average"
            why = f"one merge pass for {files} {situation.observed}"
            return as_expr(wanted), why, Basis.OBSERVED
    return enough, why or _one_pass_words(enough, situation), basis


def _files_leave_the_cache(situation: Situation, data: Data | None) -> bool:
    """Whether an analytic server's files compete with more data than the cache can hold."""
    if situation.workload is not Workload.OLAP or situation.memory is None:
        return False
    return _large(situation) if data is None else data.size > situation.memory.size


def _large(situation: Situation) -> bool:
    return situation.memory is not None and situation.memory.size >= LARGE


def _one_pass_words(enough: Expr, situation: Situation) -> str:
    """What this much memory sorts in one merge pass."""
    size = enough.evaluate(situation.machine) if situation.memory else ENOUGH
    sorted_at_once = Bytes(size * (size // MERGE_INPUT))
    return f"a sort of up to {pretty_bytes(sorted_at_once)} takes one merge pass"


def one_merge_pass(size: Bytes) -> int:
    """Return the work_mem [bytes, whole MB] that sorts this many bytes in one merge pass.

    All size / work_mem runs, each with a buffer of MERGE_INPUT, have to fit into work_mem.
    """
    return ceil(sqrt(size * MERGE_INPUT) / MiB) * MiB


def _less(one: Expr, other: Expr, situation: Situation) -> bool:
    """Whether the first is smaller on this machine; False if the machine's memory is unknown."""
    machine = situation.machine
    return "memory" in machine and one.evaluate(machine) < other.evaluate(machine)
