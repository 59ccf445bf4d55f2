"""Whether the worst case fits the memory, and if not, which input must give."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

from mrtuner.errors import DoesNotFit
from mrtuner.tuning.advice import Advice
from mrtuner.tuning.budget import LEAST_WORK_MEM, Budget, Chosen, draw_up
from mrtuner.tuning.engine import decide
from mrtuner.tuning.situation import USUAL_CEILING, Connections, Memory, Situation
from mrtuner.units import Bytes, GiB, MiB, TiB, pretty_bytes


@dataclass(frozen=True, slots=True)
class Solution:
    """Every rule's answer for one situation, and the budget they make."""

    advice: dict[str, Advice]
    chosen: Chosen
    budget: Budget | None

    @property
    def work_mem(self) -> Bytes:
        """What each sort may take on this machine."""
        return Bytes(self.chosen.settled().size("work_mem").evaluate({}))

    @property
    def holds(self) -> bool:
        """True within the ceiling with a useful work_mem, or when memory is unknown."""
        return self.budget is None or (self.budget.fits and self.work_mem >= LEAST_WORK_MEM)


def solve(situation: Situation) -> Solution:
    """Decide every parameter and add up the budget; nothing is refused yet."""
    advice, chosen = decide(situation)
    budget = draw_up(
        chosen,
        major=situation.major,
        workload=situation.workload,
        share=situation.ceiling,
        machine=situation.machine,
    )
    return Solution(advice, chosen, budget)


def refuse_overflow(situation: Situation, solution: Solution) -> None:
    """Raise DoesNotFit where the solution does not hold; the hint says what to change."""
    budget = solution.budget
    if budget is None or solution.holds:
        return
    sessions = solution.chosen.count("max_connections")
    raise DoesNotFit(
        f"{sessions} connections do not fit into {pretty_bytes(budget.memory)}: even with "
        f"{pretty_bytes(LEAST_WORK_MEM)} of work_mem the worst case passes the ceiling of "
        f"{pretty_bytes(budget.ceiling)}",
        _what_must_give(situation, sessions),
    )


def _what_must_give(situation: Situation, sessions: int) -> str:
    """Culprits first: a size that cannot be changed here; then connections, then memory."""
    for name in ("max_connections", "shared_buffers", "work_mem", "maintenance_work_mem"):
        if name in situation.fixed:
            return f"{name} is fixed ({situation.fixed[name]}): lower it there."
    fewer, more = most_sessions(situation, sessions), _more(situation)
    if fewer:
        return (
            f"Lower --connections to {fewer} (a pooler serves more clients with them), or {more}."
        )
    return f"Not even one connection fits: {more}."


def _more(situation: Situation) -> str:
    """Memory that suffices; a higher ceiling too, where it was set below the usual."""
    memory = least_memory(situation)
    ways = [f"give it {_at_least(memory)} of memory"] if memory else []
    share = least_ceiling(situation) if situation.ceiling < USUAL_CEILING else None
    if share is not None:
        ways.append(f"raise --ceiling to {share:g}")
    return ", or ".join(ways) or "give it more memory"


def _at_least(size: Bytes) -> str:
    """A size for people that still suffices when it is given back to us: rounded up."""
    unit, name = (GiB, "GB") if size >= 16 * GiB else (MiB, "MB")
    return f"{-(-size // unit)} {name}"


def most_sessions(situation: Situation, asked: int) -> int:
    """The most connections that this memory holds, below those asked for; 0 for none."""

    def overflows(count: int) -> bool:
        return not solve(replace(situation, connections=Connections(count))).holds

    return bisect_left(range(1, asked + 1), True, key=overflows)


def least_memory(situation: Situation) -> Bytes | None:
    """The least memory that holds the connections asked for, in whole 64 MB; None beyond 64 TB."""
    steps = range(64 * MiB, 64 * TiB, 64 * MiB)

    def holds(size: int) -> bool:
        return solve(replace(situation, memory=Memory(Bytes(size)))).holds

    index = bisect_left(steps, True, key=holds)
    return Bytes(steps[index]) if index < len(steps) else None


def least_ceiling(situation: Situation) -> float | None:
    """The least share of memory, in hundredths, that holds the connections; None above 0.9."""
    steps = range(10, round(USUAL_CEILING * 100) + 1)

    def holds(percent: int) -> bool:
        return solve(replace(situation, ceiling=percent / 100)).holds

    index = bisect_left(steps, True, key=holds)
    return steps[index] / 100 if index < len(steps) else None
