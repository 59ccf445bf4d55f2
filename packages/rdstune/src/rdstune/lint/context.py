"""One parameter of a group as it was written, what is known about it, and the machines to check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from mrtuner.catalog import Parameter
from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.families import Family, FamilyParameter
from mrtuner.errors import BadValue
from mrtuner.formula.class_memory import VARIABLE
from mrtuner.formula.rds_formula import Formula, is_formula, parse
from mrtuner.units import memory_unit
from mrtuner.wording import first_few
from rdstune.group.evaluate import is_memory, takes_formulas
from rdstune.group.source import GroupEntry
from rdstune.lint.findings import Finding, Severity

_Answer = TypeVar("_Answer")
#: How to parse values of these types.
_NUMBERS: Final[Mapping[str, Callable[[str], int | float]]] = {"integer": int, "real": float}
_LARGEST: Final = 2**63
_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassMachine:
    """An instance class as formulas see it, at the minimum, middle and maximum of its memory.

    There is one object for each class and engine, so that sequences of them are quickly compared.
    """

    instance_class: InstanceClass
    points: tuple[dict[str, int], ...]  # the same object for classes that formulas see as equal
    named: bool = False  # by the user or in the file: it is in use

    @property
    def memory(self) -> int:
        """Its likely memory [bytes]."""
        return self.points[len(self.points) // 2][VARIABLE]

    @property
    def middle(self) -> Mapping[str, int]:
        """The class's variables with its likely memory."""
        return self.points[len(self.points) // 2]

    def likely(self, formula: Formula) -> int:
        return formula.evaluate(self.middle)

    def values(self, formula: Formula) -> list[int]:
        return [formula.evaluate(point) for point in self.points]


#: Classes, by memory, the smallest first.
Machines = tuple[ClassMachine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One parameter as it was written, and what is known about it."""

    entry: GroupEntry
    family: Family | None
    known: FamilyParameter | None  # from the family, or from the group in AWS itself
    parameter: Parameter | None  # PostgreSQL's
    machines: Machines
    cluster: bool
    terraform: bool = False  # Terraform compares it with what AWS returns
    nowhere: bool = False  # no family is given, and no known family has this parameter
    #: Whether a replacement value keeps the group within budget wherever it is now.
    safe: Callable[[str], bool] = lambda _: True

    def write(self, better: str | None) -> str:
        """Return a remedy with another value; empty where that would exceed the budget."""
        return f"Write {better}" if better and self.safe(better) else ""

    @property
    def text(self) -> str:
        return (self.entry.value or "").strip()

    @property
    def formula(self) -> Formula | None:
        """The value as a formula; None for a literal and for an invalid formula."""
        if not is_formula(self.text):
            return None
        try:
            return self.read()
        except BadValue:
            return None

    def read(self) -> Formula:
        """Return the value as a formula. BadValue if it is invalid or a result exceeds 64 bits."""
        formula = parse(self.text)
        values = self.on_each(lambda machine: machine.values(formula))
        for machine, results in zip(self.machines, values, strict=True):
            if max(results) >= _LARGEST or min(results) <= -_LARGEST:
                raise BadValue(f"the result exceeds 64 bits on {machine.instance_class.name}")
        return formula

    def on_each(self, ask: Callable[[ClassMachine], _Answer]) -> list[_Answer]:
        """Return an answer for each machine; those that formulas see as equal are asked once."""
        found: dict[int, _Answer] = {}
        for machine in self.machines:
            if id(machine.points) not in found:
                found[id(machine.points)] = ask(machine)
        return [found[id(machine.points)] for machine in self.machines]

    def unreadable(self) -> BadValue | None:
        """Why the value is not a formula; None where it is one."""
        try:
            self.read()
        except BadValue as error:
            return error
        return None

    @property
    def takes_no_formula(self) -> bool:
        """Whether neither the family's type nor PostgreSQL's accepts formulas."""
        if self.known is None or self.known.is_formula_allowed:
            return False
        return self.parameter is None or not takes_formulas(self.parameter)

    @property
    def unit(self) -> int | None:
        """Bytes in the base unit of a size."""
        return memory_unit(self.parameter.unit) if self.parameter and self.parameter.unit else None

    @property
    def pages(self) -> str:
        unit = self.parameter.unit if self.parameter else None
        return f"units of {unit}" if unit else "plain numbers"

    def finding(
        self,
        check: str,
        severity: Severity,
        what: str,
        *,
        why: str | None = None,
        remedy: str | None = None,
    ) -> Finding:
        return Finding(
            check=check, severity=severity, parameter=self.entry.name, what=what,
            why=why or "", remedy=remedy or "", line=self.entry.line,
        )  # fmt: skip

    @property
    def memory_unit(self) -> int | None:
        """Bytes in the base unit if the parameter is a memory size; None for anything else."""
        return self.unit if self.parameter is not None and is_memory(self.parameter) else None

    def listed(self, names: Sequence[str]) -> str:
        return listed(names, len(self.machines))

    def refusal_of_number(self, value: int) -> tuple[BadValue, Severity] | None:
        """Return why a formula's result is refused; None for an enum: 1 and 0 may be on and off."""
        words = self.known is not None and not self.known.is_formula_allowed
        return None if words else self.refusal(str(value))

    def refusal(self, value: str) -> tuple[BadValue, Severity] | None:
        """Return why PostgreSQL, or RDS's list of allowed values, refuses a literal."""
        found = self._refusal_by_server(value)
        return (found, Severity.ERROR) if found else self._refusal_by_family(value)

    def _refusal_by_server(self, value: str) -> BadValue | None:
        kind = _NUMBERS.get(self.parameter.vartype) if self.parameter else None
        if self.parameter is None or kind is None:
            return None
        try:
            self.parameter.check(kind(value))
        except BadValue as error:
            return error
        except ValueError:
            counted = f"It is measured in {self.pages}." if self.unit else None
            return BadValue(f"{value!r} is not a number", counted)
        return None

    def _refusal_by_family(self, value: str) -> tuple[BadValue, Severity] | None:
        """Check RDS's list of allowed values; a default passes: one of them is not listed."""
        if self.known is None or value == self.known.default:
            return None
        try:
            self.known.check(value)
        except BadValue as error:
            return error, sure(not self.known.inferred)
        return None


def larger_only(machines: Sequence[ClassMachine], refused: Sequence[str]) -> str | None:
    """Return a clause saying that refused classes may be unused.

    None if they are not the smallest, or if they were named.
    """
    if any(machine.named for machine in machines):
        return None
    without = set(refused)
    classes = [machine.instance_class for machine in machines]
    most = max(each.memory for each in classes if each.name in without)
    others = [each for each in machines if each.instance_class.name not in without]
    larger = [each for each in others if each.instance_class.memory > most]
    if not larger or len(others) - len(larger) > len(refused):
        return None
    return f"If you use only larger classes, add --smallest {larger[0].instance_class.name}."


def sized_for_larger(
    larger: str | None, refused: Sequence[str], machines: Sequence[ClassMachine]
) -> Severity:
    """Return WARNING; INFO where at most the smaller half of the classes is too small.

    It is not known which classes matter, and a group is written for the class it is used on.
    """
    few = larger is not None and 2 * len(refused) <= len(machines)
    return Severity.INFO if few else Severity.WARNING


def sure(yes: bool) -> Severity:
    return Severity.ERROR if yes else Severity.WARNING


def listed(names: Sequence[str], total: int) -> str:
    """List some class names of many, smallest first: ``db.t3.micro, db.t4g.micro and 1 more``."""
    if len(names) == total > 1:
        return "every class"
    return first_few(names, _NAMED)
