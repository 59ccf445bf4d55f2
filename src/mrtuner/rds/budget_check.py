"""Whether a group's worst case fits the memory of every class.

Where AWS's own defaults break the ceiling already (5000 connections are allowed, each with
work_mem), a group that makes it no worse is not blamed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mrtuner.catalog import parameters
from mrtuner.catalog.families import Family
from mrtuner.rds.findings import Finding, Severity
from mrtuner.rds.question import Question
from mrtuner.rds.sizes import Size, on_class
from mrtuner.rds.subject import Machine, larger_only, listed
from mrtuner.tuning.situation import Workload
from mrtuner.units import Bytes, GiB, pretty_bytes

#: Only bounds of WAL depend on the volume, and the budget has none of them.
_SOME_STORAGE = Bytes(100 * GiB)


def check_budget(
    values: Mapping[str, str], family: Family, machines: Sequence[Machine]
) -> Iterator[Finding]:
    """A finding that names the classes whose memory the worst case exceeds."""
    counted = _counted(values, family.major)
    if not counted:
        return
    question = Question(
        family=family, workload=Workload.MIXED, connections=None, storage=_SOME_STORAGE
    )
    tried: dict[tuple[int, int], Size | None] = {}
    broken: list[str] = []
    for machine in machines:
        each = machine.instance_class
        if (size := (each.memory, each.vcpus)) not in tried:
            tried[size] = _broken(counted, question, machine)
        if tried[size] is not None:
            broken.append(each.name)
    worst = max(
        (each for each in tried.values() if each), key=lambda each: each.share, default=None
    )
    if worst is not None:
        larger = larger_only(machines, broken)
        yield _finding(worst, listed(broken, len(machines)), larger)


def _counted(values: Mapping[str, str], major: int) -> dict[str, str]:
    """The numbers among them; words take no memory."""
    known = parameters(major)
    return {
        name: value
        for name, value in values.items()
        if name in known and known[name].vartype in {"integer", "real"}
    }


def _broken(values: Mapping[str, str], question: Question, machine: Machine) -> Size | None:
    """The group on this class where it breaks the ceiling and is worse than the defaults."""
    size = on_class(values, question, machine.instance_class)
    if size.budget.fits:
        return None
    return size if size.share > on_class({}, question, machine.instance_class).share else None


def _finding(worst: Size, where: str, larger: str | None) -> Finding:
    name, share = worst.instance_class.name, float(worst.share * 100)
    largest = sorted(worst.budget.parts, key=lambda part: part.size, reverse=True)[:2]
    parts = ", ".join(f"{part.name} {pretty_bytes(part.size)} ({part.how})" for part in largest)
    return Finding(
        check="memory-budget",
        severity=Severity.WARNING,
        parameter=None,
        what=f"the worst case does not fit the memory of {where}",
        why=f"{name}: {share:,.0f} % of the memory: {parts}",
        remedy=larger or "Lower work_mem or max_connections; rdstune show gives values that fit.",
    )
