"""How often a CPU quota was used up: the kernel stops the tasks of a control group until the next
period. Source: the kernel's admin-guide/cgroup-v2.rst and, for version 1, sched-bwc.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mrtuner.host.cgroup import counts, lineage

if TYPE_CHECKING:
    from mrtuner.host.cgroup import ControlGroup
    from mrtuner.host.tree import Tree

NANOSECONDS: Final = 1e9
MICROSECONDS: Final = 1e6


@dataclass(frozen=True, slots=True)
class Throttling:
    """How often a control group's quota was used up."""

    periods: int  # in which some task of the group was ready to run
    throttled: int  # of them, those in which the quota was used up
    seconds: float  # that its tasks were stopped, summed over CPUs


def throttling(tree: Tree, group: ControlGroup) -> Throttling | None:
    """Return how often the group's quota was used up; None where that is not counted."""
    stat, stopped = counts(tree, group, "cpu.stat"), throttled_seconds(tree, group)
    if stopped is None or "nr_periods" not in stat:
        return None
    return Throttling(stat["nr_periods"], stat.get("nr_throttled", 0), stopped)


def throttled_seconds(tree: Tree, group: ControlGroup) -> float | None:
    """Return how long a quota stopped the group's tasks, summed over CPUs [s]."""
    stat = counts(tree, group, "cpu.stat")
    if group.version == 2:
        return seconds(stat.get("throttled_usec"), MICROSECONDS)
    return seconds(stat.get("throttled_time"), NANOSECONDS)


def throttled_periods(tree: Tree) -> int | None:
    """Return the periods in which this process's quota, or a parent group's, was used up."""
    found = [counts(tree, group, "cpu.stat") for group in lineage(tree, "cpu").groups]
    periods = [stat["nr_throttled"] for stat in found if "nr_throttled" in stat]
    return sum(periods) if periods else None


def seconds(counted: int | None, unit: float) -> float | None:
    """Return what was counted as seconds, of which there are `unit` in one."""
    return None if counted is None else counted / unit
