"""Read and write configuration values as the server does.

Everything here mirrors src/backend/utils/misc/guc.c (parse_int, parse_real,
convert_to_base_unit) and src/backend/utils/adt/bool.c (parse_bool), down to the order of
floating-point operations: a value that rounds differently here would make the catalogue wrong.
"""

from __future__ import annotations

import math
import re
import sys
from functools import cache
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.units import MEMORY, TIME, memory_unit, time_unit
from mrtuner.wording import enumerated

_SPACE: Final = " \t\n\v\f\r"

#: What C's strtol reads with base 0: 0x1F is 31, 010 is 8.
_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
#: What strtod reads, except infinities and NaN, which no parameter accepts.
_REAL = re.compile(
    r"[+-]?(?:(?P<hex>0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?)"
    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
)
_UNIT = re.compile(rf"[{_SPACE}]*([^{_SPACE}]*)[{_SPACE}]*")

_INT_MIN: Final = -(2**31)
_INT_MAX: Final = 2**31 - 1

_TRUE: Final = ("true", "yes")
_FALSE: Final = ("false", "no")

#: Words that the server accepts for an enum but shows as another; source: guc_tables.c, entries
#: that are hidden or share a value with an earlier one.
_WORDS: Final = {
    "true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off",
    "debug": "debug2", "archive": "replica", "hot_standby": "replica",
}  # fmt: skip
#: Parameters that show `on` as a method's name: they accepted `on` before methods had names. What
#: wal_compression shows depends on version and build: pglz from 15 on; 19 with zstd shows zstd.
_METHODS: Final[dict[str, frozenset[str]]] = {
    "wal_compression": frozenset({"pglz", "lz4", "zstd"}),
    "password_encryption": frozenset({"md5"}),
}
_NO_NUMBER: Final = "Write a number, with a unit where the parameter takes one."


class Unreadable(ValueError):
    """The text is not a value of this type; carries the hint."""


@cache
def scale(base: str) -> tuple[tuple[str, float], ...]:
    """Return all units of a parameter with base unit `base`, largest first, as multiples of it.

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
    """Return an integer in `base`, rounded as the server rounds; source: guc.c, parse_int."""
    number, rest = _integer(text)
    value = _in_base(number, rest, base)
    if not math.isfinite(value):
        raise Unreadable("The number is too large.")
    whole = round(value)  # half to even, like rint
    if not _INT_MIN <= whole <= _INT_MAX:
        raise Unreadable("The number does not fit in 32 bits.")
    return whole


def read_real(text: str, base: str | None) -> float:
    """Return a floating-point number in `base`; source: guc.c, parse_real."""
    number, rest = _real(text)
    return float(_in_base(number, rest, base))


def read_bool(text: str) -> bool:
    """Parse on, off, 1, 0, or a prefix of true, false, yes, no; source: bool.c, parse_bool."""
    word = text.lower()
    if word in ("on", "1") or _begins(word, _TRUE):
        return True
    if word in ("of", "off", "0") or _begins(word, _FALSE):
        return False
    raise Unreadable("Write on or off.")


def read_word(text: str, words: tuple[str, ...]) -> str:
    """Return an enum's word, ignoring case; source: guc.c, config_enum_lookup_by_name."""
    lower = text.lower()
    for known in words:
        if lower == known.lower():
            return known
    if _WORDS.get(lower) in words:
        return _WORDS[lower]
    raise Unreadable(f"Use one of {', '.join(words)}.")


def read(text: str, vartype: str, base: str | None) -> int | float | bool | str:
    """Return a value as a session reads it, or raise Unreadable; enums and strings stay text."""
    match vartype:
        case "bool":
            return read_bool(text)
        case "integer":
            return read_integer(text, base)
        case "real":
            return read_real(text, base)
        case _:
            return text


