"""The main job's question for one instance class, as RDS would run it.

Memory is DBInstanceClassMemory, a little less than the machine's: it is what formulas see, and
what AWS leaves to PostgreSQL. In force are the family's defaults; what AWS lets nobody set is
fixed; so a rule's answer is a change against what RDS itself would do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mrtuner.catalog import Parameter, parameters
from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.families import Family, family
from mrtuner.formula.class_memory import Estimate, class_memory
from mrtuner.formula.expression import Expr
from mrtuner.formula.grammar import is_formula, parse
from mrtuner.host.model import Storage
from mrtuner.tuning.engine import INITDB, NEAR
from mrtuner.tuning.feasibility import Solution, solve
from mrtuner.tuning.notices import DEFAULT_WORK_MEM
from mrtuner.tuning.rules.sessions import A_SESSION, OF_RDS
from mrtuner.tuning.situation import (
    USUAL_CEILING,
    Connections,
    Cpus,
    Disk,
    HugePages,
    Memory,
    Situation,
    Workload,
)
from mrtuner.tuning.verdict import RULES, Change
from mrtuner.units import Bytes, GiB

#: Aurora's own storage changes what these mean. Source: Aurora User Guide, storage and parameters.
_AURORA: Final = {
    "shared_buffers": "Aurora sizes it itself: there is no kernel cache to leave memory to",
    "effective_cache_size": "Aurora sets it to its shared buffers: there is no other cache",
    "backend_flush_after": "Aurora's backends write no data pages",
}


#: Classes on which huge pages are off by default, for RDS (False) and Aurora (True).
#: Source: RDS User Guide, Huge pages for RDS for PostgreSQL ("all the DB instance classes other
#: than micro, small, and medium"); Aurora User Guide, Huge pages for Aurora PostgreSQL; 2026.
_WITHOUT_HUGE_PAGES: Final = {
    False: (".micro", ".small", ".medium"),
    True: ("t3.medium", "t3.large", "t4g.medium", "t4g.large"),
}
#: The family's own formula, over memory, comes nearer to the rule than any shape of ours.
_LEFT_TO_RDS: Final = {"autovacuum_max_workers": "RDS grows it with memory itself"}


#: Large enough to bound nothing: the group's formulas hold WAL to a share of AllocatedStorage.
_BOUNDED_BY_FORMULA: Final = Disk(Bytes(2**62), None)
#: Fewer sessions than this are not reckoned with: the main job's rule gives no fewer either.
FEWEST: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Reckoned:
    """Sessions that the budget counts where nobody says how many there are."""

    open: int  # processes with memory of their own
    active: int  # of them sort and hash at the same moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked about every class of a family.

    Where nobody says how many connections, max_connections stays what it is, the class's default
    or what the group in force says (`kept`), and the budget is one of `reckoned` sessions. With
    `every` it is one of every connection, as where somebody says how many.
    """

    family: Family
    workload: Workload
    connections: int | None
    storage: Bytes
    kept: str | None = None  # max_connections of the group in force, not ours to set
    every: bool = False

    @property
    def aurora(self) -> bool:
        """Whether storage is Aurora's own, without a volume that WAL could fill."""
        return self.family.engine.startswith("aurora")

    def memory_of(self, each: InstanceClass) -> Estimate:
        """DBInstanceClassMemory, estimated."""
        return class_memory(each, self.family.engine)

    def machine(self, each: InstanceClass, memory: Bytes) -> dict[str, int]:
        """The class as formulas name it."""
        return {
            "DBInstanceClassMemory": memory,
            "DBInstanceVCPU": each.vcpus,
            "AllocatedStorage": self.storage,
            "EndPointPort": 5432,
        }

    def alike(self, each: InstanceClass) -> tuple[object, ...]:
        """Classes for which this is the same have the same answers."""
        return self.memory_of(each), each.vcpus, self.huge_pages(each, None)

    def in_force(
        self, each: InstanceClass, memory: Bytes, values: Mapping[str, str] | None = None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Every parameter's value on a class, in base units, and whose it is, as `in_force`."""
        kept = {} if self.kept is None else {"max_connections": self.kept}
        return in_force(self.family, self.machine(each, memory), {**kept, **(values or {})})

    def situation(self, each: InstanceClass, memory: Bytes) -> Situation:
        """What the rules are asked about this class."""
        running, origins = self.in_force(each, memory)
        reckoned = self.reckoned(each, memory)
        if reckoned is not None:
            running["max_connections"] = str(reckoned.open)
        return self._situation(each, memory, running, origins, reckoned)

    def _situation(
        self,
        each: InstanceClass,
        memory: Bytes,
        running: Mapping[str, str],
        origins: Mapping[str, str],
        reckoned: Reckoned | None,
    ) -> Situation:
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

    def huge_pages(self, each: InstanceClass, wanted: str | None) -> HugePages | None:
        """Whether RDS holds shared memory in huge pages on this class, with huge_pages = `wanted`.

        It then reserves as many as the instance needs, or does not start it.
        """
        without = _WITHOUT_HUGE_PAGES[self.aurora]
        if wanted == "off" or each.name.removeprefix("db.").endswith(without):
            return None
        return HugePages(None, "RDS User Guide")

    def answer(self, each: InstanceClass, memory: Bytes) -> Solution:
        """Every rule's answer for this class, and the budget they make."""
        return solve(self.situation(each, memory))

    def reckoned(self, each: InstanceClass, memory: Bytes) -> Reckoned | None:
        """The sessions that the budget counts where nobody says how many; None for all there are.

        All connections open, and as many sorting at the same moment as the main job gives a
        described machine of the workload. Where that leaves less work_mem than the server's own
        default, or takes buffers away for page tables, fewer open: one for each 32 MB of memory,
        then half of that, and so on.
        """
        if self.connections is not None or self.every:
            return None
        return _reckoned(self.family.name, self.workload, self.kept, each, memory)

    def first_enough(self, each: InstanceClass, memory: Bytes) -> Reckoned:
        """What `reckoned` finds, worked out anew."""
        running, origins = self.in_force(each, memory)
        usual = self._usual_connections()
        allowed = int(running["max_connections"])
        active = min(usual.evaluate({"memory": memory}) if usual else allowed, allowed)
        found = Reckoned(open=allowed, active=active)
        if int(running["shared_buffers"]) <= 0:
            return found  # Aurora's default on a class far too small for Aurora: nothing fits
        for count in (allowed, *_fewer(min(allowed, max(active, memory // A_SESSION)))):
            found = Reckoned(open=count, active=min(active, count))
            counted = {**running, "max_connections": str(count)}
            answer = solve(self._situation(each, memory, counted, origins, found))
            if answer.holds and answer.work_mem >= DEFAULT_WORK_MEM and not _fewer_buffers(answer):
                break
        return found

    def _usual_connections(self) -> Expr | None:
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
        """Sessions that RDS keeps for itself and its own superusers, beside PostgreSQL's."""
        known = ((name, self.family.parameters.get(name)) for name in OF_RDS)
        return {name: each.default for name, each in known if each and each.default}


@lru_cache(maxsize=4096)
def _reckoned(
    family_name: str, workload: Workload, kept: str | None, each: InstanceClass, memory: Bytes
) -> Reckoned:
    """The volume does not matter: no part of the budget lies on it."""
    question = Question(
        family=family(family_name),
        workload=workload,
        connections=None,
        storage=Bytes(100 * GiB),
        kept=kept,
    )
    return question.first_enough(each, memory)


def _fewer_buffers(answer: Solution) -> bool:
    """Whether the rules would make room for sessions by lowering shared_buffers, rounding apart."""
    item = answer.advice["shared_buffers"]
    now, target = item.now, item.target
    return isinstance(now, int) and isinstance(target, int) and target < now * NEAR


def _fewer(most: int) -> Iterator[int]:
    """Half as many again and again, ten at last."""
    while most > FEWEST:
        yield most
        most //= 2
    yield FEWEST


def in_force(
    family: Family, machine: Mapping[str, int], values: Mapping[str, str] | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Every parameter's value on a machine, in base units, and whose it is.

    `values` are a group's own; below them lie the family's defaults, then PostgreSQL's.
    """
    by_default, of_default = _defaults(family, frozenset(machine.items()))
    running, origins = by_default.copy(), of_default.copy()
    ours = parameters(family.major)
    for name in (values or {}).keys() & ours.keys():
        running[name] = _evaluated((values or {})[name], ours[name], machine)
        origins[name] = "parameter group"
    return running, origins


#: A lint tries some thousand values on the same sixty sizes of machines, three memories each.
_KEPT: Final = 2048


@lru_cache(maxsize=_KEPT)
def _defaults(
    family: Family, machine: frozenset[tuple[str, int]]
) -> tuple[dict[str, str], dict[str, str]]:
    """The same where nobody has set anything, to be copied and never changed."""
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


def fixed(family: Family) -> dict[str, str]:
    """What a customer cannot set in this family, and why."""
    refusals = {name: family.refusal(name) for name in {*RULES, *family.parameters}}
    reasons = {name: why for name, why in refusals.items() if why is not None} | _LEFT_TO_RDS
    if family.engine.startswith("aurora"):
        reasons |= _AURORA
    return reasons


def _of_postgresql(parameter: Parameter) -> str:
    default = INITDB.get(parameter.name, parameter.default)
    if isinstance(default, bool):
        return "on" if default else "off"
    return "" if default is None else str(default)


def _evaluated(text: str, parameter: Parameter, machine: Mapping[str, int]) -> str:
    """A ParameterValue as pg_settings would show it."""
    if is_formula(text):
        text = str(parse(text).evaluate(machine))
    if parameter.vartype == "bool":
        return "on" if text.lower() in {"1", "on", "true", "yes"} else "off"
    return text


def _enum_values(family: Family) -> dict[str, tuple[str, ...]]:
    """What RDS's builds take, where it was seen; pg_settings of another build is a guess."""
    known = parameters(family.major)
    return {
        name: tuple(each.strip() for each in parameter.allowed.split(","))
        for name, parameter in family.parameters.items()
        if parameter.allowed
        and name in known
        and known[name].vartype == "enum"
        and "guessed" not in parameter.evidence
        and "type pg_settings" not in parameter.evidence
    }
