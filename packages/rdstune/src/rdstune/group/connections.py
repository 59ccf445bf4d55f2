"""The budget when no number of connections is given, and what giving one would gain.

max_connections is never lowered unless asked: applications may need every connection. RDS's
default allows thousands, and no useful work_mem is left if all of them sort at the same time. So
the budget counts a stated number of sessions (`GroupRequest.reckoned`); beyond them nothing is
promised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mrtuner.catalog.classes import InstanceClass
from mrtuner.tuning.feasibility import Solution
from mrtuner.units import Bytes, pretty_bytes
from rdstune.group.request import GroupRequest, Reckoned


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """The connections allowed on a class, and the sessions that the budget counts."""

    allowed: tuple[int, int]  # max_connections in force, at the least and the most memory
    reckoned: Reckoned  # at the least memory
    most: Reckoned  # at the most memory
    work_mem: Bytes  # that the rule gives with these sessions
    work_mem_then: Bytes  # that it gives with --connections set to the active ones
    worst: Bytes  # the rules' values with the counted sessions
    worst_then: Bytes
    kept: str | None  # max_connections as the group in force sets it; None: its default

    @property
    def promise(self) -> str:
        """What stays unchanged, what holds, and what does not, as text."""
        whose = "RDS's default" if self.kept is None else f"the group's value, {self.kept}"
        most = self.most
        count, active = (self.reckoned.open, most.open), (self.reckoned.active, most.active)
        opened = "all of them" if count[0] >= self.allowed[0] else f"{_range(count)} of them"
        return (
            f"max_connections keeps {whose}: {self.range} here. The budget holds with {opened} "
            f"open and {_range(active)} sorting at the same time, but no more"
        )

    @property
    def buys(self) -> str:
        """Return what a number of connections would gain, and the option that gives it."""
        option = f"add --connections {self.reckoned.active}."
        now, then = pretty_bytes(self.worst), pretty_bytes(self.worst_then)
        more = ""
        if now == then and self.work_mem_then <= self.work_mem:
            return f"All of them may sort already. To admit no more, {option}"
        if self.work_mem_then > self.work_mem:
            sizes = pretty_bytes(self.work_mem_then), pretty_bytes(self.work_mem)
            more = ", and work_mem could be up to {} instead of {}".format(*sizes)
        return (
            f"With at most {self.reckoned.active} connections, all of them may sort; the worst "
            f"case is then {then} instead of {now}{more}: {option}"
        )

    @property
    def range(self) -> str:
        """The connections allowed: one number where the memory estimate makes no difference."""
        return _range(self.allowed)


def sessions(request: GroupRequest, each: InstanceClass) -> Sessions | None:
    """Return the sessions counted on a class; None where the number of connections is given."""
    memory = request.memory_of(each)
    reckoned = request.reckoned(each, memory.low)
    if reckoned is None:
        return None
    now = request.answer(each, memory.low)
    then = replace(request, connections=reckoned.active, kept=None).answer(each, memory.low)
    return Sessions(
        allowed=(_allowed(request, each, memory.low), _allowed(request, each, memory.high)),
        reckoned=reckoned,
        most=request.reckoned(each, memory.high) or reckoned,
        work_mem=now.work_mem,
        work_mem_then=then.work_mem,
        worst=_worst(now),
        worst_then=_worst(then),
        kept=request.kept,
    )


def _range(ends: tuple[int, int]) -> str:
    low, high = ends
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _worst(answer: Solution) -> Bytes:
    """Return the worst case [bytes]; a class has memory, so there is a budget."""
    return answer.budget.total if answer.budget else Bytes(0)


def _allowed(request: GroupRequest, each: InstanceClass, memory: Bytes) -> int:
    running, _ = request.in_force(each, memory)
    return int(running["max_connections"])