def same(name: str, a: str, b: str, vartype: str, base: str | None) -> bool:
    """Whether the server would show the same for both texts; False if one cannot be parsed.

    True for `on` and each method that it may stand for, since only the server knows which.

    >>> same("work_mem", "0x1000", "4MB", "integer", "kB"), same("jit", "tru", "on", "bool", None)
    (True, True)
    """
    if vartype == "enum":
        words = {_shown_word(a), _shown_word(b)}
        return len(words) == 1 or ("on" in words and words - {"on"} <= _METHODS.get(name, set()))
    try:
        first, second = read(a, vartype, base), read(b, vartype, base)
    except Unreadable:
        return False
    if vartype == "real":  # pg_settings shows six digits; source: guc_funcs.c, ShowGUCOption
        return f"{first:g}" == f"{second:g}"
    return first == second


def _shown_word(text: str) -> str:
    word = text.lower().partition(" (")[0]  # 19 shows timing_clock_source as auto (tsc)
    return _WORDS.get(word, word)


def _begins(word: str, full: tuple[str, ...]) -> bool:
    return bool(word) and any(name.startswith(word) for name in full)


def write_integer(value: int, base: str | None) -> str:
    """Return the shortest exact text, with the largest unit that divides the value."""
    if base is None or value <= 0:
        return str(value)
    for unit, factor in scale(base):
        if factor < 1:
            break
        if value % factor == 0:
            return f"{value // int(factor)}{unit}"
    return _below_base(value, base)


def write_real(value: float, base: str | None) -> str:
    """Return the shortest exact text, without a unit where the unit would round the value."""
    bare = repr(float(value)).removesuffix(".0")
    if base is None or value <= 0 or math.isinf(value):
        return bare
    with_unit = f"{bare}{base}"
    return with_unit if read_real(with_unit, base) == value else bare


def _below_base(value: int, base: str) -> str:
    """Return an 8kB count that no unit of at least 8kB divides, in kB."""
    size = memory_unit(base)
    return str(value) if size is None else f"{value * size // 1024}kB"


def _integer(text: str) -> tuple[float, str]:
    """Return the number and the rest: strtol first, strtod if a point or an exponent follows."""
    start = len(text) - len(text.lstrip(_SPACE))
    digits = _INTEGER.match(text, start)
    follows = text[digits.end() :] if digits else text
    if follows.startswith((".", "e", "E")):
        return _real(text)
    if digits is None:
        raise Unreadable(_NO_NUMBER)
    return int(digits[0], _radix(digits[0].lstrip("+-"))), follows


def _radix(digits: str) -> int:
    if digits[:2] in ("0x", "0X"):
        return 16
    return 8 if digits[0] == "0" else 10


def _real(text: str) -> tuple[float, str]:
    """Return the number and the rest; source: strtod, which refuses underflow."""
    stripped = text.lstrip(_SPACE)
    digits = _REAL.match(stripped)
    if digits is None:
        raise Unreadable(_NO_NUMBER)
    number = float.fromhex(digits[0]) if digits["hex"] else float(digits[0])
    if abs(number) < sys.float_info.min and re.search("[1-9]", re.split("[eE]", digits[0])[0]):
        raise Unreadable("The number is too small.")
    return number, stripped[digits.end() :]


def _in_base(number: float, rest: str, base: str | None) -> float:
    """Return the number in the base unit, with fractions rounded to the next smaller unit.

    Source: guc.c, convert_to_base_unit.
    """
    unit = _UNIT.fullmatch(rest)
    if unit is not None and not unit[1]:
        return number
    if base is None:
        raise Unreadable("This parameter takes no unit.")
    units = scale(base)
    for place, (name, factor) in enumerate(units):
        if unit is not None and unit[1] == name:
            return _rounded(number * factor, units[place + 1 : place + 2])
    raise Unreadable(f"Valid units for this parameter are {enumerated(name for name, _ in units)}.")


def _rounded(value: float, smaller: tuple[tuple[str, float], ...]) -> float:
    if not smaller or not math.isfinite(value):
        return value
    factor = smaller[0][1]
    return round(value / factor) * factor
