"""The main job's rules as a parameter group that stays right on every instance class.

The rules are evaluated for each class (`rdstune.group.request`), and their answers become
formulas and literals (`rdstune.group.group_settings`) that hold on all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mrtuner.catalog import parameters
from mrtuner.catalog.classes import InstanceClass, instance_class, instance_classes
from mrtuner.catalog.families import Family, family
from mrtuner.errors import BadValue, DoesNotFit
from mrtuner.formula.class_memory import Estimate
from mrtuner.inputs import Workload
from mrtuner.tuning.advice import Advice
from mrtuner.tuning.budget import DEFAULT_WORK_MEM
from mrtuner.tuning.feasibility import Solution, most_sessions, refuse_overflow
from mrtuner.units import Bytes, GiB, pretty_bytes
from mrtuner.wording import first_upper
from rdstune.group.connections import Sessions, sessions
from rdstune.group.group_settings import Setting, SizedClass, group_settings
from rdstune.group.request import GroupRequest, fixed
from rdstune.group.screening import SOME_STORAGE
from rdstune.group.sizes import Size, sizes

#: Share of the room under the ceiling that work_mem may fill, tried in this order: the family's
#: defaults and worker slots beyond the rule's number take some of it too.
ROOM: Final = (0.97, 0.9, 0.8, 0.6, 0.4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A parameter group before it is created."""

    request: GroupRequest
    instance_class: InstanceClass
    memory: Estimate
    settings: tuple[Setting, ...]
    advice: Mapping[str, Advice]  # the rules' answers for the class asked about
    without: Mapping[str, str]  # what the main job always sets but this group does not: why
    too_small: tuple[str, ...]  # classes that cannot hold these connections with any values
    sessions: Sessions | None  # counted on this class; None where connections are given
    smallest: str | None  # class that was given; None: it has to hold on all

    @property
    def family(self) -> Family:
        return self.request.family

    @property
    def values(self) -> dict[str, str]:
        return {setting.name: setting.value for setting in self.settings}

    def of_group(self, *, cluster: bool) -> list[Setting]:
        """Return what a cluster's group takes, or an instance's: of Aurora's settings, not all."""
        of = self.family.parameters
        return [one for one in self.settings if cluster or of[one.name].level == "instance"]

    @property
    def command_with_connections(self) -> str:
        """The command that asks for this group with as many connections as are counted active."""
        words = ["rdstune", "show", "--class", self.instance_class.name]
        words += ["--family", self.family.name, "--workload", str(self.request.workload)]
        if self.request.storage != SOME_STORAGE:
            words += ["--disk", f"{self.request.storage // GiB}GB"]
        if self.smallest:
            words += ["--smallest", self.smallest]
        count = self.sessions.reckoned.active if self.sessions else 0
        return " ".join([*words, "--connections", str(count)])

    def shown(self, name: str, size: Size) -> str:
        """Return a parameter's value on a class, as configuration text: ``8GB``."""
        parameter, value = parameters(self.family.major)[name], size.values[name]
        if parameter.vartype == "integer":
            return parameter.show(int(value))
        return parameter.show(parameter.parse(value))


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
    request = GroupRequest(
        family=family(family_name),
        workload=Workload(workload),
        connections=connections,
        storage=storage or SOME_STORAGE,
        kept=kept if connections is None else None,
    )
    chosen = _offered(class_name, request.family)
    memory = request.memory_of(chosen)
    answer = request.answer(chosen, memory.low)
    try:
        refuse_overflow(request.situation(chosen, memory.low), answer)
    except DoesNotFit as error:
        raise DoesNotFit(error.message, _what_must_give(request, chosen)) from None
    held, too_small = _holding(request, [chosen, *_from(smallest, request.family)])
    settings, broken = _within_budget(request, chosen, held)
    return Design(
        request=request,
        instance_class=chosen,
        memory=memory,
        settings=tuple(settings),
        advice=request.answer(chosen, memory.value).advice,
        without=_without(request, answer, settings),
        too_small=tuple(
            sorted({*too_small, *broken}, key=lambda name: (instance_class(name).memory, name))
        ),
        sessions=sessions(request, chosen),
        smallest=smallest,
    )


