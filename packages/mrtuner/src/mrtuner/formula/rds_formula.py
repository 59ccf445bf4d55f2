"""The formulas of RDS parameter groups: every form that AWS is known to accept.

A formula is integer arithmetic in braces, from left to right, with every quotient truncated:
``{DBInstanceClassMemory*75/819200}``. The functions GREATEST, LEAST and SUM are outside the braces
and take integers and braces. A comparison such as ``{DBInstanceVCPU}>2`` gives 1 or 0.

Source: RDS User Guide, "Specifying DB parameters"; Aurora User Guide, the same section; and
AWS's own defaults, which show ``{V/I*I}``, ``{log(V/I)*I}`` and a leading dollar sign. `log` is
rounded to the nearest integer: an inference, from AWS's table of 49 default connection counts.

>>> parse("{DBInstanceClassMemory*75/819200}").evaluate({"DBInstanceClassMemory": 8 * 1024**3})
786432
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from typing import Final

from mrtuner.errors import BadValue

#: Variables of PostgreSQL formulas, with units. Source: RDS User Guide, and the default of `port`.
VARIABLES: Final[Mapping[str, str]] = {
    "DBInstanceClassMemory": "bytes",
    "DBInstanceVCPU": "vCPUs",
    "AllocatedStorage": "bytes",
    "EndPointPort": "port",
}
#: What gives a variable its value, for hints.
_GIVEN_BY: Final = {
    "DBInstanceClassMemory": "Name an instance class (--class), or give the memory (--memory).",
    "DBInstanceVCPU": "Name an instance class (--class), or give their number (--vcpus).",
    "AllocatedStorage": "Give the volume's size (--allocated-storage): a class has none.",
    "EndPointPort": "Write the number of the port instead.",
}
_OF_OTHER_ENGINES: Final = {"TrueIfReplica": "MySQL", "DBInstanceClassHugePagesDefault": "Oracle"}
FUNCTIONS: Final[Mapping[str, Callable[[list[int]], int]]] = {
    "GREATEST": max,
    "LEAST": min,
    "SUM": sum,
}
_COMPARISONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    ">": lambda left, right: left > right,
    "<": lambda left, right: left < right,
    ">=": lambda left, right: left >= right,
    "=>": lambda left, right: left >= right,
    "<=": lambda left, right: left <= right,
    "=<": lambda left, right: left <= right,
}


def machine_variables(memory: int, vcpus: int, storage: int, port: int = 5432) -> dict[str, int]:
    """Return a machine's variables by name; memory and storage in bytes."""
    return dict(zip(VARIABLES, (memory, vcpus, storage, port), strict=True))


#: Nesting limit of functions, beyond any real formula.
DEEPEST: Final = 20
#: Digits in a number: far more than any parameter needs, but fewer than Python's limit.
LONGEST: Final = 100


class FormulaError(BadValue):
    """A text is not a formula that RDS accepts for PostgreSQL."""


class MissingMachine(BadValue):
    """A formula needs a variable of the machine that was not given."""


class Formula(ABC):
    """One expression of a parameter group."""

    @property
    @abstractmethod
    def variables(self) -> frozenset[str]:
        """The variables of the machine that it uses."""

    @property
    @abstractmethod
    def documented(self) -> bool:
        """Whether AWS documents this form; others are only known from AWS's own defaults."""

    @abstractmethod
    def evaluate(self, machine: Mapping[str, int]) -> int:
        """Return the value in the parameter's base unit. MissingMachine for a missing variable."""


