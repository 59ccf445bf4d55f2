"""Whether a group's worst case fits the memory of every class.

A group is not blamed where AWS's own defaults already break the ceiling (they allow 5000
connections, each with work_mem) and the group makes it no worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from mrtuner.catalog import MAJORS, parameters
from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.families import Family
from mrtuner.catalog.families import family as known_family
from mrtuner.errors import BadValue
from mrtuner.formula.rds_formula import is_formula, parse
from mrtuner.inputs import Workload
from mrtuner.tuning.budget import MORE
from mrtuner.tuning.situation import USUAL_CEILING
from mrtuner.units import pretty_bytes
from mrtuner.wording import enumerated
from rdstune.group.request import GroupRequest
from rdstune.group.screening import SOME_STORAGE, TOLERANCE, Rough, Screening
from rdstune.group.sizes import MOST_SHARED, Size, on_class, outside_on
from rdstune.group.source import GroupEntry, WrittenGroup
from rdstune.lint.context import Machines, larger_only, listed, sized_for_larger
from rdstune.lint.findings import Finding, Severity

_LARGEST: Final = 2**63
_MOST: Final = float(MOST_SHARED)
#: Share of what the best value saves that another must save to be named beside it.
_WORTH: Final = 0.1
#: Cache size: groups times machine sizes.
_KEPT: Final = 8192


def check_budget(
    values: Mapping[str, str], family: Family, machines: Machines
) -> Iterator[Finding]:
    """Yield findings that name the classes whose memory the group exceeds."""
    counted = _counted(values, family.major)
    if not counted:
        return
    group = _Group(counted, family)
    down, finding = _shared(group, machines)
    if finding is not None:
        yield finding
    if down:
        machines = tuple(each for each in machines if each.instance_class.name not in down)
    kinds, firsts, _ = _kinds(family.engine, machines)
    over = {kind: share for kind, each in firsts.items() if (share := group.over(each))}
    if over:
        least = max(over.values()) * (1 - TOLERANCE)
        last = group.requests[-1]
        sizes = [_on(counted, last, firsts[kind]) for kind, share in over.items() if share >= least]
        pairs = zip(machines, kinds, strict=True)
        broken = [machine.instance_class.name for machine, kind in pairs if kind in over]
        yield _finding(counted, last, max(sizes, key=lambda size: size.share), broken, machines)


def keeps_budget(
    group: WrittenGroup,
    entry: GroupEntry,
    family: Family | None,
    machines: Machines,
    better: str,
) -> bool:
    """Whether a group with `better` for one entry still holds on every class where it holds now.

    Unreadable values count as not set. Without a family, the newest of RDS for PostgreSQL is used.
    """
    known = family or known_family(f"postgres{MAJORS[-2]}")
    now = {one.name: one.value for one in group.entries if one.value is not None}
    values = _readable(_counted(now, known.major), machines)
    new = _readable(_counted({entry.name: better}, known.major), machines)
    before = _Group(values, known, every="max_connections" in {**values, **new})
    after = _Group({**values, **new}, known)
    _, _, lasts = _kinds(known.engine, machines)
    alike = lasts.values()
    return all(after.holds(one) for one in alike if before.holds(one)) and any(
        after.starts(one) for one in alike
    )


def _readable(values: Mapping[str, str], machines: Machines) -> dict[str, str]:
    """Return the values that evaluate to a number on every class."""

    points = {id(one.points): one for one in machines}.values()

    def gives(text: str) -> bool:
        try:
            if is_formula(text):
                return all(
                    abs(value) < _LARGEST for one in points for value in one.values(parse(text))
                )
            return abs(float(text)) < _LARGEST
        except (BadValue, ValueError):
            return False

    return {name: text for name, text in values.items() if gives(text)}


class _Group:
    """A group's numeric values, judged on classes: by the rough sum, and exactly near a limit."""

    def __init__(
        self, values: Mapping[str, str], family: Family, *, every: bool | None = None
    ) -> None:
        self.values = values
        self.requests = _requests(
            family, every="max_connections" in values if every is None else every
        )
        self._rough = [Screening(values, request) for request in self.requests]

    def holds(self, each: InstanceClass) -> bool:
        return self.starts(each) and self.over(each) is None

    def starts(self, each: InstanceClass) -> bool:
        """Whether RDS would start the server on a class."""
        fits = self.shared(each) <= _MOST
        return fits and not outside_on(self.values, self.requests[0], each)

    def shared(self, each: InstanceClass) -> float:
        """Return the share of memory that shared memory takes, exact if close to the limit."""
        share = self._rough[0].on(each).shared
        if abs(share - _MOST) < TOLERANCE:
            return float(_on(self.values, self.requests[0], each).shared)
        return share

    def over(self, each: InstanceClass) -> float | None:
        """Return the share of memory on a class where the group breaks the ceiling, or None.

        None, too, where it is hardly worse than AWS's own defaults. The unknown workload gets the
        benefit of the doubt: only what breaks with each of them counts.
        """
        share = None
        for request, rough in zip(self.requests, self._rough, strict=True):
            share = rough.on(each).share
            if share < USUAL_CEILING - TOLERANCE:
                return None
            if share < USUAL_CEILING + TOLERANCE and _on(self.values, request, each).budget.fits:
                return None
            usual = _by_default(request, each).share + float(MORE)
            if share < usual - TOLERANCE:
                return None
            if share < usual + TOLERANCE and (
                _on(self.values, request, each).share <= _on({}, request, each).share + MORE
            ):
                return None
        return share


