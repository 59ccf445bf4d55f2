"""The settings of a parameter group: each rule's answer as a formula, or as a literal.

A value that scales becomes a formula that stays at or below the rule's value on every class that
counts, at the minimum, middle and maximum of its estimated memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from mrtuner.aws.rows import ApplyMethod
from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.families import Family, FamilyParameter
from mrtuner.errors import BadValue
from mrtuner.formula.expression import MEMORY, Constant, Expr, Extreme
from mrtuner.formula.rds_formula import Formula, Function, Integer, braces
from mrtuner.tuning.advice import Advice
from mrtuner.tuning.engine import NEAR
from mrtuner.tuning.feasibility import Solution
from mrtuner.tuning.verdict import Value
from mrtuner.units import Bytes, MiB
from rdstune.group.fit import SizeOnMachine, exactly, nearest, nearness
from rdstune.group.request import GroupRequest, fixed

#: Weight of being close to the rule on the class asked about; every other class weighs 1.
THIS_CLASS: Final = 300.0
#: The main job lets WAL take a tenth of the volume; here the volume is AllocatedStorage.
WAL_SHARE: Final[Mapping[str, Fraction]] = {
    "max_wal_size": Fraction(1, 10 * MiB),
    "min_wal_size": Fraction(1, 40 * MiB),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One parameter of the group."""

    name: str
    value: str  # a formula, or a literal in the parameter's base unit
    method: ApplyMethod
    reason: str
    scales: bool  # a formula: right on other classes too
    share: float = 1.0  # of the rule's value on the class asked about; a shape may give less


@dataclass(frozen=True, slots=True)
class SizedClass:
    """One class at one of its estimated memory sizes, with the rules' answer there."""

    instance_class: InstanceClass
    memory: Bytes
    solution: Solution

    @property
    def variables(self) -> dict[str, int]:
        """The machine's variables as the rules name them."""
        return {"memory": self.memory, "cpus": self.instance_class.vcpus}


def group_settings(
    request: GroupRequest, chosen: InstanceClass, held: Sequence[SizedClass], room: float
) -> list[Setting]:
    """Return a setting for each parameter that changes here, or scales and changes elsewhere."""
    here = next(each for each in held if each.instance_class == chosen)
    weighed = _weighed(held, chosen)
    kept = fixed(request.family)
    settings = []
    for name, item in here.solution.advice.items():
        if name in kept or item.rule.suggestion:
            continue
        if name == "shared_buffers" and _as_in_force(item, here):
            continue  # classes too small for so many buffers and sessions are listed instead
        expression = _expression(name, held)
        if name == "effective_cache_size" and expression is not None:
            expression = _twentieths(item, here)
        if expression is not None:
            samples = [_sample(request, each, name, weight, room) for each, weight in weighed]
            setting = _formula(request.family, item, expression, samples)
            if setting.scales or item.changes:
                settings.append(setting)
        elif item.changes and _takes(request.family.parameters[name], item.target):
            settings.append(_literal(request.family, item))
    defaults = request.family.parameters
    return [each for each in settings if each.value != defaults[each.name].default]


def _weighed(held: Sequence[SizedClass], chosen: InstanceClass) -> list[tuple[SizedClass, float]]:
    """Return one class for each set of classes that share an answer, weighted by their number.

    The chosen class is separate, with its own weight.
    """
    first: dict[tuple[int, bool], SizedClass] = {}
    number: Counter[tuple[int, bool]] = Counter()
    for each in held:
        key = id(each.solution), each.instance_class == chosen
        first.setdefault(key, each)
        number[key] += 1
    return [(each, THIS_CLASS if key[1] else float(number[key])) for key, each in first.items()]


def _expression(name: str, held: Sequence[SizedClass]) -> Expr | None:
    """Return the rule's expression in base units if it scales and changes a value on any class."""
    items = [each.solution.advice[name] for each in held]
    scaling = [item for item in items if item.changes and item.formula is not None]
    return scaling[0].expression if scaling else None


def _as_in_force(item: Advice, here: SizedClass) -> bool:
    """Whether a class already has the rule's value, within rounding."""
    value = _value(item, item.asked, here.variables)
    return isinstance(item.now, int) and NEAR * item.now <= value <= item.now / NEAR


