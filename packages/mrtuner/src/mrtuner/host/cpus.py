"""How many CPUs the scheduler really gives us, and their architecture."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Literal

from mrtuner.facts import Fact, Missing
from mrtuner.host.cgroup import ControlGroup, Lineage, lineage, read_limit
from mrtuner.host.tree import Tree

#: The kernel's default period [µs]. Source: kernel/sched/core.c, default_cfs_period.
PERIOD = 100_000

#: What systems call themselves, and what we call them: the Linux kernel's names.
ARCHITECTURES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}

CpuSet = frozenset[int]


def cpus(tree: Tree) -> tuple[Fact[int] | Missing, tuple[Missing, ...]]:
    """Whole CPUs, at least one: those we may run on, or the quota rounded up if that is fewer.

    Rounded up because a quota of 1.5 does let two processes run at the same time. The second value
    is the limits that could not be read.
    """
    may_run_on, unclear = _allowed(tree)
    above = lineage(tree, "cpu")
    found = [*_missing(above), *(quota for _, quota in _quotas(tree, above.groups))]
    quotas = [each for each in found if isinstance(each, Fact)]
    notes = (*unclear, *(each for each in found if isinstance(each, Missing)))
    if may_run_on is None:
        return Missing("cpus", "this system does not show its CPUs", "--cpus"), notes
    return _bound(may_run_on, quotas), notes


def _bound(may_run_on: Fact[int], quotas: list[Fact[Fraction]]) -> Fact[int]:
    quota = min(quotas, key=lambda fact: fact.value, default=None)
    if quota is None or quota.value >= may_run_on.value:
        return Fact(may_run_on.value, f"{may_run_on.source}: {counted_cpus(may_run_on.value)}")
    return Fact(max(1, ceil(quota.value)), f"{quota.source}: {counted_cpus(quota.value)}")


def counted_cpus(count: float | Fraction) -> str:
    """Return a number of CPUs with its noun: a quota gives fractions."""
    return f"{float(count):.3g} CPU{'' if count == 1 else 's'}"


def _allowed(tree: Tree) -> tuple[Fact[int] | None, tuple[Missing, ...]]:
    """CPUs online, in our cpuset and in our affinity mask; the source is the last one to narrow.

    All three are needed: a mask may include CPUs that this machine could have but does not.
    """
    sets = [found for _, found in _sets(tree)]
    unclear = tuple(each for each in sets if isinstance(each, Missing))
    narrowest = _narrowest(each for each in sets if isinstance(each, Fact))
    if narrowest is not None:
        return Fact(len(narrowest.value), narrowest.source), unclear
    return (count_by_library() if tree.live else None), unclear


def _sets(
    tree: Tree,
) -> tuple[tuple[Literal["online", "cpuset", "affinity"], Fact[CpuSet] | Missing | None], ...]:
    return ("online", _online(tree)), ("cpuset", _cpuset(tree)), ("affinity", _affinity(tree))


def _narrowest(sets: Iterable[Fact[CpuSet]]) -> Fact[CpuSet] | None:
    best: Fact[CpuSet] | None = None
    for each in sets:
        both = each.value if best is None else best.value & each.value
        if both and (best is None or len(both) < len(best.value)):
            best = Fact(both, each.source)
    return best


def count_by_library() -> Fact[int] | None:
    """The number of CPUs where there is no /proc, as on macOS."""
    count = os.cpu_count()
    return Fact(count, "os.cpu_count") if count else None


def parse_cpu_list(text: str) -> CpuSet:
    """Read the kernel's list format; ValueError for anything else.

    >>> sorted(parse_cpu_list("0-2,8"))
    [0, 1, 2, 8]
    """
    chosen: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        chosen.update(range(int(first), int(last or first) + 1))
    return frozenset(chosen)


def _online(tree: Tree) -> Fact[CpuSet] | None:
    path = "/sys/devices/system/cpu/online"
    online = _cpu_list(tree.peek(path))
    if online:
        return Fact(online, path)
    text = tree.peek("/proc/cpuinfo") or ""
    listed = re.findall(r"^processor\s*:?\s*(\d+)", text, re.MULTILINE)
    return Fact(frozenset(map(int, listed)), "/proc/cpuinfo") if listed else None


def _affinity(tree: Tree) -> Fact[CpuSet] | None:
    text = tree.peek(f"{tree.process}/status") or ""
    line = re.search(r"^Cpus_allowed_list:\s*(\S+)$", text, re.MULTILINE)
    allowed = _cpu_list(line[1] if line else None)
    return Fact(allowed, f"{tree.process}/status: Cpus_allowed_list") if allowed else None


def _cpu_list(text: str | None) -> CpuSet | None:
    try:
        return parse_cpu_list(text or "")
    except ValueError:
        return None


def _cpuset(tree: Tree) -> Fact[CpuSet] | Missing | None:
    """The set of the nearest group that has one, to which the kernel has applied the parents'."""
    for group in lineage(tree, "cpuset").groups:
        for file in _CPUSET_FILES[group.version]:
            found = read_limit(tree, group, file, _set_or_none, of="cpus")
            if found is not None:
                return found
    return None