@lru_cache(maxsize=_KEPT)
def _by_default(request: GroupRequest, each: InstanceClass) -> Rough:
    return Screening({}, request).on(each)


def _shared(group: _Group, machines: Machines) -> tuple[set[str], Finding | None]:
    """Return the classes with too much shared memory for RDS to start the server, and a finding.

    A literal that exceeds only small classes is already reported (`more-than-memory`).
    """
    kinds, firsts, lasts = _kinds(group.requests[0].family.engine, machines)
    tried = {kind: group.shared(each) for kind, each in firsts.items()}
    if all(share <= _MOST for share in tried.values()):
        return set(), None
    pairs = zip(kinds, machines, strict=True)
    down = [one.instance_class.name for kind, one in pairs if tried[kind] > _MOST]
    values, request = group.values, group.requests[0]
    if not (len(down) == len(machines) or is_formula(values.get("shared_buffers", ""))):
        return set(down), None
    least = max(tried.values()) * (1 - TOLERANCE)
    sizes = [_on(values, request, each) for kind, each in lasts.items() if tried[kind] >= least]
    worst = max(sizes, key=lambda size: size.shared)
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


def _requests(family: Family, *, every: bool) -> list[GroupRequest]:
    """Return requests that count sessions: all connections, if the group sets max_connections.

    Otherwise, one counts the usual sessions of a mixed workload, the other those of OLAP. The
    workload is not known, so only a group that fails both is blamed.
    """
    workloads = [Workload.MIXED] if every else [Workload.MIXED, Workload.OLAP]
    return [
        GroupRequest(
            family=family, workload=each, connections=None, storage=SOME_STORAGE, every=every
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


@lru_cache(maxsize=256)
def _kinds(
    engine: str, machines: Machines
) -> tuple[tuple[int, ...], dict[int, InstanceClass], dict[int, InstanceClass]]:
    """Return a number for each machine, the same for classes with the same answers.

    And the first and the last class of each number.
    """
    request = _requests(known_family(f"{engine}{MAJORS[-2]}"), every=False)[0]
    numbers: dict[tuple[object, ...], int] = {}
    classes = [one.instance_class for one in machines]
    kinds = tuple(numbers.setdefault(request.alike(each), len(numbers)) for each in classes)
    firsts: dict[int, InstanceClass] = {}
    for kind, each in zip(kinds, classes, strict=True):
        firsts.setdefault(kind, each)
    return kinds, firsts, dict(zip(kinds, classes, strict=True))


def _on(values: Mapping[str, str], request: GroupRequest, each: InstanceClass) -> Size:
    """Return the size of a group on a class; cached, as groups in one file are often alike."""
    return _size(frozenset(values.items()), request, each)


@lru_cache(maxsize=_KEPT)
def _size(values: frozenset[tuple[str, str]], request: GroupRequest, each: InstanceClass) -> Size:
    return on_class(dict(values), request, each)


def _to_lower(values: Mapping[str, str], request: GroupRequest, worst: Size) -> list[str]:
    """Return which of the group's own values save most if they are halved, two at most."""
    saved = {}
    for name, text in worst.values.items():
        if name != "huge_pages" and (number := float(text)) > 0:
            halved = Screening({**values, name: str(number / 2)}, request)
            saved[name] = float(worst.share) - halved.on(worst.instance_class).share
    worth = [name for name in saved if saved[name] > max(saved.values()) * _WORTH]
    return sorted(worth, key=saved.__getitem__, reverse=True)[:2]


def _finding(
    values: Mapping[str, str], request: GroupRequest, worst: Size, broken: Sequence[str],
    machines: Machines,
) -> Finding:  # fmt: skip
    where, larger = listed(broken, len(machines)), larger_only(machines, broken)
    name, share = worst.instance_class.name, float(worst.share * 100)
    largest = sorted(worst.budget.parts, key=lambda part: part.size, reverse=True)[:2]
    parts = ", ".join(f"{part.name} {pretty_bytes(part.size)} ({part.how})" for part in largest)
    lower = enumerated(_to_lower(values, request, worst) or worst.values, "or")
    return Finding(
        check="memory-budget",
        severity=sized_for_larger(larger, broken, machines),
        parameter=None,
        what=f"the worst case does not fit into the memory of {where}",
        why=f"{name}: {share:,.0f} % of the memory: {parts}",
        remedy=larger or f"Lower {lower}; rdstune show gives values that fit.",
    )