def _twentieths(item: Advice, here: SizedClass) -> Expr:
    """Return the rule's value on this class as a share of memory in twentieths: 3/4 is 15.

    Such an estimate allocates no memory, so small classes need not limit the others.
    """
    share = Fraction(_value(item, item.asked, here.variables) * (item.unit or 1), here.memory)
    return (MEMORY * Fraction(max(1, round(share * 20)), 20)).in_unit(item.unit or 1)


def _formula(
    group: Family, item: Advice, expression: Expr, samples: Sequence[SizeOnMachine]
) -> Setting:
    exact = exactly(expression) if item.name == "effective_cache_size" else None
    formula = exact or nearest(expression, samples)
    share = nearness(formula, [sample for sample in samples if sample.weight >= THIS_CLASS])
    within = _within_storage(item.name, formula)
    return Setting(
        name=item.name,
        value=str(within),
        method=_method(group, item.name),
        reason=item.reason if within == formula else f"{item.reason}, limited by storage size",
        scales=not isinstance(within, Integer),
        share=share,
    )


def _sample(
    request: GroupRequest, held: SizedClass, name: str, weight: float, room: float
) -> SizeOnMachine:
    """Return the rule's value there, and the upper limit for a formula."""
    item = held.solution.advice[name]
    value = most = _value(item, item.asked, held.variables)
    if name == "work_mem" and item.asked is not None:
        most = int(room * _value(item, uncapped(item.asked), held.variables))
        value = min(value, most)
    elif name == "max_worker_processes":
        most = 2 * value  # an unused slot costs 112 kB, see the budget
    machine = request.machine(held.instance_class, held.memory)
    least, most = _bounded(item, request.family.parameters[name], most)
    return SizeOnMachine(machine, value, most, least, weight)


def _bounded(item: Advice, known: FamilyParameter, most: int) -> tuple[int, int]:
    """Return the range that both PostgreSQL and RDS accept."""
    least = item.parameter.min or 0
    if known.bounds is not None:
        least, most = max(least, known.bounds[0]), min(most, int(known.bounds[1]))
    return int(least), most


def _value(item: Advice, wanted: Expr | None, machine: Mapping[str, int]) -> int:
    """Return the value in base units, before rounding for people, within the server's bounds."""
    if wanted is None:
        return int((item.target if item.changes else item.now) or 0)
    value = (wanted.in_unit(item.unit) if item.unit else wanted).evaluate(machine)
    most = item.parameter.max
    return value if most is None else min(value, int(most))


def uncapped(expression: Expr) -> Expr:
    """Drop constant caps: a cap is only convention, and the budget already limits work_mem."""
    match expression:
        case Extreme(True, parts):
            return Extreme(True, tuple(part for part in parts if not isinstance(part, Constant)))
        case Extreme(False, parts):
            return Extreme(False, tuple(map(uncapped, parts)))
    return expression


def _within_storage(name: str, formula: Formula) -> Formula:
    """Limit WAL to a share of the volume with LEAST; leave formulas with SUM or GREATEST as is."""
    share = WAL_SHARE.get(name)
    if share is None:
        return formula
    room = braces("AllocatedStorage", share)
    if isinstance(formula, Function) and formula.name == "LEAST":
        return Function("LEAST", (*formula.arguments, room))
    return formula if isinstance(formula, Function) else Function("LEAST", (formula, room))


def _literal(group: Family, item: Advice) -> Setting:
    return Setting(
        name=item.name,
        value=group.parameters[item.name].literal(item.target or 0),
        method=_method(group, item.name),
        reason=item.reason,
        scales=False,
    )


def _takes(known: FamilyParameter, value: Value | None) -> bool:
    """Whether RDS accepts the literal: for some parameters it allows less than PostgreSQL."""
    try:
        known.check(known.literal(value or 0))
    except BadValue:
        return False
    return True


def _method(group: Family, name: str) -> ApplyMethod:
    return "immediate" if group.parameters[name].apply_type == "dynamic" else "pending-reboot"
