"""The main job's question for one instance class, as RDS would run it.

Memory is DBInstanceClassMemory, a little less than the machine's: it is what formulas see, and
what AWS leaves to PostgreSQL. In force are the family's defaults; what AWS lets nobody set is
fixed; so a rule's answer is a change against what RDS itself would do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mrtuner.catalog import Parameter, parameters
from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.families import Family
from mrtuner.formula import Expr
from mrtuner.host.model import Storage
from mrtuner.rds.formula import is_formula, parse
from mrtuner.rds.memory import Estimate, class_memory
from mrtuner.tuning.engine import INITDB
from mrtuner.tuning.fit import Solution, solve
from mrtuner.tuning.situation import (
    USUAL_CEILING,
    Connections,
    Cpus,
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


#: The family's own formula, over memory, comes nearer to the rule than any shape of ours.
_LEFT_TO_RDS: Final = {"autovacuum_max_workers": "RDS grows it with memory itself"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked about every class of a family."""

    family: Family
    workload: Workload
    connections: int | None
    storage: Bytes

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

    def situation(self, each: InstanceClass, memory: Bytes) -> Situation:
        """What the rules are asked about this class."""
        running, origins = in_force(self.family, self.machine(each, memory))
        return Situation(
            major=self.family.major,
            workload=self.workload,
            connections=Connections(self._connections(memory)),
            memory=Memory(memory),
            cpus=Cpus(each.vcpus),
            storage=Storage.EBS,
            running=running,
            origins=origins,
            enum_values=_enum_values(self.family),
            fixed=fixed(self.family),
            ceiling=USUAL_CEILING,
        )

    def answer(self, each: InstanceClass, memory: Bytes) -> Solution:
        """Every rule's answer for this class, and the budget they make."""
        return solve(self.situation(each, memory))

    def usual_connections(self) -> Expr | None:
        """What the main job's rule gives where nobody says how many; None when somebody does."""
        if self.connections is not None:
            return None
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

    def _connections(self, memory: Bytes) -> int | None:
        usual = self.usual_connections()
        return usual.evaluate({"memory": memory}) if usual else self.connections


def in_force(
    family: Family, machine: Mapping[str, int], values: Mapping[str, str] | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Every parameter's value on a machine, in base units, and whose it is.

    `values` are a group's own; below them lie the family's defaults, then PostgreSQL's.
    """
    running: dict[str, str] = {}
    origins: dict[str, str] = {}
    for name, parameter in parameters(family.major).items():
        known = family.parameters.get(name)
        if values and name in values:
            text, origin = values[name], "parameter group"
        elif known and known.default is not None:
            text, origin = known.default, f"default of {family.name}"
        else:
            text, origin = _of_postgresql(parameter), "default"
        running[name], origins[name] = _evaluated(text, parameter, machine), origin
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
