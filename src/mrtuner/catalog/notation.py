"""Reading and writing one configuration value the way the server does.

Everything here mirrors src/backend/utils/misc/guc.c (parse_int, parse_real,
convert_to_base_unit) and src/backend/utils/adt/bool.c (parse_bool), down to the order of
floating-point operations: a value that rounds differently here would be a wrong catalogue.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.units import MEMORY, TIME, memory_unit, time_unit

#: parse_int reads C integers (0x1F is 31, 010 is 8) unless a point or an exponent follows.
_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+)(?![0-9.eE])")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_UNIT = re.compile(r"\s*([^\s]*)\s*")
_SPACE: Final = " \t\n\v\f\r"

_INT_MIN: Final = -(2**31)
_INT_MAX: Final = 2**31 - 1

_TRUE: Final = ("true", "yes")
_FALSE: Final = ("false", "no")


class Unreadable(ValueError):
    """The text is no value of this type; carries the hint."""


@cache
def scale(base: str) -> tuple[tuple[str, float], ...]:
    """Every unit that a parameter counted in `base` takes, largest first, as multiples of it.

    >>> scale("8kB")[1]
    ('GB', 131072.0)
    """
    size = memory_unit(base)
    if size is not None:
        return tuple((unit, factor / size) for unit, factor in MEMORY.items())
    micros = time_unit(base)
    if micros is None:
        raise BadValue(f"unknown base unit {base!r}", "The catalogue file is damaged.")
    return tuple((unit, factor / micros) for unit, factor in TIME.items())


def read_integer(text: str, base: str | None) -> int:
    """An integer in `base`, rounded as the server rounds; source: guc.c, parse_int."""
    number, unit = _split(text, _INTEGER, _DECIMAL)
    value = _in_base(number, unit, base)
    if not math.isfinite(value):
        raise Unreadable("The number is too large.")
    whole = round(value)  # half to even, as rint does
    if not _INT_MIN <= whole <= _INT_MAX:
        raise Unreadable("The number does not fit 32 bits.")
    return whole


def read_real(text: str, base: str | None) -> float:
    """A floating-point number in `base`; source: guc.c, parse_real."""
    number, unit = _split(text, _DECIMAL)
    return float(_in_base(number, unit, base))


def read_bool(text: str) -> bool:
    """on, off, 1, 0, or the beginning of true, false, yes, no; source: bool.c, parse_bool."""
    word = text.lower()
    if word in ("on", "1") or (word and any(full.startswith(word) for full in _TRUE)):
        return True
    if word in ("of", "off", "0") or (word and any(full.startswith(word) for full in _FALSE)):
        return False
    raise Unreadable("Write on or off.")


def write_integer(value: int, base: str | None) -> str:
    """The shortest exact text: the largest unit that divides the value."""
    if base is None or value <= 0:
        return str(value)
    for unit, factor in scale(base):
        if factor < 1:
            break
        if value % factor == 0:
            return f"{value // int(factor)}{unit}"
    return _below_base(value, base)


def write_real(value: float, base: str | None) -> str:
    """The shortest exact text; without a unit where the unit would round the value."""
    bare = repr(float(value)).removesuffix(".0")
    if base is None or value <= 0:
        return bare
    with_unit = f"{bare}{base}"
    return with_unit if read_real(with_unit, base) == value else bare


def _below_base(value: int, base: str) -> str:
    """An 8kB count that no unit of at least 8kB divides: in kB."""
    size = memory_unit(base)
    return str(value) if size is None else f"{value * size // 1024}kB"


def _split(text: str, *patterns: re.Pattern[str]) -> tuple[float, str]:
    """The number and the unit behind it."""
    stripped = text.lstrip(_SPACE)
    for pattern in patterns:
        number = pattern.match(stripped)
        if number is None:
            continue
        unit = _UNIT.fullmatch(stripped, number.end())
        if unit is None:
            break
        return _number(number[0], pattern is _INTEGER), unit[1]
    raise Unreadable("Write a number, with a unit where the parameter takes one.")


def _number(text: str, integer: bool) -> float:
    if not integer:
        return float(text)
    digits = text.lstrip("+-")
    if digits[:2] in ("0x", "0X"):
        return int(text, 16)
    try:
        return int(text, 8 if len(digits) > 1 and digits[0] == "0" else 10)
    except ValueError:
        raise Unreadable("A number that begins with 0 is read as octal.") from None


def _in_base(number: float, unit: str, base: str | None) -> float:
    """Source: guc.c, convert_to_base_unit: a fraction is rounded to the next smaller unit."""
    if not unit:
        return number
    if base is None:
        raise Unreadable("This parameter takes no unit.")
    units = scale(base)
    for place, (name, factor) in enumerate(units):
        if name == unit:
            value = number * factor
            if place + 1 < len(units) and math.isfinite(value):
                smaller = units[place + 1][1]
                value = round(value / smaller) * smaller
            return value
    raise Unreadable(f"Valid units for this parameter are {_listed([name for name, _ in units])}.")


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"
