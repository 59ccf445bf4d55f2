"""Memory for sorts and hashes: decided last, from what everything else leaves."""

from __future__ import annotations

from mrtuner.formula import MEMORY, greatest, least
from mrtuner.tuning.budget import Chosen, consumers, room_for_sessions
from mrtuner.tuning.situation import Situation, Spills, Workload
from mrtuner.tuning.verdict import Basis, Change, Keep, Verdict, rule
from mrtuner.units import GiB, KiB, MiB, pretty_bytes

DOC = "documentation: Resource Consumption, Memory"


@rule(
    "hash_mem_multiplier",
    source=DOC + "; release notes 15",
    risk="hashes may take twice work_mem: the budget counts it",
)
def hashes_may_take_twice(situation: Situation) -> Verdict:
    """2, the default since 15: a hash that spills costs more than a sort that does. A value
    that you set stays and is counted.
    """
    if situation.major < 15 and float(situation.running.get("hash_mem_multiplier", 1)) == 1:
        return Change(2.0, "the default since 15: hashes suffer more from spilling than sorts")
    return Keep("hashes suffer more from spilling than sorts; the budget counts it")


@rule(
    "work_mem",
    basis=Basis.ARITHMETIC,
    source=DOC + "; memory budget in docs/concepts",
    risk="too much and many sorts at once end in the out-of-memory killer",
    always=True,
)
def what_the_budget_leaves(situation: Situation, chosen: Chosen, spills: Spills | None) -> Verdict:
    """What is left under the memory ceiling after shared memory, processes, autovacuum and
    maintenance, divided by every connection and parallel worker and by hash_mem_multiplier;
    with a cap, so that one query with many nodes cannot take it all. Temporary files that
    were measured lift the cap.
    """
    workload = situation.workload
    room = room_for_sessions(chosen, situation.major, situation.ceiling)
    number = consumers(chosen, workload)
    each = room / (number * chosen.hash_factor)
    cap = 2 * GiB if workload is Workload.OLAP else 256 * MiB
    share = MEMORY / (16 if workload is Workload.OLAP else 64)
    sessions = chosen.count("max_connections")
    because = f"what the budget leaves to {sessions} connections and the parallel workers at once"
    if spills and spills.files and spills.size / spills.files > cap / 4:
        cap *= 4
        share = share * 4
        average = pretty_bytes(int(spills.size / spills.files))
        because += f"; {spills.files} temporary files of {average} on average were written"
    formula = (
        f"({situation.ceiling:.0%} of memory - shared memory - processes - autovacuum - "
        f"maintenance) / {number} / {float(chosen.hash_factor):g}, "
        f"at most {share.prose()} and {pretty_bytes(cap)}"
    )
    return Change(greatest(64 * KiB, least(each, share, cap)), because, formula=formula)
