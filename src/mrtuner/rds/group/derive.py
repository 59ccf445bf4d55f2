"""The main job's rules as a parameter group that stays right on every instance class.

The rules are evaluated for each class (`mrtuner.rds.group.request`). Values that scale become
formulas that stay at or below the rule's value on every class that counts, at the minimum, middle
and maximum of its estimated memory; the others become literals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from mrtuner.catalog import parameters
from mrtuner.catalog.classes import InstanceClass, instance_class, instance_classes
from mrtuner.catalog.families import Family, FamilyParameter, family
from mrtuner.errors import BadValue
from mrtuner.formula.class_memory import Estimate
from mrtuner.formula.expression import MEMORY, Constant, Expr, Extreme
from mrtuner.formula.fit import Sample, exactly, nearest, nearness
from mrtuner.formula.grammar import Formula, Function, Integer, braces, is_formula, parse
from mrtuner.inputs import Workload
from mrtuner.rds.group.connections import Sessions, sessions
from mrtuner.rds.group.request import Question, fixed
from mrtuner.rds.group.sizes import Size, sizes
from mrtuner.tuning.advice import Advice
from mrtuner.tuning.engine import NEAR
from mrtuner.tuning.feasibility import Solution, refuse_overflow
from mrtuner.tuning.notices import DEFAULT_WORK_MEM
from mrtuner.tuning.verdict import Value
from mrtuner.units import Bytes, GiB, MiB

#: Share of the room under the ceiling that work_mem may fill, tried in this order: the family's
#: defaults and worker slots beyond the rule's number take some of it too.
ROOM: Final = (0.97, 0.9, 0.8, 0.6, 0.4)
#: Weight of being close to the rule on the class asked about; every other class weighs 1.
THIS_CLASS: Final = 300.0
#: Used where the volume's size is not given.
SOME_STORAGE: Final = Bytes(100 * GiB)
#: The main job lets WAL take a tenth of the volume; here the volume is AllocatedStorage.
WAL_SHARE: Final[Mapping[str, Fraction]] = {
    "max_wal_size": Fraction(1, 10 * MiB),
    "min_wal_size": Fraction(1, 40 * MiB),
}

Method = Literal["immediate", "pending-reboot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One parameter of the group."""

    name: str
    value: str  # a formula, or a literal in the parameter's base unit
    method: Method
    reason: str
    scales: bool  # a formula: right on other classes too
    share: float = 1.0  # of the rule's value on the class asked about; a shape may give less

    @property
    def formula(self) -> Formula | None:
        """The value as a formula; None for a literal."""
        return parse(self.value) if is_formula(self.value) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A parameter group before it is created."""

    question: Question
    instance_class: InstanceClass
    memory: Estimate
    settings: tuple[Setting, ...]
    advice: Mapping[str, Advice]  # the rules' answers for the class asked about
    without: Mapping[str, str]  # what the main job always sets but this group does not: why
    too_small: tuple[str, ...]  # classes that cannot hold these connections with any values
    sessions: Sessions | None  # counted on this class; None where connections are given

    @property
    def family(self) -> Family:
        """The group's family."""
        return self.question.family

    @property
    def values(self) -> dict[str, str]:
        """ParameterValues by name."""
        return {setting.name: setting.value for setting in self.settings}

    @property
    def command_with_connections(self) -> str:
        """The command that asks for this group with as many connections as are counted active."""
        words = ["rdstune", "show", "--class", self.instance_class.name]
        words += ["--family", self.family.name, "--workload", str(self.question.workload)]
        count = self.sessions.reckoned.active if self.sessions else 0
        return " ".join([*words, "--connections", str(count)])

    def shown(self, name: str, size: Size) -> str:
        """Return a parameter's value on a class, as configuration text: ``8GB``."""
        parameter, value = parameters(self.family.major)[name], size.values[name]
        if parameter.vartype == "integer":
            return parameter.show(int(value))
        return parameter.show(parameter.parse(value))


@dataclass(frozen=True, slots=True)
class _Held:
    """One class at one of its estimated memory sizes, with the rules' answer there."""

    instance_class: InstanceClass
    memory: Bytes
    solution: Solution

    @property
    def variables(self) -> dict[str, int]:
        """The machine's variables as the rules name them."""
        return {"memory": self.memory, "cpus": self.instance_class.vcpus}


