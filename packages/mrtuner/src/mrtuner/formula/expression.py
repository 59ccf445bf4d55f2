"""Expressions over the machine: written once, evaluated to a number, shown as a reason.

A rule uses ``MEMORY / 4`` or ``least(MEMORY / 16, 1 * GiB)``. The same object gives the value
on one machine (`evaluate`), the words for a person (`prose`) and the same expression in a
parameter's base unit (`in_unit`), the form that an RDS parameter group needs.

Expressions have a normal form that both we and RDS can compute exactly with integers: `least`,
`greatest` and sums over terms ``variable * numerator // denominator``. A product of fractions
is folded before it is floored, so ``MEMORY * 3 / 4 / 8192`` is one multiplication and one
division, as RDS requires.

>>> (MEMORY * 3 / 4).in_unit(8192)
memory * 3 / 32768
>>> least(MEMORY / 16, 1024**3).evaluate({"memory": 8 * 1024**3}) == 512 * 1024**2
True
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from mrtuner.units import MiB


class MissingVariable(KeyError):
    """A variable that an expression needs was not given; the argument names it."""


@dataclass(frozen=True, slots=True)
class Expr(ABC):
    """An integer expression over the machine; memory in bytes, CPUs as a count."""

    @abstractmethod
    def evaluate(self, machine: Mapping[str, int]) -> int:
        """Return the value on one machine, floored as PostgreSQL's base units are."""

    @abstractmethod
    def scaled(self, factor: Fraction) -> Expr:
        """Return this expression times an exact fraction."""

    @abstractmethod
    def prose(self, number: Callable[[int], str] = str) -> str:
        """Return the expression in words, with constants formatted by `number`."""

    def in_unit(self, unit: int) -> Expr:
        """Return a size in bytes as a count of a base unit of `unit` bytes."""
        return self.scaled(Fraction(1, unit))

    def __mul__(self, factor: int | Fraction) -> Expr:
        return self.scaled(Fraction(factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor: int | Fraction) -> Expr:
        return self.scaled(1 / Fraction(divisor))

    def __add__(self, other: Expr | int) -> Expr:
        return total(self, other)

    def __sub__(self, other: Expr | int) -> Expr:
        return total(self, as_expr(other).scaled(Fraction(-1)))

    def __repr__(self) -> str:
        return self.prose()


@dataclass(frozen=True, slots=True, repr=False)
class Constant(Expr):
    """A number that does not depend on the machine."""

    value: Fraction | int

    def evaluate(self, machine: Mapping[str, int]) -> int:  # noqa: ARG002
        return self.value.numerator // self.value.denominator

    def scaled(self, factor: Fraction) -> Expr:
        return Constant(self.value * factor)

    def prose(self, number: Callable[[int], str] = str) -> str:
        return number(self.evaluate({}))


@dataclass(frozen=True, slots=True, repr=False)
class Term(Expr):
    """``variable * factor``, floored once."""

    variable: str
    factor: Fraction = Fraction(1)

    def evaluate(self, machine: Mapping[str, int]) -> int:
        try:
            value = machine[self.variable]
        except KeyError:
            raise MissingVariable(self.variable) from None
        return value * self.factor.numerator // self.factor.denominator

    def scaled(self, factor: Fraction) -> Expr:
        return Term(self.variable, self.factor * factor)

    def prose(self, number: Callable[[int], str] = str) -> str:
        text = self.variable
        if self.factor.numerator != 1:
            text += f" * {self.factor.numerator}"
        if self.factor.denominator != 1:
            text += f" / {_divisor(self.factor.denominator, number)}"
        return text


def _divisor(divisor: int, number: Callable[[int], str]) -> str:
    """Return the divisor of memory: a plain number, or a size as in "one session per 32 MB"."""
    return number(divisor) if divisor % MiB == 0 else str(divisor)


@dataclass(frozen=True, slots=True, repr=False)
class Extreme(Expr):
    """The least or the greatest of several expressions."""

    least: bool
    parts: tuple[Expr, ...]

    def evaluate(self, machine: Mapping[str, int]) -> int:
        pick = min if self.least else max
        return pick(part.evaluate(machine) for part in self.parts)

    def scaled(self, factor: Fraction) -> Expr:
        least = self.least if factor >= 0 else not self.least
        return Extreme(least, tuple(part.scaled(factor) for part in self.parts))

    def prose(self, number: Callable[[int], str] = str) -> str:
        name = "least" if self.least else "greatest"
        return f"{name}({', '.join(part.prose(number) for part in self.parts)})"


@dataclass(frozen=True, slots=True, repr=False)
class Sum(Expr):
    """The sum of several expressions, each floored separately."""

    parts: tuple[Expr, ...]

    def evaluate(self, machine: Mapping[str, int]) -> int:
        return sum(part.evaluate(machine) for part in self.parts)

    def scaled(self, factor: Fraction) -> Expr:
        return Sum(tuple(part.scaled(factor) for part in self.parts))

    def prose(self, number: Callable[[int], str] = str) -> str:
        return " + ".join(part.prose(number) for part in self.parts)


MEMORY: Final[Expr] = Term("memory")
CPUS: Final[Expr] = Term("cpus")


def as_expr(value: Expr | int) -> Expr:
    """Return an expression unchanged, or a number as a constant."""
    return value if isinstance(value, Expr) else Constant(value)


def least(*parts: Expr | int) -> Expr:
    return Extreme(True, tuple(map(as_expr, parts)))


def greatest(*parts: Expr | int) -> Expr:
    return Extreme(False, tuple(map(as_expr, parts)))


def total(*parts: Expr | int) -> Expr:
    """Return the sum; like terms and constants are combined to keep formulas short."""
    terms: dict[str, Fraction] = {}
    constant: Fraction | int = 0
    others = []
    for part in _flat(map(as_expr, parts)):
        match part:
            case Term(variable, factor):
                terms[variable] = terms.get(variable, Fraction(0)) + factor
            case Constant(value):
                constant += value
            case _:
                others.append(part)
    folded: list[Expr] = [Term(name, factor) for name, factor in terms.items() if factor]
    folded += others
    if constant or not folded:
        folded.append(Constant(constant))
    return folded[0] if len(folded) == 1 else Sum(tuple(folded))


def _flat(parts: Iterable[Expr]) -> list[Expr]:
    flat: list[Expr] = []
    for part in parts:
        flat.extend(_flat(part.parts) if isinstance(part, Sum) else [part])
    return flat
