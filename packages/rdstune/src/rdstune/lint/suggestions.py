"""Guess the intended formula where RDS refuses one or reads it differently.

The arithmetic in braces is read as people write it (spaces, parentheses, decimals, + and -) into
exact fractions, and written again in the forms that AWS documents.

>>> mended("{DBInstanceClassMemory * 0.75 / 8192}")
'{DBInstanceClassMemory*3/32768}'
>>> mended("{(DBInstanceClassMemory-1073741824)/32768}")
'SUM({DBInstanceClassMemory/32768},-32768)'
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.formula.rds_formula import (
    FUNCTIONS,
    VARIABLES,
    Braces,
    Formula,
    Function,
    Integer,
    braces,
    parse,
)

_SPELLING: Final = {name.lower(): name for name in VARIABLES}
_FUNCTIONS: Final = re.compile(r"\b(greatest|least|sum)\b(?=\s*\()", re.IGNORECASE)
_BRACES: Final = re.compile(r"\$?\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Linear:
    """``variable * factor + … + constant``, exactly."""

    factors: Mapping[str, Fraction]
    constant: Fraction

    @property
    def number(self) -> Fraction | None:
        """Its value if it contains no variable."""
        return None if self.factors else self.constant

    def __mul__(self, by: Fraction) -> Linear:
        return Linear({name: each * by for name, each in self.factors.items()}, self.constant * by)

    def __add__(self, other: Linear) -> Linear:
        names = self.factors.keys() | other.factors.keys()
        total = {
            name: self.factors.get(name, Fraction(0)) + other.factors.get(name, Fraction(0))
            for name in sorted(names)
        }
        return Linear(
            {name: each for name, each in total.items() if each}, self.constant + other.constant
        )


def mended(text: str) -> str | None:
    """Return a documented formula that means the same, or None if there is none."""
    upper = _FUNCTIONS.sub(lambda name: name[0].upper(), text.strip())
    whole = _alone(upper)
    if whole is not None:
        return _accepted(whole)
    return _accepted(re.sub(r"\s+", "", _BRACES.sub(_rewritten, upper)))


def factor(formula: Formula) -> tuple[str, Fraction] | None:
    """Return the variable and exact factor of plain arithmetic; None for anything else."""
    if not isinstance(formula, Braces):
        return None
    linear = _linear(str(formula.body))
    if linear is None or linear.constant or len(linear.factors) != 1:
        return None
    [(variable, share)] = linear.factors.items()
    return variable, share


def multiplied_first(formula: Formula) -> Formula:
    """Return the formula with divisions last, so that no remainder is lost before them."""
    if isinstance(formula, Function):
        return Function(formula.name, tuple(map(multiplied_first, formula.arguments)))
    found = factor(formula)
    return formula if found is None or found[1] <= 0 else braces(*found)


def divided(formula: Formula, by: Fraction, variable: str) -> Formula | None:
    """Return the formula with each part that grows with the variable divided; None if none does."""
    match formula:
        case Function(name, arguments):
            parts = [divided(each, by, variable) for each in arguments]
            if all(part is None for part in parts):
                return None
            kept = zip(parts, arguments, strict=True)
            return Function(name, tuple(each if part is None else part for part, each in kept))
        case Braces():
            found = factor(formula)
            if found is not None and found[0] == variable and found[1] > 0:
                return braces(variable, found[1] / by)
    return None


def growth(formula: Formula, machine: Mapping[str, int], variable: str) -> int | None:
    """Return the value of the parts that grow with a variable, ignoring caps and floors.

    ``LEAST({M/4},8)`` grows as ``{M/4}`` does: a cap is not a unit mistake, and hides none.
    None where no part grows.
    """
    match formula:
        case Function(name, arguments):
            parts = [growth(each, machine, variable) for each in arguments]
            known = [part for part in parts if part is not None]
            return FUNCTIONS[name](known) if known else None
        case Braces() if variable in formula.variables:
            return formula.evaluate(machine)
    return None


def truncating(formula: Formula) -> list[Braces]:
    """Return the parts that divide before they multiply."""
    return [part for part in arithmetic(formula) if part.truncates_first]


def nested(formula: Formula) -> bool:
    """Whether a function contains a function."""
    return isinstance(formula, Function) and any(
        isinstance(each, Function) for each in formula.arguments
    )


def arithmetic(formula: Formula) -> list[Braces]:
    """Return every pair of braces in a formula."""
    match formula:
        case Function(_, arguments):
            return [part for each in arguments for part in arithmetic(each)]
        case Braces():
            return [formula]
    return []


def _alone(text: str) -> str | None:
    """Rewrite the text as one linear expression, with braces as parentheses; None if it is not."""
    linear = _linear(_BRACES.sub(r"(\1)", text))
    return None if linear is None or linear.number is not None else _written(linear)


def _rewritten(found: re.Match[str]) -> str:
    linear = _linear(found[1])
    if linear is None or linear.constant or len(linear.factors) != 1:
        return re.sub(r"[A-Za-z]+", lambda word: _SPELLING.get(word[0].lower(), word[0]), found[0])
    return _written(linear)


def _written(linear: Linear) -> str:
    parts: list[Formula] = [braces(name, share) for name, share in linear.factors.items()]
    constant = linear.constant.numerator // linear.constant.denominator
    if constant:
        parts.append(Integer(constant))
    return str(parts[0]) if len(parts) == 1 else str(Function("SUM", tuple(parts)))


def _accepted(text: str) -> str | None:
    try:
        found = parse(text)
        return str(found) if found.documented and found.variables else None
    except BadValue:
        return None


def _linear(text: str) -> Linear | None:
    """Parse arithmetic as people write it; None if it is not linear in the machine's variable."""
    try:
        return _of(ast.parse(text.strip(), mode="eval").body, text.strip())
    except (SyntaxError, ValueError, RecursionError, ZeroDivisionError, MemoryError):
        return None


def _of(node: ast.expr, text: str) -> Linear | None:
    match node:
        case ast.Name(name) if name.lower() in _SPELLING:
            return Linear({_SPELLING[name.lower()]: Fraction(1)}, Fraction(0))
        case ast.Constant(value) if type(value) in {int, float}:
            return Linear({}, Fraction(ast.get_source_segment(text, node) or "0"))
        case ast.UnaryOp(ast.USub(), operand):
            return _scaled(_of(operand, text), Fraction(-1))
        case ast.BinOp(left, operator, right):
            return _combined(_of(left, text), operator, _of(right, text))
    return None


def _combined(left: Linear | None, operator: ast.operator, right: Linear | None) -> Linear | None:
    if left is None or right is None:
        return None
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left + right * Fraction(-1)
        case ast.Mult():
            return _scaled(left, right.number) or _scaled(right, left.number)
        case ast.Div() | ast.FloorDiv():
            return _scaled(left, 1 / right.number) if right.number else None
    return None


def _scaled(linear: Linear | None, by: Fraction | None) -> Linear | None:
    return None if linear is None or by is None else linear * by