@dataclass(frozen=True, slots=True)
class Integer(Formula):
    """A plain number."""

    value: int

    @property
    def variables(self) -> frozenset[str]:
        return frozenset()

    @property
    def documented(self) -> bool:
        return True

    def evaluate(self, machine: Mapping[str, int]) -> int:  # noqa: ARG002
        return self.value

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Log:
    """``log(V/I)``: base 2 of the exact quotient, rounded to the nearest integer (inferred)."""

    of: Arithmetic

    def evaluate(self, machine: Mapping[str, int]) -> int:
        """Return the exactly rounded logarithm: floating point could misjudge a half."""
        x = self.of.exact(machine)
        if x <= 0:
            raise FormulaError(f"{self} of {x}", "A logarithm needs a number above zero.")
        floor = x.numerator.bit_length() - x.denominator.bit_length()
        floor -= x < Fraction(2) ** floor
        return floor + (x * x >= Fraction(2) ** (2 * floor + 1))

    def __str__(self) -> str:
        return f"log({self.of})"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The contents of braces: a first operand, then ``*`` and ``/`` from left to right."""

    first: int | str | Log
    steps: tuple[tuple[str, int | str | Log], ...] = ()

    @property
    def operands(self) -> tuple[int | str | Log, ...]:
        return (self.first, *(operand for _, operand in self.steps))

    def evaluate(self, machine: Mapping[str, int]) -> int:
        """Return the value with every quotient truncated, as RDS does."""
        value = _operand(self.first, machine)
        for operator, operand in self.steps:
            number = _operand(operand, machine)
            value = value * number if operator == "*" else _quotient(value, number)
        return value

    def exact(self, machine: Mapping[str, int]) -> Fraction:
        """Return the value without truncation."""
        value = Fraction(_operand(self.first, machine))
        for operator, operand in self.steps:
            number = _operand(operand, machine)
            value = value * number if operator == "*" else value / _nonzero(number)
        return value

    def __str__(self) -> str:
        return str(self.first) + "".join(f"{operator}{operand}" for operator, operand in self.steps)


@dataclass(frozen=True, slots=True)
class Braces(Formula):
    """``{…}``, possibly with the dollar sign that some of AWS's defaults have."""

    body: Arithmetic

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(_names(self.body))

    @property
    def documented(self) -> bool:
        """Whether it is ``{V}``, ``{V*I}``, ``{V*I/I}`` or ``{V/I}``."""
        shape = "".join(operator for operator, _ in self.body.steps)
        rest = [operand for _, operand in self.body.steps]
        return (
            isinstance(self.body.first, str)
            and shape in {"", "*", "*/", "/"}
            and all(isinstance(operand, int) for operand in rest)
        )

    @property
    def truncates_first(self) -> bool:
        """Whether it multiplies after dividing, as in ``{V/I*I}``, which loses the remainder."""
        operators = "".join(operator for operator, _ in self.body.steps)
        return "/*" in operators

    def evaluate(self, machine: Mapping[str, int]) -> int:
        """Return the value of the arithmetic inside."""
        return self.body.evaluate(machine)

    def __str__(self) -> str:
        return f"{{{self.body}}}"


@dataclass(frozen=True, slots=True)
class Function(Formula):
    """GREATEST, LEAST or SUM over integers and formulas."""

    name: str
    arguments: tuple[Formula, ...]

    @property
    def variables(self) -> frozenset[str]:
        return frozenset().union(*(argument.variables for argument in self.arguments))

    @property
    def documented(self) -> bool:
        """Whether its arguments are integers and braces; nested functions are undocumented."""
        return all(
            isinstance(argument, Integer | Braces) and argument.documented
            for argument in self.arguments
        )

    def evaluate(self, machine: Mapping[str, int]) -> int:
        return FUNCTIONS[self.name]([argument.evaluate(machine) for argument in self.arguments])

    def __str__(self) -> str:
        return f"{self.name}({','.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Comparison(Formula):
    """``{DBInstanceVCPU}>2``: 1 or 0."""

    left: Formula
    operator: str
    right: Formula

    @property
    def variables(self) -> frozenset[str]:
        return self.left.variables | self.right.variables

    @property
    def documented(self) -> bool:
        return self.left.documented and self.right.documented

    def evaluate(self, machine: Mapping[str, int]) -> int:
        """Return 1 if the comparison holds, else 0."""
        holds = _COMPARISONS[self.operator]
        return int(holds(self.left.evaluate(machine), self.right.evaluate(machine)))

    def __str__(self) -> str:
        return f"{self.left}{self.operator}{self.right}"


def is_formula(text: str) -> bool:
    """Whether a parameter's value is a formula rather than a literal."""
    return "{" in text or (
        "(" in text and re.match(r"\s*(GREATEST|LEAST|SUM)\s*\(", text, re.I) is not None
    )


@cache
def parse(text: str) -> Formula:
    """Parse a formula or an integer; FormulaError says where it is wrong and how to fix it."""
    reader = _Reader(text)
    formula = reader.formula()
    reader.end()
    return formula


def braces(variable: str, factor: Fraction) -> Braces:
    """Return ``variable * factor`` in the documented order: multiply first, divide last."""
    steps: list[tuple[str, int | str | Log]] = []
    if factor.numerator != 1:
        steps.append(("*", factor.numerator))
    if factor.denominator != 1:
        steps.append(("/", factor.denominator))
    return Braces(Arithmetic(variable, tuple(steps)))


def _operand(operand: int | str | Log, machine: Mapping[str, int]) -> int:
    match operand:
        case int():
            return operand
        case Log():
            return operand.evaluate(machine)
    try:
        return machine[operand]
    except KeyError:
        unit = VARIABLES[operand]
        raise MissingMachine(
            f"the formula needs {operand} ({unit}), which was not given",
            _GIVEN_BY[operand],
        ) from None


def _nonzero(number: int) -> int:
    if number == 0:
        raise FormulaError("a division by zero", "Divide by a number above zero.")
    return number


def _quotient(value: int, divisor: int) -> int:
    """Return the quotient, truncated towards zero."""
    size = abs(value) // abs(_nonzero(divisor))
    return size if (value < 0) == (divisor < 0) else -size


def _names(body: Arithmetic) -> set[str]:
    found: set[str] = set()
    for operand in body.operands:
        if isinstance(operand, Log):
            found |= _names(operand.of)
        elif isinstance(operand, str):
            found.add(operand)
    return found