def design(
    *,
    family_name: str,
    class_name: str,
    workload: str = "mixed",
    connections: int | None = None,
    storage: Bytes | None = None,
    smallest: str | None = None,
    kept: str | None = None,
) -> Design:
    """Return a group for one class that holds on every other from `smallest` up (default: all).

    Without `connections`, max_connections stays as it is: the class's default or `kept`, the value
    in the group in force. The budget then counts a stated number of sessions (`sessions`).

    Raises BadValue for an unknown family or class, DoesNotFit where the class asked about cannot
    hold the connections.
    """
    question = Question(
        family=family(family_name),
        workload=Workload(workload),
        connections=connections,
        storage=storage or SOME_STORAGE,
        kept=kept if connections is None else None,
    )
    chosen = _offered(class_name, question.family)
    memory = question.memory_of(chosen)
    answer = question.answer(chosen, memory.low)
    refuse_overflow(question.situation(chosen, memory.low), answer)
    held, too_small = _holding(question, [chosen, *_from(smallest, question.family)])
    settings, broken = _within_budget(question, chosen, held)
    return Design(
        question=question,
        instance_class=chosen,
        memory=memory,
        settings=tuple(settings),
        advice=question.answer(chosen, memory.value).advice,
        without=_without(question, answer, settings),
        too_small=tuple(sorted({*too_small, *broken}, key=_by_memory)),
        sessions=sessions(question, chosen),
    )


def _within_budget(
    question: Question, chosen: InstanceClass, held: Sequence[_Held]
) -> tuple[list[Setting], tuple[str, ...]]:
    """Return settings with as much work_mem as every class can hold, and classes too small."""
    settings: list[Setting] = []
    broken: tuple[str, ...] = ()
    classes = tuple(dict.fromkeys(each.instance_class for each in held))
    for room in ROOM:
        settings = _settings(question, chosen, held, room)
        values = {setting.name: setting.value for setting in settings}
        broken = tuple(
            size.instance_class.name for size in sizes(values, question, classes) if not size.holds
        )
        if not broken:
            return settings, broken
    rest = [each for each in held if each.instance_class.name not in broken]
    if chosen.name in broken or not rest:
        return settings, broken
    settings, more = _within_budget(question, chosen, rest)  # those limited the others
    return settings, (*broken, *more)


def _offered(class_name: str, group: Family) -> InstanceClass:
    chosen = instance_class(class_name)
    if group.engine not in chosen.engines:
        raise BadValue(
            f"{class_name} is not offered for {group.engine}",
            "rdstune evaluate --all-classes lists the classes of an engine.",
        )
    return chosen


def _by_memory(name: str) -> tuple[int, str]:
    """Sort key: least memory first."""
    return instance_class(name).memory, name


def _from(smallest: str | None, group: Family) -> list[InstanceClass]:
    least = instance_class(smallest).memory if smallest else 0
    return [each for each in instance_classes(group.engine).values() if each.memory >= least]


def _holding(
    question: Question, classes: Iterable[InstanceClass]
) -> tuple[list[_Held], tuple[str, ...]]:
    """Return every class at each possible memory size, and the names of those that are too small.

    A class left with less work_mem than PostgreSQL's default would limit every larger one to that.
    It counts as too small unless the first class, the one asked about, is no better off.
    """
    held: list[_Held] = []
    too_small: list[str] = []
    answers: dict[tuple[object, ...], Solution] = {}
    least: int | None = None
    for each in dict.fromkeys(classes):
        memory = question.memory_of(each)
        sizes = (memory.low, memory.value, memory.high)
        alike = question.alike(each)
        for size in sizes:
            if (size, alike) not in answers:
                answers[size, alike] = question.answer(each, size)
        work_mem = min(answers[size, alike].work_mem for size in sizes)
        least = min(work_mem, DEFAULT_WORK_MEM) if least is None else least
        if work_mem >= least and all(answers[size, alike].holds for size in sizes):
            held += [_Held(each, size, answers[size, alike]) for size in sizes]
        else:
            too_small.append(each.name)
    return held, tuple(too_small)


