"""A second evaluator of parameter group formulas, which shares nothing with the product's.

Written from the RDS User Guide, "Specifying DB parameters": integer arithmetic from left to right,
each quotient truncated; GREATEST, LEAST and SUM around integers and braces; comparisons that give
1 or 0. `log` is as inferred in the project's reference: base 2 of the exact quotient, rounded.

The text is rewritten as a Python expression, which Python itself parses; numbers are exact
fractions. A formula that the two evaluators read differently fails a test, whichever is wrong.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from fractions import Fraction

from hypothesis import strategies as st

Machine = Mapping[str, int]

#: Enough digits to round the logarithm of every 64-bit number correctly.
_DIGITS = Context(prec=60)
_FUNCTIONS: Mapping[str, Callable[[list[Fraction]], Fraction | int]] = {
    "greatest": max,
    "least": min,
    "sum": sum,
}


def worth(text: str, machine: Machine) -> int:
    """The integer that a formula, or a plain number, gives on a machine."""
    python = re.sub(r"\$?\{", "(", text).replace("}", ")")
    python = python.replace("=>", ">=").replace("=<", "<=")
    return int(_value(ast.parse(python.strip(), mode="eval").body, machine))


def _value(node: ast.expr, machine: Machine, *, exact: bool = False) -> Fraction:
    match node:
        case ast.Constant(int(number)):
            return Fraction(number)
        case ast.Name(name):
            return Fraction(machine[name])
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand, machine)
        case ast.BinOp(left, operator, right):
            both = _value(left, machine, exact=exact), _value(right, machine)
            multiplies = isinstance(operator, ast.Mult)
            return both[0] * both[1] if multiplies else _quotient(*both, exact)
        case ast.Compare(left, [comparison], [right]):
            return _compared(_value(left, machine), comparison, _value(right, machine))
    return _called(node, machine)


def _quotient(left: Fraction, right: Fraction, exact: bool) -> Fraction:
    return left / right if exact else Fraction(int(left / right))  # int() cuts towards zero


def _called(node: ast.expr, machine: Machine) -> Fraction:
    match node:
        case ast.Call(ast.Name("log"), [of]):
            return _rounded_logarithm(_value(of, machine, exact=True))
        case ast.Call(ast.Name(name), arguments):
            values = [_value(each, machine) for each in arguments]
            return Fraction(_FUNCTIONS[name.lower()](values))
    raise AssertionError(f"the oracle does not know {ast.dump(node)}")


def _compared(left: Fraction, operator: ast.cmpop, right: Fraction) -> Fraction:
    match operator:
        case ast.Gt():
            return Fraction(left > right)
        case ast.Lt():
            return Fraction(left < right)
        case ast.GtE():
            return Fraction(left >= right)
    return Fraction(left <= right)


def _rounded_logarithm(number: Fraction) -> Fraction:
    """Rounded by decimal natural logarithms; no fraction's logarithm ends in exactly a half."""
    quotient = _DIGITS.divide(Decimal(number.numerator), Decimal(number.denominator))
    return Fraction(round(_DIGITS.divide(_DIGITS.ln(quotient), _DIGITS.ln(Decimal(2)))))


# Formulas of every form that AWS is known to take.

_INTEGERS = st.one_of(st.integers(1, 64), st.sampled_from([1024, 8192, 32768, 1_048_576, 9531392]))
_NAMES = st.sampled_from(
    ["DBInstanceClassMemory", "DBInstanceVCPU", "AllocatedStorage", "EndPointPort"]
)


@st.composite
def arithmetic(draw: st.DrawFn) -> str:
    """Arithmetic that may stand in braces."""
    first = draw(st.one_of(_NAMES, _LOGARITHMS, _INTEGERS.map(str)))
    steps = draw(st.lists(st.tuples(st.sampled_from("*/"), _INTEGERS | _NAMES), max_size=3))
    return first + "".join(f"{operator}{operand}" for operator, operand in steps)


_LOGARITHMS = st.tuples(_NAMES, st.sampled_from("*/"), _INTEGERS).map(
    lambda parts: "log({}{}{})".format(*parts)
)


@st.composite
def braces(draw: st.DrawFn) -> str:
    """Arithmetic in braces, with the dollar sign of some of AWS's own defaults."""
    return draw(st.sampled_from(["{", "${"])) + draw(arithmetic()) + "}"


@st.composite
def functions(draw: st.DrawFn) -> str:
    """One function around integers and braces, spelt in either case."""
    name = draw(st.sampled_from(["GREATEST", "LEAST", "SUM", "greatest", "Least"]))
    numbers = st.integers(-100_000, 2**40).map(str)
    arguments = draw(st.lists(st.one_of(braces(), numbers), min_size=1, max_size=3))
    comma = draw(st.sampled_from([",", ", "]))
    return f"{name}({comma.join(arguments)})"


@st.composite
def formulas(draw: st.DrawFn) -> str:
    """Any of these forms, or a comparison of two of them."""
    one = st.one_of(braces(), functions())
    if draw(st.integers(0, 5)):
        return draw(one)
    operator = draw(st.sampled_from([">", "<", ">=", "=>", "<=", "=<", " > "]))
    return draw(one) + operator + draw(st.one_of(one, _INTEGERS.map(str)))


@st.composite
def machines(draw: st.DrawFn) -> dict[str, int]:
    """From less than the smallest instance to more than the largest."""
    return {
        "DBInstanceClassMemory": draw(st.integers(2**27, 2**45)),
        "DBInstanceVCPU": draw(st.integers(1, 256)),
        "AllocatedStorage": draw(st.integers(20, 65536)) * 2**30,
        "EndPointPort": draw(st.integers(1150, 65535)),
    }