def _what_must_give(request: GroupRequest, chosen: InstanceClass) -> str:
    """Return how many connections the class holds, and which class holds those asked for."""
    memory = request.memory_of(chosen).low
    situation = request.situation(chosen, memory)
    asked = request.connections or int(situation.running["max_connections"])
    fewer = most_sessions(situation, asked)
    larger = sorted(
        _from(chosen.name, request.family),
        key=lambda each: (
            each.family != chosen.family,
            each.graviton != chosen.graviton,
            each.memory,
        ),
    )
    ways = []
    if fewer:
        ways.append(f"set --connections to {fewer} (a pooler serves more clients with them)")
    for each in larger:
        if request.answer(each, request.memory_of(each).low).holds:
            ways.append(f"take a class with {pretty_bytes(each.memory)}, such as {each.name}")
            break
    hint = ", or ".join(ways) or "ask for fewer connections: no class holds so many"
    return f"{first_upper(hint)}."


def _within_budget(
    request: GroupRequest, chosen: InstanceClass, held: Sequence[SizedClass]
) -> tuple[list[Setting], tuple[str, ...]]:
    """Return settings with as much work_mem as every class can hold, and classes too small."""
    settings: list[Setting] = []
    broken: tuple[str, ...] = ()
    classes = tuple(dict.fromkeys(each.instance_class for each in held))
    for room in ROOM:
        settings = group_settings(request, chosen, held, room)
        values = {setting.name: setting.value for setting in settings}
        broken = tuple(
            size.instance_class.name for size in sizes(values, request, classes) if not size.holds
        )
        if not broken:
            return settings, broken
    rest = [each for each in held if each.instance_class.name not in broken]
    if chosen.name in broken or not rest:
        return settings, broken
    settings, more = _within_budget(request, chosen, rest)  # without those that limited the others
    return settings, (*broken, *more)


def _offered(class_name: str, group: Family) -> InstanceClass:
    chosen = instance_class(class_name)
    if group.engine not in chosen.engines:
        raise BadValue(
            f"{class_name} is not offered for {group.engine}",
            "rdstune evaluate --all-classes lists the classes of an engine.",
        )
    return chosen


def _from(smallest: str | None, group: Family) -> list[InstanceClass]:
    least = instance_class(smallest).memory if smallest else 0
    return [each for each in instance_classes(group.engine).values() if each.memory >= least]


def _holding(
    request: GroupRequest, classes: Iterable[InstanceClass]
) -> tuple[list[SizedClass], tuple[str, ...]]:
    """Return every class at each possible memory size, and the names of those that are too small.

    A class left with less work_mem than PostgreSQL's default would limit every larger one to that.
    It counts as too small unless the first class, the one asked about, is no better off.
    """
    held: list[SizedClass] = []
    too_small: list[str] = []
    answers: dict[tuple[object, ...], Solution] = {}
    least: int | None = None
    for each in dict.fromkeys(classes):
        memory = request.memory_of(each)
        sizes = (memory.low, memory.value, memory.high)
        alike = request.alike(each)
        for size in sizes:
            if (size, alike) not in answers:
                answers[size, alike] = request.answer(each, size)
        work_mem = min(answers[size, alike].work_mem for size in sizes)
        least = min(work_mem, DEFAULT_WORK_MEM) if least is None else least
        if work_mem >= least and all(answers[size, alike].holds for size in sizes):
            held += [SizedClass(each, size, answers[size, alike]) for size in sizes]
        else:
            too_small.append(each.name)
    return held, tuple(too_small)


def _without(
    request: GroupRequest, answer: Solution, settings: Sequence[Setting]
) -> dict[str, str]:
    """Return why this group omits parameters that the main job always sets, by parameter.

    Without a number of connections, max_connections is not listed.
    """
    group, reasons = request.family, fixed(request.family)
    names = {setting.name for setting in settings}
    if request.connections is None:
        names.add("max_connections")
    return {
        name: reasons.get(
            name, f"the default of {group.name} is right: {group.parameters[name].default}"
        )
        for name, item in answer.advice.items()
        if item.rule.always and name not in names
    }
