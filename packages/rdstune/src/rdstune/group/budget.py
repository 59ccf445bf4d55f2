"""Whether a group's worst case fits the memory of every class.

A group is not blamed where AWS's own defaults already break the ceiling (they allow 5000
connections, each with work_mem) and the group makes it no worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final

from mrtuner.catalog import MAJORS, parameters
from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.families import Family
from mrtuner.catalog.families import family as known_family
from mrtuner.errors import BadValue
from mrtuner.formula.grammar import is_formula, parse
from mrtuner.inputs import Workload
from mrtuner.units import Bytes, GiB, pretty_bytes
from rdstune.group.request import GroupRequest
from rdstune.group.sizes import MOST_SHARED, Size, on_class
from rdstune.group.source import Entry, WrittenGroup
from rdstune.lint.context import ClassMachine, larger_only, listed, sized_for_larger
from rdstune.lint.findings import Finding, Severity

_LARGEST: Final = 2**63
#: Only bounds of WAL depend on the volume, and WAL is not part of the budget.
_SOME_STORAGE = Bytes(100 * GiB)
#: Share of memory that a group may add to a worst case that AWS's own defaults already exceed:
#: one more worker process is not what breaks it.
_MORE: Final = Fraction(5, 100)
#: Cache size: groups times machine sizes.
_KEPT: Final = 8192


def check_budget(
    values: Mapping[str, str], family: Family, machines: Sequence[ClassMachine]
) -> Iterator[Finding]:
    """Yield findings that name the classes whose memory the group exceeds."""
    counted = _counted(values, family.major)
    if not counted:
        return
    requests = _requests(values, family)
    down, finding = _shared(counted, requests[0], machines)
    if finding is not None:
        yield finding
    machines = [each for each in machines if each.instance_class.name not in down]
    tried: dict[tuple[object, ...], Size | None] = {}
    broken: list[str] = []
    for machine in machines:
        each = machine.instance_class
        if (alike := requests[0].alike(each)) not in tried:
            tried[alike] = _broken(counted, requests, machine)
        if tried[alike] is not None:
            broken.append(each.name)
    worst = max(
        (each for each in tried.values() if each), key=lambda each: each.share, default=None
    )
    if worst is not None:
        yield _finding(worst, broken, machines)


def keeps_budget(
    group: WrittenGroup,
    entry: Entry,
    family: Family | None,
    machines: Sequence[ClassMachine],
    better: str,
) -> bool:
    """Whether a group with `better` for one entry still holds on every class where it holds now.

    Unreadable values count as not set. Without a family, the newest of RDS for PostgreSQL is used.
    """
    known = family or known_family(f"postgres{MAJORS[-2]}")
    now = {one.name: one.value for one in group.entries if one.value is not None}
    before = _readable(_counted(now, known.major), machines)
    after = {**before, **_readable(_counted({entry.name: better}, known.major), machines)}
    requests = _requests(after, known)
    alike = {requests[0].alike(one.instance_class): one for one in machines}.values()
    starts = [_holds(after, requests, one) for one in alike if _holds(before, requests, one)]
    return all(starts) and any(_on(after, requests[0], one.instance_class).starts for one in alike)


def _readable(values: Mapping[str, str], machines: Sequence[ClassMachine]) -> dict[str, str]:
    """Return the values that evaluate to a number on every class."""

    def gives(text: str) -> bool:
        try:
            if is_formula(text):
                return all(
                    abs(value) < _LARGEST for one in machines for value in one.values(parse(text))
                )
            return abs(float(text)) < _LARGEST
        except (BadValue, ValueError):
            return False

    return {name: text for name, text in values.items() if gives(text)}


def _holds(
    values: Mapping[str, str], requests: Sequence[GroupRequest], machine: ClassMachine
) -> bool:
    size = _on(values, requests[0], machine.instance_class)
    return size.starts and _broken(values, requests, machine) is None


def _shared(
    values: Mapping[str, str], request: GroupRequest, machines: Sequence[ClassMachine]
) -> tuple[set[str], Finding | None]:
    """Return the classes with too much shared memory for RDS to start the server, and a finding.

    A literal that exceeds only small classes is already reported (`more-than-memory`).
    """
    kinds = {one.instance_class.name: request.alike(one.instance_class) for one in machines}
    tried: dict[tuple[object, ...], Size] = {}
    for each in {kinds[one.instance_class.name]: one for one in machines}.values():
        tried[kinds[each.instance_class.name]] = _on(values, request, each.instance_class)
    named = [one.instance_class for one in machines]
    down = [one.name for one in named if tried[kinds[one.name]].shared > MOST_SHARED]
    if not down or not (len(down) == len(machines) or is_formula(values.get("shared_buffers", ""))):
        return set(down), None
    worst = max(tried.values(), key=lambda size: size.shared)
    share, name = float(worst.shared), worst.instance_class.name
    larger = larger_only(machines, down)
    return set(down), Finding(
        check="shared-memory",
        severity=sized_for_larger(larger, down, machines) if larger else Severity.ERROR,
        parameter="shared_buffers" if "shared_buffers" in values else None,
        what=f"shared memory takes {share:.0%} of the memory of {name}",
        why=f"beyond {float(MOST_SHARED):.0%} RDS does not start the instance, however few "
        f"connections it has (incompatible-parameters): {listed(down, len(machines))}",
        remedy=larger or "RDS's own default is a quarter: {DBInstanceClassMemory/32768}.",
    )


def _requests(values: Mapping[str, str], family: Family) -> list[GroupRequest]:
    """Return requests that count sessions: all connections, if the group sets max_connections.

    Otherwise, one counts the usual sessions of a mixed workload, the other those of OLAP. The
    workload is not known, so only a group that fails both is blamed.
    """
    every = "max_connections" in values
    workloads = [Workload.MIXED] if every else [Workload.MIXED, Workload.OLAP]
    return [
        GroupRequest(
            family=family, workload=each, connections=None, storage=_SOME_STORAGE, every=every
        )
        for each in workloads
    ]


def _counted(values: Mapping[str, str], major: int) -> dict[str, str]:
    """Return the numeric values; of the others only huge_pages affects memory."""
    known = parameters(major)
    return {
        name: value
        for name, value in values.items()
        if name in known and (known[name].vartype in {"integer", "real"} or name == "huge_pages")
    }


def _broken(
    values: Mapping[str, str], requests: Sequence[GroupRequest], machine: ClassMachine
) -> Size | None:
    """Return the group's size on a class where it breaks the ceiling and is worse than defaults."""
    found = None
    for request in requests:
        found = _on(values, request, machine.instance_class)
        if found.budget.fits:
            return None
        if found.share <= _on({}, request, machine.instance_class).share + _MORE:
            return None
    return found


def _on(values: Mapping[str, str], request: GroupRequest, each: InstanceClass) -> Size:
    """Return the size of a group on a class; cached, as groups in one file are often alike."""
    return _size(frozenset(values.items()), request, each)


@lru_cache(maxsize=_KEPT)
def _size(values: frozenset[tuple[str, str]], request: GroupRequest, each: InstanceClass) -> Size:
    return on_class(dict(values), request, each)


def _finding(worst: Size, broken: Sequence[str], machines: Sequence[ClassMachine]) -> Finding:
    where, larger = listed(broken, len(machines)), larger_only(machines, broken)
    name, share = worst.instance_class.name, float(worst.share * 100)
    largest = sorted(worst.budget.parts, key=lambda part: part.size, reverse=True)[:2]
    parts = ", ".join(f"{part.name} {pretty_bytes(part.size)} ({part.how})" for part in largest)
    return Finding(
        check="memory-budget",
        severity=sized_for_larger(larger, broken, machines),
        parameter=None,
        what=f"the worst case does not fit into the memory of {where}",
        why=f"{name}: {share:,.0f} % of the memory: {parts}",
        remedy=larger or "Lower work_mem or max_connections; rdstune show gives values that fit.",
    )
