"""The main job's request for one instance class, as RDS would run it.

Memory is DBInstanceClassMemory, a little less than the machine's: it is what formulas use, and
what AWS leaves to PostgreSQL. The family's defaults are in force, and what AWS does not let users
set is fixed; so a rule's answer is a change to RDS's own configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

from mrtuner.catalog import Parameter, parameters
from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.families import Family
from mrtuner.formula.class_memory import Estimate, class_memory
from mrtuner.formula.expression import Expr
from mrtuner.formula.rds_formula import is_formula, machine_variables, parse
from mrtuner.inputs import Storage, Workload
from mrtuner.postgres.reserved import OF_RDS
from mrtuner.tuning.budget import DEFAULT_WORK_MEM
from mrtuner.tuning.engine import INITDB, NEAR
from mrtuner.tuning.feasibility import COUNTED, Solution, fewer, solve
from mrtuner.tuning.rules.sessions import A_SESSION
from mrtuner.tuning.situation import (
    USUAL_CEILING,
    Connections,
    Cpus,
    Disk,
    HugePages,
    Memory,
    Situation,
)
from mrtuner.tuning.verdict import RULES, Change
from mrtuner.units import Bytes, GiB

#: Classes on which huge pages are off by default, for RDS (False) and Aurora (True).
#: Source: RDS User Guide, Huge pages for RDS for PostgreSQL ("all the DB instance classes other
#: than micro, small, and medium"); Aurora User Guide, Huge pages for Aurora PostgreSQL; 2026.
_WITHOUT_HUGE_PAGES: Final = {
    False: (".micro", ".small", ".medium"),
    True: ("t3.medium", "t3.large", "t4g.medium", "t4g.large"),
}
#: The family's own formula, based on memory, comes closer to the rule than any of our shapes.
_LEFT_TO_RDS: Final = {"autovacuum_max_workers": "RDS already scales it with memory"}


#: Large enough to limit nothing: the group's formulas limit WAL to a share of AllocatedStorage.
_BOUNDED_BY_FORMULA: Final = Disk(Bytes(2**62), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reckoned:
    """The sessions that the budget counts when their number is not given."""

    open: int  # processes with memory of their own
    active: int  # those of them that sort and hash at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """A request for a group; the rules answer it for every class of the family.

    When the number of connections is not given, max_connections stays as it is (the class's
    default, or the value in the group in force, `kept`), and the budget counts `reckoned`
    sessions. With `every` it counts every connection, as when their number is given.
    """

    family: Family
    workload: Workload
    connections: int | None
    storage: Bytes
    kept: str | None = None  # max_connections in the group in force, not ours to change
    every: bool = False

    @property
    def aurora(self) -> bool:
        """Whether the storage is Aurora's, without a volume that WAL could fill."""
        return self.family.engine.startswith("aurora")

    def memory_of(self, each: InstanceClass) -> Estimate:
        return class_memory(each, self.family.engine)

    def machine(self, each: InstanceClass, memory: Bytes) -> dict[str, int]:
        """Return the class's variables as formulas name them."""
        return machine_variables(memory, each.vcpus, self.storage)

    def alike(self, each: InstanceClass) -> tuple[object, ...]:
        """Return a key: classes with the same key have the same answers."""
        return self.memory_of(each), each.vcpus, self.huge_pages(each, None)

    def in_force(
        self, each: InstanceClass, memory: Bytes, values: Mapping[str, str] | None = None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return every parameter's value on a class and its origin; see the function `in_force`."""
        kept = {} if self.kept is None else {"max_connections": self.kept}
        return in_force(self.family, self.machine(each, memory), {**kept, **(values or {})})

    def situation(self, each: InstanceClass, memory: Bytes) -> Situation:
        """Return the situation that the rules are given for this class."""
        running, origins = self.in_force(each, memory)
        reckoned = self.reckoned(each, memory)
        if reckoned is not None:
            running["max_connections"] = str(reckoned.open)
        return self.counting(each, memory, running, origins, reckoned)

    def with_group(
        self, each: InstanceClass, memory: Bytes, values: Mapping[str, str]
    ) -> Situation:
        """Return the situation of a server of this class with a group's values in force."""
        return self.counting(each, memory, *self.in_force(each, memory, values), None)

    def huge_pages(self, each: InstanceClass, wanted: str | None) -> HugePages | None:
        """Return the huge pages for shared memory on this class with huge_pages = `wanted`, if any.

        RDS reserves as many as the instance needs, or does not start it.
        """
        without = _WITHOUT_HUGE_PAGES[self.aurora]
        if wanted == "off" or each.name.removeprefix("db.").endswith(without):
            return None
        return HugePages(None, "RDS User Guide")

    def answer(self, each: InstanceClass, memory: Bytes) -> Solution:
        """Return every rule's answer for this class, and the resulting budget."""
        if self.connections is None and not self.every:
            answer = _first_enough(self, each, memory, whole=True)[1]
            if answer is not None:
                return answer
        return solve(self.situation(each, memory))

    def reckoned(self, each: InstanceClass, memory: Bytes) -> Reckoned | None:
        """Return the sessions that the budget counts when no number is given; None to count all.

        All connections are open, and as many sort at the same time as the main job assumes for a
        described machine of the workload. Where that leaves less work_mem than the server's own
        default, or takes buffers away for page tables, fewer are open: one for each 32 MB of
        memory, then half of that, and so on.
        """
        if self.connections is not None or self.every:
            return None
        return _first_enough(self, each, memory, whole=False)[0]

    def counting(
        self,
        each: InstanceClass,
        memory: Bytes,
        running: Mapping[str, str],
        origins: Mapping[str, str],
        reckoned: Reckoned | None,
    ) -> Situation:
        """Return the situation with these values in force, in which some sessions are counted."""
        return Situation(
            major=self.family.major,
            workload=self.workload,
            connections=Connections(self.connections, active=reckoned.active if reckoned else None),
            memory=Memory(memory),
            cpus=Cpus(each.vcpus),
            storage=Storage.EBS,
            disk=_BOUNDED_BY_FORMULA,
            running={**running, **self._reserved()},
            origins=origins,
            enum_values=_enum_values(self.family),
            huge_pages=self.huge_pages(each, running.get("huge_pages")),
            fixed=fixed(self.family),
            ceiling=USUAL_CEILING,
        )

    def usual_connections(self) -> Expr | None:
        described = Situation(
            major=self.family.major,
            workload=self.workload,
            connections=Connections(None),
            memory=Memory(Bytes(GiB)),
        )
        match RULES["max_connections"].decide(Connections(None), described):
            case Change(to=Expr() as usual):
                return usual
        return None

    def _reserved(self) -> dict[str, str]:
        """Return the settings by which RDS reserves sessions for itself and its superusers."""
        known = ((name, self.family.parameters.get(name)) for name in OF_RDS)
        return {name: each.default for name, each in known if each and each.default}


#: A lint of groups of every family asks for two workloads on some sixty machine sizes, three
#: memory sizes each; a design asks for the sessions and for the answer on each class.
@lru_cache(maxsize=8192)
def _first_enough(
    request: GroupRequest, each: InstanceClass, memory: Bytes, *, whole: bool
) -> tuple[Reckoned, Solution | None]:
    """Return the sessions to count (`GroupRequest.reckoned`) and the answer with them.

    Unless `whole`, only the rules on which the worst case depends are asked.
    """
    running, origins = request.in_force(each, memory)
    rules = RULES.keys() if whole else COUNTED
    usual = request.usual_connections()
    allowed = int(running["max_connections"])
    active = min(usual.evaluate({"memory": memory}) if usual else allowed, allowed)
    found = Reckoned(open=allowed, active=active)
    if int(running["shared_buffers"]) <= 0:
        return found, None  # Aurora's default on a class far too small for it: nothing fits
    for count in (allowed, *fewer(min(allowed, max(active, memory // A_SESSION)))):
        found = Reckoned(open=count, active=min(active, count))
        counted = {**running, "max_connections": str(count)}
        answer = solve(request.counting(each, memory, counted, origins, found), rules)
        if answer.holds and answer.work_mem >= DEFAULT_WORK_MEM and not _fewer_buffers(answer):
            break
    return found, answer


def _fewer_buffers(answer: Solution) -> bool:
    """Whether the rules would lower shared_buffers to make room for sessions, beyond rounding."""
    item = answer.advice["shared_buffers"]
    now, target = item.now, item.target
    return isinstance(now, int) and isinstance(target, int) and target < now * NEAR


def in_force(
    family: Family, machine: Mapping[str, int], values: Mapping[str, str] | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return every parameter's value on a machine, in base units, and where it comes from.

    `values` are the group's own; the fallbacks are the family's defaults, then PostgreSQL's.
    """
    by_default, of_default = _defaults(family, frozenset(machine.items()))
    running, origins = by_default.copy(), of_default.copy()
    ours = parameters(family.major)
    for name in (values or {}).keys() & ours.keys():
        running[name] = _evaluated((values or {})[name], ours[name], machine)
        origins[name] = "parameter group"
    return running, origins


#: A lint tries some thousand values on the same sixty machine sizes, three memory sizes each.
_KEPT: Final = 8192


@lru_cache(maxsize=_KEPT)
def _defaults(
    family: Family, machine: frozenset[tuple[str, int]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return `in_force` with nothing set by users. Cached: copy the result, never change it."""
    running: dict[str, str] = {}
    origins: dict[str, str] = {}
    for name, parameter in parameters(family.major).items():
        known = family.parameters.get(name)
        if known and known.default is not None:
            text, origin = known.default, f"default of {family.name}"
        else:
            text, origin = _of_postgresql(parameter), "default"
        running[name], origins[name] = _evaluated(text, parameter, dict(machine)), origin
    return running, origins


@cache
def fixed(family: Family) -> Mapping[str, str]:
    """Return what users cannot set in this family, and why."""
    return MappingProxyType(family.refusals({*RULES, *family.parameters}) | _LEFT_TO_RDS)


def _of_postgresql(parameter: Parameter) -> str:
    default = INITDB.get(parameter.name, parameter.default)
    if isinstance(default, bool):
        return "on" if default else "off"
    return "" if default is None else str(default)


def _evaluated(text: str, parameter: Parameter, machine: Mapping[str, int]) -> str:
    """Return a ParameterValue as pg_settings would show it."""
    if is_formula(text):
        text = str(parse(text).evaluate(machine))
    if parameter.vartype == "bool":
        return "on" if text.lower() in {"1", "on", "true", "yes"} else "off"
    return text


@cache
def _enum_values(family: Family) -> dict[str, tuple[str, ...]]:
    """Return the enum values that RDS's builds accept, except those guessed from other builds."""
    known = parameters(family.major)
    return {
        name: tuple(each.strip() for each in parameter.allowed.split(","))
        for name, parameter in family.parameters.items()
        if parameter.allowed
        and name in known
        and known[name].vartype == "enum"
        and not parameter.values_guessed
    }
