"""The memory that a group's values need on every instance class, compared with the budget.

A group holds on a class when the worst case stays below the ceiling at the minimum, middle and
maximum of its estimated memory, and every value is within the server's bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from typing import Final

from mrtuner.catalog import Parameter, parameters
from mrtuner.catalog.classes import InstanceClass, instance_classes
from mrtuner.catalog.families import Family
from mrtuner.errors import BadValue
from mrtuner.formula.class_memory import Estimate
from mrtuner.formula.expression import Constant
from mrtuner.tuning.budget import Budget, Chosen, draw_up
from mrtuner.tuning.situation import USUAL_CEILING
from mrtuner.units import Bytes, memory_unit
from rdstune.group.request import GroupRequest, Reckoned

#: Beyond this RDS puts an instance into incompatible-parameters. Whether the share is of
#: DBInstanceClassMemory or of all the machine's memory is not documented: we use the former, which
#: is smaller.
#: Source: RDS User Guide, "Huge pages for RDS for PostgreSQL".
MOST_SHARED: Final = Fraction(9, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A group on one class."""

    instance_class: InstanceClass
    memory: Estimate
    values: Mapping[str, str]  # the group's parameters, evaluated, in base units
    budget: Budget  # at the memory size where the least is left
    outside: tuple[str, ...]  # parameters whose value the server would refuse, with the bounds
    shared: Fraction  # the largest share of memory that shared memory may take
    reckoned: Reckoned | None  # the sessions that the budget counts; None for all

    @property
    def holds(self) -> bool:
        """Whether all memory, shared memory and every value are within their limits."""
        return self.budget.fits and self.starts

    @property
    def starts(self) -> bool:
        """Whether the server would start: fewer connections do not make up for shared memory."""
        return self.shared <= MOST_SHARED and not self.outside

    @property
    def share(self) -> Fraction:
        return Fraction(self.budget.total, self.budget.memory)


def sizes(
    values: Mapping[str, str],
    request: GroupRequest,
    classes: Iterable[InstanceClass] | None = None,
) -> list[Size]:
    """Return the group's `values` (ParameterValues by name) on each class, least memory first."""
    if classes is None:
        classes = instance_classes(request.family.engine).values()
    found: dict[tuple[object, ...], Size] = {}
    ordered = sorted(classes, key=lambda each: (each.memory, each.vcpus, each.name))
    for each in ordered:
        if request.alike(each) not in found:
            found[request.alike(each)] = on_class(values, request, each)
    return [replace(found[request.alike(each)], instance_class=each) for each in ordered]


def on_class(
    values: Mapping[str, str],
    request: GroupRequest,
    each: InstanceClass,
) -> Size:
    """Return the size of a group's `values` on one class."""
    memory = request.memory_of(each)
    budgets, outside = [], []
    for size in dict.fromkeys((memory.low, memory.value, memory.high)):
        running, _ = request.in_force(each, size, values)
        budgets.append(_budget(running, request, each, size))
        outside += _outside(running, values, request)
    running, _ = request.in_force(each, memory.value, values)
    tightest = max(budgets, key=lambda budget: Fraction(budget.total, budget.ceiling))
    return Size(
        instance_class=each,
        memory=memory,
        values={name: running[name] for name in values if name in running},
        budget=tightest,
        outside=tuple(dict.fromkeys(outside)),
        shared=max(Fraction(budget.shared, budget.memory) for budget in budgets),
        reckoned=request.reckoned(each, tightest.memory),
    )


def outside_on(
    values: Mapping[str, str], request: GroupRequest, each: InstanceClass
) -> tuple[str, ...]:
    """Return the parameters whose value the server would refuse on a class, as in `Size`."""
    memory = request.memory_of(each)
    outside = []
    for size in dict.fromkeys((memory.low, memory.value, memory.high)):
        outside += _outside(request.in_force(each, size, values)[0], values, request)
    return tuple(dict.fromkeys(outside))


def _budget(
    running: Mapping[str, str],
    request: GroupRequest,
    each: InstanceClass,
    memory: Bytes,
) -> Budget:
    reckoned = request.reckoned(each, memory)
    if reckoned is not None:
        running = {**running, "max_connections": str(reckoned.open)}
    budget = draw_up(
        _chosen(running, request.family.major),
        major=request.family.major,
        workload=request.workload,
        share=USUAL_CEILING,
        machine={"memory": memory, "cpus": each.vcpus},
        huge_pages=request.huge_pages(each, running.get("huge_pages")),
        active=reckoned.active if reckoned else None,
    )
    if budget is None:
        raise BadValue("a budget needs the machine's memory", "Name an instance class.")
    return budget


def _chosen(running: Mapping[str, str], major: int) -> Chosen:
    """Return the values in force, as the main job's budget counts them."""
    chosen = Chosen()
    for name, is_real, unit in _numbers(major):
        if not running.get(name):
            continue
        number = float(running[name]) if is_real else int(running[name])
        chosen.plain[name] = number
        if unit is not None:
            chosen.sizes[name] = chosen.actual[name] = _constant(int(number) * unit)
    return chosen


@lru_cache(maxsize=4096)
def _constant(size: int) -> Constant:
    """Return a cached constant: most parameters have their default on most classes."""
    return Constant(size)


@cache
def _numbers(major: int) -> tuple[tuple[str, bool, int | None], ...]:
    """Return the numeric parameters: name, whether it has decimals, bytes in its unit."""
    return tuple(
        (name, one.vartype == "real", memory_unit(one.unit) if one.unit else None)
        for name, one in parameters(major).items()
        if one.vartype in {"integer", "real"}
    )


def _outside(
    running: Mapping[str, str], values: Mapping[str, str], request: GroupRequest
) -> list[str]:
    """Return the parameters whose value PostgreSQL or RDS would refuse, with the bounds."""
    known = parameters(request.family.major)
    found = []
    for name in values:
        parameter = known.get(name)
        if parameter is None or parameter.vartype not in {"integer", "real"}:
            continue
        number, (low, high) = float(running[name]), _bounds(parameter, request.family)
        if not low <= number <= high:
            found.append(f"{name} = {running[name]} ({low:g} to {high:g})")
    return found


def _bounds(parameter: Parameter, family: Family) -> tuple[float, float]:
    low, high = parameter.bounds
    listed = family.parameters.get(parameter.name)
    if listed is None or listed.bounds is None:
        return low, high
    return max(low, listed.bounds[0]), min(high, listed.bounds[1])
