"""Other activity on our CPUs: other work, steal, throttling, frequency.

Source: proc(5) for /proc/stat and /proc/PID/stat; the kernel's admin-guide/cgroup-v2.rst and
scheduler/sched-bwc.rst for cpu.stat. What cannot be read is None.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from mrtuner.cpu.model import TrialWeather
from mrtuner.host.cpu_throttling import throttled_periods
from mrtuner.host.tree import Tree

#: Other work above this share of our CPUs' time invalidates a trial.
MOST_FOREIGN: Final = 0.03
#: The kernel counts other processes' CPU time in ticks; this many may be rounding errors.
_ROUNDING: Final = 3


@dataclass(frozen=True, slots=True)
class Ticks:
    """Clock ticks so far, summed over our CPUs."""

    total: int
    busy: int  # user, nice, system
    steal: int
    ours: int  # of the given processes
    throttled: int | None  # periods


def read(tree: Tree, cpus: Collection[int], pids: Iterable[int]) -> Ticks | None:
    """Return the counters; None without /proc/stat or if our CPUs are unknown."""
    rows = [row for cpu, row in _rows(tree) if cpu in cpus]
    if not rows:
        return None
    return Ticks(
        total=sum(sum(row[:8]) for row in rows),
        busy=sum(sum(row[:3]) for row in rows),
        steal=sum(row[7] for row in rows),
        ours=sum(_used(tree, pid) for pid in pids) + _ticks(tree, os.getpid()),
        throttled=throttled_periods(tree),
    )


def weather(before: Ticks | None, after: Ticks | None, mhz: float | None = None) -> TrialWeather:
    """Return what happened between two readings."""
    if before is None or after is None or after.total <= before.total:
        return TrialWeather(foreign=None, steal=None, throttled=None, mhz=mhz)
    total = after.total - before.total
    others = after.busy - before.busy - (after.ours - before.ours) - _ROUNDING
    stopped = None
    if before.throttled is not None and after.throttled is not None:
        stopped = after.throttled - before.throttled
    return TrialWeather(
        foreign=max(0, others) / total,
        steal=(after.steal - before.steal) / total,
        throttled=stopped,
        mhz=mhz,
    )


def objection(seen: TrialWeather) -> str | None:
    """Return why a trial under these conditions is invalid, else None."""
    if seen.foreign is not None and seen.foreign > MOST_FOREIGN:
        return f"other work took {seen.foreign:.0%} of our CPUs' time"
    return None


def frequency(tree: Tree, cpus: Iterable[int]) -> float | None:
    """Return the current mean frequency of our CPUs [MHz]; virtual machines rarely show it."""
    path = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"
    texts = [tree.peek(path.format(cpu)) for cpu in cpus]
    known = [int(text) / 1000 for text in texts if text and text.isdigit()]
    return fmean(known) if known else None


def _rows(tree: Tree) -> Iterable[tuple[int, list[int]]]:
    """Yield user nice system idle iowait irq softirq steal … of each CPU."""
    for line in (tree.peek("/proc/stat") or "").splitlines():
        found = re.match(r"cpu(\d+) (.*)", line)
        if found:
            yield int(found[1]), [int(field) for field in found[2].split()]


def _used(tree: Tree, pid: int) -> int:
    """Return the ticks of a process and of its living children (a worker's feeder)."""
    children = (tree.peek(f"/proc/{pid}/task/{pid}/children") or "").split()
    return sum(_ticks(tree, each) for each in (pid, *map(int, children)))


def _ticks(tree: Tree, pid: int) -> int:
    text = tree.peek(f"/proc/{pid}/stat")
    if text is None:
        return 0
    fields = text.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
