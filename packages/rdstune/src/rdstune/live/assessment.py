"""A parameter group's memory risk on an instance, and how our advice differs.

Neither AWS nor the server is queried: the group's values are evaluated for the class, whose
memory is estimated (`mrtuner.formula.class_memory`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeGuard

from mrtuner.catalog import Value
from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.families import family
from mrtuner.errors import MrTunerError
from mrtuner.inputs import Workload
from mrtuner.postgres.platform import managed
from mrtuner.tuning.feasibility import in_force, overcommitted, solve
from mrtuner.units import Bytes
from rdstune.group.request import GroupRequest
from rdstune.group.sizes import on_class

#: A group that holds on every class gives less than the rules would on some, and values are
#: rounded for people: only a difference beyond this factor is worth reporting.
FAR: Final = 2

#: Cached assessments. A fleet has as many as groups times classes times volumes.
_KEPT: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The assessment of a group's values on one class."""

    worst: Bytes | None = None  # of shared memory and every session together
    memory: Bytes | None = None  # DBInstanceClassMemory, at the estimate that leaves the least
    holds: bool = True  # the worst case is within the ceiling
    #: Share of memory that sessions can ask for; None: not more than all, or AWS's defaults do too.
    overcommitted: float | None = None
    outside: tuple[str, ...] = ()  # values that the server would refuse
    drift: tuple[str, ...] = ()  # parameters for which our advice is very different
    unknown: str | None = None  # why there is no assessment

    @property
    def share(self) -> float | None:
        """The worst case as a share of memory; None if unknown."""
        return self.worst / self.memory if self.worst and self.memory else None


def assess(
    values: Mapping[str, str],
    *,
    family_name: str,
    each: InstanceClass,
    storage: Bytes,
    workload: Workload = Workload.MIXED,
) -> Assessment:
    """Judge a group's user-set `values` (ParameterValues by name) on an instance of a class.

    An unknown family or an unreadable formula is reported in `unknown`; nothing is raised, so that
    one instance does not hide the others.
    """
    return _judged(frozenset(values.items()), family_name, each, storage, workload)


@lru_cache(maxsize=_KEPT)
def _judged(
    values: frozenset[tuple[str, str]],
    family_name: str,
    each: InstanceClass,
    storage: Bytes,
    workload: Workload,
) -> Assessment:
    named = dict(values)
    try:
        request = GroupRequest(
            family=family(family_name),
            workload=workload,
            connections=_connections(named),
            storage=storage,
            every="max_connections" in named,
        )
        return _on(named, request, each)
    except MrTunerError as error:
        return Assessment(unknown=error.message)


def _on(values: Mapping[str, str], request: GroupRequest, each: InstanceClass) -> Assessment:
    size = on_class(values, request, each)
    return Assessment(
        worst=Bytes(size.budget.total),
        memory=size.budget.memory,
        holds=size.budget.fits,
        overcommitted=None if size.outside else _overcommitted(values, request, each),
        outside=size.outside,
        drift=tuple(_drift(values, request, each)),
    )


def _overcommitted(
    values: Mapping[str, str], request: GroupRequest, each: InstanceClass
) -> float | None:
    """The share as `mrtuner check` finds it on a server with these settings."""
    platform = managed("aurora" if request.aurora else "rds", "its parameter group")
    situation = request.with_group(each, request.memory_of(each).low, values)
    found = overcommitted(situation, platform, in_force(situation))
    return None if found is None else found.total / found.memory


def _drift(values: Mapping[str, str], request: GroupRequest, each: InstanceClass) -> Iterator[str]:
    """Yield parameters that the rules would change substantially with this group in force."""
    memory = request.memory_of(each).value
    running, origins = request.in_force(each, memory, values)
    asked = request.situation(each, memory)
    if request.reckoned(each, memory) is not None:
        running["max_connections"] = asked.running["max_connections"]
    situation = replace(asked, running=running, origins=origins)
    for name, advice in solve(situation).advice.items():
        if advice.changes and far(advice.now, advice.target):
            yield name


def far(now: Value | None, advised: Value | None) -> bool:
    """Whether a value is different, or a number beyond FAR times or below 1/FAR of the advice."""
    if not _positive(now) or not _positive(advised):
        return now != advised
    return not Fraction(1, FAR) <= Fraction(now) / Fraction(advised) <= FAR


def _positive(value: Value | None) -> TypeGuard[int | float]:
    """Whether it is a positive number: -1 and 0 often have a special meaning."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _connections(values: Mapping[str, str]) -> int | None:
    """Return max_connections if a user set it: nobody chose the family's default."""
    text = values.get("max_connections", "")
    return int(text) if text.isdigit() else None
