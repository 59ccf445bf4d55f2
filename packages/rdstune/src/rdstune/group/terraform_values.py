"""The values of Terraform expressions: what is known, and what only at run time.

Operators and functions are those of the Terraform language. A computation on `Either` gives the
result for each of its options.
Source: HCL native syntax specification, "Operators"; Terraform language, "Functions".
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Final

#: A known value (str, Fraction, bool, None, list, dict), or an Unknown or Either.
Value = Any

#: Largest number of combinations of ternaries to follow.
_MOST: Final = 8


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that is only known at run time, as its source text."""

    text: str


@dataclass(frozen=True, slots=True)
class Either:
    """One of several values: a ternary whose condition is only known at run time."""

    options: tuple[Value, ...]


class NotKnown(Exception):
    """The value is only known at run time."""


def written(value: Value) -> str | None:
    """Return a value as Terraform passes it to a provider as text; None if it is not a scalar."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | Fraction():
            number = Fraction(value)
            return str(number.numerator) if number.denominator == 1 else f"{float(number):.15g}"
        case str():
            return value
    return None


def texts(value: Value) -> tuple[str, ...]:
    """Return every text that a value may be; none where that is not known."""
    options = value.options if isinstance(value, Either) else (value,)
    found = [written(option) for option in options]
    return () if None in found else tuple(dict.fromkeys(text for text in found if text is not None))


def named_value(names: Mapping[str, Value], name: str) -> Value:
    """Return the value of a name; NotKnown for a name that has none here."""
    if name not in names:
        raise NotKnown
    return names[name]


def either(values: Sequence[Value]) -> Value:
    """Return an Either of these values, or the value itself if all are the same."""
    options: list[Value] = []
    for value in values:
        for one in value.options if isinstance(value, Either) else (value,):
            if one not in options:
                options.append(one)
    if len(options) > _MOST:
        raise NotKnown
    return options[0] if len(options) == 1 else Either(tuple(options))


def with_each(compute: Callable[..., Value], *values: Value) -> Value:
    """Apply a computation to every combination of possible values."""
    choices = [each.options if isinstance(each, Either) else (each,) for each in values]
    if math.prod(map(len, choices)) > _MOST:
        raise NotKnown
    return either([compute(*choice) for choice in product(*choices)])


def _number_of(value: Value) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, str | int | Fraction):
        raise NotKnown
    return Fraction(value)


def _arithmetic(compute: Callable[[Fraction, Fraction], Value]) -> Callable[[Value, Value], Value]:
    return lambda left, right: compute(_number_of(left), _number_of(right))


def _remainder(left: Fraction, right: Fraction) -> Fraction:
    """Return the remainder with the sign of the dividend, as in Go."""
    return left - right * math.trunc(left / right)


def negative(value: Value) -> Value:
    return -_number_of(value)


def opposite(value: Value) -> Value:
    """Return the negation of a condition; NotKnown if it is not Boolean."""
    if not isinstance(value, bool):
        raise NotKnown
    return not value


def _both(left: Value, right: Value) -> Value:
    return not opposite(left) and not opposite(right)


def _any(left: Value, right: Value) -> Value:
    return not opposite(left) or not opposite(right)


#: Operators with two operands, by their sign.
OPERATORS: Final[Mapping[str, Callable[[Value, Value], Value]]] = {
    "+": _arithmetic(operator.add),
    "-": _arithmetic(operator.sub),
    "*": _arithmetic(operator.mul),
    "/": _arithmetic(operator.truediv),
    "%": _arithmetic(_remainder),
    "<": _arithmetic(operator.lt),
    "<=": _arithmetic(operator.le),
    ">": _arithmetic(operator.gt),
    ">=": _arithmetic(operator.ge),
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "&&": _both,
    "||": _any,
}


def joined_text(*parts: Value) -> str:
    """Join scalars into one text; NotKnown if one is not a scalar."""
    found = [written(part) for part in parts]
    if None in found:
        raise NotKnown
    return "".join(text for text in found if text is not None)


def plain_template(text: str) -> str | None:
    """Return the value of a Terraform template, or None if it contains an expression.

    >>> plain_template("$${DBInstanceVCPU*2}"), plain_template("${var.memory}")
    ('${DBInstanceVCPU*2}', None)
    """
    if re.search(r"(?<!\$)\$\{|(?<!%)%\{", text):
        return None
    return text.replace("$${", "${").replace("%%{", "%{")


def within(owner: Value, key: Value) -> Value:
    """Return an element of a list or an object."""
    if isinstance(owner, Either):
        return either([within(option, key) for option in owner.options])
    if isinstance(owner, list):
        found = owner[int(_number_of(key))]
    elif isinstance(owner, dict):
        found = named_value(owner, str(written(key)))
    else:
        raise NotKnown
    if isinstance(found, Unknown):
        raise NotKnown
    return found


def _looked_up(owner: Value, key: Value, default: Value = None) -> Value:
    if not isinstance(owner, dict):
        raise NotKnown
    return within(owner, key) if written(key) in owner else default


def _concatenated(*lists: Value) -> Value:
    return [each for one in lists for each in _of(list, one)]


def _merged(*objects: Value) -> Value:
    return {name: value for one in objects for name, value in _of(dict, one).items()}


def _of(kind: type, value: Value) -> Any:
    if not isinstance(value, kind):
        raise NotKnown
    return value


def _itself(value: Value) -> Value:
    return value


#: Functions by name.
FUNCTIONS: Final[Mapping[str, Callable[..., Value]]] = {
    "abs": lambda value: abs(_number_of(value)),
    "ceil": lambda value: Fraction(math.ceil(_number_of(value))),
    "concat": _concatenated,
    "contains": lambda values, value: value in _of(list, values),
    "floor": lambda value: Fraction(math.floor(_number_of(value))),
    "join": lambda sign, values: sign.join(map(joined_text, _of(list, values))),
    "length": lambda values: Fraction(len(values)),
    "lookup": _looked_up,
    "lower": lambda text: joined_text(text).lower(),
    "max": lambda *values: max(map(_number_of, values)),
    "merge": _merged,
    "min": lambda *values: min(map(_number_of, values)),
    "tolist": _itself,
    "tomap": _itself,
    "tonumber": _number_of,
    "toset": _itself,
    "tostring": joined_text,
    "upper": lambda text: joined_text(text).upper(),
}
