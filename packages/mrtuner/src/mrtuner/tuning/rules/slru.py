"""Caches of transaction status and similar data, each sized by its own parameter since 17."""

from __future__ import annotations

from mrtuner.tuning.situation import Situation, Slrus
from mrtuner.tuning.verdict import Basis, Change, Keep, Verdict, rule
from mrtuner.units import KiB, MiB

DOC = "documentation: Resource Consumption, Memory; Cumulative Statistics, pg_stat_slru"
#: Fewer reads a second than this, or a smaller share of accesses, cost no noticeable time.
READS, SHARE = 10.0, 0.01
#: One cache gets no more than this without a measurement.
LARGEST = 64 * MiB


def slru_buffers_where_they_miss(name: str, situation: Situation, slrus: Slrus | None) -> Verdict:
    """Left as it is, unless the cache was measured to read more than ten pages a second, and for
    more than a hundredth of all requests. Then twice what is in force, 64 MB at most.
    """
    reads, misses = (of.get(name, 0.0) for of in (slrus.reads, slrus.misses)) if slrus else (0, 0)
    now = int(situation.running.get(name, 0)) * 8 * KiB
    if reads <= READS or misses <= SHARE or not now:
        return Keep("no measurement calls for more")
    seen = f"{reads:.0f} pages a second were read, {misses:.0%} of those requested"
    if now >= LARGEST:
        return Keep(f"{seen}; it is already large")
    because = f"{seen}, {situation.observed}: doubled"
    return Change(min(LARGEST, now * 2), because, Basis.OBSERVED)


def _register(name: str) -> None:
    def decide(situation: Situation, slrus: Slrus | None) -> Verdict:
        return slru_buffers_where_they_miss(name, situation, slrus)

    decide.__doc__ = slru_buffers_where_they_miss.__doc__
    decide.__name__ = f"{name}_where_it_misses"
    rule(name, source=DOC, risk="restart; uses that much shared memory")(decide)


for _name in (
    "transaction_buffers", "subtransaction_buffers", "multixact_offset_buffers",
    "multixact_member_buffers", "commit_timestamp_buffers", "notify_buffers",
    "serializable_buffers",
):  # fmt: skip
    _register(_name)
