"""Configuration text: what a value means, and how lines of a configuration file are written.

Source: src/backend/utils/misc/guc.c (parse_int, parse_real, flatten_set_variable_args) and
guc-file.l, PostgreSQL 18.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from mrtuner.units import MEMORY, TIME, memory_unit, time_unit

#: Parameters whose elements ALTER SYSTEM quotes one by one (GUC_LIST_QUOTE).
#: Source: src/bin/pg_dump/dumputils.c, variable_is_guc_list_quote.
LIST_QUOTED: Final = frozenset({
    "local_preload_libraries", "search_path", "session_preload_libraries",
    "shared_preload_libraries", "temp_tablespaces", "unix_socket_directories",
})  # fmt: skip

_NUMBER = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z]*)\s*")
_BOOLEANS: Final = {
    "on": "on", "true": "on", "yes": "on", "1": "on", "t": "on", "y": "on",
    "off": "off", "false": "off", "no": "off", "0": "off", "f": "off", "n": "off",
}  # fmt: skip
_ELEMENT = re.compile(r'\s*("(?:[^"]|"")*"|[^,"]*)\s*(?:,|$)')
_LINE = re.compile(r"\s*([A-Za-z_][\w.$]*)(?:\s*=\s*|\s+)('(?:[^'\\\n]|''|\\.)*'|[^\s#']+)")
_PRECISION: Final = Fraction(1, 10**9)  # pg_settings shows a real with six digits or more


def same_value(name: str, a: str, b: str, vartype: str, unit: str | None) -> bool:
    """Whether two texts mean the same to the server; a bare number counts base units.

    >>> same_value("shared_buffers", "4GB", "524288", "integer", "8kB")
    True
    """
    if a == b:
        return True
    if vartype in ("integer", "real"):
        return _same_number(number(a, vartype, unit), number(b, vartype, unit))
    if vartype == "bool":
        return _boolean(a) == _boolean(b)
    if vartype == "enum":
        return a.lower() == b.lower()
    return name in LIST_QUOTED and elements(a) == elements(b)


def number(text: str, vartype: str, unit: str | None) -> Fraction | None:
    """A numeric value in base units, rounded as the server does; None if it is not a number."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    factor = _factor(match[2], unit)
    if factor is None:
        return None
    value = Fraction(match[1]) * factor
    return Fraction(round(value)) if vartype == "integer" else value


def with_unit(setting: str, vartype: str, unit: str | None) -> str:
    """A pg_settings value as a person writes it: 16384 pages of 8kB give ``128MB``.

    Zero and negative values mean something special, so they keep no unit.
    """
    base = _base(unit)
    value = number(setting, vartype, None)
    if base is None or value is None or value <= 0:
        return setting
    size, names = base
    for name, factor in names.items():
        if (value * size / factor).denominator == 1:
            return f"{value * size / factor}{name}"
    return f"{setting}{unit}"


def elements(text: str) -> tuple[str, ...]:
    """The elements of a list value, quotes taken off: ``a, "b c"`` gives a and b c.

    >>> elements('auto_explain, "$libdir/odd, name"')
    ('auto_explain', '$libdir/odd, name')
    """
    found = tuple(_unquoted(match[1]) for match in _ELEMENT.finditer(text.strip()))
    return tuple(element for element in found if element)


def entries(text: str) -> dict[str, str]:
    """The settings in a configuration file's text, by lower-case name; the last line wins."""
    parsed = (_LINE.match(line) for line in text.splitlines())
    return {match[1].lower(): _literal(match[2]) for match in parsed if match}


def with_entries(text: str, values: Mapping[str, str | None]) -> str:
    """The text with these entries set, or removed where None; all other lines stay."""
    return "".join(_edited(text, values))


def _edited(text: str, values: Mapping[str, str | None]) -> Iterator[str]:
    names = {name.lower() for name in values}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None or match[1].lower() not in names:
            yield f"{line}\n"
    for name, value in values.items():
        if value is not None:
            yield f"{entry(name, value)}\n"


def entry(name: str, value: str) -> str:
    """One line of a configuration file, without its end.

    >>> entry("log_line_prefix", "it's %m")
    "log_line_prefix = 'it''s %m'"
    """
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"{name} = '{escaped}'"


def _same_number(a: Fraction | None, b: Fraction | None) -> bool:
    if a is None or b is None:
        return False
    return abs(a - b) <= _PRECISION * max(abs(a), abs(b))


def _boolean(text: str) -> str:
    return _BOOLEANS.get(text.lower(), text)


def _factor(given: str, unit: str | None) -> Fraction | None:
    """What a number with the unit `given` is multiplied by to count in the unit `unit`."""
    base = _base(unit)
    if not given:
        return Fraction(1)
    if base is None or given not in base[1]:
        return None
    size, names = base
    return Fraction(names[given], size)


def _base(unit: str | None) -> tuple[int, Mapping[str, int]] | None:
    """The size of a base unit and the names of its kind with theirs."""
    if unit is None:
        return None
    if size := memory_unit(unit):
        return size, MEMORY
    if size := time_unit(unit):
        return size, TIME
    return None


def _unquoted(element: str) -> str:
    element = element.strip()
    if element.startswith('"'):
        return element[1:-1].replace('""', '"')
    return element


def _literal(text: str) -> str:
    if not text.startswith("'"):
        return text
    return re.sub(r"''|\\(.)", lambda match: match[1] or "'", text[1:-1])
