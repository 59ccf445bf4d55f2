"""The usable CPUs, which of them share a core, and the platform."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from fractions import Fraction

from mrtuner.cpu.model import CpuPlace, CpuTopology, Usable
from mrtuner.facts import Fact
from mrtuner.host.cpus import architecture, bounds, narrowest, parse_cpu_list
from mrtuner.host.tree import Tree


def usable(tree: Tree) -> Usable:
    """Return affinity ∩ cpuset ∩ online CPUs, limited by the lowest quota, and what limits them."""
    limits = bounds(tree)
    found = narrowest(limits)
    if found is None:
        return known_count(os.cpu_count() or 1, "os.cpu_count")
    left, why = found
    count: Fraction | int = len(left)
    sets = []
    for bound in limits:
        limit = bound.limit.value
        if isinstance(limit, frozenset):
            sets.append(limit)
        elif limit < count:
            count, why = limit, bound
    return Usable(
        cpus=tuple(sorted(left)),
        may_run_on=len(left),
        count=float(count),
        online=len(sets[0]),
        bound=None if why.by == "online" else why.by,
        source=why.limit.source,
    )


def known_count(count: int, source: str) -> Usable:
    """Return a number of CPUs without their identities: a remote server, or macOS."""
    return Usable(
        cpus=(), may_run_on=count, count=count, online=count, bound=None, source=source
    )  # fmt: skip


def topology(tree: Tree, cpus: Collection[int]) -> CpuTopology:
    """Return the threads of each core as the kernel sees them; a hypervisor may hide them.

    Source: Documentation/admin-guide/cputopology.rst, core_cpus_list (thread_siblings_list
    before 5.3).
    """
    every = dict(_siblings(tree, cpus))
    if not every:
        return CpuTopology(cores=(), threads=None, source="not shown by this system")
    ours = {tuple(sorted(group & set(cpus))) for group in every.values()}
    return CpuTopology(
        cores=tuple(sorted(ours)),
        threads=max(len(group) for group in every.values()),
        source="/sys/devices/system/cpu/cpu*/topology",
    )


def _siblings(tree: Tree, cpus: Collection[int]) -> Iterator[tuple[int, frozenset[int]]]:
    for cpu in cpus:
        folder = f"/sys/devices/system/cpu/cpu{cpu}/topology"
        text = tree.peek(f"{folder}/core_cpus_list") or tree.peek(f"{folder}/thread_siblings_list")
        if text:
            yield cpu, parse_cpu_list(text)


def place(tree: Tree) -> CpuPlace:
    """Recognize Amazon EC2 by its DMI name, Kubernetes by its cgroups, else Linux (or a Mac)."""
    known = architecture(tree)
    name = known.value if isinstance(known, Fact) else None
    groups = tree.peek(f"{tree.process}/cgroup") or ""
    vendor = tree.peek("/sys/class/dmi/id/sys_vendor") or ""
    if "kubepods" in groups or tree.is_there("/var/run/secrets/kubernetes.io"):
        return CpuPlace(
            platform="kubernetes", model=None, architecture=name, evidence="cgroup names of kubelet"
        )
    if vendor == "Amazon EC2":
        model = tree.peek("/sys/class/dmi/id/product_name")
        return CpuPlace(platform="ec2", model=model, architecture=name, evidence="DMI sys_vendor")
    return CpuPlace(platform="linux", model=None, architecture=name, evidence="no sign of a cloud")
