"""Lines of a configuration file, and the values in them.

Only `notation` interprets numbers, switches and words. Source of the rest:
src/backend/utils/misc/guc.c (flatten_set_variable_args) and guc-file.l, PostgreSQL 18.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from mrtuner import notation

if TYPE_CHECKING:
    from psycopg.sql import Composable

#: Parameters whose elements ALTER SYSTEM quotes one by one (GUC_LIST_QUOTE): 'a, b' is one library.
#: Source: src/bin/pg_dump/dumputils.c, variable_is_guc_list_quote.
LIST_QUOTED: Final = frozenset({
    "local_preload_libraries", "search_path", "session_preload_libraries",
    "shared_preload_libraries", "temp_tablespaces", "unix_socket_directories",
})  # fmt: skip

_ELEMENT = re.compile(r'\s*("(?:[^"]|"")*"|[^,"]*)\s*(?:,|$)')
_SETTING = re.compile(
    r"\s*(?P<name>[A-Za-z_][\w$.]*)(?:\s*=\s*|\s+)"
    r"(?:'(?P<quoted>(?:[^'\\\n]|''|\\.)*)'|(?P<bare>[^\s'#]+))\s*(?:#.*)?"
)
_ESCAPE = re.compile(r"''|\\([0-7]{1,3}|.)")
_LETTERS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def same_value(name: str, a: str, b: str, vartype: str, unit: str | None) -> bool:
    """Whether two texts mean the same to the server; a bare number counts base units.

    >>> same_value("shared_buffers", "4GB", "524288", "integer", "8kB")
    True
    """
    if a == b:
        return True
    if vartype == "string":
        return name in LIST_QUOTED and elements(a) == elements(b)
    return notation.same(name, a, b, vartype, unit)


def number(text: str, vartype: str, unit: str | None) -> float | None:
    """A numeric value in base units, as the server reads it; None if it is not a number."""
    if vartype not in ("integer", "real"):
        return None
    try:
        return float(notation.read(text, vartype, unit))
    except notation.Unreadable:
        return None


def in_base_units(text: str, vartype: str, unit: str | None) -> str:
    """Return configuration text as pg_settings shows the value; text that is no value, as it is.

    >>> in_base_units("64MB", "integer", "kB"), in_base_units("yes", "bool", None)
    ('65536', 'on')
    """
    try:
        value = notation.read(text, vartype, unit)
    except notation.Unreadable:
        return text
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def with_unit(setting: str, vartype: str, unit: str | None) -> str:
    """Return a pg_settings value as a person writes it: 16384 pages of 8kB give ``128MB``.

    Zero and negative values have special meanings, so they get no unit.
    """
    if unit is None or number(setting, vartype, None) is None:
        return setting
    if vartype == "integer":
        return notation.write_integer(notation.read_integer(setting, None), unit)
    return notation.write_real(notation.read_real(setting, None), unit)


def elements(text: str) -> tuple[str, ...]:
    """Split a list value into its elements, unquoted: ``a, "b c"`` gives a and b c.

    >>> elements('auto_explain, "$libdir/odd, name"')
    ('auto_explain', '$libdir/odd, name')
    """
    found = tuple(_unquoted(match[1]) for match in _ELEMENT.finditer(text.strip()))
    return tuple(element for element in found if element)


def literals(name: str, value: str) -> Composable:
    """Return a value as SQL: one literal; of a list that is quoted, one for each element."""
    from psycopg import sql

    parts = elements(value) or ("",) if name in LIST_QUOTED else (value,)
    return sql.SQL(", ").join(sql.Literal(part) for part in parts)


def setting_in(line: str) -> tuple[str, str] | None:
    """Return name and value of a line of a configuration file; None if it is not a setting.

    >>> setting_in("log_line_prefix = 'it''s %m'  # a comment")
    ('log_line_prefix', "it's %m")
    """
    match = _SETTING.fullmatch(line)
    if match is None:
        return None
    quoted = match["quoted"]
    return match["name"], match["bare"] if quoted is None else unescaped(quoted)


def entries(text: str) -> dict[str, str]:
    """The settings in a configuration file's text, by lower-case name; the last line wins."""
    found = filter(None, map(setting_in, _lines(text)))
    return {name.lower(): value for name, value in found}


def with_entries(text: str, values: Mapping[str, str | None]) -> str:
    """Return the text with these entries set, or removed if None; all other lines are unchanged."""
    return "".join(_edited(text, values))


def _lines(text: str) -> list[str]:
    """The lines as the server splits them: a value may contain any character but a newline."""
    return text.removesuffix("\n").split("\n") if text else []


def _edited(text: str, values: Mapping[str, str | None]) -> Iterator[str]:
    names = {name.lower() for name in values}
    for line in _lines(text):
        found = setting_in(line)
        if found is None or found[0].lower() not in names:
            yield f"{line}\n"
    for name, value in values.items():
        if value is not None:
            yield f"{entry(name, value)}\n"


def entry(name: str, value: str) -> str:
    """Return one line of a configuration file, without the newline.

    >>> entry("log_line_prefix", "it's %m")
    "log_line_prefix = 'it''s %m'"
    """
    return f"{name} = '{escaped(value)}'"


def escaped(value: str) -> str:
    """Return a value as it is written between single quotes."""
    return value.replace("\\", "\\\\").replace("'", "''")


def unescaped(text: str) -> str:
    """Return what the server reads between single quotes."""
    return _ESCAPE.sub(_letter, text)


def _letter(match: re.Match[str]) -> str:
    letter = match[1]
    if letter is None:
        return "'"
    if letter.isdigit() and letter < "8":
        return chr(int(letter, 8))
    return _LETTERS.get(letter, letter)


def _unquoted(element: str) -> str:
    element = element.strip()
    if element.startswith('"'):
        return element[1:-1].replace('""', '"')
    return element