class _Reader:
    """A recursive-descent parser for one formula; `at` is the position of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.at = 0
        self.depth = 0

    def formula(self) -> Formula:
        left = self._term()
        operator = self._match(r"\s*(>=|=>|<=|=<|>|<)\s*")
        return left if operator is None else Comparison(left, operator.strip(), self._term())

    def end(self) -> None:
        if self.at < len(self.text):
            rest = self.text[self.at :]
            raise self._error(f"unexpected {rest!r}", _outside(rest))

    def _term(self) -> Formula:
        number = self._match(r"-?[0-9]+")
        if number is not None:
            return Integer(self._integer(number))
        if self._match(r"\$?\{") is not None:
            body = self._arithmetic()
            self._expect("}")
            return Braces(body)
        name = self._match(r"[A-Za-z_]+(?=\s*\()")
        if name is None:
            raise self._error("expected an integer, a function or braces", _WHAT)
        return self._function(name)

    def _function(self, name: str) -> Function:
        if name.upper() not in FUNCTIONS:
            self.at -= len(name)
            raise self._error(f"unknown function {name}", _FUNCTION_NAMES)
        self._descend()
        self._match(r"\s*\(\s*")
        arguments = [self._term()]
        while self._match(r"\s*,\s*") is not None:
            arguments.append(self._term())
        self._match(r"\s*")
        self._expect(")")
        self.depth -= 1
        return Function(name.upper(), tuple(arguments))

    def _descend(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._error("functions nested too deeply", _FUNCTION_NAMES)

    def _arithmetic(self) -> Arithmetic:
        first = self._factor()
        steps: list[tuple[str, int | str | Log]] = []
        while (operator := self._match(r"[*/]")) is not None:
            operand = self._factor()
            if operator == "/" and operand == 0:
                raise self._error("a division by zero", "Divide by a number above zero.")
            steps.append((operator, operand))
        return Arithmetic(first, tuple(steps))

    def _factor(self) -> int | str | Log:
        number = self._match(r"[0-9]+")
        if number is not None:
            return self._integer(number)
        if self._match(r"(?i:log)\(") is not None:
            self._descend()
            body = self._arithmetic()
            self._expect(")")
            self.depth -= 1
            return Log(body)
        name = self._match(r"[A-Za-z_][A-Za-z_0-9.]*")
        if name is None:
            raise self._error("expected a variable or an integer", self._inside())
        return self._variable(name)

    def _integer(self, digits: str) -> int:
        if (length := len(digits.lstrip("-"))) > LONGEST:
            raise self._error(f"a number of {length} digits", "A 64-bit integer has at most 19.")
        return int(digits)

    def _variable(self, name: str) -> str:
        if name in VARIABLES:
            return name
        if name in _OF_OTHER_ENGINES:
            self.at -= len(name)
            raise self._error(f"{name} is for {_OF_OTHER_ENGINES[name]}", _KNOWN)
        self.at -= len(name)
        close = get_close_matches(name.lower(), [known.lower() for known in VARIABLES], n=1)
        meant = next((known for known in VARIABLES if close and known.lower() == close[0]), None)
        if meant is not None:
            raise self._error(
                f"unknown variable {name}", f"Write {meant}: names are case-sensitive."
            )
        raise self._error(
            f"unknown variable {name}: a formula cannot refer to another parameter",
            f"Write the number itself. {_KNOWN}",
        )

    def _match(self, pattern: str) -> str | None:
        found = re.compile(pattern).match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found[0]

    def _expect(self, character: str) -> None:
        if self.text[self.at : self.at + 1] != character:
            hint = self._inside() if character == "}" else _WHAT
            raise self._error(f"{character!r} is missing", hint)
        self.at += 1

    def _inside(self) -> str:
        """Return a hint on the likely mistake inside braces."""
        match self.text[self.at : self.at + 1]:
            case " " | "\t" | "\n":
                return "Spaces are not allowed inside braces."
            case "+" | "-":
                return "Only * and / are allowed inside braces; add with SUM({…},{…})."
            case "(" | ")":
                return (
                    "Parentheses are not allowed inside braces: evaluation is from left to right."
                )
            case ".":
                return "Integers only: write *3/4 for 0.75."
        return f"Inside braces use integers, * and /, and a variable. {_KNOWN}"

    def _error(self, what: str, hint: str) -> FormulaError:
        text = self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}…"
        return FormulaError(f"{what} at character {self.at + 1} of {text!r}", hint)


_SHOWN: Final = 200  # characters of a formula in an error
_FUNCTION_NAMES: Final = (
    "PostgreSQL's formulas have GREATEST, LEAST and SUM, and log inside braces."
)
_KNOWN: Final = f"The variables are {', '.join(VARIABLES)}."
_WHAT: Final = "A formula looks like {DBInstanceClassMemory/32768} or LEAST({DBInstanceVCPU*2},8)."


def _outside(rest: str) -> str:
    if rest.lstrip()[:1] in {"*", "/", "+", "-"}:
        return "Put arithmetic inside braces; add with SUM({…},{…})."
    return _WHAT