def _set_or_none(text: str) -> CpuSet | None:
    return parse_cpu_list(text) or None


_CPUSET_FILES = {1: ("cpuset.effective_cpus", "cpuset.cpus"), 2: ("cpuset.cpus.effective",)}


def _missing(above: Lineage) -> Iterator[Missing]:
    for why in above.hidden:
        yield Missing("cpus", f"{why}: a quota would not be seen", "--cpus")


def _quotas(
    tree: Tree, groups: Iterable[ControlGroup]
) -> Iterator[tuple[ControlGroup, Fact[Fraction] | Missing]]:
    """The CPU time, in CPUs, that each group may use in a period."""
    for group in groups:
        quota = _quota_v1(tree, group) if group.version == 1 else _quota_v2(tree, group)
        if quota is not None:
            yield group, quota


def _quota_v2(tree: Tree, group: ControlGroup) -> Fact[Fraction] | Missing | None:
    return read_limit(tree, group, "cpu.max", _quota, of="cpus")


def _quota_v1(tree: Tree, group: ControlGroup) -> Fact[Fraction] | Missing | None:
    period = tree.peek(group.folder / "cpu.cfs_period_us") or str(PERIOD)
    return read_limit(
        tree, group, "cpu.cfs_quota_us", lambda text: _quota(f"{text} {period}"), of="cpus"
    )


def _quota(text: str) -> Fraction | None:
    """The CPUs in ``150000 100000``; None for ``max`` and version 1's -1, which mean no quota."""
    quota, _, period = text.partition(" ")
    if quota in ("max", "-1"):
        return None
    if int(quota) <= 0 or int(period or PERIOD) <= 0:
        raise ValueError(text)
    return Fraction(int(quota), int(period or PERIOD))


def architecture(tree: Tree) -> Fact[str] | Missing:
    """The machine's instruction set, by the Linux kernel's name: x86_64, aarch64."""
    path = "/proc/sys/kernel/arch"  # since Linux 6.1
    name = tree.peek(path)
    if name:
        return Fact(_normal(name), path)
    if tree.live:
        name = os.uname().machine
        return Fact(_normal(name), f"uname: {name}")
    return Missing("architecture", "neither the kernel nor uname shows it")


def _normal(name: str) -> str:
    return ARCHITECTURES.get(name.lower(), name.lower())


@dataclass(frozen=True, slots=True)
class Bound:
    """One limit on a process: the CPUs it leaves, or CPU time in CPUs (a quota)."""

    by: Literal["online", "cpuset", "affinity", "quota"]
    limit: Fact[CpuSet] | Fact[Fraction]
    group: ControlGroup | None = None  # the one that has the quota


def bounds(tree: Tree) -> tuple[Bound, ...]:
    """Everything that limits the process's CPUs, widest first; see `cpus`."""
    quotas = _quotas(tree, lineage(tree, "cpu").groups)
    return (
        *(Bound(by, limit) for by, limit in _sets(tree) if isinstance(limit, Fact)),
        *(Bound("quota", limit, group) for group, limit in quotas if isinstance(limit, Fact)),
    )