def _settings(
    question: Question, chosen: InstanceClass, held: Sequence[_Held], room: float
) -> list[Setting]:
    """Return a setting for each parameter that changes here, or scales and changes elsewhere."""
    here = next(each for each in held if each.instance_class == chosen)
    weighed = _weighed(held, chosen)
    kept = fixed(question.family)
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
            samples = [_sample(question, each, name, weight, room) for each, weight in weighed]
            setting = _formula(question.family, item, expression, samples)
            if setting.scales or item.changes:
                settings.append(setting)
        elif item.changes and _takes(question.family.parameters[name], item.target):
            settings.append(_literal(question.family, item))
    return [each for each in settings if not _default_already(each, question.family)]


def _weighed(held: Sequence[_Held], chosen: InstanceClass) -> list[tuple[_Held, float]]:
    """Return one of all classes that share an answer, with their number as its weight.

    The chosen class stands alone, with its own weight.
    """
    first: dict[tuple[int, bool], _Held] = {}
    number: Counter[tuple[int, bool]] = Counter()
    for each in held:
        key = id(each.solution), each.instance_class == chosen
        first.setdefault(key, each)
        number[key] += 1
    return [(each, THIS_CLASS if key[1] else float(number[key])) for key, each in first.items()]


def _expression(name: str, held: Sequence[_Held]) -> Expr | None:
    """Return the rule's expression in base units if it scales and changes a value on any class."""
    items = [each.solution.advice[name] for each in held]
    scaling = [item for item in items if item.changes and item.formula is not None]
    return scaling[0].expression if scaling else None


def _as_in_force(item: Advice, here: _Held) -> bool:
    """Whether a class already has the rule's value, within rounding."""
    value = _value(item, item.asked, here.variables)
    return isinstance(item.now, int) and NEAR * item.now <= value <= item.now / NEAR


def _twentieths(item: Advice, here: _Held) -> Expr:
    """Return the rule's value on this class as a share of memory in twentieths: 3/4 is 15.

    Such an estimate allocates no memory, so small classes need not limit the others.
    """
    share = Fraction(_value(item, item.asked, here.variables) * (item.unit or 1), here.memory)
    return (MEMORY * Fraction(max(1, round(share * 20)), 20)).in_unit(item.unit or 1)


def _formula(group: Family, item: Advice, expression: Expr, samples: Sequence[Sample]) -> Setting:
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


def _sample(question: Question, held: _Held, name: str, weight: float, room: float) -> Sample:
    """Return the rule's value there, and the upper limit for a formula."""
    item = held.solution.advice[name]
    value = most = _value(item, item.asked, held.variables)
    if name == "work_mem" and item.asked is not None:
        most = int(room * _value(item, uncapped(item.asked), held.variables))
        value = min(value, most)
    elif name == "max_worker_processes":
        most = 2 * value  # an unused slot costs 112 kB, see the budget
    machine = question.machine(held.instance_class, held.memory)
    least, most = _bounded(item, question.family.parameters[name], most)
    return Sample(machine, value, most, least, weight)


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
    """Drop constants that cap it: a cap is convention, and work_mem is limited by the budget."""
    match expression:
        case Extreme(True, parts):
            return Extreme(True, tuple(part for part in parts if not isinstance(part, Constant)))
        case Extreme(False, parts):
            return Extreme(False, tuple(map(uncapped, parts)))
    return expression


def _within_storage(name: str, formula: Formula) -> Formula:
    """Keep WAL from filling the volume, with one more argument of LEAST."""
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


def _method(group: Family, name: str) -> Method:
    return "immediate" if group.parameters[name].apply_type == "dynamic" else "pending-reboot"


def _default_already(setting: Setting, group: Family) -> bool:
    return setting.value == group.parameters[setting.name].default


def _without(question: Question, answer: Solution, settings: Sequence[Setting]) -> dict[str, str]:
    """Return what the main job always sets and this group does not, other than for sessions."""
    group, reasons = question.family, fixed(question.family)
    names = {setting.name for setting in settings}
    if question.connections is None:
        names.add("max_connections")
    return {
        name: reasons.get(
            name, f"the default of {group.name} is right: {group.parameters[name].default}"
        )
        for name, item in answer.advice.items()
        if item.rule.always and name not in names
    }
