"""One parameter of a group as it was written, what is known of it, and the machines it may meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mrtuner.catalog import Parameter
from mrtuner.catalog.classes import InstanceClass
from mrtuner.catalog.families import Family, FamilyParameter
from mrtuner.errors import BadValue
from mrtuner.formula.grammar import Formula, is_formula, parse
from mrtuner.rds.group.evaluate import is_memory, takes_formulas
from mrtuner.rds.group.source import Entry
from mrtuner.rds.lint.findings import Finding, Severity
from mrtuner.units import memory_unit

MEMORY: Final = "DBInstanceClassMemory"
#: How the values of these types are read.
_NUMBERS: Final[Mapping[str, Callable[[str], int | float]]] = {"integer": int, "real": float}
_LARGEST: Final = 2**63
_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """An instance class as formulas see it, at the least, the middle and the most it may have."""

    instance_class: InstanceClass
    points: tuple[dict[str, int], ...]

    @property
    def memory(self) -> int:
        """Its likely memory [bytes]."""
        return self.points[len(self.points) // 2][MEMORY]

    @property
    def middle(self) -> Mapping[str, int]:
        """The class with its likely memory."""
        return self.points[len(self.points) // 2]

    def likely(self, formula: Formula) -> int:
        """What a formula probably gives here."""
        return formula.evaluate(self.middle)

    def values(self, formula: Formula) -> list[int]:
        """What it may give here."""
        return [formula.evaluate(point) for point in self.points]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One parameter as it was written, and what is known about it."""

    entry: Entry
    family: Family | None
    known: FamilyParameter | None  # of the family, or of the group in AWS itself
    parameter: Parameter | None  # of PostgreSQL
    machines: Sequence[Machine]  # smallest memory first
    cluster: bool
    nowhere: bool = False  # no family is said, and none that is known has such a parameter
    #: Whether another value keeps the group's budget on every class on which it holds now.
    safe: Callable[[str], bool] = lambda _: True

    def write(self, better: str | None) -> str:
        """A remedy that names another value; none where that would break the budget somewhere."""
        return f"Write {better}" if better and self.safe(better) else ""

    @property
    def text(self) -> str:
        """The value."""
        return (self.entry.value or "").strip()

    @property
    def formula(self) -> Formula | None:
        """The value as a formula; None for a literal and for what is none."""
        return self.read() if is_formula(self.text) and self.unreadable() is None else None

    def read(self) -> Formula:
        """The value as a formula. FormulaError for what is none, or cannot be evaluated."""
        formula = parse(self.text)
        for machine in self.machines:
            if any(abs(value) >= _LARGEST for value in machine.values(formula)):
                raise BadValue(f"a number beyond 64 bits on {machine.instance_class.name}")
        return formula

    def unreadable(self) -> BadValue | None:
        """Why the value is no formula; None where it is one."""
        try:
            self.read()
        except BadValue as error:
            return error
        return None

    @property
    def takes_no_formula(self) -> bool:
        """Neither by the family's type nor by PostgreSQL's."""
        if self.known is None or self.known.is_formula_allowed:
            return False
        return self.parameter is None or not takes_formulas(self.parameter)

    @property
    def unit(self) -> int | None:
        """Bytes in the base unit of a size."""
        return memory_unit(self.parameter.unit) if self.parameter and self.parameter.unit else None

    @property
    def pages(self) -> str:
        """The base unit in words."""
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
        """A finding about this parameter."""
        return Finding(
            check=check, severity=severity, parameter=self.entry.name, what=what,
            why=why or "", remedy=remedy or "", line=self.entry.line,
        )  # fmt: skip

    @property
    def memory_unit(self) -> int | None:
        """Bytes in the base unit of a size of memory; None for anything else."""
        return self.unit if self.parameter is not None and is_memory(self.parameter) else None

    def listed(self, names: Sequence[str]) -> str:
        """Some of the machines' class names."""
        return listed(names, len(self.machines))

    def refusal_of_number(self, value: int) -> tuple[BadValue, Severity] | None:
        """Why what a formula gives is refused; 1 and 0 may stand for on and off in an enum."""
        words = self.known is not None and not self.known.is_formula_allowed
        return None if words else self.refusal(str(value))

    def refusal(self, value: str) -> tuple[BadValue, Severity] | None:
        """Why a literal is refused: by PostgreSQL itself, or by what RDS's list allows."""
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
            counted = f"It is counted in {self.pages}." if self.unit else None
            return BadValue(f"{value!r} is not a number", counted)
        return None

    def _refusal_by_family(self, value: str) -> tuple[BadValue, Severity] | None:
        """By RDS's own list, which one of its defaults is outside of."""
        if self.known is None or value == self.known.default:
            return None
        try:
            self.known.check(value)
        except BadValue as error:
            return error, sure(not self.known.inferred)
        return None


def larger_only(machines: Sequence[Machine], refused: Sequence[str]) -> str | None:
    """How to say that the classes refused are not used; None where they are not the smallest."""
    without = set(refused)
    classes = [machine.instance_class for machine in machines]
    most = max(each.memory for each in classes if each.name in without)
    others = [each for each in machines if each.instance_class.name not in without]
    larger = [each for each in others if each.instance_class.memory > most]
    if not larger or len(others) - len(larger) > len(refused):
        return None
    return f"Where only larger classes are used, say --smallest {larger[0].instance_class.name}."


def sized_for_larger(
    larger: str | None, refused: Sequence[str], machines: Sequence[Machine]
) -> Severity:
    """A warning; only worth knowing where the lesser half of the classes is too small.

    Nobody said which classes count: a group is drawn up for the class it is used on.
    """
    few = larger is not None and 2 * len(refused) <= len(machines)
    return Severity.INFO if few else Severity.WARNING


def sure(yes: bool) -> Severity:
    """An error where it is sure, a warning where it is inferred."""
    return Severity.ERROR if yes else Severity.WARNING


def listed(names: Sequence[str], total: int) -> str:
    """Some class names of many, smallest first: ``db.t3.micro, db.t4g.micro and 1 more``."""
    if len(names) == total > 1:
        return "every class"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
